"""Pictures show the numbers that they claim to show."""

from __future__ import annotations

import numpy as np
import pytest

import nelson

pytest.importorskip("matplotlib", reason="NO MATPLOTLIB: pictures are not drawn")

TOWN = nelson.Formula([[1, 3], [-1, 2, 4], [-2, 5], [-3, 6], [-4, -6, 7], [-5, -7]])


def drawn(axes) -> np.ndarray:
    """The heights of the points with error bars."""
    return np.concatenate([bar.lines[0].get_ydata() for bar in axes.containers])


def test_samples_show_their_marginals_and_those_of_other_rows():
    samples = nelson.sample(TOWN, n=5000, seed=0)
    other = nelson.sample(TOWN, n=2000, seed=1).to_numpy()
    first, second = samples.plot(other=other).axes[:2]
    assert np.allclose(drawn(first), np.concatenate([samples.mean(), other.mean(0)]))
    table = np.array(second.images[0].get_array().filled(np.nan))
    x = samples.to_numpy()
    assert np.isclose(table[0, 2], np.corrcoef(x[:, 0], x[:, 2])[0, 1])


@pytest.mark.slow
def test_a_picture_is_written(tmp_path):
    samples = nelson.sample(TOWN, n=100, seed=0)
    for kind, begin in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        samples.plot(tmp_path / f"a.{kind}", names=list("abcdefg"))
        assert (tmp_path / f"a.{kind}").read_bytes().startswith(begin)
    with pytest.raises(nelson.NelsonError, match="png"):
        samples.plot(tmp_path / "a.doc")


def test_many_variables_are_sorted_and_not_named():
    first = nelson.sample(nelson.Formula([[1, 2]], n_vars=100), n=500, seed=0).plot().axes[0]
    assert (np.diff(drawn(first)) >= 0).all()
    assert "100 variables" in first.get_xlabel()


@pytest.mark.parametrize("theta", [np.zeros((2, 7)), None])
def test_what_cannot_be_drawn_is_said(theta):
    n = 64 if theta is not None else 0
    with pytest.raises(nelson.FormulaError, match="one theta"):
        nelson.sample(TOWN, theta, n, seed=0).plot()
    with pytest.raises(nelson.FormulaError, match=r"other= of shape \(3, 2\)"):
        nelson.sample(TOWN, n=64, seed=0).plot(other=np.zeros((3, 2)))


def test_a_fit_shows_its_weights_and_new_structures_against_examples():
    examples = nelson.sample(TOWN, [2, 0, 0, 0, 0, 0, -1], 2000, seed=1)
    fit = nelson.learn(TOWN, examples, seed=0)
    figure = fit.plot(examples=examples)
    weights, pairs = figure.axes[-2:]
    widths = [bar.get_width() for bar in weights.patches]
    assert np.allclose(np.sort(widths), np.sort(fit.theta))
    assert sum(len(points.get_offsets()) for points in pairs.collections) == 28  # 7 and 21 pairs
    assert len(pairs.collections) == 1  # all of them within the noise
    wrong = np.ones((2000, 7))
    assert len(fit.plot(examples=wrong).axes[-1].collections) == 2  # a twin that is not


def test_a_report_shows_the_lengths_of_clauses():
    axes = nelson.report(TOWN, pilot=False).plot().axes[0]
    assert [bar.get_width() for bar in axes.patches] == [4.0, 2.0]


@pytest.mark.slow
def test_a_verdict_shows_what_was_seen_and_expected():
    verdict = nelson.judge(TOWN, "auto", n=5000)
    assert verdict.counts.seen.sum() == 5000
    ratio = verdict.plot().axes[0].lines[-1].get_ydata()
    assert np.allclose(np.sort(ratio), np.sort(verdict.counts.seen / verdict.counts.expected))
    assert "counts" not in verdict.to_dict()
    marginals = nelson.judge(TOWN, "auto", n=5000, test="marginals").plot().axes[0]
    assert "exact share" in marginals.get_xlabel()
    with pytest.raises(nelson.NelsonError, match="no picture"):
        nelson.judge(TOWN, "auto", n=500, test="validity").plot()
