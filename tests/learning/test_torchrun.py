"""Training by real `torchrun` on the loopback interface: processes that talk, die and come back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nelson
from nelson import Formula
from nelson.learning import PAPER
from nelson.learning.model import load
from tests import ROOT
from tests.cli.commands import TIMEOUT
from tests.learning.ranks import MIXED, STREETS, random_clauses, training_cases

pytestmark = pytest.mark.process

#: Several runs in one launch; rank 0 keeps what they found. The cases are shared with the test.
DRIVER = """
import os, signal, sys
import numpy as np
import nelson
from nelson.learning.ranks import join
from nelson.learning.rank_examples import load_share
from nelson.learning import Run
from tests.learning.ranks import training_cases

group = join()
result = {"ranks": np.array([group.rank, group.size])}
for name, (clauses, path, options) in training_cases(sys.argv[1]).items():
    formula = nelson.Formula(clauses)
    share = load_share(formula, path, group, "")
    fit = nelson.learn(formula, share, seed=3, threads=1, run=Run(group=group), **options)
    result[name], result[name + " why"] = fit.theta, np.array(fit.why)

def interrupt(row):
    if group.rank == 1 and row["iteration"] == 4:
        os.kill(os.getpid(), signal.SIGINT)

with group.listening():
    fit = nelson.learn(
        formula, share, seed=3, optimizer="paper", run=Run(group=group, callback=interrupt)
    )
assert fit.interrupted
result["interrupted"] = np.array(fit.why)
np.savez(f"{sys.argv[2]}-{group.rank}.npz", **result)
group.leave()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, examples) -> Path:
    folder = tmp_path_factory.mktemp("cases")
    np.save(folder / "streets.npy", examples)
    mixed = nelson.sample(Formula(MIXED), np.linspace(-1, 1, 8), 300, seed=1)
    np.save(folder / "mixed.npy", mixed.to_numpy())
    clauses = random_clauses()
    theta = np.random.default_rng(1).normal(size=40)
    np.savez(folder / "random.npz", x=nelson.sample(Formula(clauses), theta, 500, seed=1))
    (folder / "driver.py").write_text(DRIVER)
    return folder


def launched(ranks: int, *args: object, **options: str) -> subprocess.Popen:
    pytest.importorskip("torch", reason="pip install nelson-mrf[torch]")
    source = Path(nelson.__file__).parents[1]
    paths = [str(source), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "MASTER_ADDR": "127.0.0.1",
    }
    launch = ["-m", "torch.distributed.run", "--nnodes", "1", "--rdzv-backend", "c10d"]
    launch += ["--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1"]
    launch += ["--nproc-per-node", str(ranks)]
    return subprocess.Popen(
        [sys.executable, *launch, *map(str, args)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment | options,
    )


def finished(process: subprocess.Popen) -> subprocess.CompletedProcess:
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()  # nothing, if it has ended
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def torchrun(ranks: int, *args: object, **options: str) -> subprocess.CompletedProcess:
    return finished(launched(ranks, *args, **options))


@pytest.mark.slow
def test_three_ranks_of_torchrun_learn_what_one_process_does(folder):
    """Three do not divide the examples evenly. Two ranks are in the tests below, other numbers in
    `test_shares.py`.
    """
    alone = {}
    for name, (clauses, path, options) in training_cases(str(folder)).items():
        alone[name] = nelson.learn(Formula(clauses), path, seed=3, **options)
    done = torchrun(3, folder / "driver.py", folder, folder / "of-3")
    assert done.returncode == 0, done.stderr
    for rank in range(3):
        with np.load(folder / f"of-3-{rank}.npz") as result:
            assert result["ranks"].tolist() == [rank, 3]
            for name, fit in alone.items():
                assert result[name].tobytes() == fit.theta.tobytes(), name
                assert result[name + " why"] == fit.why, name
            assert str(result["interrupted"]).startswith("interrupted after 4 iterations")
    # The twin: another start is another theta, so equality says something.
    assert alone["newton"].theta.tobytes() != alone["another seed"].theta.tobytes()


TRAIN = ["-m", "nelson.cli.train"]
#: `nelson.cli.train`, but a rank is killed at its 27th iteration, the first time. The other
#: rank reports that after torchrun has sent it SIGTERM, as may happen on a loaded machine.
KILLED = """
import os, signal, time
from nelson.cli import train
from nelson.learning.ranks import Ranks
from nelson.learning.run_options import Watcher

watched, fails_first = Watcher.row, Ranks.fails_first

def late(self):
    until = time.monotonic() + 25
    while not self._interrupted and time.monotonic() < until:
        time.sleep(0.01)
    return fails_first(self)

Ranks.fails_first = late

def row(self, row):
    watched(self, row)
    first = os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0"
    if first and os.environ["RANK"] == os.environ["VICTIM"] and row["iteration"] == 27:
        os.kill(os.getpid(), signal.SIGKILL)

Watcher.row = row
train.main()
"""


@pytest.mark.slow
def test_a_killed_rank_ends_the_job_which_goes_on_from_its_checkpoint(tmp_path, data):
    script, model = tmp_path / "killed.py", tmp_path / "model"
    script.write_text(KILLED)
    args = [STREETS, data, "-o", model, "--seed", 3, "--preset", "paper", "--iterations", 60]
    args += ["--checkpoint-every", 10]
    killed = torchrun(2, script, *args, VICTIM="1")
    assert killed.returncode == 1
    assert "rank 0 of 2 ends the run: the same command continues from" in killed.stderr
    assert "model.run, iteration 20" in killed.stderr
    assert "contact with another rank was lost" in killed.stderr
    assert "SIGKILL" in killed.stderr  # torchrun's own report
    assert not model.exists()
    again = torchrun(2, *TRAIN, *args)
    assert again.returncode == 0, again.stderr
    assert f"continues from {model}.run, iteration 20" in again.stderr
    assert not Path(f"{model}.run").exists()  # it has served
    alone = nelson.learn(
        Formula.from_dimacs(STREETS), str(data), seed=3, optimizer=replace(PAPER, iterations=60)
    )
    whole = load(model)
    assert whole.theta.tobytes() == alone.theta.tobytes()
    assert (whole.metadata["ranks"], whole.metadata["iterations"]) == (2, 60)
    assert len((model / "history.csv").read_text().splitlines()) == 61


@pytest.mark.slow
def test_torchrun_may_restart_by_itself_and_rank_0_may_die(tmp_path, data):
    script, model = tmp_path / "killed.py", tmp_path / "model"
    script.write_text(KILLED)
    args = [STREETS, data, "-o", model, "--seed", 3, "--preset", "paper", "--iterations", 40]
    done = torchrun(2, "--max-restarts", 1, script, *args, VICTIM="0")
    assert done.returncode == 0, done.stderr
    assert "rank 1 of 2 ends the run: the same command continues from" in done.stderr
    assert f"continues from {model}.run, iteration 25" in done.stderr
    alone = nelson.learn(
        Formula.from_dimacs(STREETS), str(data), seed=3, optimizer=replace(PAPER, iterations=40)
    )
    assert load(model).theta.tobytes() == alone.theta.tobytes()


def test_one_rank_with_torchrun_and_without(tmp_path, data):
    alone = nelson.learn(Formula.from_dimacs(STREETS), str(data), seed=3)
    one = torchrun(1, *TRAIN, STREETS, data, "-o", tmp_path / "one", "--seed", 3)
    assert one.returncode == 0, one.stderr
    args = [*TRAIN, STREETS, data, "-o", tmp_path / "plain", "--seed", "3", "-q"]
    plain = subprocess.run(
        [sys.executable, *map(str, args)], capture_output=True, timeout=TIMEOUT, text=True
    )
    assert plain.returncode == 0, plain.stderr
    assert plain.stderr == ""
    for name in ("one", "plain"):
        assert load(tmp_path / name).theta.tobytes() == alone.theta.tobytes()


#: `nelson.cli.train` on "machines" with files of their own.
ELSEWHERE = """
import os
os.chdir(os.environ["RANK"])
from nelson.cli import train
train.main()
"""


def test_different_files_on_ranks_are_an_error(tmp_path, examples):
    (tmp_path / "elsewhere.py").write_text(ELSEWHERE)
    for rank in (0, 1):
        (tmp_path / str(rank)).mkdir()
        np.save(tmp_path / str(rank) / "x.npy", examples[rank:])
    launch = [tmp_path / "elsewhere.py", STREETS, "x.npy", "-o", "model"]
    os_cwd = os.getcwd()
    os.chdir(tmp_path)
    try:
        done = torchrun(2, *launch)
    finally:
        os.chdir(os_cwd)
    assert done.returncode == 1
    ours = [line for line in done.stderr.splitlines() if line.startswith("nelson: error")]
    assert len(ours) == 1  # one rank speaks for all
    assert "x.npy: not the same on rank 1 as on rank 0" in ours[0]


def test_sigterm_to_torchrun_ends_the_run_between_two_iterations(tmp_path, data):
    """As a scheduler does before it takes a machine away."""
    model = tmp_path / "model"
    args = [STREETS, data, "-o", model, "--preset", "paper", "--iterations", 10**6]
    process = launched(2, *TRAIN, *args, "--checkpoint-every", 1)
    until = time.monotonic() + TIMEOUT
    while not (tmp_path / "model.run" / "checkpoint.json").exists():
        assert time.monotonic() < until
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    process.terminate()
    done = finished(process)
    assert done.returncode != 0
    assert "interrupted after" in done.stderr
    kept = json.loads((tmp_path / "model.run" / "checkpoint.json").read_text())
    assert load(model).metadata["iterations"] == kept["iteration"] > 0


def test_a_budget_that_ends_is_code_3_and_the_model_is_there(tmp_path, data):
    model = tmp_path / "model"
    done = torchrun(2, *TRAIN, STREETS, data, "-o", model, "--iterations", 1)
    assert done.returncode == 1  # torchrun's
    assert "exitcode  : 3" in done.stderr
    ours = [line for line in done.stderr.splitlines() if line.startswith("nelson: budget")]
    assert len(ours) == 1
    assert load(model).metadata["iterations"] == 1
