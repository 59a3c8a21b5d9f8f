"""Routes: conversions, validity, wrong arguments, pictures, and the chi-square test of `cases`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nelson.errors import FormulaError
from nelson_paper.tasks.routes import Routes
from nelson_paper.tasks.routes.check import chi_square, numbered
from nelson_paper.tasks.routes.convert import frequencies, to_matrix
from nelson_paper.tasks.routes.data import BAYG29, euclidean, laid_out
from nelson_paper.tasks.routes.picture import centred
from nelson_paper.tasks.routes.resample import resample
from tests.paper.tasks.routes.cases import SEED, first, normal_theta


def test_routes_edges_and_weights_convert():
    task = first(5)
    assert task.n_vars == 20 and task.names[:5] == ["1->2", "1->3", "1->4", "1->5", "2->1"]
    x = task.to_x([[2, 0, 4, 1, 3]])
    assert task.valid(x).all() and x.sum() == 5
    assert task.to_routes(x).tolist() == [[0, 4, 1, 3, 2]]
    assert task.readable(x) == [["1", "5", "2", "4", "3"]]
    assert [name for name, on in zip(task.names, x[0], strict=True) if on] == [
        "1->5", "2->4", "3->1", "4->3", "5->2",
    ]  # fmt: skip
    theta = normal_theta(task)
    matrix = task.matrix(theta)
    assert (task.vector(matrix) == theta).all() and (np.diag(matrix) == 0).all()
    assert matrix[1, 3] == theta[task.names.index("2->4")]
    assert math.isclose((x @ theta)[0], matrix[[0, 4, 1, 3, 2], [4, 1, 3, 2, 0]].sum())
    d = task.distances
    assert math.isclose(task.lengths(x)[0], d[0, 4] + d[4, 1] + d[1, 3] + d[3, 2] + d[2, 0])


def test_valid_means_one_round_through_all():
    task = first(6)
    all_routes, p = task.law()
    assert len(all_routes) == math.factorial(5) and math.isclose(p.sum(), 1)
    x = task.to_x(all_routes)
    assert task.valid(x).all() and len(np.unique(x, axis=0)) == len(x)
    assert (task.to_routes(x) == all_routes).all()

    def edges(*pairs):
        row = np.zeros(task.n_vars, bool)
        row[[task.names.index(pair) for pair in pairs]] = True
        return row

    two_rounds = edges("1->2", "2->3", "3->1", "4->5", "5->6", "6->4")
    short = edges("1->2", "2->3", "3->4", "4->5", "5->6")
    twice = edges("1->2", "2->3", "3->4", "4->5", "5->6", "6->1", "1->3")
    assert not task.valid([two_rounds, short, twice, np.zeros(30, bool)]).any()
    with pytest.raises(FormulaError, match="no round trip"):
        task.to_routes(two_rounds)


def test_errors_of_arrays():
    three = [(0, 0), (1, 0), (0, 1)]
    for arguments, message in (
        (((three[:2],), {}), "2 locations; expected at least 3"),
        ((([*three, (math.nan, 1)],), {}), "location 4 is at (nan, 1.0); expected finite"),
        (((np.zeros((4, 3)),), {}), "shape (4, 3); expected (n, 2)"),
        (((three,), {"names": ["a", "b", "a"]}), "locations 1 and 3 are both called 'a'"),
        (((three,), {"names": ["a"]}), "1 names for 3 locations"),
        (((three,), {"distances": np.zeros((4, 4))}), "distances between 4 locations; expected 3"),
        (((None,), {"distances": -np.ones((3, 3))}), "from location 1 to 2 is -1.0"),
    ):
        with pytest.raises(FormulaError) as caught:
            Routes(*arguments[0], **arguments[1])
        assert message in str(caught.value)
    task = Routes(three)
    for call, message in (
        (lambda: task.sample(np.zeros(5), 1), "6"),
        (lambda: task.sample([math.inf] + [0] * 5, 1), "theta of 1->2 is inf"),
        (lambda: task.sample(np.zeros(6), 1, sweeps=-1), "sweeps -1"),
        (lambda: task.to_x([[0, 1, 1]]), "each of 0..2 once"),
        (lambda: task.to_x([[0, 1]]), "shape (1, 2); expected (m, 3)"),
        (lambda: Routes().law(), "29 locations; expected at most 9"),
        (lambda: resample(3, 1, keep="last"), "keep 'last'"),
        (lambda: resample(3, 1, max_rounds=-1), "max_rounds -1"),
    ):
        with pytest.raises(FormulaError) as caught:
            call()
        assert message in str(caught.value)


def test_a_matrix_is_laid_out_by_its_distances():
    places = np.array(BAYG29, float)
    found = laid_out(euclidean(places))
    assert np.allclose(euclidean(found), euclidean(places))


@pytest.mark.slow
def test_pictures(tmp_path):
    pytest.importorskip("matplotlib")
    task = Routes.small()
    data = task.examples(50, seed=SEED)
    theta = normal_theta(task)
    generated = task.sample(theta, 50, seed=SEED, anneal=2, sweeps=2).x
    for name in ("all.png", "all.svg"):
        path = task.picture(data, theta, generated, tmp_path / name)
        assert path.stat().st_size > 10_000
    assert task.draw(data[0], tmp_path / "one.png").read_bytes()[:4] == b"\x89PNG"
    svg = task.draw(data[0], tmp_path / "one.svg", theta=theta, title="a <b>").read_text()
    assert svg.startswith("<?xml") and svg.rstrip().endswith("</svg>")
    with pytest.raises(FormulaError, match="picture"):
        task.draw(data[0], tmp_path / "one.doc")


def test_centring_changes_no_probability():
    task = first(6)
    theta = task.matrix(normal_theta(task))
    flat = centred(theta)
    off = ~np.eye(6, dtype=bool)
    assert np.allclose(flat.sum(axis=0, where=off), 0) and np.allclose(
        flat.sum(axis=1, where=off), 0
    )
    assert np.allclose(task.law(theta)[1], task.law(flat)[1])


def test_chi_square_helper():
    """Rare routes share cells; impossible ones are infinitely bad; numbers tell routes apart."""
    routes, law = first(5).law()
    assert len(np.unique(numbered(routes))) == 24
    _, degrees = chi_square(routes, routes, law)  # one draw expected of each: cells of five
    assert degrees == 3
    law = law.copy()
    law[0], law[1] = 0, 2 / 24
    assert chi_square(routes, routes, law)[0] == math.inf
    assert frequencies(routes).sum() == pytest.approx(5)
    assert to_matrix(frequencies(routes), 5).sum(axis=1) == pytest.approx(np.ones(5))
