"""Presets, options that are refused, and the choice of method and sweeps."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson import Formula, FormulaError
from nelson.learning.draw import Drawer
from nelson.learning.learn import learn
from nelson.learning.settings import PRESETS, settings_for
from tests.learning.planted import mesh
from tests.problems import random_ksat


@pytest.mark.parametrize(
    "options",
    [
        {"preset": "nope"},
        {"sampler": "nope"},
        {"m": 0},
        {"eta": -1.0},
        {"optimizer": "nope"},
        {"level": 2.0},
        {"theta0": [1, 2, 3]},
        {"checkpoint_every": 0},
        {"net": object()},
        {"net": object(), "contexts": [[0], [1], [2]], "sampler": print},
    ],
)
def test_bad_options_are_refused(options):
    with pytest.raises(FormulaError):
        learn(Formula([[1, 2]]), np.ones((3, 2)), **options)


def test_presets_are_what_the_paper_says():
    paper = PRESETS["paper"]
    assert (paper.optimizer, paper.m, paper.eta, paper.iterations) == ("sgd", 200, 0.1, 1000)
    assert (paper.batch, paper.decay, paper.prior, paper.sweeps) == (200, 0.0, 0.0, 0)
    assert settings_for("paper", eta=0.2).eta == 0.2


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
    common = {"seed": 1, "iterations": 120, "callback": count}
    for eta, times in ((1e-4, [0, 25, 50, 100, 120]), (2.0, [0, 25, 50, 75, 100, 120])):
        chosen.clear()
        now[0] = 0
        learn(f, data, preset="adam", stop=False, eta=eta, **common)
        assert sorted(set(chosen)) == times  # the last one judges the theta that is returned
