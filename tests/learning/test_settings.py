"""Presets, options that are refused, and the choice of method and sweeps."""

from __future__ import annotations

import numpy as np
import pytest

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
    large = Drawer(random_ksat(300, 300, 5, seed=1), "auto", None, 0)
    large.refresh(np.zeros(300))
    assert large.method == "lovasz"
    assert large.sweeps > 0
    easy = Drawer(mesh(5), "lovasz", None, 0)
    easy.refresh(np.zeros(5))
    assert easy.sweeps == 0
    asked = Drawer(f, "lovasz", 2, 0)
    asked.refresh(np.zeros(12))
    assert asked.sweeps == 2
