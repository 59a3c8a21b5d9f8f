"""Presets, options that are refused, and the choice of method and sweeps."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import nelson
from nelson import Formula, FormulaError
from nelson.learning import PAPER, SGD, Adam, Network, Newton, Proximal, Run
from nelson.learning.draw import Drawer
from nelson.learning.learn import learn
from nelson.learning.optimizers import optimizer_of
from nelson.policy import FitPolicy, Policy
from nelson.sampling.plan import Plan
from tests.learning.planted import mesh
from tests.problems import random_ksat


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": "nope"},
        {"optimizer": print},
        {"optimizer": Network()},
        {"optimizer": Proximal()},
        {"method": "nope"},
        {"theta0": [1, 2, 3]},
        {"net": object()},
        {"net": object(), "contexts": [[0], [1], [2]], "method": print},
        {"net": object(), "contexts": [[0], [1], [2]], "optimizer": Newton()},
        {"terms": "pairs", "optimizer": Newton()},
        {"valid": np.ones((3, 2))},
    ],
)
def test_bad_options_are_refused(options):
    with pytest.raises(FormulaError):
        learn(Formula([[1, 2]]), np.ones((3, 2)), **options)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Newton(m=0),
        lambda: Newton(rate=-1.0),
        lambda: Newton(level=2.0),
        lambda: Newton(bound=101.0),
        lambda: Adam(batch=0),
        lambda: SGD(decay=-1.0),
        lambda: Proximal(l1=-1.0),
        lambda: Network(batch=None),
        lambda: Run(every=0),
        lambda: optimizer_of("newton", batch=3),
    ],
)
def test_bad_fields_are_refused_where_they_are_stated(make):
    with pytest.raises(FormulaError):
        make()


def test_the_paper_optimizer_is_what_the_paper_says():
    assert (PAPER.NAME, PAPER.m, PAPER.rate, PAPER.iterations) == ("sgd", 200, 0.1, 1000)
    assert (PAPER.batch, PAPER.decay, PAPER.prior, PAPER.sweeps) == (200, 0.0, 0.0, 0)
    assert optimizer_of("paper", rate=0.2).rate == 0.2


def test_learn_has_few_parameters():
    names = list(inspect.signature(learn).parameters)
    assert len(names) <= 16 and "method" in names and "given" in names


def test_given_is_evidence():
    """The law given x1 = 1 is learned; rows without it are invalid."""
    f = Formula([[1, 2], [-1, 3]])
    rows = np.array([[1, 0, 1], [1, 1, 1], [1, 1, 1]], bool)
    fit = learn(f, rows, given={1: True}, seed=0)
    assert fit.sample(64, seed=1).to_numpy()[:, 0].all() and fit.formula.n_vars == 3
    with pytest.raises(FormulaError, match="rows are invalid"):
        learn(f, [[0, 1, 0]], given=[1], seed=0)


@pytest.mark.slow
def test_sweeps_are_measured_where_they_are_needed_and_only_there():
    f = random_ksat(12, 24, 5, seed=1)
    for sampler in ("lovasz", "moser-tardos"):
        drawer = Drawer(f, sampler, None, 0)
        drawer.refresh(np.zeros(12))
        assert drawer.sweeps > 0
    listed = Drawer(f, "auto", None, 0)
    listed.refresh(np.zeros(12))
    assert (listed.method, listed.sweeps) == ("enumerate", None)
    large = Drawer(random_ksat(300, 420, 5, seed=1), "auto", None, 0)
    large.refresh(np.zeros(300))
    assert large.method == "lovasz"
    assert large.sweeps > 0
    for n, method in ((50, "rejection"), (300, "cftp")):  # exact without any circuit
        exact = Drawer(random_ksat(n, n, 5, seed=1), "auto", None, 0)
        exact.refresh(np.zeros(n))
        assert (exact.method, exact.sweeps, exact.guarantee) == (method, None, "exact")
    easy = Drawer(mesh(5), "lovasz", None, 0)
    easy.refresh(np.zeros(5))
    assert easy.sweeps == 0
    asked = Drawer(f, "lovasz", 2, 0)
    asked.refresh(np.zeros(12))
    assert asked.sweeps == 2


def test_a_method_that_ends_without_samples_is_left_out_from_then_on():
    """At theta = 0 most assignments are valid; at theta = -4 one in 100,000."""
    f = Formula([list(range(k, k + 5)) for k in (1, 5, 9, 13, 17)])
    drawer = Drawer(f, "auto", None, 0)
    drawer.refresh(np.zeros(21))
    assert len(drawer.sample(np.zeros(21), 64, 1)) == 64 and drawer.method == "rejection"
    hard = np.full(21, -4.0)
    assert len(drawer.sample(hard, 64, 2)) < 64
    drawn = drawer(hard, 64, 2)
    assert drawn.count == 64 and drawer.method not in ("rejection", "cftp") and drawer.sure
    again = Drawer(f, "auto", None, 0)
    again.restore(drawer.state())
    assert np.array_equal(again(hard, 64, 2).packed, drawn.packed)  # a resumed run does the same


@pytest.mark.slow
def test_the_method_is_chosen_again_when_theta_moves_or_iterations_double(monkeypatch):
    chosen, now = [], [0]
    refresh = Drawer.refresh

    def counted(self, theta):
        chosen.append(now[0])
        refresh(self, theta)

    def count(row):
        now[0] = row["iteration"]

    monkeypatch.setattr(Drawer, "refresh", counted)
    f = random_ksat(12, 12, 5, seed=1)
    data = nelson.sample(f, None, 200, seed=1)
    common = {"seed": 1, "run": Run(callback=count)}
    for eta, times in ((1e-4, [0, 25, 50, 100, 120]), (2.0, [0, 25, 50, 75, 100, 120])):
        chosen.clear()
        now[0] = 0
        learn(f, data, optimizer=Adam(stop=False, rate=eta, iterations=120), **common)
        assert sorted(set(chosen)) == times  # the last one judges the theta that is returned


@pytest.mark.slow
def test_a_run_decides_once_and_keeps_its_plan(monkeypatch):
    """Decisions are counted: 40 iterations within one interval of `refresh` share the first."""
    decided = []
    arranged = Plan._arranged

    def counted(self, *given):
        decided.append(self)
        return arranged(self, *given)

    monkeypatch.setattr(Plan, "_arranged", counted)
    formulas = {
        "extremal": mesh(5),
        "lovasz": random_ksat(300, 420, 5, seed=1),
        "enumerate": random_ksat(12, 24, 5, seed=1),
    }
    for method, formula in formulas.items():
        data = nelson.sample(formula, None, 200, seed=1)
        decided.clear()
        optimizer = Adam(m=64, iterations=20, stop=False, prior=0.0, rate=1e-3)
        fit = learn(formula, data, optimizer=optimizer, seed=1)
        assert len(fit.history) == 20
        assert len(decided) <= 2, method  # the second judges the last theta


def test_a_policy_reaches_the_loop_and_its_samples():
    """Method and sweeps are chosen again as often as the policy of the optimizer says, from the
    steps that it leaves. The twin: the default chooses `enumerate`."""
    f = random_ksat(12, 24, 5, seed=1)
    data = nelson.sample(f, None, 500, seed=0)
    policy = Policy(fit=FitPolicy(refresh_every=1, moved=0.0)).without("enumerate")
    changed = nelson.learn(f, data, seed=0, optimizer=Newton(policy=policy))
    usual = nelson.learn(f, data, seed=0)
    assert changed.info["method"] != usual.info["method"] == "enumerate"
    assert (
        changed.model.metadata["settings"]["policy"] != usual.model.metadata["settings"]["policy"]
    )
