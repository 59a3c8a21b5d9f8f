"""Compiled circuits on disk, under the hash of the formula and the compiler.

    $NELSON_CACHE_DIR/circuits/HASH.npz        else the user's cache folder, e.g. ~/.cache/nelson

One file per formula: plain arrays in a zip archive, whose checksums are verified on reading. A file
that cannot be read, or that holds no circuit, counts as missing and is replaced. Files appear under
their name only when they are complete, so that several processes may share the folder. Together
they hold at most NELSON_CACHE_BYTES bytes (default 1 GiB; 0: none is written or read); the file
that was not used for longest is removed first. A folder that cannot be written to is no error.

A circuit that the user asked for (`nelson compile`) is called kept-HASH.npz, whatever compiler made
it. It is removed only after all others.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.io import atomic
from nelson.io.table_formats import npz_arrays
from nelson.kernels.core.deadline import check_time
from nelson.kernels.core.folders import cache_folder

#: The name of a circuit that the user asked for begins with this.
KEPT = "kept-"
#: Grows when the meaning of a file changes: it is part of the hash.
VERSION = 1
#: Grows when compilers are tried in another way: a file also tells the effort that a circuit took.
#: Circuits that the user asked for stay.
WAY = 2
DEFAULT_BYTES = 1 << 30


class Entry(NamedTuple):
    path: Path
    bytes: int
    used: float  # seconds since the epoch


def folder() -> Path:
    """Where circuits are kept; it need not exist."""
    return Path(os.environ.get("NELSON_CACHE_DIR") or cache_folder()) / "circuits"


def bound() -> int:
    """Bytes that all circuits together may take."""
    try:
        return max(0, int(float(os.environ["NELSON_CACHE_BYTES"])))
    except (KeyError, ValueError, OverflowError):
        return DEFAULT_BYTES


def writable() -> bool:
    """Can circuits be kept at all?"""
    try:
        folder().mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return bound() > 0 and os.access(folder(), os.W_OK)


def key(formula: Formula, compiler: str) -> str:
    """A hash of all that a circuit depends on: clauses, number of variables, compiler."""
    way = "" if compiler == KEPT else f" {WAY}"
    digest = hashlib.sha256(f"{VERSION}{way} {compiler} {formula.n_total}\n".encode())
    for array in (formula.offsets, formula.literals):
        check_time()
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:40]


def kept_name(formula: Formula) -> str:
    """The name of the circuit that the user asked for."""
    return KEPT + key(formula, KEPT)


def path_of(name: str) -> Path:
    return folder() / f"{name}.npz"


def move(name: str, to: str) -> bool:
    """Give a file another name, if it is there. -> was it"""
    try:
        os.replace(path_of(name), path_of(to))
    except OSError:
        return False
    return True


def load(name: str, fields: Sequence[str]) -> dict[str, np.ndarray] | None:
    """The arrays under that name; None if the file is missing, damaged or lacks a field."""
    path = path_of(name)
    if bound() == 0:
        return None
    try:
        arrays = npz_arrays(str(path), fields)
    except FormulaError:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # used now
    return arrays


def save(name: str, arrays: Mapping[str, Any]) -> bool:
    """Keep these arrays if there is room for them. -> were they kept"""
    most, place = bound(), folder()
    if sum(array.nbytes for array in arrays.values()) > most:
        return False
    try:
        place.mkdir(parents=True, exist_ok=True)
        with atomic.writing(path_of(name)) as file:
            np.savez(file, **arrays)
    except OSError:
        return False
    prune(most)
    return True


def entries() -> list[Entry]:
    """All circuits: those that the user asked for, then the others; last used first."""
    return sorted(_files(), key=lambda e: (not e.path.name.startswith(KEPT), -e.used))


def prune(most: int) -> int:
    """Remove circuits, the one not used for longest first, until the rest fits into `most` bytes.
    -> how many were removed
    """
    total, removed = 0, 0
    for entry in entries():
        total += entry.bytes
        if total > most:
            with contextlib.suppress(OSError):
                entry.path.unlink()
                removed += 1
    atomic.tidy(folder())
    return removed


def clear() -> int:
    """Remove all circuits. -> how many"""
    return prune(-1)


def _files() -> Iterator[Entry]:
    with contextlib.suppress(OSError):
        for item in os.scandir(folder()):
            with contextlib.suppress(OSError):
                if item.name.endswith(".npz"):
                    about = item.stat()
                    yield Entry(Path(item.path), about.st_size, about.st_mtime)
