"""The `p` lines of a file: it should have one, but some public files have two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Header(NamedTuple):
    variables: int
    clauses: int
    line: int

    def __str__(self) -> str:
        return f"line {self.line} says {self.variables} variables, {self.clauses} clauses"


def variables_of(headers: Sequence[Header], used: int, n_clauses: int) -> tuple[int, list[str]]:
    """The number of variables of a file that uses `used` and has `n_clauses` clauses, and notes
    about what is wrong. It is the largest number that a header says or that the file uses.
    """
    first, *more = headers
    variables = max(header.variables for header in headers)
    taken, notes = max(variables, used), []
    if other := next((header for header in more if header[:2] != first[:2]), None):
        notes.append(
            f"{len(headers)} `p` lines differ ({first}; {other}): {taken} variables, the larger "
            f"number, and all {n_clauses} clauses of the file are used"
        )
    elif more:
        notes.append(f"{len(headers)} `p` lines say the same; the first is used")
    if used > variables:
        notes.append(f"header says {variables} variables, the file uses {used}")
    if all(header.clauses != n_clauses for header in headers):
        notes.append(f"header says {first.clauses} clauses, the file has {n_clauses}")
    return taken, notes
