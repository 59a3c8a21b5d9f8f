"""Compiled circuits on disk: found again, replaced when spoiled, bounded, never in the way."""

from __future__ import annotations

import os
import zipfile

import numpy as np
import pytest
from typer.testing import CliRunner

import nelson
from nelson.cli import app
from nelson.exact.circuit import disk_cache
from nelson.exact.compiled import compiled
from nelson.io import atomic
from nelson.kernels.core import built_kernels, kernel_cache
from tests.problems import non_extremal, random_ksat, weights

pytest.importorskip("py_d4")
pytestmark = pytest.mark.process  # each test compiles

FORMULAS = non_extremal()


def again(formula):
    """An equal formula that remembers nothing."""
    return formula.replace()


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NELSON_CACHE_DIR", str(tmp_path))
    return tmp_path / "circuits"


def test_a_circuit_is_found_on_disk(compilations, own_cache):
    formula = FORMULAS["random 3-SAT"]
    theta = weights(formula)
    first = nelson.sample(again(formula), theta, 500, method="circuit", seed=1)
    second = nelson.sample(again(formula), theta, 500, method="circuit", seed=1)
    assert len(compilations) == 1 and len(disk_cache.entries()) == 1
    assert second.info["cached"] and not first.info["cached"]
    assert np.array_equal(first.packed, second.packed)
    other = nelson.Formula(formula.clauses(), n_vars=formula.n_vars + 1)
    nelson.sample(other, None, 5, method="circuit")
    nelson.sample(random_ksat(8, 16, 3, seed=9), None, 5, method="circuit")
    assert len(compilations) == 3 and len(disk_cache.entries()) == 3
    assert disk_cache.clear() == 3 and not disk_cache.entries()


def _truncate(path):
    path.write_bytes(path.read_bytes()[:-200])


def _flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))


def _other_arrays(path):
    """A whole archive, of arrays that would send a kernel out of bounds."""
    with np.load(path) as file:
        arrays = dict(file)
    arrays["kids"] = arrays["kids"] + 1000
    np.savez(path, **arrays)


def _pickled(path):
    np.savez(path, n=np.array([{}], dtype=object))


@pytest.mark.parametrize(
    "spoil", [_truncate, _flip, _other_arrays, _pickled, lambda path: path.write_bytes(b"")]
)
def test_a_spoiled_file_is_replaced(spoil, compilations, own_cache):
    formula = FORMULAS["random 3-SAT"]
    expected = compiled(again(formula)).log_z(np.zeros((1, 8)))
    (entry,) = disk_cache.entries()
    spoil(entry.path)
    assert compiled(again(formula)).log_z(np.zeros((1, 8))) == expected
    assert len(compilations) == 2
    assert zipfile.is_zipfile(entry.path) and compiled(again(formula)) is not None
    assert len(compilations) == 2


def test_the_cache_is_bounded(own_cache, monkeypatch):
    arrays = compiled(again(FORMULAS["random 3-SAT"])).circuit.arrays
    disk_cache.clear()
    size = 0
    for k in range(6):
        assert disk_cache.save(f"{k:040}", arrays)
        size = disk_cache.entries()[0].bytes
        os.utime(own_cache / f"{k:040}.npz", (k, k))
    assert disk_cache.load(f"{0:040}", list(arrays)) is not None  # used now, though written first
    monkeypatch.setenv("NELSON_CACHE_BYTES", str(3 * size))
    abandoned = own_cache / f".{'e' * 40}.npz.abcdefgh{atomic.SUFFIX}"
    abandoned.write_bytes(b"x")
    assert disk_cache.save("f" * 40, arrays)
    left = {entry.path.stem for entry in disk_cache.entries()}
    assert left == {"f" * 40, f"{0:040}", f"{5:040}"}
    assert not abandoned.exists()
    monkeypatch.setenv("NELSON_CACHE_BYTES", "0")
    assert not disk_cache.save("e" * 40, arrays) and disk_cache.load("e" * 40, ["n"]) is None
    assert disk_cache.load("f" * 40, list(arrays)) is None  # the file is there, the cache is off
    monkeypatch.setenv("NELSON_CACHE_BYTES", "many")
    assert disk_cache.bound() == disk_cache.DEFAULT_BYTES


def test_a_folder_that_cannot_be_written_to_is_no_error(tmp_path, monkeypatch, compilations):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("NELSON_CACHE_DIR", str(tmp_path / "file"))
    for _ in range(2):
        assert compiled(again(FORMULAS["path"])) is not None
    assert len(compilations) == 2 and disk_cache.entries() == [] and disk_cache.clear() == 0


def test_the_command(own_cache):
    compiled(again(FORMULAS["path"]))

    def run(*args):
        return CliRunner().invoke(app, ["cache", *args])

    said = run()
    assert said.exit_code == 0 and str(own_cache) in said.stdout and "circuits  1" in said.stdout
    assert "removed 1 circuit," in run("--clear").stdout and not disk_cache.entries()
    assert "nelson cache --clear" in run("--help").stdout


def test_the_command_shows_and_clears_compiled_kernels(own_cache, monkeypatch, tmp_path):
    """Of this version and of others; a folder with another name, and a link, stay."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setattr(kernel_cache.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    monkeypatch.setattr(built_kernels, "built_levels", lambda: ())

    def run(*args):
        done = CliRunner().invoke(app, ["cache", *args])
        assert done.exit_code == 0
        return done.stdout

    assert (
        "kernels   none of this version yet: the first call of each method compiles its own"
        in run()
    )
    names = f"kernels-{kernel_cache.digest()}", "kernels-" + "0" * 16, "kernels-of-mine"
    for name in names:
        (tmp_path / "kernels" / name / "cpu-tiles").mkdir(parents=True)
        for file in ("a.nbi", "a.1.nbc", "a.2.nbc"):
            (tmp_path / "kernels" / name / "cpu-tiles" / file).write_bytes(bytes(10))
    (tmp_path / "kernels" / ("kernels-" + "1" * 16)).symlink_to(tmp_path / "kernels" / names[2])
    told = [line for line in run().splitlines() if line.startswith("kernels")]
    assert len(told) == 2 and all("1, 30 bytes, in " in line for line in told)
    assert told[0].endswith("of another version") != told[1].endswith("of another version")
    assert "removed 2 kernels, 60 bytes" in run("--clear-kernels")
    assert "none of this version yet" in run()
    monkeypatch.setattr(built_kernels, "built_levels", lambda: ("x86-64-v3",))
    assert "kernels   of x86-64-v3, in " in run() and "none of this version" not in run()
    left = sorted(path.name for path in (tmp_path / "kernels").iterdir())
    assert left == ["kernels-" + "1" * 16, "kernels-of-mine"]
