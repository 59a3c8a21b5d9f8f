"""`nelson.read(folder)`: the samples that `nelson.cluster.sample` wrote, read when asked for.

    s = nelson.read("folder/")
    len(s), s.guarantee, s.variables
    s.samples(0, 1000)             # Samples
    for block in s: ...            # Samples, 65,536 at a time, in constant memory
    for x in s.torch(256): ...     # (256, n) uint8 tensors
    s.to_pandas(0, 1000)           # a DataFrame, one column per variable, or per field of a space
    s.mean()                       # how often each variable is true
    s.dataset                      # the Arrow dataset, for Arrow's own tools

Opening costs one listing: parts that are missing or there twice are an error. Before the first row
of a part is read, its checksum, seed and law are compared (not with `check=False`). Other tools,
and `dataset`, compare nothing.
"""

from __future__ import annotations

import io
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, zip_longest
from typing import Any

import numpy as np

from nelson.chains.guarantee import GUARANTEES, weakest
from nelson.cluster import parts
from nelson.cluster.store import Store
from nelson.errors import FormulaError, NelsonError
from nelson.io.arrow import load_pyarrow, octets
from nelson.io.boolean_table import checked_variables
from nelson.kernels.cpu.rows import from_rows
from nelson.sampling.samples import Samples

#: Samples in a block, unless the caller says.
BLOCK = 1 << 16


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
    load_pyarrow()
    store = Store(folder)
    if (job := parts.read_job(store)) is None:
        raise NelsonError(f"{store}: no {parts.JOB}; expected a folder of nelson samples")
    _check_job(str(store), job)
    found = Folder(store, job, parts.listed(store.sizes(), job, str(store)).values(), check=check)
    if not (found.complete or partial):
        raise NelsonError(
            f"{store}: {found.info['reason']}; run the job again to draw what is missing, or read "
            "the rest with partial=True (--partial)"
        )
    return found


class Folder:
    """The samples of a job. Immutable; rows are read when they are asked for.

    job        the request and the decisions
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
        self._parts = sorted(found, key=lambda part: part.first)
        self._end = [0, *accumulate(part.rows for part in self._parts)]
        self._checked: set[int] = set()
        self._last: tuple[int, Any] = (-1, None)  # the part that was read last: its number, rows
        wanted = range(0, job["n"], job["part_rows"]) if firsts is None else firsts
        requested = min(job["n"], wanted.stop) - wanted.start
        self.complete = len(self._parts) == len(wanted)
        self.status = "ok" if len(self) == requested else "budget"
        self.guarantee: str = weakest([job["guarantee"], *{p.guarantee for p in self._parts}])
        self.info: dict[str, Any] = {
            **{key: job[key] for key in ("method", "why", "seed", "sweeps")},
            "requested": requested,
            "parts": len(self._parts),
            "bytes": sum(part.bytes for part in self._parts),
            **(note or {}),
        }
        if not self.complete:
            there = f"{len(self._parts):,} of {len(wanted):,} parts are there"
            pairs = zip_longest(wanted, (part.first for part in self._parts))
            gone = next(first for first, held in pairs if first != held)
            self.info["reason"] = f"{there}; samples from {gone:,} on are missing"
        elif self.status != "ok":
            rounds = f"became valid within {job['max_rounds']} rounds"
            self.info["reason"] = f"{len(self):,} of {requested:,} samples {rounds}"

    # --- description ----------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._end[-1]

    @property
    def variables(self) -> tuple[int, ...]:
        """The DIMACS variable of each column."""
        return tuple(self.job["variables"])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns; x1, x2, ... if they have none."""
        return tuple(self.job["names"] or (f"x{v}" for v in self.job["variables"]))

    def __repr__(self) -> str:
        return (
            f"Folder({str(self.store)!r}, {len(self)} x {len(self.variables)}, {self.guarantee}, "
            f"{self.status}, method={self.info['method']!r})"
        )

    # --- rows -----------------------------------------------------------------------------------

    def samples(self, start: int = 0, stop: int | None = None) -> Samples:
        """Rows start .. stop - 1, all in memory."""
        start, stop, _ = slice(start, stop).indices(len(self))
        for block in self.blocks(max(1, stop - start), start=start, stop=stop):
            return block
        return self._samples(np.zeros((0, max(1, -(-len(self.variables) // 8))), np.uint8))

    def blocks(
        self, size: int = BLOCK, *, start: int = 0, stop: int | None = None
    ) -> Iterator[Samples]:
        """Rows start .. stop - 1, in blocks of `size`, in constant memory."""
        return map(self._samples, self._rows(size, start, stop))

    def __iter__(self) -> Iterator[Samples]:
        return self.blocks()

    def torch(self, batch_size: int, dtype: Any = None, *, drop_last: bool = False) -> Any:
        """An iterator of (batch_size, n) tensors of zeros and ones (dtype None: uint8)."""
        import torch

        def batches() -> Iterator[Any]:
            for rows in rows_of_batches:
                if drop_last and len(rows) < batch_size:
                    return
                n = len(self.variables)
                x = torch.from_numpy(np.unpackbits(rows, axis=1, count=n, bitorder="little"))
                yield x if dtype is None else x.to(dtype)

        rows_of_batches = self._rows(batch_size)
        return batches()

    def mean(self) -> np.ndarray:
        """The share of samples in which each variable is true, in the order of `variables`."""
        ones = np.zeros(len(self.variables), np.int64)
        for block in self.blocks():
            ones += np.bitwise_count(block.packed).sum(axis=0, dtype=np.int64)
        return ones / max(1, len(self))

    def to_pandas(self, start: int = 0, stop: int | None = None) -> Any:
        """Rows start .. stop - 1 as a DataFrame: one column per variable, or per field."""
        try:
            import pandas
        except ImportError as error:
            raise NelsonError(f"a DataFrame needs pandas: pip install pandas ({error})") from None
        if self.job["layout"] == "packed":
            x = self.samples(start, stop).to_numpy()
            return pandas.DataFrame(x, columns=list(self.names))
        pieces = [table.to_pandas() for table in self._tables(start, stop)]
        return (
            pandas.concat(pieces, ignore_index=True) if pieces else self.dataset.head(0).to_pandas()
        )

    @property
    def dataset(self) -> Any:
        """The parts as a `pyarrow.dataset.Dataset`."""
        import pyarrow.dataset

        where: Any = {} if not self.store.remote else {"filesystem": self.store.filesystem()[0]}
        folder = self.store.filesystem()[1] if self.store.remote else self.store.uri
        paths = [f"{folder}/{name}" for name in [parts.JOB, *(p.name for p in self._parts)]]
        return pyarrow.dataset.dataset(paths, format="parquet", **where)

    def verify(self) -> None:
        """Compare every part with its checksum, seed and law. Reads all files; names all faults."""
        faults = []
        for part in self._parts:
            try:
                self._bytes(part, check=True)
            except NelsonError as error:
                faults.append(str(error))
        if faults:
            more = f" (and {len(faults) - 10:,} more)" if len(faults) > 10 else ""
            raise NelsonError("; ".join(faults[:10]) + more)

    # --- parts ----------------------------------------------------------------------------------

    def _rows(self, size: int, start: int = 0, stop: int | None = None) -> Iterator[np.ndarray]:
        """Rows start .. stop - 1 in (size, bytes) uint8 arrays; the last may be shorter."""
        if size <= 0:
            raise FormulaError(f"{size} samples at a time", expected="1 or more")
        return _recut(map(self._octets, self._tables(start, stop)), size)

    def _tables(self, start: int, stop: int | None) -> Iterator[Any]:
        """The same rows as Arrow tables, one for each part."""
        start, stop, _ = slice(start, stop).indices(len(self))
        number = bisect_right(self._end, start) - 1
        while start < stop and number < len(self._parts):
            if self._last[0] != number:
                self._last = number, self._table(number)
            end = min(stop, self._end[number + 1])
            yield self._last[1].slice(start - self._end[number], end - start)
            start, number = end, number + 1

    def _table(self, number: int) -> Any:
        _, pq = load_pyarrow()
        part = self._parts[number]
        data = self._bytes(part, self._check and number not in self._checked)
        self._checked.add(number)
        try:
            table = pq.read_table(io.BytesIO(data))
            if len(table) != part.rows:
                raise ValueError(f"{len(table):,} rows, not {part.rows:,}")
            return table.combine_chunks()
        except Exception as error:  # pyarrow raises several kinds
            raise NelsonError(f"{self.store}/{part.name} is damaged ({error})") from None

    def _bytes(self, part: parts.Part, check: bool) -> bytes:
        if (data := self.store.read(part.name)) is None:
            raise NelsonError(f"{self.store}/{part.name} is missing")
        if check and (fault := parts.fault(data, part, self.job)) is not None:
            raise NelsonError(
                f"{self.store}/{part.name} {fault}; run the job again to draw it again"
            )
        return data

    def _octets(self, table: Any) -> np.ndarray:
        """Rows of an Arrow table as packed bits."""
        n = len(self.variables)
        try:
            if self.job["layout"] == "packed":
                return octets(table.column("x").combine_chunks(), n)
            if self.job["layout"] == "columns":
                columns = [column.to_numpy(zero_copy_only=False) for column in table.columns]
                x = (
                    np.stack(columns, axis=1).astype(bool)
                    if columns
                    else np.zeros((len(table), 8), bool)
                )
                return np.packbits(x, axis=1, bitorder="little")
        except Exception as error:  # pyarrow raises several kinds
            raise NelsonError(f"{self.store}: a part is damaged ({error})") from None
        raise NelsonError(f"{self.store} holds rows of a space: use to_pandas() or dataset")

    def _samples(self, rows: np.ndarray) -> Samples:
        info = {key: self.info[key] for key in ("method", "why", "seed", "sweeps")}
        packed = from_rows(rows, len(self.variables))
        return Samples(packed, len(rows), self.variables, self.guarantee, "ok", info)


def _recut(pieces: Iterable[np.ndarray], size: int) -> Iterator[np.ndarray]:
    """The rows of all pieces, `size` at a time."""
    held: list[np.ndarray] = []
    room = size
    for piece in pieces:
        while len(piece):
            held.append(piece[:room])
            piece = piece[room:]
            room -= len(held[-1])
            if not room:
                yield held[0] if len(held) == 1 else np.concatenate(held)
                held, room = [], size
    if held:
        yield np.concatenate(held)


def _check_job(where: str, job: dict[str, Any]) -> None:
    """Raise NelsonError unless the entries that are read are of the types that nelson writes."""
    if (job.get("format"), job.get("version")) != (parts.FORMAT, parts.VERSION):
        raise NelsonError(f"{where}: {parts.JOB} is of another format or version")
    variables, names = job.get("variables"), job.get("names")
    checked_variables(variables, len(variables) if isinstance(variables, list) else 0, where)
    texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
    good = names is None or (texts and len(names) == len(variables or ()))
    numbers = [job.get(key) for key in ("n", "max_rounds", "part_rows")]
    good &= all(type(number) is int and 0 <= number < 2**62 for number in numbers)
    good &= job.get("guarantee") in GUARANTEES and job.get("layout") in parts.LAYOUTS
    texts = all(isinstance(job.get(key), str) for key in ("method", "why", "law", "formula"))
    if (
        not good
        or not texts
        or not job["part_rows"]
        or not {"seed", "sweeps", "keyed", "names"} <= job.keys()
    ):
        raise NelsonError(f"{where}: {parts.JOB} is damaged")
