"""The registry of tasks; examples, samples, learning and evaluation of tasks with a formula."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from nelson.errors import FormulaError, NelsonError
from nelson_paper import tasks
from nelson_paper.tasks import KSat, Orientations
from nelson_paper.tasks.base import data_seed, noise_floor
from tests.paper.tasks.helpers import broken

pytest.importorskip("networkx", reason="pip install nelson-mrf[plots]")
FORMULA_TASKS = [KSat, Orientations]


def test_the_registry_knows_the_tasks_of_the_paper():
    assert tasks.names() == ["ksat", "orientations", "routes"]
    assert tasks.get("ksat") is KSat is tasks.KSat
    assert tasks.get("orientations").name == "orientations"
    with pytest.raises(FormulaError, match=r"'sudoku'.*ksat"):
        tasks.get("sudoku")
    with pytest.raises(AttributeError, match="Sudoku"):
        _ = tasks.Sudoku


@pytest.mark.process
def test_import_brings_no_optional_package():
    """Importing the package loads no task; the tasks load only packages of a core install."""
    code = (
        "import sys, nelson_paper.tasks; "
        "print(*(m for m in sys.modules if m == 'numba' or m.startswith('nelson_paper.tasks.'))); "
        "[nelson_paper.tasks.get(name) for name in nelson_paper.tasks.names()]; "
        "print(*(m for m in ('networkx', 'matplotlib', 'pysat', 'torch') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("cls", FORMULA_TASKS)
def test_examples_and_samples_are_valid_and_repeatable(cls):
    task = cls.small(seed=3)
    assert len(task.names) == len(set(task.names)) == task.n_vars == task.formula.n_vars
    for rows in (
        *(task.examples(300, seed=5, kind=kind) for kind in cls.KINDS),
        task.sample(None, 300).x,
        task.sample(task.planted, 300, seed=5).x,
    ):
        assert rows.shape == (300, task.n_vars)
        assert rows.dtype == bool
        assert task.valid(rows).all()
    for kind in cls.KINDS:
        first, again, other = (task.examples(200, seed=s, kind=kind) for s in (5, 5, 6))
        assert (first == again).all()
        assert (first != other).any()
    same = cls.small(seed=3)
    assert same.formula == task.formula
    assert (same.planted == task.planted).all()
    assert not task.valid(np.zeros((1, task.n_vars), bool) ^ broken(task)).any()  # it can say no


@pytest.mark.process
@pytest.mark.parametrize("cls", FORMULA_TASKS)
def test_examples_share_no_randomness_with_samples(cls):
    """One seed for both would make a model look better than it is."""
    task = cls.small()
    data = task.examples(500, seed=4)
    twin = task.sample(task.planted, 500, seed=data_seed(4)).x
    assert (data == twin).all()  # the comparison would notice
    ours = task.sample(task.planted, 500, seed=4).x
    # Two independent draws are equal with probability sum P(x)^2 < 0.01 here; 30 of 500 is more
    # than 11 sigma away.
    assert (data == ours).all(axis=1).sum() < 30


@pytest.mark.process
def test_learned_weights_are_the_planted_ones(learned):
    """Error of a weight: about 1 / sqrt(1000 p (1 - p)), below 0.15 for most; theta* is N(0, 1)."""
    task, _, _, fit = learned
    zero = np.linalg.norm(task.planted)
    assert fit.converged, fit.why
    assert fit.history and fit.seconds > 0
    assert np.linalg.norm(fit.theta - task.planted) < 0.25 * zero
    # The twin: examples of the same weights on other variables teach nothing about these.
    moved = np.roll(task.planted, 1)
    wrong = task.learn(task.sample(moved, 1000, seed=11).x, seed=0)
    assert np.linalg.norm(wrong.theta - moved) < 0.3 * zero  # it learned what it was shown
    assert np.linalg.norm(wrong.theta - task.planted) > zero


def test_report_on_examples_held_out(learned):
    """A gap of noise alone exceeds twice its mean with probability below 1e-6 (20 variables)."""
    task, data, held_out, fit = learned
    report = task.evaluate(fit.theta, held_out, train=data, seed=7)
    assert report["validity"] == 1.0
    assert report["guarantee"] == "exact"
    assert report["moment_gap"]["l1"] < 2 * report["floor"]["l1"]
    assert report["log_likelihood"]["half_width"] < 0.3
    zero = task.evaluate(np.zeros(task.n_vars), held_out, seed=7)
    assert zero["validity"] == 1.0
    assert zero["moment_gap"]["l1"] > 5 * zero["floor"]["l1"]
    gain = report["log_likelihood"]["value"] - zero["log_likelihood"]["value"]
    assert gain > 1.0  # nats per example
    gap = abs(report["log_likelihood"]["value"] - report["train_log_likelihood"]["value"])
    assert gap < 0.5


def test_noise_floor_is_what_noise_makes():
    """Mean L1 gap of 400 pairs of means of one law, at 4 sigma of that mean; twin: half of it."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 20)
    gaps = [
        np.abs(rng.binomial(500, p) / 500 - rng.binomial(300, p) / 300).sum() for _ in range(400)
    ]
    said = noise_floor(p, 500, 300)["l1"]
    error = np.std(gaps) / np.sqrt(len(gaps))
    assert abs(np.mean(gaps) - said) < 4 * error + 0.01 * said  # 1%: the normal approximation
    assert abs(np.mean(gaps) - said / 2) > 4 * error + 0.01 * said
    assert noise_floor(p, 500, 300, 200)["l1"] > said


@pytest.mark.process
@pytest.mark.parametrize("cls", FORMULA_TASKS)
def test_wrong_input_is_told(cls):
    task = cls.small()
    n = task.n_vars
    with pytest.raises(FormulaError, match="shape"):
        task.valid(np.zeros((3, n + 1), bool))
    with pytest.raises(FormulaError, match="0 and 1"):
        task.valid(np.full((3, n), 2))
    with pytest.raises(FormulaError, match="theta of shape"):
        task.sample(np.zeros(n - 1), 10)
    with pytest.raises(FormulaError, match=r"'sold'.*'planted'"):
        task.examples(10, kind="sold")
    with pytest.raises(FormulaError, match="1 of 2"):
        task.checked_data(np.stack([task.sample(None, 1).x[0], broken(task)]))
    with pytest.raises(NelsonError):
        task.learn(broken(task)[None])
    with pytest.raises(FormulaError, match="no examples"):
        task.checked_data(np.zeros((0, n), bool))


def test_weights_by_name():
    task = KSat.random(5, k=3)
    assert list(task.weights([0, 3, -4, 1, 0]).items())[:3] == [("x3", -4), ("x2", 3), ("x4", 1)]
    assert task.weights(None) == dict.fromkeys(task.names, 0.0)
