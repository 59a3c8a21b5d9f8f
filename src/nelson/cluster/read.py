"""`nelson.read(folder)`: the samples that `nelson.cluster.sample` wrote, read when asked for.

    s = nelson.read("folder/")
    len(s), s.guarantee, s.variables
    s.samples(0, 1000)             # Samples
    for block in s: ...            # Samples, 65,536 at a time, in constant memory
    for x in s.torch(256): ...     # (256, n) uint8 tensors
    s.to_pandas(0, 1000)           # a DataFrame, one column per variable
    s.dataset                      # the Arrow dataset, for Arrow's own tools

Opening compares names and sizes with the manifests: parts that are missing, duplicate, or of
another size are an error. Before the first row of a part is read, its CRC-32 (not with
`check=False`) and its metadata are compared with its manifest. `dataset` compares nothing.
"""

from __future__ import annotations

import os
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any

import numpy as np

from nelson.chains.guarantee import GUARANTEES
from nelson.cluster import parts
from nelson.cluster.job_files import JobFiles, files_at
from nelson.errors import FormulaError, NelsonError
from nelson.io.arrow import load_pyarrow, octets
from nelson.io.boolean_table import checked_variables
from nelson.kernels.cpu.rows import from_rows
from nelson.sampling.samples import Samples

#: Samples in a block, unless the caller says.
BLOCK = 1 << 16


def read(folder: str | os.PathLike[str], *, partial: bool = False, check: bool = True) -> Folder:
    """The samples in a folder, or at a URI that pyarrow opens.

    partial     also read a job that is not finished.
    check       compare the CRC-32 of each part before it is read.

    >>> formula = nelson.Formula([[1, 2], [-1, 3]])
    >>> folder = nelson.cluster.sample(formula, n=1000, out="samples", seed=0)
    >>> again = nelson.read("samples")
    >>> len(again), again.samples(0, 10).to_numpy().shape
    (1000, (10, 3))
    """
    load_pyarrow()
    return Folder(files_at(folder), partial=partial, check=check)


class Folder:
    """The samples of a job. Immutable; rows are read when they are asked for.

    job        the request and the decisions, as in `job.json`
    status     "ok", or "budget": fewer samples than requested
    info       as `Samples.info`; after `nelson.cluster.sample` also parts drawn now (`drawn`), kept
               from before (`kept`), `workers`, and the most memory a worker held (`peak_mb`)
    """

    def __init__(
        self,
        where: JobFiles,
        *,
        partial: bool = False,
        check: bool = True,
        note: Mapping[str, Any] | None = None,
    ) -> None:
        sizes = where.sizes()
        if parts.JOB not in sizes:
            raise NelsonError(f"{where}: no {parts.JOB}; expected a folder of nelson samples")
        self.where, self._check = where, check
        self.job = parts.read_json(where, parts.JOB)
        if (self.job.get("format"), self.job.get("version")) != (parts.FORMAT, parts.VERSION):
            raise NelsonError(f"{where}: {parts.JOB} is of another format or version")
        _check_job(str(where), self.job)
        whole = self._manifest(sizes, partial)
        _check_manifest(str(where), whole)
        # One entry per part, in the order of their samples.
        self._first: list[int] = whole["parts"]["first"]
        self._count: list[int] = whole["parts"]["count"]
        self._asked: list[int] = whole["parts"]["asked"]
        self._crc32: list[int] = whole["parts"]["crc32"]
        self._end = [0, *accumulate(self._count)]
        self._checked: set[int] = set()
        self._compare(sizes, whole["parts"]["bytes"], partial)
        self.complete = sum(self._asked) == self.job["n"]
        self.guarantee: str = whole["guarantee"]
        self.status = "ok" if len(self) == self.job["n"] else "budget"
        self.info: dict[str, Any] = {
            **{key: self.job[key] for key in ("method", "why", "seed", "sweeps")},
            "requested": self.job["n"],
            "parts": len(self._first),
            "bytes": sum(whole["parts"]["bytes"]),
            **{key: whole[key] for key in ("rounds", "resampled")},
            **(note or {}),
        }
        if self.status != "ok":
            self.info["reason"] = self._reason()

    def _manifest(self, sizes: Mapping[str, int], partial: bool) -> dict[str, Any]:
        """The manifest of all parts; of an unfinished job, combined from theirs."""
        if parts.MANIFEST in sizes:
            whole = parts.read_json(self.where, parts.MANIFEST)
            if whole.get("job") != self.job.get("digest"):
                raise NelsonError(f"{self.where}: {parts.MANIFEST} belongs to another job")
            return whole
        finished = parts.finished_parts(self.where, sizes).values()
        if not partial:
            drawn = sum(part["asked"] for part in finished)
            raise NelsonError(
                f"{self.where}: the job is not finished ({drawn:,} of {self.job['n']:,} samples); "
                "run it again to continue, or read it with partial=True"
            )
        return parts.combined(self.job, finished)

    def _compare(self, sizes: Mapping[str, int], stated: list[int], partial: bool) -> None:
        """Raise unless names and sizes are those of the manifests, without gap or overlap."""
        next_first = 0
        for first, asked, size in zip(self._first, self._asked, stated, strict=True):
            name = parts.part_name(first)
            if first < next_first:
                raise NelsonError(f"{self.where}: samples from {first:,} on are there twice")
            if first > next_first and not partial:
                raise NelsonError(f"{self.where}: samples {next_first:,} to {first:,} are missing")
            if name not in sizes:
                raise NelsonError(f"{self.where}: {name} is missing")
            if sizes[name] != size:
                raise NelsonError(
                    f"{self.where}: {name} has {sizes[name]:,} bytes, its manifest says {size:,}"
                )
            next_first = first + asked
        if partial:
            return
        if next_first != self.job["n"]:
            raise NelsonError(
                f"{self.where}: {next_first:,} samples were drawn, {self.job['n']:,} requested"
            )
        expected = {parts.part_name(first) for first in self._first}
        for name in sizes:
            if name.endswith(".parquet") and name not in expected:
                raise NelsonError(f"{self.where}: {name} is not a part of the job (a duplicate?)")

    def _reason(self) -> str:
        if not self.complete:
            return f"{sum(self._asked):,} of {self.job['n']:,} samples were drawn so far"
        rounds = self.job["max_rounds"]
        return f"{len(self):,} of {self.job['n']:,} samples became valid within {rounds} rounds"

    # --- description ----------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._end[-1]

    @property
    def variables(self) -> tuple[int, ...]:
        return tuple(self.job["variables"])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns: as given, else x1, x2, ..."""
        given = self.job["names"]
        return tuple(given if given is not None else (f"x{v}" for v in self.variables))

    def __repr__(self) -> str:
        size = f"{len(self)} x {len(self.variables)}, {self.guarantee}, {self.status}"
        return f"Folder({str(self.where)!r}, {size}, method={self.job['method']!r})"

    # --- reading --------------------------------------------------------------------------------

    def samples(self, start: int = 0, stop: int | None = None) -> Samples:
        """Rows start .. stop - 1, as a slice takes them."""
        start, stop, _ = slice(start, stop).indices(len(self))
        rows = self._rows(start, max(start, stop), BLOCK)
        width = max(1, -(-len(self.variables) // 8))
        return self._samples(np.concatenate([np.zeros((0, width), np.uint8), *rows]))

    def blocks(
        self, size: int = BLOCK, start: int = 0, stop: int | None = None
    ) -> Iterator[Samples]:
        """Rows start .. stop - 1, in blocks of `size`, in constant memory."""
        start, stop, _ = slice(start, stop).indices(len(self))
        for rows in self._rows(start, stop, _size(size)):
            yield self._samples(rows)

    def __iter__(self) -> Iterator[Samples]:
        return self.blocks()

    def torch(self, batch_size: int, dtype: Any = None, *, drop_last: bool = False) -> Any:
        """An iterator of (batch_size, n) tensors of zeros and ones (dtype None: uint8)."""
        import torch

        _size(batch_size)

        def batches() -> Iterator[Any]:
            for rows in self._rows(0, len(self), batch_size):
                if drop_last and len(rows) < batch_size:
                    return
                x = torch.from_numpy(self._unpacked(rows))
                yield x if dtype is None else x.to(dtype)

        return batches()

    def to_pandas(self, start: int = 0, stop: int | None = None) -> Any:
        """Rows start .. stop - 1 as a DataFrame of Booleans, one column per variable."""
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

        paths = [f"{self.where.path}/{parts.part_name(first)}" for first in self._first]
        return pyarrow.dataset.dataset(paths, format="parquet", filesystem=self.where.filesystem)

    def verify(self) -> None:
        """Compare every part with its checksum and metadata. Reads all files."""
        for number in range(len(self._first)):
            self._checked.discard(number)
            self._open(number, check=True)

    def _rows(self, start: int, stop: int, size: int) -> Iterator[np.ndarray]:
        """Rows start .. stop - 1 in (size, bytes) uint8 arrays; the last may be shorter."""
        held: list[np.ndarray] = []
        room = size
        for piece in self._pieces(start, stop):
            while len(piece):
                held.append(piece[:room])
                piece = piece[room:]
                room -= len(held[-1])
                if not room:
                    yield _joined(held)
                    held, room = [], size
        if held:
            yield _joined(held)

    def _pieces(self, start: int, stop: int) -> Iterator[np.ndarray]:
        """The same rows, in pieces as they lie in row groups."""
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
        _, pq = load_pyarrow()
        name = parts.part_name(self._first[number])
        if check and number not in self._checked:
            if self._crc32_of(name) != self._crc32[number]:
                raise NelsonError(f"{self.where}/{name} is damaged: its checksum does not match")
            self._checked.add(number)
        try:
            file = pq.ParquetFile(self.where.open(name))
            meta = file.metadata.metadata or {}
            first, count = int(meta.get(b"nelson.first", -1)), file.metadata.num_rows
        except Exception as error:  # pyarrow raises several kinds
            raise NelsonError(f"{self.where}/{name} is damaged ({error})") from None
        if (first, count) != (self._first[number], self._count[number]):
            raise NelsonError(
                f"{self.where}/{name} holds {count:,} samples from {first:,} on; expected "
                f"{self._count[number]:,} from {self._first[number]:,} on"
            )
        return file

    def _group(self, file: Any, number: int, group: int) -> np.ndarray:
        try:
            column = file.read_row_group(group, ["x"]).column("x").combine_chunks()
            return octets(column, len(self.variables))
        except Exception as error:
            name = parts.part_name(self._first[number])
            raise NelsonError(f"{self.where}/{name} is damaged ({error})") from None

    def _crc32_of(self, name: str) -> int:
        total = 0
        with self.where.open(name) as file:
            while data := file.read(8 << 20):
                total = zlib.crc32(data, total)
        return total

    def _unpacked(self, rows: np.ndarray) -> np.ndarray:
        return np.unpackbits(rows, axis=1, count=len(self.variables), bitorder="little")

    def _samples(self, rows: np.ndarray) -> Samples:
        packed = from_rows(rows, len(self.variables))
        info = {key: self.info[key] for key in ("method", "why", "seed", "sweeps")}
        return Samples(packed, len(rows), self.variables, self.guarantee, "ok", info)


def _check_job(where: str, job: dict[str, Any]) -> None:
    """Raise NelsonError unless the entries that are read are of the types that nelson writes."""
    variables, names = job.get("variables"), job.get("names")
    checked_variables(variables, len(variables) if isinstance(variables, list) else 0, where)
    texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
    good = names is None or (texts and len(names) == len(variables or ()))
    good &= parts.whole([job.get(key) for key in ("n", "max_rounds")])
    good &= job.get("guarantee") in GUARANTEES
    if not good or not {"names", "method", "why", "seed", "sweeps", "digest"} <= job.keys():
        raise NelsonError(f"{where}: {parts.JOB} is damaged")


def _check_manifest(where: str, whole: dict[str, Any]) -> None:
    """The same for the manifest of all parts."""
    columns = whole.get("parts")
    lists = [columns.get(field) if isinstance(columns, dict) else None for field in parts.FIELDS]
    good = all(map(parts.whole, lists)) and len({len(numbers or ()) for numbers in lists}) == 1
    good &= parts.whole([whole.get(field) for field in parts.TOTALS])
    if not good or whole.get("guarantee") not in GUARANTEES:
        raise NelsonError(f"{where}: {parts.MANIFEST} is damaged")


def _joined(pieces: list[np.ndarray]) -> np.ndarray:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _size(size: int) -> int:
    if size <= 0:
        raise FormulaError(f"{size} samples at a time", expected="1 or more")
    return size
