"""Learning all pairs with persistent chains: gradients, planted laws, resumed runs, validation."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import nelson
from nelson import Formula, Polynomial
from nelson.chains.term_chains import Fields
from nelson.kernels.core.bits import pack
from nelson.learning import Proximal, Run
from nelson.learning import terms as products
from nelson.learning.persistent import Persistent
from nelson.learning.pseudo import Conditionals, first_point
from nelson.learning.terms import all_pairs, coefficients, lifted

SEED, N = 20231, 4000
#: Three fields of three values and two lone variables; the first values exclude each other.
CLAUSES = [[-1, -4], [10, 11, 2]]
for own in ((1, 2, 3), (4, 5, 6), (7, 8, 9)):
    CLAUSES += [list(own), *([-a, -b] for a, b in combinations(own, 2))]
FORMULA = Formula(CLAUSES, n_vars=11)
STATES = (np.arange(1 << 11)[:, None] >> np.arange(11) & 1).astype(bool)
STATES = STATES[FORMULA.satisfied(STATES)]
PAIRS = all_pairs(FORMULA)
_random = np.random.default_rng(SEED)
THETA = _random.normal(size=11)
TERMS = {pair: float(0.8 * _random.normal()) if _random.random() < 0.4 else 0.0 for pair in PAIRS}


def law(theta, terms) -> np.ndarray:
    score = STATES @ np.asarray(theta) + Polynomial(terms)(STATES)
    weight = np.exp(score - score.max())
    return weight / weight.sum()


def rows(count: int, seed: int) -> np.ndarray:
    p = law(THETA, TERMS)
    return STATES[np.random.default_rng([SEED, seed]).choice(len(p), count, p=p)]


def divergence(fit) -> float:
    p = law(THETA, TERMS)
    return float((p * np.log(p / law(fit.theta, fit.terms))).sum())


def free_parameters() -> int:
    """The rank of the covariance of variables and pairs: fields and rules tie some of them."""
    features = lifted(FORMULA, "pairs").complete(STATES).astype(float)
    return int(np.linalg.matrix_rank(features - features.mean(axis=0)))


@pytest.fixture
def chains(monkeypatch):
    """No circuit and no enumeration: samples come from chains."""
    monkeypatch.setattr(products, "exact_source", lambda *_: None)


def test_pairs_are_those_between_fields():
    assert (1, 2) not in PAIRS and (1, 4) in PAIRS and (9, 10) in PAIRS
    assert len(PAIRS) == 11 * 10 // 2 - 9
    with pytest.raises(nelson.FormulaError, match="pairs"):
        nelson.learn(FORMULA, rows(10, 0), terms="all")
    with pytest.raises(nelson.FormulaError, match="without terms"):
        nelson.learn(FORMULA, rows(10, 0), optimizer=Proximal(l1=0.1))


def test_gradients_of_chains_are_those_of_enumeration():
    """E_model of variables and pairs from chains, against sums over all structures. 5 sigma for 57
    moments of 2^14 lanes: a false alarm in 4e-5 of cases. The twin: without terms it fails."""
    shape = lifted(FORMULA, "pairs")
    theta = np.concatenate([THETA, [TERMS[m] for m in shape.monomials]])
    sampler = Persistent(FORMULA, shape, rows(200, 1), 40, 1)
    m = 1 << 14
    mean = sampler(shape.formula, theta, m, 3).mean()

    def wrong(terms) -> bool:
        exact = law(THETA, terms) @ shape.complete(STATES)
        sigma = np.sqrt(np.maximum(exact * (1 - exact), 1e-3) / m)
        return bool((np.abs(mean - exact) > 5 * sigma).any())

    assert not wrong(TERMS) and wrong({})


def test_conditional_laws_keep_the_rules():
    """The gradient of the pseudo-likelihood against differences, and P(x_v | rest) by hand."""
    x, table = rows(50, 2), np.zeros((11, 11))
    for (a, b), c in TERMS.items():
        table[a - 1, b - 1] = table[b - 1, a - 1] = c
    p, value = Conditionals(FORMULA, Fields(FORMULA), x)(THETA, table)
    weight = dict(zip(map(bytes, STATES), law(THETA, TERMS), strict=True))
    for row, share in zip(x[:10], p[:10], strict=True):
        for own in ((0, 1, 2), (3, 4, 5), (9,)):
            others = STATES[(np.delete(STATES, own, 1) == np.delete(row, own)).all(1)]
            total = sum(weight[bytes(o)] for o in others)
            for v in own:
                exact = sum(weight[bytes(o)] for o in others if o[v]) / total
                assert share[v] == pytest.approx(exact, abs=1e-5)
    assert value < 0
    wanted = np.zeros((11, 11), bool)
    wanted[0, 7] = wanted[7, 0] = True
    start = first_point(FORMULA, x, None, wanted, 1e-3)
    assert not start.table[~wanted].any()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["chains", "circuit"])
def test_planted_pairs_are_found_at_the_statistical_limit(kind, monkeypatch):
    """KL(planted, learned) is chi-square(k) / 2N at best: the mean over 3 data sets stays below 1.5
    k / 2N (a right one fails in about 1e-3 of cases, k = 32). The twin: without pairs it is far."""
    if kind == "chains":
        monkeypatch.setattr(products, "exact_source", lambda *_: None)
    k, found, plain = free_parameters(), [], []
    for seed in range(3):
        x = rows(N, 10 + seed)
        options = {"optimizer": Proximal(l1=0.0)} if kind == "chains" else {}
        fit = nelson.learn(FORMULA, x, terms=PAIRS, seed=seed, threads=1, **options)
        found.append(divergence(fit))
        assert fit.guarantee == ("diagnosed" if kind == "chains" else "exact")
        if kind == "circuit" and not seed:
            plain.append(divergence(nelson.learn(FORMULA, x, terms=[(1, 5)], seed=seed)))
    print(f"2 N KL = {2 * N * np.mean(found):.3g} for {k} free parameters")
    assert np.mean(found) <= 1.5 * k / (2 * N)
    assert all(off > 3 * k / (2 * N) for off in plain)


def run(folder=None, callback=None, seed=5):
    return nelson.learn(
        FORMULA,
        rows(300, 3),
        terms="pairs",
        valid=rows(100, 4),
        seed=seed,
        threads=1,
        optimizer=Proximal(m=128, iterations=100, stage=40),
        run=Run(checkpoint=folder, every=25, callback=callback),
    )


class Stopped(Exception):
    """As if the process had been killed."""


@pytest.mark.slow
@pytest.mark.usefixtures("chains")
def test_chains_that_nobody_judged_are_heuristic():
    """A run that the time ends before its chains were compared makes no claim about them."""
    fit = nelson.learn(
        FORMULA, rows(50, 3), terms="pairs", valid=rows(50, 4), seconds=1e-9, seed=1, threads=1
    )
    assert fit.guarantee == "heuristic" and "heuristic" in fit.why


@pytest.mark.slow
@pytest.mark.usefixtures("chains")
def test_a_stopped_run_resumes_to_the_same_bits(tmp_path, monkeypatch):
    """Stages of 40 steps, so that the checkpoint of step 75 lies behind the end of one; chains have
    rungs from there on."""
    monkeypatch.setattr(Persistent, "LAG", -1.0)

    def stop(row):
        if row["iteration"] == 90:
            raise Stopped

    with pytest.raises(Stopped):
        run(tmp_path, callback=stop)
    assert json.loads((tmp_path / "checkpoint.json").read_text())["iteration"] == 75
    resumed, whole = run(tmp_path), run()
    assert resumed.theta.tobytes() == whole.theta.tobytes() and resumed.terms == whole.terms
    assert whole.terms != run(seed=6).terms  # the twin
    with pytest.raises(nelson.FormulaError, match="validation data"):
        nelson.learn(
            FORMULA,
            rows(300, 3),
            terms="pairs",
            valid=rows(90, 4),
            run=Run(checkpoint=tmp_path),
            optimizer=Proximal(m=128),
            seed=5,
        )


@pytest.mark.slow
@pytest.mark.usefixtures("chains")
def test_validation_chooses_the_penalty(tmp_path):
    """Few examples and many pairs: the best stage is better than no penalty, and says its score."""
    x, valid, test = rows(150, 5), rows(150, 6), rows(2000, 7)
    chosen = Proximal(m=512)
    fit = nelson.learn(FORMULA, x, terms="pairs", valid=valid, seed=1, threads=1, optimizer=chosen)
    free = nelson.learn(
        FORMULA,
        x,
        terms="pairs",
        valid=valid,
        seed=1,
        threads=1,
        optimizer=Proximal(l1=0.0, m=512, iterations=600, prior=0.0),
    )
    score = fit.log_likelihood(test)
    assert fit.converged and "validation examples" in fit.why
    assert score.value > free.log_likelihood(test).value
    assert score.half_width >= score.data_half_width > 0
    exact = np.log(law(fit.theta, fit.terms))
    index = {bytes(s): p for s, p in zip(STATES, exact, strict=True)}
    assert score.value == pytest.approx(np.mean([index[bytes(r)] for r in test]), abs=1e-6)
    fit.save(tmp_path / "model")
    loaded = nelson.load(tmp_path / "model")
    assert loaded.terms == fit.terms
    assert loaded.sample(100, seed=1).guarantee == "exact"


@pytest.mark.slow
def test_exchanges_bring_chains_to_a_region_they_do_not_reach():
    """Seven variables that are all true, or all false: 1,024 chains begin at the less likely of the
    two. With rungs the share of each variable is that of enumeration: 5 sigma for 7 variables,
    a false alarm in 4e-6 of cases. The twin: without rungs it fails."""
    formula = Formula([[1, 2, -3, 4]], n_vars=7)
    shape = lifted(formula, "pairs")
    states = (np.arange(1 << 7)[:, None] >> np.arange(7) & 1).astype(bool)
    states = states[formula.satisfied(states)]
    theta = np.concatenate([np.full(7, -5.8), np.full(21, 2.0)])
    weight = np.exp(shape.complete(states) @ theta)
    exact = weight / weight.sum() @ states
    examples = states[np.random.default_rng(1).choice(len(states), 500, p=weight / weight.sum())]

    def mean(rungs: bool) -> np.ndarray:
        sampler = Persistent(formula, shape, examples, 2, 1)
        start = pack(np.zeros((1024, 7), bool))
        sampler.take({"chains": start} | ({"rungs": np.tile(start, (5, 1, 1))} if rungs else {}))
        for step in range(200):
            drawn = sampler(shape.formula, theta, 1024, step)
        assert set(sampler.arrays()) == ({"chains", "rungs"} if rungs else {"chains"})
        return drawn.to_numpy()[:, :7].mean(axis=0)

    sigma = np.sqrt(exact * (1 - exact) / 1024)
    assert exact.min() > 0.5 and exact.max() < 0.9
    assert (np.abs(mean(True) - exact) < 5 * sigma).all()
    assert (np.abs(mean(False) - exact) > 5 * sigma).all()


@pytest.mark.slow
def test_a_stage_that_ends_far_below_the_best_is_taken_back(monkeypatch):
    """The second of three stages is made to look five nats worse: the third starts again from the
    result of the first, with the same penalty and shorter steps. The twin: if no distance is too
    far, the penalty goes on falling and steps stay as long."""
    real = products.log_z_of

    def worse(*given):
        log_z, calls = real(*given), iter(range(9))  # call 0: the first point
        return lambda theta, seed: replace(
            at := log_z(theta, seed), log_z=at.log_z + 5 * (next(calls) == 2)
        )

    def stages(far: float) -> tuple[list[float], float]:
        data = {"terms": "pairs", "valid": rows(100, 9), "seed": 1, "threads": 1}
        optimizer = Proximal(iterations=60, m=64, stage=20, far=far)
        history = nelson.learn(FORMULA, rows(300, 8), optimizer=optimizer, **data).history
        ends = [row for row in history if "validation" in row]
        assert len(ends) == 3 and ends[1]["validation"] < ends[0]["validation"] - 4
        return [row["l1"] for row in ends], history[-1]["move"]

    monkeypatch.setattr(products, "log_z_of", worse)
    (_, second, third), short = stages(far=1.0)
    assert third == second
    (_, second, third), long = stages(far=np.inf)
    assert third == pytest.approx(0.7 * second) and long > 2 * short


def test_hostile_chains_are_refused():
    shape = lifted(FORMULA, "pairs")
    sampler = Persistent(FORMULA, shape, rows(20, 1), 1, 1)
    for wrong in (
        np.zeros((2, 10), np.uint64),
        np.zeros((2, 11), np.int64),
        np.zeros((0, 11), np.uint64),
        np.zeros((2, 11), np.uint64),  # not valid: no field has a value
    ):
        with pytest.raises(ValueError, match="chains"):
            sampler.take({"chains": wrong})
    with pytest.raises(ValueError, match="2 rungs; expected 5"):
        sampler.take({"rungs": np.tile(pack(rows(64, 1)), (2, 1, 1))})
    assert coefficients(shape, np.arange(57.0))[shape.monomials[0]] == 11.0
