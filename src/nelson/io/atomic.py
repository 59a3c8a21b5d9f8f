"""Files that appear under their name only when they are complete."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import BinaryIO

#: Unfinished files are called PREFIX + name + random letters + SUFFIX, in the folder of the target.
PREFIX, SUFFIX = ".", ".part"


@contextlib.contextmanager
def writing(
    path: str | os.PathLike[str], *, sync: bool = False, buffering: int = -1
) -> Iterator[BinaryIO]:
    """A binary file that is renamed to `path` when the block ends without an error.

    After an error the unfinished file is removed and the old file, if there was one, is unchanged.
    sync=True also survives a power cut: the file and then its folder are flushed to the disk.
    A pipe or a device (/dev/null) cannot be replaced: it is written directly.
    """
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as out:
            yield out
        return
    folder, name = os.path.split(target)
    handle, scratch = tempfile.mkstemp(prefix=f"{PREFIX}{name}.", suffix=SUFFIX, dir=folder)
    try:
        with os.fdopen(handle, "wb", buffering=buffering) as out:
            yield out
            if sync:
                out.flush()
                os.fsync(out.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(scratch, 0o666 & ~umask)  # mkstemp makes files that only the user may read
        os.replace(scratch, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(scratch)
        raise
    if sync:
        _sync_folder(folder)


def write(path: str | os.PathLike[str], data: bytes, *, sync: bool = True) -> None:
    """Write a whole file, or leave the old one as it was."""
    with writing(path, sync=sync) as out:
        out.write(data)


def _sync_folder(folder: str) -> None:
    """Flush the rename itself. Not every system lets a folder be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
