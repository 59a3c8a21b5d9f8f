"""Files that appear under their name only when they are complete.

An unfinished file lies beside its target, as `.NAME.xxxxxxxx.part`. Its writer holds a lock on it.
The system drops the lock when the writer ends, however it ends. So an unfinished file without a
lock has no writer: SIGKILL or a power cut ended it. The next writer of the same target removes such
files, and `tidy` removes all of them in a folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from typing import BinaryIO

#: Unfinished files are called PREFIX + name + random letters + SUFFIX, in the folder of the target.
PREFIX, SUFFIX = ".", ".part"
_LETTERS, _COUNT = "abcdefghijklmnopqrstuvwxyz0123456789_", 8  # of the random part
_RANDOM = re.compile(rf"[{_LETTERS}]{{{_COUNT}}}")


@contextlib.contextmanager
def writing(
    path: str | os.PathLike[str], *, sync: bool = False, buffering: int = -1
) -> Iterator[BinaryIO]:
    """A binary file that is renamed to `path` when the block ends without an error.

    After an error the unfinished file is removed and the old file, if there was one, is unchanged.
    An unfinished file of a writer that was killed is removed before this one begins.
    sync=True also survives a power cut: the file and then its folder are flushed to the disk.
    A pipe or a device (/dev/null) cannot be replaced: it is written directly.
    """
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as out:
            yield out
        return
    folder, name = os.path.split(target)
    tidy(folder, name)
    scratch = os.path.join(folder, _scratch_name(name))
    try:  # from here on: Ctrl-C may come as soon as the file is there
        with os.fdopen(_made_and_locked(scratch), "wb", buffering=buffering) as out:
            yield out
            if sync:
                out.flush()
                os.fsync(out.fileno())
        os.replace(scratch, target)
    except BaseException as error:
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            error.filename = os.fspath(path)  # "No space left on device": where?
        with contextlib.suppress(OSError):
            os.unlink(scratch)
        raise
    if sync:
        _sync_folder(folder)


def write(path: str | os.PathLike[str], data: bytes, *, sync: bool = True) -> None:
    """Write a whole file, or leave the old one as it was."""
    with writing(path, sync=sync) as out:
        out.write(data)


def create(path: str | os.PathLike[str], data: bytes | memoryview) -> bool:
    """Write a whole new file and flush it to the disk. Returns False if `path` was there already.

    On Linux the file has no name until it is complete (O_TMPFILE), so that whoever lists the folder
    finds complete files only, even after SIGKILL. Elsewhere, and on file systems without such files
    (NFS), an unfinished file lies beside its target, as described above.
    """
    folder, name = os.path.split(os.path.abspath(path))
    at, scratch = os.open(folder, os.O_RDONLY), None
    try:
        try:
            handle = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666)
            source = f"/proc/self/fd/{handle}"
        except (AttributeError, OSError):
            tidy(folder, name)
            source = scratch = os.path.join(folder, _scratch_name(name))
            handle = _made_and_locked(scratch)
        with os.fdopen(handle, "wb", buffering=0) as out:
            rest = memoryview(data)
            while len(rest):  # a raw file may take only a part
                rest = rest[out.write(rest) :]
            os.fsync(out.fileno())
            os.link(source, name, dst_dir_fd=at)  # the link of /proc is followed to the file
        with contextlib.suppress(OSError):
            os.fsync(at)  # the name itself
    except FileExistsError:
        return False
    finally:
        os.close(at)
        if scratch is not None:
            with contextlib.suppress(OSError):
                os.unlink(scratch)
    return True


def tidy(folder: str | os.PathLike[str], name: str | None = None) -> None:
    """Remove unfinished files whose writer was killed: those of one target, or all in a folder.

    Files that a living process is writing stay. On a system without file locks nothing is removed.
    """
    begin = PREFIX if name is None else f"{PREFIX}{name}."
    with contextlib.suppress(OSError), os.scandir(folder) as items:
        for item in items:
            middle = item.name[len(begin) : -len(SUFFIX)]
            ours = item.name.startswith(begin) and item.name.endswith(SUFFIX)
            if ours and _RANDOM.fullmatch(middle.rpartition(".")[2] if name is None else middle):
                with contextlib.suppress(OSError):
                    _remove_without_writer(item.path)


def lock(handle: int, *, wait: bool) -> bool | None:
    """Lock an open file until `handle` is closed or this process ends.

    False: another process holds the lock. None: this system or file system has no such locks.
    """
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def _scratch_name(name: str) -> str:
    letters = "".join(secrets.choice(_LETTERS) for _ in range(_COUNT))
    return f"{PREFIX}{name}.{letters}{SUFFIX}"


def _made_and_locked(path: str) -> int:
    """Make a file that must not exist yet, and lock it; -> the open file.

    The system takes the umask off its permissions. To ask for the umask is to change it, also for
    the files that other threads make meanwhile.
    """
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        lock(handle, wait=True)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.lstat(path)):
                return handle
        os.close(handle)  # another process removed the file before it was locked


def _remove_without_writer(path: str) -> None:
    """Remove an unfinished file of this user that nobody has locked."""
    handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        mine = not hasattr(os, "geteuid") or os.fstat(handle).st_uid == os.geteuid()
        if mine and stat.S_ISREG(os.fstat(handle).st_mode) and lock(handle, wait=False):
            os.unlink(path)
    finally:
        os.close(handle)


def _sync_folder(folder: str) -> None:
    """Flush the rename itself. Not every system lets a folder be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
