"""Files that are replaced: whole or not at all."""

from __future__ import annotations

import os
import stat

import pytest

from nelson.io.atomic import writing


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


def test_atomic_follows_links_and_leaves_devices_alone(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with writing(tmp_path / "link") as out:
        out.write(b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"x"
    with writing(os.devnull) as out:
        out.write(b"x")
    assert not os.path.isfile(os.devnull)
