"""The examples of a file, spread over ranks: rank r of R holds rows N r / R .. N (r + 1) / R.

    E_data[x] = (sum over ranks of popcounts) / N          sums of integers: the same for any R

`io/table_formats.py` says how much memory a rank needs to read its rows. Minibatches are cut from
one random order of all N rows, as in one process; making it takes 8 N bytes on every rank.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.io.tables import read_rows
from nelson.kernels.core.bits import pack, unpack
from nelson.learning.data import Examples, broken, complaint, valid_rows, variable_columns
from nelson.learning.group import ALONE, MINIBATCHES, ProcessGroup, span, stream_seed


@dataclass(frozen=True, eq=False)
class Share(Examples):
    """`packed` holds the `held` rows of this rank, from row `first` on; `count` is of all ranks.

    After `shuffled`, `places` holds the position of each of these rows in the order of all rows.
    """

    group: ProcessGroup = ALONE
    first: int = 0
    held: int = 0
    digest: str = ""
    places: np.ndarray | None = None

    def mean(self) -> np.ndarray:
        return self._ones(0, self.count) / self.count

    def _ones(self, start: int, stop: int) -> np.ndarray:
        if self.places is None:
            begin, end = (min(max(0, at - self.first), self.held) for at in (start, stop))
        else:
            begin, end = np.searchsorted(self.places, [start, stop]).tolist()
        none = np.zeros(self.packed.shape[1], np.int64)
        return self.group.sum(super()._ones(begin, end) if begin < end else none)

    def shuffled(self, seed: int) -> Share:
        order = np.random.default_rng(stream_seed(seed, MINIBATCHES)).permutation(self.count)
        places = np.flatnonzero((order >= self.first) & (order < self.first + self.held))
        mine = self.to_numpy()[order[places] - self.first]
        return replace(self, packed=pack(mine), dropped=0, first=0, places=places)

    def to_numpy(self) -> np.ndarray:
        """The rows of this rank."""
        return unpack(self.packed, self.held)

    def fingerprint(self) -> str:
        """The digest of the whole file, the same on every rank."""
        return self.digest


def load_share(
    formula: Formula, path: str, group: ProcessGroup, digest: str, drop_invalid: bool = False
) -> Share:
    """`load_examples` for the rows of this rank. Errors count the invalid rows of all ranks."""
    table, first, total = read_rows(path, lambda count: span(count, group))
    if total < group.size:
        raise FormulaError(
            f"{total} rows for {group.size} ranks",
            expected="at least one row for each rank",
            source=path,
        )
    x = variable_columns(formula, table)
    valid = valid_rows(formula, x)
    bad = np.flatnonzero(~valid)
    reports: list[Any] = group.gather([len(bad), broken(formula, x, bad, first), len(x) - len(bad)])
    dropped = sum(count for count, _, _ in reports)
    if dropped and not drop_invalid:
        shown = [text for _, texts, _ in reports for text in texts]
        raise FormulaError(complaint(dropped, total, shown, "--drop-invalid"), source=path)
    counts = [count for _, _, count in reports]
    if not sum(counts):
        what = f"all {total} rows are invalid" if total else "no rows"
        raise FormulaError(what, expected="at least one example", source=path)
    return Share(
        pack(x[valid] if len(bad) else x),
        sum(counts),
        table.names,
        path,
        dropped,
        group=group,
        first=sum(counts[: group.rank]),
        held=counts[group.rank],
        digest=digest,
    )


def file_digest(path: str) -> str:
    """sha256 of the bytes of a file, in constant memory."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FormulaError(f"cannot read it: {reason}", source=path) from None
