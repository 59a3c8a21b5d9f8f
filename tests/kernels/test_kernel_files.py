"""Files of compiled kernels that are damaged, in a wrong place, or cannot be written."""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

from nelson.kernels.core.machine import CheckedFiles
from tests.kernels.test_compile import USE

KEY, DATA = ("a signature", "x86"), ("code", b"machine code" * 20)


def files_in(folder: Path, name: str = "bits.pack-10.py311") -> CheckedFiles:
    folder.mkdir(exist_ok=True, parents=True)
    return CheckedFiles(cache_path=str(folder), filename_base=name, source_stamp=(1.5, 200))


@pytest.fixture(autouse=True)
def say_again(monkeypatch):
    monkeypatch.setattr(CheckedFiles, "said", set())


@pytest.mark.parametrize("end", ["nbi", "nbc"])
def test_no_damaged_file_is_loaded(tmp_path, end, capsys):
    """A bit flipped in every fifth byte, beginnings of the file alone, a byte behind it."""
    files = files_in(tmp_path)
    files.save(KEY, DATA)
    (path,) = tmp_path.glob(f"*.{end}")
    whole = path.read_bytes()
    assert files.load(KEY) == DATA  # the twin
    places = range(0, len(whole), 5)
    damaged = [whole[:k] for k in places] + [whole + b"\0"]
    damaged += [whole[:k] + bytes([whole[k] ^ 1 << k % 8]) + whole[k + 1 :] for k in places]
    for content in damaged:
        path.write_bytes(content)
        assert files.load(KEY) is None and not path.exists()
        files.save(KEY, DATA)
        assert files.load(KEY) == DATA
    assert capsys.readouterr().err.count("\n") == 1


def test_no_file_of_another_kernel_is_loaded(tmp_path):
    folders = [tmp_path / version / module for version in "ab" for module in ("bits", "rounds")]
    all_files = [files_in(folder, name) for folder in folders for name in ("f-1", "g-1")]
    for k, files in enumerate(all_files):
        files.save(KEY, k)
        files.save(("another", "x86"), -k)
    paths = sorted(path for folder in folders for path in folder.iterdir())
    assert [files.load(KEY) for files in all_files] == list(range(8))
    contents = [path.read_bytes() for path in paths]
    for step in range(1, len(paths), 3):
        for path, content in zip(paths, contents[step:] + contents[:step], strict=True):
            path.write_bytes(content)
        assert [files.load(KEY) for files in all_files] == [None] * 8, step


def test_a_file_that_an_older_index_numbered_is_not_taken_for_another(tmp_path):
    files = files_in(tmp_path)
    files.save(KEY, DATA)
    content = next(tmp_path.glob("*.nbc")).read_bytes()
    next(tmp_path.glob("*.nbi")).unlink()
    files.save(("another", "x86"), "other code")  # gets the same number
    next(tmp_path.glob("*.nbc")).write_bytes(
        content
    )  # the process was killed between the two files
    assert files.load(("another", "x86")) is None and files.load(KEY) is None


def test_a_folder_in_place_of_a_file(tmp_path, capsys):
    files = files_in(tmp_path)
    files.save(KEY, DATA)
    for path in list(tmp_path.iterdir()):
        path.unlink()
        path.mkdir()
        assert files.load(KEY) is None
        files.save(KEY, DATA)  # the kernel is used, although it cannot be kept
        shutil.rmtree(path)
        files.save(KEY, DATA)
        assert files.load(KEY) == DATA
    assert "cannot be kept" in capsys.readouterr().err


def use(folder: Path, largest_file: int | None = None) -> subprocess.CompletedProcess[str]:
    def limit() -> None:  # as on a full disk, every write fails
        if largest_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

    return subprocess.run(
        [sys.executable, "-c", USE],
        env=os.environ | {"NUMBA_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
    )


@pytest.mark.process
@pytest.mark.slow
def test_kernels_survive_damage_and_a_full_disk(tmp_path):
    full = use(tmp_path, largest_file=100)
    assert full.returncode == 0, full.stderr
    assert full.stderr.count("cannot be kept") == 1 and not [*tmp_path.rglob("*.nbc")]
    first = use(tmp_path)
    assert first.returncode == 0 and first.stderr.count("compiling kernels") == 1
    assert use(tmp_path).stderr == ""  # the twin: whole files are loaded
    rng = random.Random(32)
    for path in tmp_path.rglob("*.nb[ci]"):
        content = bytearray(path.read_bytes())
        for _ in range(20):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
    again = use(tmp_path)
    assert again.returncode == 0 and again.stdout == first.stdout
    assert again.stderr.count("is damaged; it is compiled again") == 1, again.stderr
    assert use(tmp_path).stderr == ""
