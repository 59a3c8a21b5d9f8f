"""The families of `nelson bench labels`: their truth, the judgement of errors, and a fast subset.

The truth of every family of at most 18 variables is computed again by a plain sum over all
assignments. The builders behind larger families are checked in the same way at a small size.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lab import labels
from lab.labels import blocks, conserved, honest, phases, sectors, switches
from lab.labels.case import (
    COUNT,
    FAMILIES,
    Case,
    Watch,
    disguised,
    worst_error,
)
from lab.labels.draw import by_chains, measure
from nelson.budget import Budget
from nelson.errors import FormulaError
from nelson.exact.compiled import compiled
from nelson.exact.listing import structures
from nelson.formula import Formula
from nelson.sampling.auto.steps import circuit
from nelson_paper import experiments
from tests.problems import all_states

#: Most variables, auxiliary ones included, of a plain sum over all assignments.
SMALL = 18
#: Beginnings of the names of families that have variants of that size.
SMALL_FAMILIES = ("kab", "needle", "balls", "random-set", "cardinality", "unseen", "closed", "par")
#: Families that take a few seconds at most, honest ones among them.
FAST = (
    "alone-small", "alone-disguised", "behind-parity-of-two", "doors-two", "regions-three",
    "ties-uniform", "closed-door-evidence", "closed-door-infinite", "kab-k-4-14", "kab-k-10-10",
    "grid-phase-frozen", "ferromagnet-grid", "one-hot-permutations", "cardinality-weighted",
    "dense-3sat-weighted", "parities-strong", "implications-chain-60", "balls-two",
    "random-sparse-5sat-60", "random-sparse-3sat-60", "grid-path", "regular-cubic-60",
    "matchings-cycle", "not-all-equal-sparse", "open-clocks-sparse",
)  # fmt: skip
#: The same, but their labels are false as long as only single marginals are compared.
ONCE_FALSE = (
    "kab-star", "kab-star-swept", "kab-star-few", "kab-star-projected", "kab-k-5-40",
    "kab-three-phases", "kab-star-log-z", "in-5sat-star", "hubs-medium", "contexts-issue",
    "clocks-ring-disguised", "golf-last", "polynomial-product", "alone-biased",
    "equal-marginals-rings", "equal-marginals-multiplexer",
    "with-5sat-rings", "balls-needle", "unseen-lovasz-projected", "grid-zero",
)  # fmt: skip


def summed(case: Case) -> tuple[np.ndarray, list[float], float]:
    """Marginals, means of the watched quantities and log Z by a plain sum over all assignments."""
    f = case.formula
    x = all_states(f.n_total)
    x = x[np.logical_and.reduce([(x[:, np.abs(c) - 1] == (np.array(c) > 0)).any(1) for c in f])]
    theta = np.zeros(f.n_vars) if case.theta is None else np.array(case.theta, float)
    given = {abs(v): v > 0 for v in case.options.get("given", [])}
    for v, infinite in enumerate(np.isinf(theta), 1):
        if infinite:
            given[v] = bool(theta[v - 1] > 0)
    for v, value in given.items():
        x = x[x[:, v - 1] == value]
    x = x[:, : f.n_vars]
    score = x @ np.where(np.isinf(theta), 0.0, theta)
    weight = np.exp(score - score.max())
    p = weight / weight.sum()
    means = [float(p @ np.asarray(w.of(x), float)) for w in case.watch]
    return p @ x, means, float(score.max() + np.log(weight.sum()))


def check_truth(case: Case) -> None:
    marginals, means, log_z = summed(case)
    if case.means is not None:
        known = ~np.isnan(case.means)
        np.testing.assert_allclose(case.means[known], marginals[known], atol=1e-9)
    for watch, mean in zip(case.watch, means, strict=True):
        assert watch.truth == pytest.approx(mean, abs=1e-9), watch.name
    if case.log_z is not None:
        assert case.log_z == pytest.approx(log_z, abs=1e-9)


def small_cases() -> dict[str, Case]:
    """Families that are small, and the builders of the others at a small size."""
    cases = {}
    for name, family in FAMILIES.items():
        if not name.startswith(SMALL_FAMILIES):
            continue
        case = family.build(1)
        one_theta = case.theta is None or np.ndim(case.theta) == 1
        if case.formula.n_total <= SMALL and one_theta and case.call != "terms":
            cases[name] = case
    return cases | {
        "switch": switches.alone(3, hard=8, easy=6, theta=-0.5, door=0.3),
        "rings": switches.equal_marginals(0, "rings", 4, sizes=(2, 2), group=3),
        "multiplexer": switches.equal_marginals(0, "multiplexer", 7, sizes=(2, 1), group=3),
        "key": switches.key(0, bits=4, m=3, door=0.3),
        "doors": switches.doors(0, k=3, door=-1.0, outer=5, inner=4),
        "regions": switches.regions(0, (3, 5, 4), theta=0.7),
        "parts": phases.parts_case((2, 3, 5), (1.0, -0.5, 0.2)),
        "hubs": phases.hubs(2, hubs=5, leaves=12, degree=4, weights=(2.0, 0.3)),
        "grid": phases.grid_phase(0, rows=4, columns=4, theta=0.7, field=0.2),
        "narrow grid": phases.grid_phase(0, rows=12, columns=1, theta=1.0),
        "honest grid": honest.grid(3, rows=6, columns=3, theta=0.3, scale=1.0),
        "spins": phases.ferromagnet(0, blocks.grid(2, 3), 6, coupling=1.3, field=0.2),
        "implications": phases.implications(0, n=12, theta=0.1, wells=0.3),
        "ideals": phases.ideals(0, a=4, b=4),
        "clocks": conserved.clocks(0, sites=4, n=6, m=4),
        "open clocks": conserved.open_clocks(0, sites=4, n=6, m=4),
        "ice": conserved.ice(0, size=3),
        "permutations": sectors.permutations(0, n=4, reach=4),
        "laps": sectors.laps(0, steps=4, cells=4),
        "clock torus": sectors.clock_torus(0, rows=2, columns=4),
        "rooms": sectors.rooms(0, left=4, right=5, step=1),
    }


@pytest.mark.slow
def test_truth_by_a_plain_sum():
    cases = small_cases()
    assert len(cases) >= 30
    for case in cases.values():
        check_truth(case)


def test_a_wrong_truth_is_seen():
    """The twin of the test above: a marginal or a quantity that is off by 10^-6 fails."""
    case = phases.parts_case((2, 3), (1.0, 0.5))
    check_truth(case)
    assert case.means is not None and case.log_z is not None
    for wrong in (
        replace(case, means=case.means + 1e-6 * np.eye(5)[2]),
        replace(case, watch=(replace(case.watch[0], truth=case.watch[0].truth + 1e-6),)),
        replace(case, log_z=case.log_z + 1e-6),
    ):
        with pytest.raises((AssertionError, ValueError)):
            check_truth(wrong)


def test_matchings_of_a_torus_are_counted_by_their_windings():
    """272 perfect matchings of the 4 x 4 torus, by a list: Kasteleyn's determinant agrees."""
    case = conserved.torus(0, size=4)
    rows = structures(case.formula)
    assert rows is not None and len(rows) == 272
    assert case.watch[0].truth == pytest.approx(case.watch[0].of(rows).mean(), abs=1e-9)
    assert case.watch[0].truth < 0.9
    np.testing.assert_allclose(rows.mean(axis=0), 0.25)


def test_sectors_are_counted_as_in_a_list():
    """More structures than a plain sum reaches: their list. Each quantity takes both values."""
    for case in (
        sectors.permutations(0, n=7, reach=3),
        sectors.laps(0, steps=6, cells=5),
        sectors.colourings(0, rows=2, columns=6),
    ):
        rows = structures(case.formula)
        assert rows is not None
        for watch in case.watch:
            assert 0.01 < watch.truth < 0.99
            assert watch.truth == pytest.approx(watch.of(rows).mean(), abs=1e-9)


def test_a_planted_key_has_one_solution():
    key = np.random.default_rng(1).random(8) < 0.5
    clauses = sectors.one_solution(key, 1, np.random.default_rng(2))
    assert structures(Formula(clauses, n_vars=8)).tolist() == [key.tolist()]


def test_a_key_of_parities_has_one_solution():
    random = np.random.default_rng(0)
    key = random.random(9) < 0.5
    formula = Formula(conserved.parities(key, 1, random), n_vars=9)
    assert structures(formula).tolist() == [key.tolist()]
    golf = conserved.golf(0, bits=9, m=20, n=30, at="middle")
    x = np.random.default_rng(1).random((64, 39)) < 0.5
    x[:, 15:24] = np.random.default_rng([0, 9, 20]).random(9) < 0.5
    assert golf.watch[0].of(x).all() and golf.formula.satisfied(x).all()
    x[:, 20] ^= True
    assert not golf.watch[0].of(x).any()


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(not circuit.installed(), reason="the compiler is not installed")
@pytest.mark.parametrize("name", ["random-sparse-3sat-60", "regular-cubic-60", "matchings-cycle"])
def test_long_runs_of_honest_families_are_true(name):
    """Marginals of a long run against a circuit: 5 standard errors, false alarm 1 in 10^4 or less.
    The twin: theta that is 0.3 larger is outside.
    """
    case = FAMILIES[name].build(0)
    circuit = compiled(case.formula, Budget.of(60.0))
    assert circuit is not None and case.means is not None
    theta = np.array(case.theta, float)[None]
    assert (np.abs(case.means - circuit.mean(theta)[0]) < 5 * case.means_error).all()
    assert (np.abs(case.means - circuit.mean(theta + 0.3)[0]) > 5 * case.means_error).any()


def test_mirrored_and_reflected_families_have_no_staggered_sum():
    for name in ("symmetric-phase-torus", "symmetric-phase-bipartite", "grid-phase-cold"):
        case = FAMILIES[name].build(2)
        assert case.watch[0].truth == pytest.approx(0.0, abs=1e-9)
        f = case.formula
        half = f.n_vars // 2
        if name.endswith("bipartite"):  # the exchange of the two sides keeps the clauses
            swapped = np.where(np.abs(f.literals) <= half, f.literals - half, f.literals + half)
            mirrored = {tuple(sorted(c)) for c in swapped.reshape(-1, 2).tolist()}
            assert mirrored == {tuple(sorted(c)) for c in f}


# --- the judgement -------------------------------------------------------------------------------


def coin_case(p: float) -> Case:
    value = Watch("both", lambda x: x.all(axis=1), p * p)
    total = Watch("sum", lambda x: x.sum(axis=1), 2 * p, float(np.sqrt(2 * p * (1 - p))))
    return Case(Formula([], n_vars=2), watch=(value, total), means=np.full(2, p))


def test_errors_within_noise_are_right_and_larger_ones_wrong():
    """Independent draws of the right law, and of a law that is off by 0.03. 5 standard errors of
    16,384 draws are 0.02: false alarm 1 in 10^6.
    """
    x = np.random.default_rng(5).random((16384, 2))
    for p in (0.3, 0.5, 0.02):
        right = worst_error(coin_case(p), x < p, (1, 2))
        assert right is not None and not right.wrong and right.sigmas < 5
        wrong = worst_error(coin_case(p), x < p + 0.03, (1, 2))
        assert wrong is not None and wrong.wrong and wrong.sigmas > 5
    tiny = worst_error(coin_case(0.5), x < 0.5 + 0.015, (1, 2))
    assert tiny is not None and (not tiny.wrong or tiny.quantity == "sum")
    assert worst_error(coin_case(0.5), np.zeros((0, 2), bool), (1, 2)) is None


def test_a_projection_is_judged_by_its_own_marginals():
    case = replace(coin_case(0.5), means=np.array([0.5, 0.9]))
    x = np.random.default_rng(6).random((4096, 1)) < 0.9
    right, wrong = worst_error(case, x, (2,)), worst_error(case, ~x, (2,))
    assert right is not None and not right.wrong and right.quantity == "x2"
    assert wrong is not None and wrong.wrong


@pytest.mark.slow
def test_chains_are_asked_even_where_the_formula_could_be_enumerated():
    case = phases.parts_case((2, 3), (1.0, 0.5))
    samples = by_chains(case, seed=1)
    assert samples.info["method"] == "lovasz" and samples.info["sweeps"] > 0
    assert samples.guarantee != "exact" and len(samples) == case.count


def test_a_disguise_keeps_the_law():
    plain = phases.parts_case((4, 6), (1.0, 0.7))
    hidden = disguised(plain, seed=3)
    assert plain.formula != hidden.formula
    check_truth(hidden)
    assert [w.truth for w in plain.watch] == [w.truth for w in hidden.watch]


# --- labels --------------------------------------------------------------------------------------


def check_label(name: str) -> None:
    """A quarter of the samples of `nelson bench labels`: here an error of a probability is seen if
    it exceeds 0.04 (5 standard errors), there if it exceeds 0.02.
    """
    case = FAMILIES[name].build(0)
    outcome = measure(replace(case, count=min(case.count, COUNT // 4)), 0)
    assert not outcome.false_label, outcome
    if FAMILIES[name].kind == "honest":
        assert outcome.claims, outcome.why


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("name", FAST)
def test_labels(name):
    """No label above "heuristic" for samples that are wrong; honest families keep theirs."""
    check_label(name)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("name", ONCE_FALSE)
def test_labels_that_once_were_false(name):
    check_label(name)


def test_there_are_enough_families():
    kinds = [family.kind for family in FAMILIES.values()]
    assert kinds.count("adversarial") >= 60 and kinds.count("honest") >= 30
    assert {*FAST, *ONCE_FALSE} <= set(FAMILIES)
    experiment = experiments.get("lab.labels:EXPERIMENT")
    assert len(experiment.cells(False)) == len(FAMILIES)
    assert len(experiment.cells(True)) == labels.FULL_SEEDS * len(FAMILIES)


def test_the_two_rates():
    def row(kind: str, label: str, wrong: bool, status: str = "ok") -> dict:
        claims = label != "heuristic"
        return {
            "family": f"{kind}-{label}-{wrong}", "kind": kind, "label": label, "status": status,
            "n": 5, "clauses": 3, "seconds": 1.5, "wrong": wrong, "false": wrong and claims,
            "kept": claims, "quantity": "x1", "estimate": 0.1, "truth": 0.5, "sigmas": 9.0,
        }  # fmt: skip

    rows = [
        row("adversarial", "diagnosed", True),
        row("adversarial", "heuristic", True),
        row("adversarial", "exact", False),
        row("honest", "diagnosed", False),
        row("honest", "heuristic", False),
        row("honest", "diagnosed", True),
    ]
    told = " ".join(labels.summary(rows))
    assert "False labels: 2 of 6 cases. The samples of 2 of 3 adversarial cases are wrong." in told
    assert "False: adversarial-diagnosed-True, honest-diagnosed-True." in told
    assert "Labels kept: 2 of 3 honest cases (67%). Lost: honest-heuristic-False." in told
    [table] = labels.tables(rows)
    assert len(table.rows) == 6 and table.note.split() == told.split()
    assert labels.tables([]) == []
    failed = {"family": "x", "seed": 0, "status": "T.O."}
    assert "Not finished: 1 cases." in labels.summary([*rows, failed])


@pytest.mark.slow
def test_run_all_prints_a_line_per_family(capsys):
    rows = labels.run_all(["closed-door-evidence"], seeds=(0, 1))
    lines = capsys.readouterr().out.splitlines()
    assert len(rows) == 2 and len(lines) == 4
    assert lines[0].startswith("closed-door-evidence")


def test_unknown_families_are_named():
    with pytest.raises(FormulaError, match="no family 'nothing'"):
        labels.run_family("nothing")
