"""`nelson sample`: samples on stdout and in files; where weights, seeds and counts come from."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from nelson.io import sample_files
from tests.cli.commands import KSAT, STREETS, assert_valid, literals, run, run_process


@pytest.mark.process
def test_sample_prints_valid_samples_and_nothing_else():
    done = run_process("sample", STREETS, "-n", 100, "--seed", 1)
    assert done.returncode == 0, done.stderr
    x = literals(done.stdout)
    assert x.shape == (100, 7)
    np.testing.assert_array_equal(np.abs(x), np.broadcast_to(np.arange(1, 8), x.shape))
    assert_valid(STREETS, x > 0)
    summary = done.stderr
    assert "100 samples" in summary
    assert "exact" in summary
    assert "seed 1" in summary


def test_same_seed_same_samples_on_any_number_of_threads():
    texts = [
        run("sample", KSAT, "-n", 130, "--seed", 5, "--threads", t, "-q").stdout for t in (1, 2)
    ]
    assert texts[0] == texts[1]
    other = run("sample", KSAT, "-n", 130, "--seed", 6, "-q").stdout
    assert other != texts[0]


def test_quiet_says_nothing():
    assert run("sample", STREETS, "-n", 3, "-q", "--seed", 1).stderr == ""


def test_a_seed_is_drawn_and_told_when_none_is_given():
    first = run("sample", STREETS, "-n", 200)
    seed = first.stderr.rsplit("seed ", 1)[1].split()[0]
    again = run("sample", STREETS, "-n", 200, "--seed", seed)
    assert again.stdout == first.stdout


def test_stdin_and_compressed_files(tmp_path):
    plain = run("sample", STREETS, "-n", 5, "--seed", 2)
    piped = run("sample", "-", "-n", 5, "--seed", 2, stdin=STREETS.read_bytes())
    packed = tmp_path / "s.cnf.gz"
    packed.write_bytes(gzip.compress(STREETS.read_bytes()))
    zipped = run("sample", packed, "-n", 5, "--seed", 2)
    assert plain.stdout == piped.stdout == zipped.stdout != ""


@pytest.mark.parametrize("name", ["out.txt", "out.npz", "out.parquet"])
def test_files_hold_what_stdout_shows(tmp_path, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow", reason="pip install nelson-mrf[parquet]")
    shown = run("sample", KSAT, "-n", 100, "--seed", 3)
    done = run("sample", KSAT, "-n", 100, "--seed", 3, "-o", tmp_path / name)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    x, variables, info = sample_files.read(tmp_path / name)
    np.testing.assert_array_equal(x, literals(shown.stdout) > 0)
    assert variables == tuple(range(1, 1001))
    if not name.endswith("txt"):
        assert info["seed"] == 3
        assert info["samples"] == 100
        assert info["guarantee"] in ("exact", "diagnosed", "heuristic")
    assert [p.name for p in tmp_path.iterdir()] == [name]  # no temporary file is left


def test_given_project_unique():
    done = run("sample", STREETS, "-n", 50, "--given", "-1,4", "-q")
    x = literals(done.stdout)
    assert (x[:, 0] < 0).all()
    assert (x[:, 3] > 0).all()
    done = run("sample", STREETS, "-n", 50, "--project", "2,7", "-q")
    assert set(np.abs(literals(done.stdout)).ravel()) == {2, 7}
    done = run("sample", STREETS, "-n", 14, "--unique", "-q")
    assert done.returncode == 0, done.stderr
    assert len(np.unique(literals(done.stdout), axis=0)) == 14  # all there are


def test_projection_in_the_file_is_the_default():
    text = "c ind 1 3 0\np cnf 3 1\n1 2 3 0\n"
    assert literals(run("sample", "-", stdin=text).stdout).shape == (1, 2)
    assert literals(run("sample", "-", "--project", "all", stdin=text).stdout).shape == (1, 3)


def test_weights_come_from_the_file_a_vector_or_nowhere(tmp_path):
    """One free variable with odds 3:1. Bands: 5 sigma of 4,000 draws, false alarms 1 in 10^6."""
    text = "p cnf 1 0\nc p weight 1 3 0\nc p weight -1 1 0\n"
    theta = tmp_path / "theta.npy"
    np.save(theta, np.array([-np.log(9.0)]))
    (tmp_path / "theta.txt").write_text("inf\n")
    m = 4000
    for options, p in (
        ([], 0.75),
        (["--weights", "file"], 0.75),
        (["--weights", "none"], 0.5),
        (["--weights", theta], 0.1),
        (["--weights", tmp_path / "theta.txt"], 1.0),
    ):
        x = literals(run("sample", "-", "-n", m, "--seed", 4, *options, stdin=text).stdout) > 0
        assert abs(x.mean() - p) <= 5 * np.sqrt(p * (1 - p) / m), (options, x.mean())


@pytest.mark.parametrize("count", ["1e2", "1_00", "100"])
def test_ways_to_write_a_count(count):
    assert len(literals(run("sample", STREETS, "-n", count).stdout)) == 100


def test_zero_samples_is_an_empty_success(tmp_path):
    done = run("sample", STREETS, "-n", 0)
    assert (done.returncode, done.stdout) == (0, "")
    assert run("sample", STREETS, "-n", 0, "-o", tmp_path / "x.npz").returncode == 0
    assert sample_files.read(tmp_path / "x.npz")[0].shape == (0, 7)
