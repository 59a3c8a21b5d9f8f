"""Files that are replaced: whole or not at all."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import nelson
from nelson.io.atomic import tidy, write, writing


def test_atomic_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("before")
    with pytest.raises(ZeroDivisionError), writing(path) as out:
        out.write(b"x" * (1 // 0))
    assert path.read_text() == "before"
    with writing(path) as out:
        out.write(b"after")
        assert path.read_text() == "before"
    assert path.read_text() == "after"
    assert [p.name for p in tmp_path.iterdir()] == ["x.txt"]


def test_atomic_file_has_ordinary_permissions(tmp_path):
    before = os.umask(0o022)
    try:
        with writing(tmp_path / "x") as out:
            out.write(b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o644


def test_the_umask_is_never_touched(tmp_path, monkeypatch):
    """It belongs to the whole process: a file that another thread makes meanwhile would have it."""

    def touched(mask: int) -> int:
        raise AssertionError("os.umask")

    monkeypatch.setattr(os, "umask", touched)
    write(tmp_path / "x", b"x")
    with pytest.raises(AssertionError, match=r"os\.umask"):  # the twin: a call would be seen
        os.umask(0)


def fill_the_disk(call: Callable[[], object], size: int) -> str:
    """Call where no file may grow beyond `size` bytes: a write fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            call()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    return str(caught.value.filename)


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_a_full_disk_leaves_the_old_formula(tmp_path, suffix):
    path = tmp_path / f"f.cnf{suffix}"
    small, large = nelson.Formula([[1, 2]]), nelson.random_ksat(1000, 4000, 3, seed=1)
    small.to_dimacs(path)
    assert fill_the_disk(lambda: large.to_dimacs(path), 5000) == str(path)  # it says where
    assert nelson.Formula.from_dimacs(path) == small
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    large.to_dimacs(path)
    assert nelson.Formula.from_dimacs(path) == large
    if not suffix:  # the twin: a file that is written in its place is lost
        text = large.to_dimacs()
        fill_the_disk(lambda: path.write_text(text), 5000)
        assert path.stat().st_size == 5000


def test_atomic_follows_links_and_leaves_devices_alone(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with writing(tmp_path / "link") as out:
        out.write(b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"x"
    with writing(os.devnull) as out:
        out.write(b"x")
    assert not os.path.isfile(os.devnull)


WRITER = """
import sys, time
from nelson.io.atomic import writing
with writing(sys.argv[1]) as out:
    out.write(b"half")
    out.flush()
    print("begun", flush=True)
    time.sleep(600)
"""


def unfinished(folder: Path) -> int:
    return len(list(folder.glob(".x.*.part")))


@pytest.mark.process
def test_the_next_writer_removes_what_a_killed_one_left(tmp_path):
    path = tmp_path / "x"
    process = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"begun\n"
    with writing(path) as out:  # the twin: the file of a living writer stays
        assert unfinished(tmp_path) == 2
        out.write(b"whole")
    tidy(tmp_path)
    assert unfinished(tmp_path) == 1
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert unfinished(tmp_path) == 1 and path.read_bytes() == b"whole"
    with writing(path) as out:
        assert unfinished(tmp_path) == 1
        out.write(b"again")
    assert [p.name for p in tmp_path.iterdir()] == ["x"] and path.read_bytes() == b"again"


def test_two_writers_at_once_do_not_disturb_each_other(tmp_path):
    path = tmp_path / "x"
    with writing(path) as first:
        first.write(b"first")
        with writing(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first" and unfinished(tmp_path) == 0


def test_only_our_own_unfinished_files_are_removed(tmp_path):
    others = [".x.part", ".x.12345678", ".x.UPPERCAS.part", "x.12345678.part", ".x.123456789.part"]
    left = ".y.12345678.part"
    for name in [*others, left]:
        (tmp_path / name).touch()
    (tmp_path / ".x.abcdefgh.part").symlink_to(tmp_path / ".x.part")
    with writing(tmp_path / "x") as out:
        out.write(b"x")
    kept = {*others, ".x.abcdefgh.part", "x"}
    assert {p.name for p in tmp_path.iterdir()} == {*kept, left}  # of another target
    tidy(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == kept
