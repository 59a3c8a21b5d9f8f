"""Every exact way against rational arithmetic: log Z, marginals and samples, under weights from
1e-300 to 1e300 and on stars of thousands of leaves.

A way may decline (no compiler, too wide, tables that doubles cannot hold). It may not be wrong, nor
call a formula unsatisfiable that is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import nelson
from nelson import BudgetExceeded, Formula, Unsatisfiable
from nelson.budget import Budget
from nelson.chains.chain import resumed
from nelson.chains.diagnosis.diagnose import pilot_request
from nelson.chains.moves.joint import joint_moves
from nelson.chains.problem import prepare
from nelson.exact.compiled import compiled
from nelson.exact.counter import GanakCounter, missing
from nelson.exact.enumerated import Enumerated
from nelson.exact.listing import structures
from nelson.exact.routes import Reason
from nelson.exact.rows_by_inputs import rows_by_inputs
from nelson.kernels.core.bits import pack, unpack
from nelson.log_z.parts import merge, reduce
from nelson.log_z.sums import LostEntries, Sums
from nelson.policy import DEFAULT
from tests.problems import chi_square, random_ksat

#: What a way may say instead of a value.
DECLINED = None
#: A right sampler fails a chi-square test with this probability; seeds are fixed.
ALPHA = 1e-5
#: log10 of the weights: of one size, of many sizes, and beyond the range of products of doubles.
SIZES = (0.5, 20.0, 300.0)


def log(x: Fraction) -> float:
    return math.log(x.numerator) - math.log(x.denominator)


class Truth:
    """Z and P(x_i = 1) of a small formula by sums of fractions."""

    def __init__(self, f: Formula, weights: list[Fraction]) -> None:
        n = f.n_vars
        states = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)
        self.states = states[f.satisfied(states)]
        self.weights = [
            math.prod((w for w, bit in zip(weights, x, strict=True) if bit), start=Fraction(1))
            for x in self.states.tolist()
        ]
        self.z = sum(self.weights, Fraction(0))
        self.log_z = log(self.z)
        self.law = np.array([float(w / self.z) for w in self.weights])
        self.means = self.law @ self.states


def narrow(seed: int) -> Formula:
    """Clauses between neighbours on a line, an implication from afar, and a gate."""
    rng = np.random.default_rng(seed)
    n = 9
    rows = [
        [int(v) * int(rng.choice([-1, 1])) for v in 1 + first + rng.permutation(4)[:k]]
        for first, k in zip(rng.integers(0, n - 3, 9), rng.integers(2, 4, 9), strict=True)
    ]
    rows += [[-1, n], [n + 1, -2, -3], [-n - 1, 2], [-n - 1, 3]]
    return Formula(rows, n_vars=n + 1)


def cover(rows: int, columns: int) -> Formula:
    """Vertex covers of a grid."""
    v = np.arange(1, rows * columns + 1).reshape(rows, columns)
    across = np.stack([v[:, 1:].reshape(-1), v[:, :-1].reshape(-1)], axis=1)
    down = np.stack([v[1:].reshape(-1), v[:-1].reshape(-1)], axis=1)
    return Formula([*across.tolist(), *down.tolist()])


def cases() -> Iterator[tuple[str, Formula, list[Fraction]]]:
    formulas = {f"narrow {seed}": narrow(seed) for seed in range(4)}
    formulas |= {"grid": cover(3, 3), "path": cover(1, 10), "3-sat": random_ksat(9, 14, 3, 5)}
    for k, (name, f) in enumerate(formulas.items()):
        for size in SIZES:
            rng = np.random.default_rng(k)
            powers = rng.uniform(-size, size, f.n_vars)
            yield f"{name} {size:g}", f, [Fraction(float(10.0**p)) for p in powers]


CASES = {name: (f, weights) for name, f, weights in cases()}


# --- the ways -------------------------------------------------------------------------------------


def by_enumeration(f: Formula, theta: np.ndarray) -> Enumerated | None:
    rows = structures(f, 1 << 12)
    return None if rows is None else Enumerated(rows)


def by_inputs(f: Formula, theta: np.ndarray) -> Enumerated | None:
    rows = rows_by_inputs(f, Budget(), DEFAULT)
    return None if isinstance(rows, Reason) else Enumerated(rows)


def by_counter(f: Formula, theta: np.ndarray) -> GanakCounter | None:
    return None if missing() else GanakCounter(f, Budget(), DEFAULT)


#: Sums and means of a formula with theta, or None.
WAYS: dict[str, Callable] = {
    "enumeration": by_enumeration,
    "inputs": by_inputs,
    "D4": lambda f, theta: compiled(f, compiler="d4"),
    "frontier": lambda f, theta: compiled(f, compiler="frontier"),
    "ganak": by_counter,
}


def by_sums(f: Formula, theta: np.ndarray) -> float | None:
    """Tables."""
    reduced = reduce(f, theta)
    if not reduced.parts:
        return reduced.constant
    part = merge(reduced.parts)
    sums = Sums.all(part.problem, part.theta, 1 << 40)
    assert sums is not None
    try:
        return sums.total(Budget(threads=1)) + reduced.constant
    except LostEntries:
        return DECLINED


def by_name(method: str) -> Callable[[Formula, np.ndarray], float | None]:
    def ask(f: Formula, theta: np.ndarray) -> float | None:
        try:
            found = nelson.log_z(f, theta, method=method, seed=1)
        except Unsatisfiable:
            raise
        except nelson.NelsonError:
            return DECLINED
        return found.value if found.exact else DECLINED

    return ask


def tolerance(theta: np.ndarray) -> float:
    """Doubles round each of the 2 n sums, of the size of the largest, by 2^-53."""
    return 1e-12 + 8 * len(theta) * max(1.0, float(np.abs(theta).sum())) * 2.0**-53


@pytest.mark.parametrize("name", CASES)
def test_all_exact_ways_agree_with_fractions(name):
    f, weights = CASES[name]
    truth, theta = Truth(f, weights), np.array([log(w) for w in weights])
    near = tolerance(theta)
    answered = 0
    for way, make in WAYS.items():
        try:
            if (source := make(f, theta)) is None:
                continue
            value = source.log_z(theta[None])[0]
        except BudgetExceeded:  # ganak takes no weights beyond the range of a double
            continue
        answered += 1
        assert value == pytest.approx(truth.log_z, abs=near), way
        if way != "ganak":
            assert source.mean(theta[None])[0] == pytest.approx(truth.means, abs=1e-9), way
    for way, value in (
        ("tables", by_sums(f, theta)),
        ("log_z", by_name("auto")(f, theta)),
        ("enumerate", by_name("enumerate")(f, theta)),
    ):
        if value is not DECLINED:
            answered += 1
            assert value == pytest.approx(truth.log_z, abs=near), way
    assert answered >= 5
    assert np.asarray(nelson.marginals(f, theta)) == pytest.approx(truth.means, abs=1e-9)
    mode = nelson.mode(f, theta)
    k = int(np.flatnonzero((truth.states == mode).all(1))[0])
    assert float(truth.weights[k] / max(truth.weights)) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_all_exact_samplers_have_the_law_of_fractions(name):
    """Chi-square of 4,000 samples, rate ALPHA for each of about 80 tests. The twin: the law of the
    weights of another size.
    """
    f, weights = CASES[name]
    truth, theta = Truth(f, weights), np.array([log(w) for w in weights])
    other = Truth(f, [Fraction(1) if w > 1 else Fraction(2) for w in weights])
    for method in ("auto", "enumerate", "circuit"):
        try:
            s = nelson.sample(f, theta, 4000, seed=3, method=method)
        except Unsatisfiable:
            raise
        except nelson.NelsonError:
            continue
        assert s.guarantee == "exact" and len(s) == 4000
        x = s.to_numpy()
        assert chi_square(x, (truth.states, truth.law)) > ALPHA, method
        assert chi_square(x, (other.states, other.law)) < ALPHA, method


# --- stars ----------------------------------------------------------------------------------------


class Star:
    """s implies `leaves` variables of weight w, t implies `more` of weight u, and s or t."""

    def __init__(self, leaves: int, more: int, w: Fraction, u: Fraction) -> None:
        clauses = [[1, 2], *([-1, 3 + k] for k in range(leaves))]
        clauses += [[-2, 3 + leaves + k] for k in range(more)]
        self.formula = Formula(clauses)
        self.weights = [Fraction(1)] * 2 + [w] * leaves + [u] * more
        self.theta = np.array([0.0] * 2 + [log(w)] * leaves + [log(u)] * more)
        only_s, only_t = w**leaves * (1 + u) ** more, (1 + w) ** leaves * u**more
        self.z = only_s + only_t + w**leaves * u**more
        self.log_z = log(self.z)
        self.p_s, self.p_t = (float(1 - one / self.z) for one in (only_t, only_s))


STARS = {
    "uniform": Star(1100, 1200, Fraction(1), Fraction(1)),
    "rare leaves": Star(200, 201, Fraction(1, 2**20), Fraction(1, 2**20)),
    "very rare leaves": Star(40, 41, Fraction(1, 2**900), Fraction(1, 2**880)),
    "frequent leaves": Star(1500, 1400, Fraction(2**30), Fraction(2**40)),
    "small": Star(300, 400, Fraction(1), Fraction(1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STARS)
def test_stars_of_thousands_of_leaves(name):
    star = STARS[name]
    f, theta = star.formula, star.theta
    near = tolerance(theta) + 1e-9
    values = {
        "auto": by_name("auto")(f, theta),
        "tables": by_sums(f, theta),
        "bridge": by_name("bridge")(f, theta),
        "circuit": by_name("circuit")(f, theta),
    }
    assert values["auto"] is not DECLINED
    assert (values["tables"] is not DECLINED) == (name in ("small", "frequent leaves"))
    for way, value in values.items():
        assert value is DECLINED or value == pytest.approx(star.log_z, abs=near), way
    found = nelson.marginals(f, theta)
    assert found.guarantee == "exact"
    assert found.mean[:2] == pytest.approx([star.p_s, star.p_t], abs=1e-9)


@pytest.mark.slow
def test_a_star_has_a_circuit_without_d4():
    """Its hubs are decided first; no other order of the frontier compiler is narrow."""
    star = Star(60, 70, Fraction(3), Fraction(1, 2))
    circuit = compiled(star.formula, compiler="frontier")
    assert circuit is not None
    value = circuit.log_z(star.theta[None])[0]
    assert value == pytest.approx(star.log_z, abs=tolerance(star.theta))


@pytest.mark.slow
@pytest.mark.parametrize("name", STARS)
def test_joint_sums_of_a_star_draw_its_law_or_decline(name):
    """A joint move that holds nothing: P(s) within 5 sigma of 640 lanes (rate 6e-7), unless doubles
    do not hold its tables: then no state moves. The twin is the law of "uniform", in which s is
    true in one of 2^100 samples; here every start has s.
    """
    star = STARS[name]
    problem = prepare(star.formula)
    plan = joint_moves(problem, 2)
    assert plan is not None and not plan.held
    x = np.ones((640, star.formula.n_vars), bool)
    request = replace(pilot_request(star.theta[None], 640, Budget(threads=1)), moves=plan, sweeps=1)
    block = resumed(problem, request, pack(x)[None], 0, 0, 640)
    y = unpack(block.packed[0], 640)
    if plan.loses(problem, request, pack(x)[None]):
        assert np.array_equal(x, y)
    elif not plan.beyond_resolution(star.theta[None]):
        spread = 5 * math.sqrt(640 * star.p_s * (1 - star.p_s))
        assert abs(int(y[:, 0].sum()) - 640 * star.p_s) <= spread
    assert plan.loses(problem, request, pack(x)[None]) == (name not in ("small", "frequent leaves"))


def implications(children: int, depth: int) -> tuple[Formula, Fraction]:
    """A tree in which each variable implies its children, and its number of solutions."""
    clauses, level, n = [], [1], 1
    for _ in range(depth):
        below = list(range(n + 1, n + 1 + children * len(level)))
        clauses += [[-level[k // children], v] for k, v in enumerate(below)]
        level, n = below, n + len(below)
    count = 2
    for _ in range(depth):
        count = 1 + count**children
    return Formula(clauses), Fraction(count)


@pytest.mark.parametrize("children", [10, 16])
def test_a_product_of_messages_may_pass_beyond_doubles(children):
    """With all of 1,110 or 4,368 descendants true the weight is below 2^-1100, and that counts next
    to nothing: the sums say so, and lose nothing that counts.
    """
    f, count = implications(children, 3)
    assert by_sums(f, np.zeros(f.n_vars)) == pytest.approx(log(count), abs=1e-9)
