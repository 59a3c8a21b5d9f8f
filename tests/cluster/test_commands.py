"""`nelson sample -o FOLDER/` and `nelson read`."""

from __future__ import annotations

import pytest

import nelson
from nelson.io import sample_files
from tests.cli.commands import STREETS, literals, run
from tests.cluster.jobs import PART, THETA, TOWN, flip

pytest.importorskip("pyarrow")


def test_the_command_line_reads_back(copy):
    done = run("read", copy, "--from", "998")
    assert (done.returncode, done.stderr) == (0, "")
    expected = nelson.sample(TOWN, THETA, 1000, seed=3).literals()[998:]
    assert literals(done.stdout).tolist() == expected.tolist()
    done = run("read", copy, "--info")
    assert done.returncode == 0
    assert "guarantee  exact" in done.stdout and "samples    1,000\n" in done.stdout
    done = run("read", copy, "--mean")
    shares = [line.split() for line in done.stdout.splitlines()]
    assert [name for name, _ in shares] == [f"x{v}" for v in range(1, 8)]
    assert [float(share) for _, share in shares] == pytest.approx(nelson.read(copy).mean())
    assert run("read", copy, "-o", copy.parent / "all.npz").returncode == 0
    x, _, info = sample_files.read(copy.parent / "all.npz")
    assert len(x) == 1000 and info["guarantee"] == "exact"
    flip(copy / PART, 100)
    done = run("read", copy, "--verify")
    assert done.returncode == 1 and "is damaged" in done.stderr
    (copy / PART).unlink()
    assert run("read", copy, "-n", "1").returncode == 1
    assert run("read", copy, "-n", "1", "--partial").returncode == 0


@pytest.mark.slow
def test_shards_of_the_command_line(tmp_path):
    """A formula and a space, each drawn by three commands; what is missing is code 0 for a shard
    that has its parts, and an error for who reads them.
    """
    (tmp_path / "bus.toml").write_text("[fields]\nlen = { integer = [1, 15] }\n")
    for file in (STREETS, tmp_path / "bus.toml"):
        out = f"{tmp_path}/{file.stem}/"
        options = ["-n", 500, "--seed", 1, "--part-rows", 64, "-o", out]
        for k in (3, 1, 2):
            assert run("read", out, "--info").returncode == (1 if k == 3 else 0)
            done = run("sample", file, *options, "--shard", f"{k}/3")
            assert done.returncode == 0 and "seed 1" in done.stderr, done.stderr
        folder = nelson.read(out)
        folder.verify()
        assert len(folder) == 500
        done = run("sample", file, *options)
        assert "8 parts, 8 of them from before" in done.stderr
        assert run("sample", file, *options, "--seed", 2).returncode == 1


@pytest.mark.slow
def test_the_command_line_refuses(tmp_path):
    for args, says in (
        (["--cluster"], "only with a folder"),
        (["--shard", "1/2", "-o", tmp_path / "x.npz"], "only with a folder"),
        (["-o", "x/", "-n", "inf"], "not into a folder"),
        (["-o", "x/", "--unique"], "not into a folder"),
        (["-o", "x/", "--workers", "2"], "not without --cluster"),
        (["-o", "x/", "--shard", "3/2"], '"1/N" to "N/N"'),
    ):
        done = run("sample", STREETS, *args)
        assert done.returncode in (1, 2) and says in done.stderr, (args, done.stderr)
