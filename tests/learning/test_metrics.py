"""Every metric on a case done by hand, and on one where it must come out bad."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nelson
from nelson import Formula, metrics
from tests.problems import (
    complete_edges,
    exact_law,
    sink_free,
    weights,
)

EXAMPLE = Formula([[1, 2], [-1, 3]], n_vars=3)  # valid: 010, 011, 101, 111
SEED = 20230207


def test_validity_is_a_share():
    x = np.array([[0, 1, 0], [1, 0, 1], [1, 1, 0], [0, 0, 0]], bool)
    assert metrics.validity(EXAMPLE, x) == 0.5
    assert metrics.validity(EXAMPLE, x[:2]) == 1.0
    assert math.isnan(metrics.validity(EXAMPLE, x[:0]))


def test_map_at_10_by_hand():
    theta = np.array([4.0, 2.0, 1.0])
    seen = np.array([[1, 1, 1], [1, 0, 1]])  # potentials 7, 5
    unseen = np.array([[1, 1, 0], [0, 0, 1]])  # potentials 6, 1
    # Ranked: seen, unseen, seen, unseen: precisions 1, 1/2, 2/3, 2/4.
    assert metrics.map_at(theta, seen, unseen) == pytest.approx((1 + 1 / 2 + 2 / 3 + 1 / 2) / 4)
    assert metrics.map_at(theta, seen, unseen, k=1) == 1.0
    # Highest first: with the signs turned the worst comes first, as the paper's text would have it.
    assert metrics.map_at(-theta, seen, unseen) == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)


def test_map_at_10_is_the_mean_over_ten_and_ties_earn_nothing():
    theta = np.array([1.0])
    assert metrics.map_at(theta, np.ones((10, 1)), np.zeros((10, 1))) == 1.0
    assert metrics.map_at(theta, np.zeros((10, 1)), np.ones((10, 1))) == 0.0
    assert metrics.map_at(theta, np.ones((10, 1)), np.ones((10, 1))) == 0.0


def test_log_likelihood_by_hand():
    theta = np.log([2.0, 3.0, 5.0])  # weights: 010: 3, 011: 15, 101: 10, 111: 30; Z = 58
    x = np.array([[0, 1, 0], [1, 1, 1]], bool)
    value = metrics.log_likelihood(EXAMPLE, theta, x, log_z=math.log(58))
    assert value.value == pytest.approx((math.log(3 / 58) + math.log(30 / 58)) / 2)
    spread = abs(math.log(30) - math.log(3)) / math.sqrt(2)  # s.d. of two numbers, ddof 1
    assert value.half_width == pytest.approx(1.96 * spread / math.sqrt(2), rel=1e-3)
    bad = np.array([[0, 0, 0]], bool)
    assert metrics.log_likelihood(EXAMPLE, theta, bad, log_z=math.log(58)).value == -math.inf

    class Uncertain(float):
        half_width, method = 0.3, "bridge"

    wide = metrics.log_likelihood(EXAMPLE, theta, x, log_z=Uncertain(math.log(58)))
    assert wide.half_width == pytest.approx(math.hypot(value.half_width, 0.3))
    assert wide.method == "bridge"


def test_log_likelihood_finds_log_z_by_itself_train_and_held_out():
    f = sink_free(complete_edges(4))
    theta = weights(f)
    p = exact_law(f, theta)[1]
    s = nelson.sample(f, theta, 4000, seed=SEED)
    value = metrics.log_likelihood(f, theta, s)
    same = metrics.log_likelihood(f, theta, s.to_numpy())
    assert same.value == pytest.approx(value.value)
    entropy = -float(p @ np.log(p))
    assert abs(value.value + entropy) < 5 / 1.96 * value.half_width  # 5 sigma: 6e-7
    wrong = metrics.log_likelihood(f, -theta, s)
    assert wrong.value < value.value - 5 * value.half_width


def test_kl_by_hand():
    # No clause, one variable: P = 1/2 against P = 3/4.
    f = Formula([], n_vars=1)
    expected = 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25)
    assert float(metrics.kl(f, [0.0], [math.log(3)])) == pytest.approx(expected)
    back = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    assert float(metrics.kl(f, [math.log(3)], [0.0])) == pytest.approx(back)
    assert metrics.kl(f, [1.0], [1.0]).value == pytest.approx(0, abs=1e-15)


def test_kl_from_samples_is_within_its_error():
    f = sink_free(complete_edges(5))
    a, b = weights(f, 1), weights(f, 1) + 0.05 * weights(f, 2)
    exact = metrics.kl(f, a, b)
    p = exact_law(f, a)[1]
    q = exact_law(f, b)[1]
    assert exact.value == pytest.approx(float(p @ np.log(p / q)), rel=1e-9)
    drawn = metrics.kl(f, a, b, method="samples", samples=100_000, seed=1)
    assert drawn.half_width < 0.02 * exact.value
    assert abs(drawn.value - exact.value) < 5 / 1.96 * drawn.half_width  # 6e-7
    assert abs(drawn.value - 1.2 * exact.value) > 5 / 1.96 * drawn.half_width


def test_moment_gap_by_hand():
    gap = metrics.moment_gap([0.5, 0.5, 0.5], [0.2, 0.9, 0.5])
    assert gap == pytest.approx({"l1": 0.7, "l2": 0.5, "max": 0.4})


def test_evaluate_tells_a_good_model_from_a_bad_one():
    f = sink_free(complete_edges(5))
    theta = 2 * weights(f)
    data = nelson.sample(f, theta, 2000, seed=1)
    good = metrics.evaluate(f, theta, data, train=data.to_numpy()[:500])
    bad = metrics.evaluate(f, -theta, data)
    assert good["validity"] == bad["validity"] == 1.0
    assert good["log_likelihood"]["value"] > bad["log_likelihood"]["value"] + 1
    assert good["map_at_10"] > 0.8 > 0.3 > bad["map_at_10"]
    assert good["moment_gap"]["l1"] < 0.2 < bad["moment_gap"]["l1"]
    assert "train_log_likelihood" in good
