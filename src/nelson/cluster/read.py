"""`nelson.read(folder)`: the samples that `nelson.cluster.sample` wrote, read when asked for.

Opening costs one listing: parts that are missing or there twice are an error. Before the first row
of a part is read, its checksum, seed and law are compared (not with `check=False`). Other tools
open the folder as it is, and compare nothing.
"""

from __future__ import annotations

import io
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, zip_longest
from typing import Any

import numpy as np

from nelson.chains.guarantee import weakest
from nelson.cluster import parts
from nelson.cluster.store import Store
from nelson.errors import FormulaError, NelsonError
from nelson.io.arrow import load_pyarrow, octets
from nelson.kernels.cpu.rows import from_rows
from nelson.sampling.samples import Samples


def read(folder: str | os.PathLike[str], *, partial: bool = False, check: bool = True) -> Folder:
    """The samples in a folder, or at a URI that fsspec opens.

    partial     also a folder where parts are missing: what is there, in order.
    check       compare the checksum of each part before it is read.

    >>> formula = nelson.Formula([[1, 2], [-1, 3]])
    >>> folder = nelson.cluster.sample(formula, n=1000, out="samples", seed=0)
    >>> again = nelson.read("samples")
    >>> len(again), again.samples(0, 10).to_numpy().shape
    (1000, (10, 3))
    """
    store = Store(folder)
    if (job := parts.read_job(store)) is None:
        raise NelsonError(f"{store}: no {parts.JOB}; expected a folder of nelson samples")
    opened = Folder(store, job, parts.listed(store.sizes(), job, str(store)).values(), check=check)
    if not (opened.complete or partial):
        raise NelsonError(
            f"{store}: {opened.info['reason']}; run the job again to draw what is missing, or read "
            "the rest with partial=True (--partial)"
        )
    return opened


class Folder:
    """The samples of a job. Immutable; rows are read when they are asked for.

    job        the request and the decisions
    variables  the DIMACS variable of each column; () for rows of a space or a table
    names      of the columns; x1, x2, ... if they have none
    complete   no part is missing
    status     "ok", or "budget": fewer samples than requested
    info       method, why, seed, sweeps, parts, bytes; after `nelson.cluster.sample` also parts
               drawn now (`drawn`) and kept from before (`kept`)
    """

    def __init__(
        self,
        store: Store,
        job: dict[str, Any],
        found: Iterable[parts.Part],
        *,
        check: bool = True,
        firsts: range | None = None,
        note: Mapping[str, Any] | None = None,
    ) -> None:
        """firsts: the first samples of the parts that should be there; default: of all."""
        self.store, self.job, self._check = store, job, check
        self.variables: tuple[int, ...] = tuple(job["variables"])
        self.names: tuple[str, ...] = tuple(job["names"] or (f"x{v}" for v in self.variables))
        self._parts = sorted(found, key=lambda part: part.first)
        self._end = [0, *accumulate(part.rows for part in self._parts)]
        self._last: tuple[int, Any] = (-1, None)  # the part that was read last: its number, rows
        wanted = range(0, job["n"], job["part_rows"]) if firsts is None else firsts
        requested = min(job["n"], wanted.stop) - wanted.start
        self.complete = len(self._parts) == len(wanted)
        self.status = "ok" if len(self) == requested else "budget"
        self.guarantee: str = weakest([job["guarantee"], *{p.guarantee for p in self._parts}])
        self._drawn_by = {key: job[key] for key in ("method", "why", "seed", "sweeps")}
        self.info: dict[str, Any] = self._drawn_by | {"requested": requested, **(note or {})}
        self.info |= {"parts": len(self._parts), "bytes": sum(part.bytes for part in self._parts)}
        if not self.complete:
            pairs = zip_longest(wanted, (part.first for part in self._parts))
            gone = next(first for first, held in pairs if first != held)
            there = f"{len(self._parts):,} of {len(wanted):,} parts are there"
            self.info["reason"] = f"{there}; samples from {gone:,} on are missing"
        elif self.status != "ok":
            rounds = f"became valid within {job['max_rounds']} rounds"
            self.info["reason"] = f"{len(self):,} of {requested:,} samples {rounds}"

    def __len__(self) -> int:
        return self._end[-1]

    def __repr__(self) -> str:
        return (
            f"Folder({str(self.store)!r}, {len(self)} x {len(self.names)}, {self.guarantee}, "
            f"{self.status}, method={self.info['method']!r})"
        )

    def samples(self, start: int = 0, stop: int | None = None) -> Samples:
        """Rows start .. stop - 1, all in memory."""
        if self.job["layout"] == "rows":
            raise NelsonError(f"{self.store} holds rows with typed columns: use to_pandas()")
        n, tables = len(self.variables), self._tables(start, stop)
        try:
            pieces = [octets(table, n) for table in tables]
        except (ValueError, KeyError) as error:
            raise NelsonError(f"{self.store}: a part is damaged ({error})") from None
        rows = np.concatenate([np.zeros((0, max(1, -(-n // 8))), np.uint8), *pieces])
        packed = from_rows(rows, n)
        return Samples(packed, len(rows), self.variables, self.guarantee, "ok", {**self._drawn_by})

    def blocks(
        self, size: int = 1 << 16, *, start: int = 0, stop: int | None = None
    ) -> Iterator[Samples]:
        """Rows start .. stop - 1, in blocks of `size`, in constant memory."""
        if size <= 0:
            raise FormulaError(f"{size} samples at a time", expected="1 or more")
        start, stop, _ = slice(start, stop).indices(len(self))
        return (self.samples(at, min(at + size, stop)) for at in range(start, stop, size))

    def __iter__(self) -> Iterator[Samples]:
        return self.blocks()

    def mean(self) -> np.ndarray:
        """The share of samples in which each variable is true, in the order of `variables`."""
        ones = np.zeros(len(self.variables), np.int64)
        for block in self.blocks():
            ones += np.bitwise_count(block.packed).sum(axis=0, dtype=np.int64)
        return ones / max(1, len(self))

    def to_pandas(self, start: int = 0, stop: int | None = None) -> Any:
        """Rows start .. stop - 1 as a DataFrame: one column per variable, or per field."""
        if self.job["layout"] == "packed":
            import pandas

            return pandas.DataFrame(self.samples(start, stop).to_numpy(), columns=list(self.names))
        pa, pq = load_pyarrow()
        schema = pq.read_schema(io.BytesIO(self.store.read(parts.JOB) or b""))
        return pa.concat_tables([schema.empty_table(), *self._tables(start, stop)]).to_pandas()

    def verify(self) -> None:
        """Compare every part with its checksum, seed and law. Reads all files; names all faults."""
        faults = [fault for part in self._parts if (fault := self._read(part, True)[1])]
        if faults:
            more = f" (and {len(faults) - 10:,} more)" if len(faults) > 10 else ""
            raise NelsonError("; ".join(faults[:10]) + more)

    def _read(self, part: parts.Part, check: bool) -> tuple[bytes, str]:
        """The bytes of a part, and what is wrong with them."""
        data = self.store.read(part.name)
        fault = "is missing" if data is None else parts.fault(data, part, self.job) if check else ""
        advice = f"{self.store}/{part.name} {fault}; run the job again to draw it again"
        return data or b"", advice if fault else ""

    def _tables(self, start: int, stop: int | None) -> Iterator[Any]:
        """The same rows as Arrow tables, one for each part."""
        start, stop, _ = slice(start, stop).indices(len(self))
        while start < stop:
            number = bisect_right(self._end, start) - 1
            if self._last[0] != number:
                self._last = number, self._table(self._parts[number])
            end = min(stop, self._end[number + 1])
            yield self._last[1].slice(start - self._end[number], end - start)
            start = end

    def _table(self, part: parts.Part) -> Any:
        data, told = self._read(part, self._check)
        if told:
            raise NelsonError(told)
        _, pq = load_pyarrow()
        try:
            table = pq.read_table(io.BytesIO(data)).combine_chunks()
        except Exception as error:  # pyarrow raises several kinds
            raise NelsonError(f"{self.store}/{part.name} is damaged ({error})") from None
        if len(table) != part.rows:
            raise NelsonError(f"{self.store}/{part.name} is damaged ({len(table):,} rows)")
        return table
