"""`nelson.read(folder)`: what `nelson.cluster.sample` wrote, read only as far as it is asked for.

    s = nelson.read("folder/")
    len(s), s.guarantee, s.variables
    s.samples(0, 1000)             # Samples
    for block in s: ...            # Samples, 65,536 at a time, in constant memory
    for x in s.torch(256): ...     # (256, n) uint8 tensors
    s.to_pandas(0, 1000)           # a DataFrame, one column a variable
    s.dataset                      # the Arrow dataset, for Arrow's own tools

Opening looks at names, sizes and manifests: parts that are missing, of another size, or there
twice are an error at once. The CRC-32 of a part is compared when something of it is first read
(`check=False`: never), and its own metadata with its manifest. `dataset` is Arrow's, and compares
nothing.
"""

from __future__ import annotations

import os
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any

import numpy as np

from nelson.cluster import parts
from nelson.cluster.part_files import Store, store
from nelson.errors import FormulaError, NelsonError
from nelson.sampling.guarantee import weakest
from nelson.sampling.samples import Samples

#: Samples of a block unless the caller says, and bytes at a time when a part is summed.
BLOCK, _CHUNK = 1 << 16, 8 << 20


def read(folder: str | os.PathLike[str], *, partial: bool = False, check: bool = True) -> Folder:
    """The samples of a folder, or of a URI that pyarrow knows; partial: also of a job that is not
    finished.
    """
    return Folder(store(folder), partial=partial, check=check)


class Folder:
    """A job's samples. Immutable; all that is read is read when it is asked for.

    job        what was asked for and decided (plain values)
    status     "ok", or "budget": fewer than asked for
    info       as `Samples.info`; after `nelson.cluster.sample` also parts drawn now (`drawn`), kept
               from before (`kept`), `workers`, and the most memory a worker held (`peak_mb`)
    """

    def __init__(
        self,
        where: Store,
        *,
        partial: bool = False,
        check: bool = True,
        note: Mapping[str, Any] | None = None,
    ) -> None:
        _arrow()
        files = where.sizes()
        if parts.JOB not in files:
            raise NelsonError(f"{where}: no {parts.JOB}; expected a folder of nelson samples")
        self.where, self._check = where, check
        self.job = parts.read_json(where, parts.JOB)
        if (self.job.get("format"), self.job.get("version")) != (parts.FORMAT, parts.VERSION):
            raise NelsonError(f"{where}: {parts.JOB} is of another format or version")
        whole = self._whole(files, partial)
        self._first: list[int] = whole["parts"]["first"]
        self._count: list[int] = whole["parts"]["count"]
        self._asked: list[int] = whole["parts"]["asked"]
        self._sum: list[int] = whole["parts"]["crc32"]
        self._end = [0, *accumulate(self._count)]
        self._sound: set[int] = set()
        self._compare(files, whole["parts"]["bytes"], partial)
        self.complete = sum(self._asked) == self.job["n"]
        self.guarantee: str = whole["guarantee"]
        self.status = "ok" if len(self) == self.job["n"] else "budget"
        known = {key: self.job[key] for key in ("method", "why", "seed", "sweeps")}
        counted = {"requested": self.job["n"], "parts": len(self._first), "bytes": 0}
        counted["bytes"] = sum(whole["parts"]["bytes"])
        told = {key: whole[key] for key in ("rounds", "resampled")}
        self.info: dict[str, Any] = {**known, **counted, **told, **(note or {})}
        if self.status != "ok":
            self.info["reason"] = self._reason()

    def _whole(self, files: Mapping[str, int], partial: bool) -> dict[str, Any]:
        """The manifest of all parts; put together from theirs where the job is not finished."""
        if parts.MANIFEST in files:
            whole = parts.read_json(self.where, parts.MANIFEST)
            if whole["job"] != self.job["digest"]:
                raise NelsonError(f"{self.where}: {parts.MANIFEST} is of another job")
            return whole
        found = parts.finished_parts(self.where, files)
        have = sorted(found.values(), key=lambda part: part["first"])
        drawn = sum(part["asked"] for part in have)
        if not partial:
            raise NelsonError(
                f"{self.where}: the job is not finished ({drawn:,} of {self.job['n']:,} samples); "
                "run it again to go on, or read it with partial=True"
            )
        return {
            "guarantee": weakest([self.job["guarantee"], *(p["guarantee"] for p in have)]),
            "rounds": max((part["rounds"] for part in have), default=0),
            "resampled": sum(part["resampled"] for part in have),
            "parts": {key: [part[key] for part in have] for key in parts.FIELDS},
        }

    def _compare(self, files: Mapping[str, int], sizes: list[int], partial: bool) -> None:
        """Names and sizes as the manifests state them; numbers without gap or overlap."""
        next_first = 0
        for first, asked, size in zip(self._first, self._asked, sizes, strict=True):
            name = parts.part_name(first)
            if first < next_first:
                raise NelsonError(f"{self.where}: samples from {first:,} on are there twice")
            if first > next_first and not partial:
                missing = f"samples {next_first:,} to {first:,} are"
                raise NelsonError(f"{self.where}: {missing} missing")
            if name not in files:
                raise NelsonError(f"{self.where}: {name} is missing")
            if files[name] != size:
                raise NelsonError(
                    f"{self.where}: {name} has {files[name]:,} bytes, its manifest says {size:,}"
                )
            next_first = first + asked
        if next_first != self.job["n"] and not partial:
            raise NelsonError(
                f"{self.where}: {next_first:,} samples were drawn, {self.job['n']:,} asked for"
            )
        known = {parts.part_name(first) for first in self._first}
        other = [n for n in files if n.endswith(".parquet") and n not in known]
        if other and not partial:
            raise NelsonError(f"{self.where}: {other[0]} is no part of the job (a duplicate?)")

    def _reason(self) -> str:
        if not self.complete:
            return f"{sum(self._asked):,} of {self.job['n']:,} samples were drawn so far"
        rounds = self.job["max_rounds"]
        return f"{len(self):,} of {self.job['n']:,} samples became valid within {rounds} rounds"

    # --- what there is --------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._end[-1]

    @property
    def variables(self) -> tuple[int, ...]:
        return tuple(self.job["variables"])

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns: as given, else x1, x2, ..."""
        given = self.job["names"]
        return tuple(given if given is not None else (f"x{v}" for v in self.variables))

    def __repr__(self) -> str:
        told = f"{len(self)} x {len(self.variables)}, {self.guarantee}, {self.status}"
        return f"Folder({str(self.where)!r}, {told}, method={self.job['method']!r})"

    # --- reading --------------------------------------------------------------------------------

    def samples(self, start: int = 0, stop: int | None = None) -> Samples:
        """Rows start .. stop - 1, as a slice takes them."""
        start, stop, _ = slice(start, stop).indices(len(self))
        found = list(self._rows(start, max(start, stop), BLOCK))
        width = max(1, -(-len(self.variables) // 8))
        return self._samples(np.concatenate([np.zeros((0, width), np.uint8), *found]))

    def blocks(
        self, size: int = BLOCK, start: int = 0, stop: int | None = None
    ) -> Iterator[Samples]:
        """Rows start .. stop - 1, `size` at a time, in constant memory."""
        start, stop, _ = slice(start, stop).indices(len(self))
        for rows in self._rows(start, stop, _size(size)):
            yield self._samples(rows)

    def __iter__(self) -> Iterator[Samples]:
        return self.blocks()

    def torch(self, batch_size: int, dtype: Any = None, *, drop_last: bool = False) -> Any:
        """An iterator of (batch_size, n) tensors of zeros and ones (uint8 unless `dtype` says)."""
        import torch

        _size(batch_size)

        def batches() -> Iterator[Any]:
            per = max(1, BLOCK // batch_size)  # one read for several batches
            for rows in self._rows(0, len(self), per * batch_size):
                for at in range(0, len(rows), batch_size):
                    some = rows[at : at + batch_size]
                    if drop_last and len(some) < batch_size:
                        return
                    x = torch.from_numpy(self._unpacked(some))
                    yield x if dtype is None else x.to(dtype)

        return batches()

    def to_pandas(self, start: int = 0, stop: int | None = None) -> Any:
        """Rows start .. stop - 1 as a DataFrame of Booleans, one column a variable."""
        try:
            import pandas
        except ImportError as error:
            raise NelsonError(f"a DataFrame needs pandas: pip install pandas ({error})") from None
        x = self.samples(start, stop).to_numpy()
        return pandas.DataFrame(x, columns=list(self.names))

    @property
    def dataset(self) -> Any:
        """The parts as a `pyarrow.dataset.Dataset`: one fixed-size binary column x."""
        import pyarrow.dataset

        filesystem, path = self.where.arrow()
        files = [f"{path}/{parts.part_name(first)}" for first in self._first]
        return pyarrow.dataset.dataset(files, format="parquet", filesystem=filesystem)

    def verify(self) -> None:
        """Compare every part with its checksum and metadata now. Reads all of it."""
        for number in range(len(self._first)):
            self._sound.discard(number)
            self._open(number, check=True)

    def _rows(self, start: int, stop: int, size: int) -> Iterator[np.ndarray]:
        """Rows start .. stop - 1, (m, bytes) uint8, `size` at a time."""
        held: list[np.ndarray] = []
        have = 0
        for piece in self._pieces(start, stop):
            while len(piece):
                some = piece[: size - have]
                held.append(some)
                have += len(some)
                piece = piece[len(some) :]
                if have == size:
                    yield held[0] if len(held) == 1 else np.concatenate(held)
                    held, have = [], 0
        if have:
            yield held[0] if len(held) == 1 else np.concatenate(held)

    def _pieces(self, start: int, stop: int) -> Iterator[np.ndarray]:
        """The same, as they lie in row groups."""
        number = bisect_right(self._end, start) - 1
        while start < stop and number < len(self._first):
            file = self._open(number, self._check)
            at, end = self._end[number], min(stop, self._end[number + 1])
            for group in range(file.num_row_groups):
                size = file.metadata.row_group(group).num_rows
                if at < end and at + size > start:
                    rows = self._group(file, number, group)
                    yield rows[max(0, start - at) : end - at]
                at += size
            start, number = end, number + 1

    def _open(self, number: int, check: bool) -> Any:
        _, pq = _arrow()
        name = parts.part_name(self._first[number])
        if check and number not in self._sound:
            if self._crc32(name) != self._sum[number]:
                raise NelsonError(f"{self.where}/{name} is damaged: its checksum does not fit")
            self._sound.add(number)
        try:
            file = pq.ParquetFile(self.where.open(name))
        except Exception as error:  # pyarrow raises several kinds
            raise NelsonError(f"{self.where}/{name} is damaged ({error})") from None
        meta = file.metadata.metadata or {}
        told = int(meta.get(b"nelson.first", -1)), file.metadata.num_rows
        if told != (self._first[number], self._count[number]):
            raise NelsonError(
                f"{self.where}/{name} holds {told[1]:,} samples from {told[0]:,} on; expected "
                f"{self._count[number]:,} from {self._first[number]:,} on"
            )
        return file

    def _group(self, file: Any, number: int, group: int) -> np.ndarray:
        try:
            column = file.read_row_group(group, ["x"]).column("x").combine_chunks()
        except Exception as error:
            name = parts.part_name(self._first[number])
            raise NelsonError(f"{self.where}/{name} is damaged ({error})") from None
        width = column.type.byte_width
        raw = np.frombuffer(column.buffers()[1], np.uint8)
        return raw[column.offset * width :][: len(column) * width].reshape(-1, width)

    def _crc32(self, name: str) -> int:
        total = 0
        with self.where.open(name) as file:
            while data := file.read(_CHUNK):
                total = zlib.crc32(data, total)
        return total

    def _unpacked(self, rows: np.ndarray) -> np.ndarray:
        return np.unpackbits(rows, axis=1, count=len(self.variables), bitorder="little")

    def _samples(self, rows: np.ndarray) -> Samples:
        from nelson.kernels.cpu.rows import from_rows

        packed = from_rows(rows, len(self.variables))
        info = {key: self.info[key] for key in ("method", "why", "seed", "sweeps")}
        return Samples(packed, len(rows), self.variables, self.guarantee, "ok", info)


def _size(size: int) -> int:
    if size <= 0:
        raise FormulaError(f"{size} samples at a time", expected="1 or more")
    return size


def _arrow() -> tuple[Any, Any]:
    from nelson.io.arrow import load_pyarrow

    return load_pyarrow()
