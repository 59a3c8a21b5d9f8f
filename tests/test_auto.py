"""`method="auto"`: each rung of its ladder on a formula made for it, and what it says of itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nelson
from nelson.formula import Formula
from nelson.kernels.core.bits import compact, unpack
from nelson.sampling import auto, engine
from nelson.sampling.auto import agree, compiling, starts
from nelson.sampling.chain import Chains, resumed
from nelson.sampling.mixing import pilot_request
from nelson.sampling.problem import prepare
from nelson.sampling.sampler import Request
from tests.problems import (
    chi_square,
    exact_law,
    example1,
    pigeonhole,
    random_ksat,
    sink_free,
    weights,
)

d4 = pytest.mark.skipif(not compiling.installed(), reason="D4 is not installed")

#: A right sampler fails a chi-square test with this probability; seeds are fixed.
ALPHA = 1e-4


def terms(*skip: str, **more) -> auto.Terms:
    return auto.Terms(skip=frozenset(skip), count=1000, **more)


def decided(formula: Formula, *skip: str, theta=None, **more) -> auto.Decision:
    rows = np.zeros((1, formula.n_vars)) if theta is None else np.atleast_2d(theta)
    return auto.decide(prepare(formula), rows, terms(*skip, **more))


def drawn(formula: Formula, decision: auto.Decision, count: int, seed: int = 1) -> np.ndarray:
    """Samples of a decision that was made by hand."""
    n = formula.n_vars
    request = Request(
        theta=decision.groups[0].theta if decision.reduced is None else np.zeros((1, n)),
        contexts=np.zeros(1, np.int64),
        count=count,
        block=count,
        seed=seed,
        columns=np.arange(n),
        sweeps=decision.choice.sweeps,
        max_rounds=1000,
        threads=1,
    )
    block = next(auto.sampler({(): decision}).blocks(prepare(formula), request))
    good = block.valid if block.sound is None else block.valid & block.sound
    return unpack(*compact(block.packed[0], good[0]))


def joined(*formulas: Formula) -> Formula:
    """Side by side, over variables of their own."""
    clauses, first = [], 0
    for f in formulas:
        clauses += [[int(np.sign(a)) * (abs(a) + first) for a in c] for c in f.clauses()]
        first += f.n_vars
    return Formula(clauses, n_vars=first)


def xor3() -> Formula:
    """x1 xor x2 xor x3 = 0, twice, over five variables: no single flip stays valid."""
    return Formula([], n_vars=5).xor([1, 2, 3], False).xor([3, 4, 5], False)


# --- each rung --------------------------------------------------------------------------------


def test_extremal_formulas_go_no_further(monkeypatch):
    monkeypatch.setattr("nelson.sampling.auto.ladder.preprocess", None)  # must not be called
    s = nelson.sample(example1(), None, 1000, seed=1)
    assert (s.info["method"], s.guarantee, s.info["sweeps"]) == ("lovasz", "exact", 0)
    assert s.info["auto"][0]["not taken"] == {}
    named = nelson.sample(example1(), None, 1000, seed=1, method="lovasz")
    assert np.array_equal(s.packed, named.packed)


def test_an_extremal_formula_that_does_not_converge_is_drawn_otherwise():
    s = nelson.sample(Formula([[1, 2]]), [-50.0, -50.0], 1000, seed=1)
    assert s.status == "ok"
    assert s.guarantee == "exact"
    assert "did not become valid" in s.info["auto"][0]["not taken"]["extremal"]
    # Half of them each: 5 standard errors of 1000 fair coins.
    assert abs(s.mean()[0] - 0.5) < 5 * np.sqrt(0.25 / 1000)


def test_few_structures_are_listed():
    f = random_ksat(12, 24, 3, seed=3)  # falls apart under single flips
    s = nelson.sample(f, weights(f), 20_000, seed=1)
    assert (s.info["method"], s.guarantee) == ("enumerate", "exact")
    assert chi_square(s.to_numpy(), exact_law(f, weights(f))) > ALPHA
    named = nelson.sample(f, weights(f), 20_000, seed=1, method="enumerate")
    assert np.array_equal(s.packed, named.packed)  # nothing was reduced: the formula as given


@d4
def test_what_compiles_is_compiled():
    f = random_ksat(18, 18, 5, seed=4)
    s = nelson.sample(f, weights(f), 20_000, seed=1)
    assert (s.info["method"], s.guarantee) == ("circuit", "exact")
    assert chi_square(s.to_numpy(), exact_law(f, weights(f))) > ALPHA
    assert set(s.info["auto"][0]["not taken"]) == {"extremal", "enumerate"}
    named = nelson.sample(f, weights(f), 20_000, seed=1, method="circuit")
    assert np.array_equal(s.packed, named.packed)


def test_what_does_not_compile_is_resampled_and_swept(monkeypatch):
    monkeypatch.setattr(compiling, "compiled", None)  # hopeless: it must not even be tried
    f = random_ksat(300, 300, 5, seed=1)
    theta = weights(f)
    s = nelson.sample(f, theta, 1000, seed=1)
    assert (s.info["method"], s.guarantee) == ("lovasz", "asymptotic")
    part = s.info["auto"][0]
    assert set(part["not taken"]) == {"extremal", "enumerate", "circuit"}
    assert part["rho"] < 0.3
    assert part["drift"] <= part["moved"] + part["noise"]
    assert part["agreement"] <= 1
    assert "marginals moved by" in s.info["why"]
    named = nelson.sample(f, theta, 1000, seed=1, method="lovasz", sweeps=s.info["sweeps"])
    assert np.array_equal(s.packed, named.packed)


def test_starts_from_a_solver():
    f = random_ksat(14, 20, 3, seed=5)
    decision = decided(f, "enumerate", "circuit", "resampling", theta=np.zeros(14))
    assert decision.choice.method == "cdcl"
    assert set(decision.groups[0].records[0]["not taken"]) == {
        "extremal",
        "enumerate",
        "circuit",
        "resampling",
    }
    x = drawn(f, decision, 3000)
    assert len(x) == 3000
    assert f.satisfied(x).all()
    again = drawn(f, decision, 100)
    assert np.array_equal(x[:100], again)  # sample i depends on the seed and i alone
    assert not np.array_equal(drawn(f, decision, 100, seed=2), again)


def test_sweeps_from_a_solver_s_starts_reach_the_law():
    """One start for all lanes, and sweeps: the law is that of the chain. The twin makes none."""
    f = random_ksat(10, 12, 5, seed=2)
    theta, law = weights(f), exact_law(f, weights(f))
    problem, count = prepare(f), 20_000
    request = pilot_request(theta[None], count, 1, None)
    start = law[0][:1].astype(bool)

    def after(sweeps: int) -> np.ndarray:
        chains = Chains.given(problem, request, [start])
        chains.sweep_to(sweeps)
        return unpack(chains.words[0], count)

    assert chi_square(after(40), law) > ALPHA
    assert chi_square(after(0), law) < 1e-12


def test_without_cmsgen_pysat_finds_the_starts(monkeypatch):
    pytest.importorskip("pysat")
    monkeypatch.setattr(starts, "missing_modules", lambda sampler: ["pycmsgen"])
    f = random_ksat(30, 60, 3, seed=2)
    decision = decided(f, "enumerate", "circuit", "resampling")
    assert "PySAT" in decision.choice.why
    x = drawn(f, decision, 200)
    assert f.satisfied(x).all()
    assert len(np.unique(x, axis=0)) > 20
    with pytest.raises(nelson.Unsatisfiable, match="CDCL solver proved"):
        decided(pigeonhole(4), "enumerate", "circuit", "resampling")


# --- components ---------------------------------------------------------------------------------


@d4
def test_components_have_methods_of_their_own():
    f = joined(example1(), Formula([[1, 2], [1, 3]]), random_ksat(18, 18, 5, seed=4))
    f = Formula(f.clauses(), n_vars=f.n_vars + 2)  # and two free variables
    s = nelson.sample(f, None, 2000, seed=1)
    assert s.guarantee == "exact"
    assert {part["method"] for part in s.info["auto"]} == {"lovasz", "enumerate", "circuit"}
    assert sum(part["variables"] for part in s.info["auto"]) == f.n_vars
    assert f.satisfied(s.to_numpy()).all()


def test_components_are_independent_and_each_has_its_law():
    """The joint law of two components is the product; the twin shows them the same numbers."""
    one, two = Formula([[1, 2], [1, 3]]), sink_free([(0, 1), (1, 2), (2, 0)])
    f = joined(one, two)
    theta = weights(f)
    s = nelson.sample(f, theta, 20_000, seed=3)
    assert len({part["method"] for part in s.info["auto"]}) == 2
    law = exact_law(f, theta)
    x = s.to_numpy()
    assert chi_square(x, law) > ALPHA
    # The same two marginal laws, sorted so that they go together: rejected.
    order = np.argsort(x[:, :3] @ [4, 2, 1], kind="stable")
    other = np.argsort(x[:, 3:] @ [4, 2, 1], kind="stable")
    assert chi_square(np.hstack([x[order, :3], x[other, 3:]]), law) < 1e-12


def test_reduced_formulas_are_rebuilt():
    """Equal literals, a gate and a unit: the law over all variables is kept."""
    f = Formula(
        [[9], [1, -2], [-1, 2], [-3, 1], [-3, 4], [3, -1, -4], [4, 5, 6], [5, 7], [-5, 8, 6]],
        n_vars=9,
    )
    theta = weights(f)
    theta[2] = 0.0  # the gate weighs nothing
    for given in (None, [6]):
        s = nelson.sample(f, theta, 20_000, seed=4, given=given)
        assert s.info["preprocessing"]
        assert s.guarantee == "exact"
        hard = theta.copy()
        hard[5] = np.inf if given else theta[5]
        assert chi_square(s.to_numpy(), exact_law(f, hard)) > ALPHA
    # The twin: without the weight of the variable that was merged it is another law.
    wrong = theta.copy()
    wrong[1] = 0.0
    assert (
        chi_square(nelson.sample(f, wrong, 20_000, seed=4).to_numpy(), exact_law(f, theta)) < 1e-6
    )


# --- what holds for every method ------------------------------------------------------------------


def mixed() -> Formula:
    """A component that is listed, one that is extremal, equal literals, a free variable."""
    f = joined(Formula([[1, 2], [1, 3]]), example1())
    return Formula([*f.clauses(), [7, -8], [-7, 8]], n_vars=9)


def test_seeds_tails_streams_contexts_projection_distinct():
    f = mixed()
    whole = nelson.sample(f, None, 1000, seed=7)
    x = whole.to_numpy()
    assert whole.info["preprocessing"]
    assert np.array_equal(nelson.sample(f, None, 130, seed=7).to_numpy(), x[:130])
    assert np.array_equal(
        nelson.sample(mixed(), None, 1000, seed=7, threads=1).packed, whole.packed
    )
    assert not np.array_equal(nelson.sample(f, None, 1000, seed=8).packed, whole.packed)
    blocks = list(nelson.stream(f, None, 1000, block=192, seed=7))
    assert [len(block) for block in blocks] == [192] * 5 + [40]
    assert np.array_equal(np.concatenate([block.to_numpy() for block in blocks]), x)
    part = nelson.sample(f, None, 1000, seed=7, project=[8, 2])
    assert np.array_equal(part.to_numpy(), x[:, [7, 1]])
    rows = np.random.default_rng(0).normal(size=(3, 9))
    many = nelson.sample(f, rows, 5000, seed=1)
    assert many.to_numpy().shape == (3, 5000, 9)
    for row, samples in zip(rows, many.to_numpy(), strict=True):
        assert chi_square(samples, exact_law(f, row)) > ALPHA
    rows[1, 0] = np.inf  # evidence in one context: two problems in one call
    hard = nelson.sample(f, rows, 500, seed=1)
    assert hard.mean()[1, 0] == 1.0
    few = nelson.sample(example1(), None, 100, unique=True, seed=1)
    assert len(few) == 4
    assert few.info["exhausted"]
    assert len(nelson.sample(f, None, 0, seed=1)) == 0


def test_large_draws_come_in_chunks(monkeypatch):
    from nelson.sampling.auto import draw

    f = mixed()
    whole = nelson.sample(f, None, 1000, seed=7).packed
    monkeypatch.setattr(draw, "_SAMPLES", 192)
    assert np.array_equal(nelson.sample(f, None, 1000, seed=7).packed, whole)


def test_sweeps_asked_for_mean_lovasz():
    f = random_ksat(12, 12, 5, seed=1)
    s = nelson.sample(f, None, 500, seed=1, sweeps=3)
    named = nelson.sample(f, None, 500, seed=1, sweeps=3, method="lovasz")
    assert np.array_equal(s.packed, named.packed)
    assert s.guarantee == "asymptotic"
    assert "auto" not in s.info


def test_a_new_theta_costs_no_new_circuit(monkeypatch):
    f = joined(random_ksat(18, 18, 5, seed=4), example1())
    nelson.sample(f, None, 10, seed=1)

    def refuse(*args, **more):
        raise AssertionError("compiled again")

    monkeypatch.setattr("nelson.exact.compiled.build", refuse)
    for k in range(3):
        s = nelson.sample(f, np.random.default_rng(k).normal(size=f.n_vars), 10, seed=1)
        assert s.guarantee == "exact"


# --- no solution, no time -------------------------------------------------------------------------


def test_unsatisfiable_only_if_proved(monkeypatch):
    for holes in (3, 6):
        with pytest.raises(nelson.Unsatisfiable):
            nelson.sample(pigeonhole(holes), None, 10)
    with pytest.raises(nelson.Unsatisfiable):  # one component of two
        nelson.sample(joined(example1(), pigeonhole(4)), None, 10)
    f = pigeonhole(7)
    monkeypatch.setattr(starts, "find", lambda *a: (np.zeros((0, f.n_vars), bool), ""))
    monkeypatch.setattr(compiling, "installed", lambda: True)
    monkeypatch.setattr(compiling, "promising", lambda parts: [])
    s = nelson.sample(f, None, 10, seconds=5)
    assert s.status == "budget"
    assert len(s) == 0
    assert "found no solution in the time" in s.info["reason"]


def test_no_time_is_a_budget():
    f = random_ksat(400, 800, 5, seed=1)
    s = nelson.sample(f, None, 64, seconds=0.0, seed=1)
    assert s.status == "budget"
    assert s.info["reason"]
    assert s.guarantee == "heuristic"


# --- diagnostics ----------------------------------------------------------------------------------


def test_j_sweeps_and_k_more_are_j_plus_k():
    f = random_ksat(100, 150, 5, seed=1)
    theta = np.random.default_rng(0).normal(size=(2, 100))
    problem = prepare(f)
    for count in (50, 64 * 16 + 7):
        request = pilot_request(theta, count, 1, None)
        request = replace(request, columns=np.arange(100))
        early = next(engine.blocks(0, problem, replace(request, sweeps=3)))
        late = next(engine.blocks(0, problem, replace(request, sweeps=8)))
        block = resumed(problem, replace(request, sweeps=5), early.packed, 3, 0, count)
        assert np.array_equal(block.packed, late.packed)
        assert np.array_equal(block.valid, late.valid)


def test_a_start_that_is_not_valid_is_not_handed_out():
    f = random_ksat(20, 40, 3, seed=1)
    request = pilot_request(np.zeros((1, 20)), 64, 1, None)
    bad = np.zeros((1, 20), bool)
    bad[0] = ~f.satisfied(bad)[0]
    chains = Chains.given(prepare(f), request, [np.vstack([bad, ~bad])])
    right = f.satisfied(np.vstack([bad, ~bad]))
    chains.sweep_to(3)
    assert chains.lanes() == 32 * right.sum()


@pytest.mark.parametrize("skip", [(), ("resampling",)])
def test_chains_that_are_cut_off_are_called_heuristic(skip):
    """Two parities with a shared variable; 3-SAT whose space falls apart. The twin is connected."""
    for f in (xor3(), random_ksat(12, 24, 3, seed=3)):
        choice = decided(f, "enumerate", "circuit", *skip, theta=weights(f)).choice
        assert choice.guarantee == "heuristic", choice
    free = random_ksat(12, 12, 5, seed=3)
    choice = decided(free, "enumerate", "circuit", *skip).choice
    assert choice.guarantee == "asymptotic", choice


def test_starts_elsewhere_show_what_correlations_do_not():
    """Two far apart cubes, {x1..x4 = 0} and {x1..x4 = 1}, within which chains mix at once: of the
    free variables x5.. nothing is seen. Marginals from other starts tell; where there is one cube
    only, they agree.
    """
    clauses = [[-1, 2], [-2, 3], [-3, 4], [-4, 1], [1, 5, 6], [-1, 7, 8]]
    f = Formula(clauses, n_vars=8)
    problem = prepare(f)
    theta = np.zeros((1, 8))
    request = pilot_request(theta, 64, 1, None)
    kinds = agree.looks(agree.shifted(problem, request), 50)
    plain = Chains.resampled(problem, pilot_request(theta, 4096, 1, None), theta)
    kinds += agree.looks([plain], 50)
    assert agree.compare(kinds).agree is False
    one = prepare(Formula([[1, 5, 6], [-1, 7, 8], [5, 7]], n_vars=8))
    kinds = agree.looks(agree.shifted(one, request), 50)
    kinds += agree.looks([Chains.resampled(one, pilot_request(theta, 4096, 1, None), theta)], 50)
    assert agree.compare(kinds).agree is True
    assert agree.compare(kinds[:1]).agree is None


# --- said to the user ---------------------------------------------------------------------------


def test_every_step_not_taken_is_explained():
    ladder = ("extremal", "enumerate", "circuit", "resampling")
    reached = {"lovasz": 3, "enumerate": 1, "circuit": 2, "cdcl": 4}
    for f, skip in (
        (random_ksat(12, 24, 3, seed=3), ()),
        (random_ksat(18, 18, 5, seed=4), ()),
        (random_ksat(300, 300, 5, seed=1), ()),
        (random_ksat(14, 20, 3, seed=5), ("enumerate", "circuit", "resampling")),
    ):
        for part in decided(f, *skip).choice.parts:
            passed = part["not taken"]
            assert tuple(passed) == ladder[: reached[part["method"]]], part
            assert all(passed.values())


def test_info_prints_the_choice():
    text = str(nelson.report(mixed()))
    assert text.count("auto takes") == 3
    assert "not extremal" in text
    assert "preprocessing" in text
    told = nelson.report(mixed()).to_dict()["choice"]
    assert told["parts"][0]["not taken"]
