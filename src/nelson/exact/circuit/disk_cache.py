"""Compiled circuits on disk, under the hash of what was compiled.

    $NELSON_CACHE_DIR/circuits/HASH.npz        else the user's cache folder, e.g. ~/.cache/nelson

One file a formula: plain arrays in a zip archive, whose checksums are verified when it is read.
What cannot be read, or is no circuit, counts as not there and is replaced. Files appear under their
names only when they are complete, so that several processes may share the folder. Together they
hold at most NELSON_CACHE_BYTES bytes (1 GiB; 0: nothing is kept); what was not used for longest
goes first. A folder that cannot be written to is no error.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
import time
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from nelson.exact.circuit.flat import Flat
    from nelson.formula import Formula

#: Changes when what a file means does.
VERSION = 1
BYTES = 1 << 30
#: Seconds after which a file that is still incomplete belongs to nobody.
_ABANDONED = 3600.0


class Entry(NamedTuple):
    path: Path
    bytes: int
    used: float  # seconds since the epoch


def folder() -> Path:
    """Where circuits are kept; it need not exist."""
    if given := os.environ.get("NELSON_CACHE_DIR"):
        return Path(given) / "circuits"
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "nelson" / "circuits"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "nelson" / "circuits"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA", str(Path.home()))
        return Path(local) / "nelson" / "circuits"
    return Path.home() / ".cache" / "nelson" / "circuits"


def bound() -> int:
    """Bytes that all circuits together may take."""
    try:
        return max(0, int(float(os.environ["NELSON_CACHE_BYTES"])))
    except (KeyError, ValueError, OverflowError):
        return BYTES


def key(formula: Formula, compiler: str) -> str:
    """What a circuit depends on: clauses, number of variables, compiler."""
    digest = hashlib.sha256(f"{VERSION} {compiler} {formula.n_total}\n".encode())
    digest.update(formula.offsets.tobytes())
    digest.update(formula.literals.tobytes())
    return digest.hexdigest()[:40]


def load(name: str) -> Flat | None:
    """The circuit of that name, if it is there and whole."""
    import numpy as np

    from nelson.exact.circuit.flat import Flat

    path = folder() / f"{name}.npz"
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {field: file[field] for field in ("n", *Flat.ARRAYS)}
        flat = Flat(int(arrays.pop("n")), **arrays)
        if not flat.sound():
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # used now
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile, zlib.error):
        return None
    return flat


def save(name: str, flat: Flat) -> bool:
    """Keep a circuit if there is room for it; -> was it kept."""
    import numpy as np

    size, most = sum(array.nbytes for array in flat.arrays.values()), bound()
    if size > most:
        return False
    place = folder()
    try:
        place.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".part-", dir=place)
    except OSError:
        return False
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, n=np.int64(flat.n), **flat.arrays)
        os.replace(temporary, place / f"{name}.npz")
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        return False
    prune(most)
    return True


def entries() -> list[Entry]:
    """All circuits, last used first."""
    found = []
    with contextlib.suppress(OSError):
        for item in os.scandir(folder()):
            with contextlib.suppress(OSError):
                if item.name.endswith(".npz"):
                    about = item.stat()
                    found.append(Entry(Path(item.path), about.st_size, about.st_mtime))
    return sorted(found, key=lambda entry: -entry.used)


def prune(most: int) -> int:
    """Remove what was not used for longest until the rest fits. -> how many went."""
    total, removed = 0, 0
    for entry in entries():
        total += entry.bytes
        if total > most:
            with contextlib.suppress(OSError):
                entry.path.unlink()
                removed += 1
    with contextlib.suppress(OSError):
        for item in os.scandir(folder()):
            with contextlib.suppress(OSError):
                old = time.time() - item.stat().st_mtime > _ABANDONED
                if item.name.startswith(".part-") and old:
                    os.unlink(item.path)
    return removed


def clear() -> int:
    """Remove all circuits. -> how many."""
    return prune(-1)
