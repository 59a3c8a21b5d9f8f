"""The user's cache folder, where compiled kernels and circuits are kept, and folders that no other
user can write to.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

try:
    import grp
    import pwd
except ImportError:  # a system without them
    grp = pwd = None  # type: ignore[assignment]

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def cache_folder() -> Path:
    """The cache folder of this system, e.g. ~/.cache/nelson on Linux. It need not exist."""
    try:
        import platformdirs
    except ImportError:  # a machine with only what the kernels need: as on Linux
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nelson"
    return platformdirs.user_cache_path("nelson", appauthor=False)


def private_folder(folder: Path) -> Path:
    """The folder, made if it is missing, as a path without links. Code may be loaded from it.

    It belongs to this user, is no link, has mode 0700 and can be written to. No other user can put
    another folder in its place: the folders above it belong to this user or to root, and others
    may write to them only if they are sticky (as /tmp is). Raises PermissionError with the reason
    if any of this fails.
    """
    _make(folder)
    place = folder.parent.resolve() / folder.name
    if hasattr(os, "geteuid"):  # other systems keep the folders of users apart by themselves
        _refuse_others(place)
    with tempfile.TemporaryFile(dir=place):
        return place


def _make(folder: Path) -> None:
    """Make the folder and those above it, for this user alone."""
    for part in reversed([folder, *folder.parents]):
        if not part.exists():
            with contextlib.suppress(FileExistsError):
                part.mkdir(mode=0o700)


def _refuse_others(place: Path) -> None:
    user, about = os.geteuid(), os.lstat(place)
    if not stat.S_ISDIR(about.st_mode):
        raise PermissionError(f"{place} is a link, or no folder")
    if about.st_uid != user:
        raise PermissionError(f"{place} belongs to another user")
    if about.st_mode & _OTHERS_WRITE:
        raise PermissionError(f"other users may write to {place}")
    if about.st_mode & 0o077:  # others could read it, but not write: its content is our own
        os.chmod(place, 0o700)
    trusted = {user, 0, os.lstat("/").st_uid}  # in some containers root has another number
    for above in place.parents:
        about = os.lstat(above)
        if about.st_uid not in trusted:
            raise PermissionError(f"{above} belongs to another user")
        others = about.st_mode & _OTHERS_WRITE
        if others == stat.S_IWGRP and _own_group(about.st_gid, user):
            continue
        if others and not about.st_mode & stat.S_ISVTX:
            raise PermissionError(f"other users may write to {above}")


def _own_group(group: int, user: int) -> bool:
    """Does the group have this user as its only member? Many systems give each user such a group,
    and make new folders writable for it.
    """
    if pwd is None:
        return False
    try:
        mine, members = pwd.getpwuid(user), grp.getgrgid(group)
    except KeyError:
        return False
    alone = set(members.gr_mem) <= {mine.pw_name} and members.gr_name == mine.pw_name
    return group == mine.pw_gid and alone
