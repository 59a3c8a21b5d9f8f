"""Samples as text, in any form that samplers write.

| form                                   | written by                                            |
|----------------------------------------|-------------------------------------------------------|
| `1 -2 3 0`, one sample per line        | nelson, SAT samplers; a `v` in front is skipped       |
| `v 1 -2` / `v 3 0`, over several lines | SAT solvers                                           |
| `7: 1 -2 3 0`, `v 1 -2 3 0: 7`         | ApproxMC, UniGen: the sample was drawn 7 times        |
| `011`, `0 1 1`, `3: 011`               | STS, QuickSampler: one digit per variable             |

The literals of a sample may stand in any order; every sample has the same variables. Lines that
start with `c`, `s` or `#` are skipped. Digits are recognised only if the number of variables is
given, since `1 0` could also be a literal and its closing 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from nelson.errors import FormulaError
from nelson.io.boolean_table import MAX_EMPTY_ROWS, Table, numbered

#: Most values (rows times variables) of a text whose samples carry counts. A short text can claim
#: any number of rows; this many take 1 GiB.
MAX_REPEATED_VALUES = 2**30


class Sample(NamedTuple):
    line: int  # the line in which the sample begins, from 1
    words: list[str]
    digits: bool  # one digit per variable; otherwise literals and a closing 0
    times: int  # how often the sample was drawn


def samples(lines: Iterable[str], path: str, n_vars: int | None = None) -> Iterator[Sample]:
    """The samples of a text, not parsed yet: counting them is cheap."""
    begin = 0
    pending: list[str] = []  # a sample that goes on in the next line
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text[0] in "cs#":
            continue
        text = text[1:] if text.split(maxsplit=1)[0] == "v" else text
        times = 1
        if ":" in text:
            text, times = _times(text, path, number)
        words = text.split()
        if not pending and _is_digits(words, n_vars):
            yield Sample(number, words, True, 1)
            continue
        begin = begin if pending else number
        pending += words
        if pending and pending[-1] == "0":
            yield Sample(begin, pending, False, times)
            pending = []
        else:
            _integers(words, path, number)
    if pending:
        raise FormulaError(
            "a line without its 0 at the end",
            expected="literals ending in 0",
            source=path,
            line=begin,
        )


def _times(text: str, path: str, line: int) -> tuple[str, int]:
    """`7: 1 -2 0` and `1 -2 0: 7`: the text without the count, and the count."""
    before, _, rest = text.partition(":")
    if not before.strip().isdecimal():
        rest, _, before = text.rpartition(":")
    times = before.strip()
    if times.isdecimal() and len(times) <= 10:  # longer numbers are too large in any case
        return rest, int(times)
    raise FormulaError(
        f"count {times[:40]!r}", expected="how often the sample was drawn", source=path, line=line
    )


def read_samples(
    stream: Iterable[Sample], path: str, first: int = 0, last: int | None = None
) -> Table:
    """Rows first..last (default: all) of the samples. The variables are those of the first sample.

    A sample outside of these rows is not parsed, except for the first one. Without any sample the
    table has no columns.
    """
    variables: np.ndarray | None = None
    rows: list[np.ndarray] = []
    times: list[int] = []
    end = line = 0
    for sample in stream:
        begin, end = end, end + sample.times
        if last is not None and begin >= last and variables is not None:
            break
        inside = (end if last is None else min(end, last)) - max(begin, first)
        if inside <= 0 and variables is not None:
            continue
        own_variables, values = _parsed(sample, path)
        if variables is None:
            variables, line = own_variables, sample.line
        elif not np.array_equal(own_variables, variables):
            raise FormulaError(
                f"{len(own_variables)} literals of other variables than line {line}",
                expected="the same variables in every sample",
                source=path,
                line=sample.line,
            )
        if inside > 0:
            rows.append(values)
            times.append(inside)
    if variables is None:
        return Table(np.zeros((0, 0), bool), (), source=path)
    x = np.array(rows, bool).reshape(len(rows), len(variables))
    if max(times, default=1) > 1:
        if sum(times) > min(MAX_EMPTY_ROWS, MAX_REPEATED_VALUES // max(1, len(variables))):
            raise FormulaError(
                f"{sum(times)} samples of {len(variables)} variables by their counts",
                expected=f"at most {MAX_REPEATED_VALUES} values",
                source=path,
            )
        x = np.repeat(x, times, axis=0)
    return numbered(x, variables.tolist(), path)


def _is_digits(words: list[str], n_vars: int | None) -> bool:
    """`011` or `0 1 1`: exactly one digit per variable. For one variable `1 0` is a literal."""
    joined = "".join(words)
    if len(joined) != n_vars or set(joined) - {"0", "1"}:
        return False
    return len(words) == 1 or len(words) == n_vars


def _parsed(sample: Sample, path: str) -> tuple[np.ndarray, np.ndarray]:
    """(variables in order, their values)."""
    if sample.digits:
        values = np.array(list("".join(sample.words))) == "1"
        return np.arange(1, len(values) + 1), values
    literals = _integers(sample.words, path, sample.line)[:-1]
    if not literals.all():
        raise FormulaError(
            "a 0 inside a line",
            expected="one sample per line, literals ending in 0",
            source=path,
            line=sample.line,
        )
    literals = literals[np.argsort(np.abs(literals), kind="stable")]
    variables = np.abs(literals)
    if (np.diff(variables) == 0).any():
        raise FormulaError(
            "a variable twice in one sample",
            expected="each variable once, and a 0 at the end of each sample",
            source=path,
            line=sample.line,
        )
    return variables, literals > 0


def _integers(words: list[str], path: str, line: int) -> np.ndarray:
    try:
        return np.array(words, np.int64)
    except (ValueError, OverflowError):
        shown = " ".join(words)[:40]
        raise FormulaError(
            f"{shown!r}", expected="literals ending in 0, or 0s and 1s", source=path, line=line
        ) from None
