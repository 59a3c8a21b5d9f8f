"""`project_law="solutions"`: each projected solution counts once, by every route.

Each accepting chi-square rejects a right sampler with probability ALPHA; about 30 of them: 3e-5 in
all. Seeds are fixed. The twin draws from the marginal law, which the same test must reject.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import nelson
from nelson.errors import FormulaError, NelsonError, Unsatisfiable
from nelson.exact.projection import circuits as routes
from nelson.exact.projection import quantification, search
from nelson.sampling import shards
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan
from tests import ROOT
from tests.problems import all_states, chi_square, random_ksat
from tests.test_readme import outputs

ALPHA = 1e-6
DRAWS = 40_000
SEED = 20_261

#: x1 and x2 with two outputs, which determine nothing; x5 is free if x1 or x2 is true.
GATES = nelson.Formula([[-3, 1], [-3, 2], [3, -1, -2], [-4, 1, 2], [4, -1], [4, -2], [5, 1, 2]])
#: Projected on 2 and 3, all four assignments are solutions; (1, 1) has two extensions.
PAIR = nelson.Formula([[1, 2], [1, 3]], n_vars=3)


def exact_law(f, shown, theta=None, given=()):
    """The projected solutions, (m, k) bool, and P(y) ~ exp(theta . y), by brute force."""
    states = all_states(f.n_vars)
    states = states[np.asarray(f.satisfied(states), bool)]
    for literal in given:
        states = states[states[:, abs(literal) - 1] == (literal > 0)]
    rows = np.unique(states[:, np.array(shown) - 1], axis=0)
    weight = np.exp(rows @ (np.zeros(f.n_vars) if theta is None else theta)[np.array(shown) - 1])
    return rows, weight / weight.sum()


def draw(f, shown, theta=None, n=DRAWS, law="solutions", **options):
    return nelson.sample(f, theta, n, project=shown, project_law=law, seed=SEED, **options)


def listing(monkeypatch):
    monkeypatch.setattr(quantification, "GROWTH", ())
    monkeypatch.setattr(search, "by_cases", lambda done, n: None)


def cases(monkeypatch):
    monkeypatch.setattr(quantification, "GROWTH", ())


def weighted_cases(count, hidden=None):
    """Formulas, projections, theta and evidence; hidden: how many variables are not projected."""
    for seed in range(count):
        rng = np.random.default_rng([seed, 9])
        n = int(rng.integers(7, 11))
        f = random_ksat(n, int(rng.integers(4, 2 * n)), 3, seed)
        size = int(rng.integers(3, 7)) if hidden is None else n - hidden
        shown = (rng.choice(n, size, replace=False) + 1).tolist()
        theta = np.zeros(n)
        theta[np.array(shown) - 1] = rng.normal(size=len(shown)) * (seed % 2)
        yield f, shown, theta, [int(rng.integers(1, n + 1))] if seed % 3 == 0 else []


@pytest.mark.parametrize(
    ("change", "hidden", "route"),
    [(None, None, "eliminated"), (cases, None, "eliminated"), (listing, None, "circuit")],
)
def test_the_law_of_projected_solutions(change, hidden, route, monkeypatch):
    if change:
        change(monkeypatch)
    taken, seen = set(), 0
    for f, shown, theta, given in weighted_cases(8, hidden):
        law = exact_law(f, shown, theta, given)
        s = draw(f, shown, theta, given=given)
        p = chi_square(s.to_numpy(), law)
        print(f"{s!r} {s.info['projection']} seed={SEED} p={p:.3g}")
        assert p > ALPHA and s.guarantee == "exact" and s.variables == tuple(shown)
        twin = draw(f, shown, theta, given=given, law="marginal")
        seen += chi_square(twin.to_numpy(), law) < ALPHA
        taken.add(s.info["projection"])
    assert seen >= 6  # the marginal law is another one on nearly all of these
    assert route in taken


@pytest.mark.parametrize("method", ["auto", "prs", "enumerate", "circuit"])
def test_every_method_draws_from_a_determined_projection(method):
    s = draw(GATES, [1, 2, 5], method=method)
    assert s.info["projection"] == "determined"
    assert chi_square(s.to_numpy(), exact_law(GATES, [1, 2, 5])) > ALPHA
    assert s.guarantee == "exact"


@pytest.mark.process
@pytest.mark.slow
def test_hashing():
    """UniGen promises a factor 17; on six solutions it enumerates, and the law is uniform."""
    pytest.importorskip("pyunigen")
    f = nelson.Formula([[1, 2, 4], [-4, 1, 3], [4, 5], [-1, -2, -3]], n_vars=6)
    s = draw(f, [1, 2, 3, 6], n=2_000, method="unigen", given=[5])
    assert s.guarantee == "approximate" and s.info["projection"] == "hashed"
    assert chi_square(s.to_numpy(), exact_law(f, [1, 2, 3, 6], given=[5])) > ALPHA


@pytest.mark.process
@pytest.mark.slow
def test_hashing_is_the_last_route(monkeypatch):
    pytest.importorskip("pyunigen")
    out_of_reach(monkeypatch)
    f = nelson.Formula([[1, 2, 3], [3, 4, 5], [-3, 1, 5]])
    s = draw(f, [1, 2, 4], n=1_000)
    assert s.guarantee == "approximate" and s.info["method"] == "unigen"
    assert "D4 is not installed" in s.info["projection_why"]
    assert chi_square(s.to_numpy(), exact_law(f, [1, 2, 4])) > ALPHA


def out_of_reach(monkeypatch):
    listing(monkeypatch)
    monkeypatch.setattr(routes, "FEW", 2)
    monkeypatch.setattr(routes, "MANY", 2)
    monkeypatch.setattr(routes, "missing", lambda compiler: "D4 is not installed")


@pytest.mark.parametrize("method", ["auto", "lovasz"])
def test_a_law_out_of_reach_is_refused(method, monkeypatch):
    out_of_reach(monkeypatch)
    f = nelson.Formula([[1, 2, 3], [3, 4, 5], [-3, 1, 5]])
    with pytest.raises(NelsonError, match=r'cannot be drawn.*project_law="marginal"'):
        draw(f, [1, 2, 4], np.array([1.0, 0, 0, 0, 0]), method=method)


def test_a_method_that_cannot_draw_from_a_circuit_is_refused(monkeypatch):
    listing(monkeypatch)
    with pytest.raises(FormulaError, match="only a circuit"):
        draw(PAIR, [2, 3], method="prs")


def test_weights_outside_of_the_projection_are_refused():
    with pytest.raises(FormulaError, match="variable 1 is not 0"):
        draw(PAIR, [2, 3], np.array([0.5, 0, 0]))
    s = draw(PAIR, [2, 3], np.array([-np.inf, 0, 0]), n=10)  # hard evidence is no weight
    assert s.to_numpy().all()


def test_unknown_laws_are_refused():
    with pytest.raises(FormulaError, match='expected "marginal" or "solutions"'):
        draw(PAIR, [2, 3], law="uniform")


def test_no_solution():
    with pytest.raises(Unsatisfiable):
        draw(nelson.Formula([[1, 2], [1, -2], [-1, 2], [-1, -2]]), [1])


@pytest.mark.parametrize("change", [None, listing])
def test_distinct_projected_solutions_keep_their_guarantee(change, monkeypatch):
    if change:
        change(monkeypatch)
    f, shown = random_ksat(10, 15, 3, seed=3), [2, 5, 7, 9]
    rows, _ = exact_law(f, shown)
    s = draw(f, shown, n=len(rows) + 5, unique=True)
    assert len(s) == len(rows) and s.info["exhausted"] and s.guarantee == "exact"
    assert np.array_equal(np.unique(s.to_numpy(), axis=0), rows)


@pytest.mark.parametrize("change", [None, listing])
def test_streams_hold_the_samples_of_one_call(change, monkeypatch):
    if change:
        change(monkeypatch)
    f, shown = random_ksat(10, 15, 3, seed=3), [9, 2, 5]
    whole = draw(f, shown, n=300).to_numpy()
    blocks = nelson.stream(
        f, None, 300, block=64, project=shown, project_law="solutions", seed=SEED
    )
    assert np.array_equal(np.concatenate([block.to_numpy() for block in blocks]), whole)


@pytest.mark.parametrize("change", [None, listing])
def test_processes_that_share_the_work_draw_the_same_samples(change, monkeypatch):
    if change:
        change(monkeypatch)
    f, shown = random_ksat(10, 15, 3, seed=3), [9, 2, 5]
    whole = draw(f, shown, n=256).to_numpy()
    options = Options(project=shown, project_law="solutions", seed=SEED)
    settled = pickle.loads(pickle.dumps(shards.settle(Plan(f, None, options).drawing(256))))
    parts = [
        block.to_numpy() for first in (0, 128) for block in shards.blocks(settled, first, 128, 64)
    ]
    assert np.array_equal(np.concatenate(parts), whole)


def test_hashing_is_not_shared_between_processes():
    options = Options(method="unigen", project=[2, 3], project_law="solutions", seed=SEED)
    with pytest.raises(FormulaError, match="in several processes"):
        shards.settle(Plan(PAIR, None, options).drawing(64))


def test_contexts_with_different_evidence():
    theta = np.array([[-np.inf, 0, 0], [0, 0, 1.0]])
    s = nelson.sample(
        PAIR, theta, DRAWS, project=[3, 2], project_law="solutions", seed=SEED
    ).to_numpy()
    assert s[0].all()  # without x1, x2 and x3 are true
    assert chi_square(s[1], exact_law(PAIR, [3, 2], theta[1])) > ALPHA


def test_without_a_projection_all_variables_are_meant():
    s = nelson.sample(PAIR, None, 100, project_law="solutions", seed=SEED)
    assert np.array_equal(s.to_numpy(), nelson.sample(PAIR, None, 100, seed=SEED).to_numpy())


def test_the_judge_knows_both_laws():
    f = PAIR.replace(projection=[2, 3])
    for law in ("marginal", "solutions"):
        s = nelson.sample(f, None, 5_000, project_law=law, seed=SEED)
        for claim in ("marginal", "solutions"):
            assert nelson.judge(f, s, project_law=claim).accept is (law == claim)
    verdict = nelson.judge(f, "auto", project_law="solutions")
    assert verdict.accept and "each projected solution counted once" in verdict.law
    assert nelson.judge(f, "auto", project_law="solutions", test="marginals").accept
    assert nelson.judge(f, "auto", project_law="solutions", test="barbarik").accept is None


def test_the_example_in_the_documentation_prints_what_it_says():
    text = (ROOT / "docs" / "samplers.md").read_text()
    [(said, printed)] = outputs(text[text.index("## Projections") : text.index("## Distinct")])
    assert printed == said
