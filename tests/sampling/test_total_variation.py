"""How far samples that are called exact may be from P: each part of the bound against total
variation that is computed, with a twin that shows that less would be too little.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import nelson
from nelson import Formula, Space
from nelson.chains.block import Block
from nelson.chains.moves.factor_graph import factor_graph
from nelson.chains.moves.joint import Joint
from nelson.chains.problem import prepare
from nelson.exact.compiled import compiled
from nelson.formula.groups import groups_of
from nelson.kernels.circuit import passes
from nelson.kernels.core.reference import Reference, threshold
from nelson.kernels.cpu.choice import Tables
from nelson.sampling import registry, total_variation
from nelson.sampling.auto.steps import coupling
from nelson.sampling.methods import enumeration, rejection
from nelson.sampling.total_variation import MOST
from tests.cli.commands import run
from tests.problems import chi_square, exact_law, random_ksat, sink_free

#: A right sampler fails a chi-square test with this probability; seeds are fixed.
ALPHA = 1e-5
PATH = Formula([[k, k + 1] for k in range(1, 10)])


def law_of(states: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
    score = states @ log_weights
    weight = np.exp(score - score.max())
    return weight / weight.sum()


def distance(p: np.ndarray, q: np.ndarray) -> float:
    return float(np.abs(p - q).sum() / 2)


def rounded(theta: np.ndarray) -> np.ndarray:
    """The log-odds that kernels of single bits draw from."""
    p = threshold(theta) / 2.0**32
    return np.log(p / (1 - p))


# --- rounding -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [0.0, -8.0, -17.0, 17.0])
def test_rounded_probabilities_stay_within_the_bound(shift):
    theta = shift + np.random.default_rng(0).normal(size=10)
    states, p = exact_law(PATH, theta)
    far = distance(p, law_of(states, rounded(theta)))
    bound = total_variation.of_bits(prepare(PATH), theta[None])[0]
    assert far <= bound + 1e-15
    if shift < 0:  # the twin: a hundredth of it would be too little
        assert far > bound / 100


def test_free_variables_and_components_add_up_as_squares():
    """400 pairs and 400 free variables: the sum of all errors would say ten times as much."""
    f = Formula([[k, k + 1] for k in range(1, 800, 2)], n_vars=1200)
    theta = -9 + np.random.default_rng(1).normal(size=1200)
    bound = total_variation.of_bits(prepare(f), theta[None])[0]
    delta = np.abs(total_variation.change(theta))
    assert bound < delta.sum() / 4 / 10
    # The distance of a product is at least that of each factor, here of its worst pair.
    far = 0.0
    for k in range(0, 800, 2):
        states, p = exact_law(Formula([[1, 2]]), theta[k : k + 2])
        far = max(far, distance(p, law_of(states, rounded(theta[k : k + 2]))))
    assert far <= bound
    # Of two free variables, both of one rare value, the distance is known exactly.
    two = np.array([-15.3, 14.1])
    states, p = exact_law(Formula([], n_vars=2), two)
    far = distance(p, law_of(states, rounded(two)))
    bound = total_variation.of_bits(prepare(Formula([], n_vars=2)), two[None])[0]
    assert far <= bound <= 1e5 * far


@pytest.mark.parametrize("components", [1, 4, 9])
def test_the_sum_over_components_is_needed(components):
    """Pairs x = y: both values are as likely, and the errors of x and y go the same way. The bound
    is nearly reached. The twin: the largest component, or one variable of each, is too little.
    """
    low = -17 - np.random.default_rng(0).random(20_000)
    change = total_variation.change(low)
    theta = np.tile([low[change.argmax()], -low[change.argmin()]], components)
    pairs, delta = theta.reshape(-1, 2).sum(1), total_variation.change(theta).reshape(-1, 2)
    states = np.array(list(itertools.product((0, 1), repeat=components)))
    far = distance(law_of(states, pairs), law_of(states, pairs + delta.sum(1)))
    f = Formula([c for k in range(1, 2 * components, 2) for c in ([k, -k - 1], [-k, k + 1])])
    bound = total_variation.of_bits(prepare(f), theta[None])[0]
    assert far <= bound < 1.4 * far
    assert np.sqrt((np.abs(delta).max(1) ** 2).sum()) / 4 < far
    if components > 1:
        assert np.abs(delta).sum(1).max() / 4 < far


def test_fair_coins_cost_nothing():
    assert total_variation.of_bits(prepare(PATH), np.zeros((1, 10)))[0] == 0.0


def test_coins_of_gates_stay_within_the_bound():
    """x3 = (x1 and x2), x4 = (x1 xor x2), x3 or x5: the coin of a gate is rounded."""
    f = Formula(
        [[-3, 1], [-3, 2], [3, -1, -2], [-4, 1, 2], [-4, -1, -2], [4, 1, -2], [4, -1, 2], [3, 5]]
    )
    problem, theta = prepare(f), np.array([0.3, -1.0, -16.7, 0.0, -17.1])
    gates = rejection.gates_of(problem).targets
    assert len(gates) >= 2
    used = rounded(theta)
    coin = np.clip(np.round(np.exp(-np.abs(theta[gates])) * 2.0**32), 1, None) / 2.0**32
    used[gates] = -np.sign(theta[gates]) * np.log(coin)
    states, p = exact_law(f, theta)
    far, bound = distance(p, law_of(states, used)), rejection.variation(problem, theta[None])[0]
    assert 1e-12 < far <= bound < 1000 * far


@pytest.mark.parametrize("low", [-3.0, -21.0, -30.0])
def test_fields_of_joint_moves_stay_within_the_bound(low):
    """Three colours at four vertices in a row. Below 2^-32 the weight of a value is raised."""
    names = np.arange(1, 13).reshape(4, 3)
    f = Formula([], n_vars=12)
    for row in names.tolist():
        f = f.exactly(row, 1)
    pairs = [
        [-int(a), -int(b)] for u, v in itertools.pairwise(names) for a, b in zip(u, v, strict=True)
    ]
    f = Formula([*f.clauses(), *pairs], n_vars=12)
    theta = np.random.default_rng(3).normal(size=12)
    theta[::3] += low
    far, bound = field_distance(f, theta, fields=4)
    assert far <= bound
    if low < -22:
        assert bound > MOST  # it is not called exact


def field_distance(f: Formula, theta: np.ndarray, fields: int) -> tuple[float, float]:
    """(total variation between P and the law of a joint move of whole fields that holds nothing,
    the bound of it).
    """
    problem = prepare(f)
    plan = Joint(18, factor_graph(problem, groups_of(problem.rest)))
    assert plan.graph.fields == fields and not plan.held
    states, p = exact_law(f, theta)
    at, literal = plan.graph.units
    log_weights = np.log(plan.graph.unit_weights(problem, theta[None])[0])
    score = np.zeros(len(states))
    for u in range(len(at) - 1):
        values = literal[at[u] : at[u + 1]]
        holds = np.stack(
            [np.zeros(len(states), bool) if c < 0 else states[:, c >> 1] == (c & 1) for c in values]
        )
        value = np.where(holds.any(0), holds.argmax(0), 0)
        score += log_weights[at[u] + value]
    q = np.exp(score - score.max())
    bound = total_variation.of_joint(problem, theta[None], plan)[0]
    return distance(p, q / q.sum()), float(bound)


def test_the_sum_over_fields_is_needed():
    """Five fields of three values, all equal: the values are as likely, and the first value of two
    fields is raised to 2^-32. The bound is nearly reached. The twin: one field is too little.
    """
    fields = np.arange(1, 16).reshape(5, 3).tolist()
    groups = [clause for row in fields for clause in Formula([], n_vars=15).exactly(row, 1)]
    ties = [[-a, b] for u, v in itertools.pairwise(fields) for a, b in zip(u, v, strict=True)]
    theta = np.zeros((5, 3))
    theta[:, 0] = [-22.4, 22.17, -22.4, 22.17, 0.46]  # 2^-32 = e^-22.18
    far, bound = field_distance(Formula([*groups, *ties], n_vars=15), theta.ravel(), 5)
    assert far <= bound < 1.5 * far
    one = Formula(groups[: len(groups) // 5], n_vars=3)
    assert max(field_distance(one, row, 1)[1] for row in theta) < far


# --- doubles --------------------------------------------------------------------------------------


def by_fractions(states: np.ndarray, theta: np.ndarray) -> list[Fraction]:
    """P with the weights e^theta as doubles; their own rounding is 2^-53 for each variable."""
    odds = [Fraction(float(w)) for w in np.exp(theta)]
    weights = [
        math.prod((w for w, bit in zip(odds, x, strict=True) if bit), start=Fraction(1))
        for x in states.tolist()
    ]
    total = sum(weights, Fraction(0))
    return [w / total for w in weights]


def circuit_law(f: Formula, theta: np.ndarray, states: np.ndarray, flip: int = 0) -> list[Fraction]:
    """The law of draws from the thresholds of a circuit. flip: added to each of them."""
    circuit = compiled(f, compiler="frontier").circuit
    c, work = circuit.kernel, passes.work(circuit.n, circuit.decisions)
    passes.solve(c, theta[None], work, np.zeros(1), np.zeros((1, len(theta))), 0, 1)
    one = [
        Fraction(1) if t == passes.CERTAIN else Fraction(min(int(t) + flip * bool(t), 2**64), 2**64)
        for t in work.thr
    ]
    p = [Fraction(float(v)) for v in 1 / (1 + np.exp(-theta))]

    def probability(i: int, x: list[bool], seen: set[int]) -> Fraction:
        total = Fraction(0)
        for side in range(1 if c.single[i] else 2):
            b = 2 * i + side
            lits = c.lits[c.lit_ptr[b] : c.lit_ptr[b + 1]].tolist()
            if any(x[lit >> 1] != bool(lit & 1) for lit in lits):
                continue
            own = {lit >> 1 for lit in lits}
            share = one[i] if side else 1 - one[i]
            for kid in c.kids[c.kid_ptr[b] : c.kid_ptr[b + 1]].tolist():
                share *= probability(kid, x, own)
            seen |= own
            total += share
        return total

    out = []
    for x in states.tolist():
        seen: set[int] = set()
        share = probability(circuit.decisions - 1, x, seen)
        for v in set(range(len(theta))) - seen:
            share *= p[v] if x[v] else 1 - p[v]
        out.append(share)
    return out


@pytest.mark.parametrize("size", [1.0, 12.0])
def test_circuits_stay_within_the_bound(size):
    """The law of their thresholds, as fractions. The twin: thresholds that are 2^-40 off."""
    theta = np.random.default_rng(2).normal(size=10) * size
    states, _ = exact_law(PATH)
    p = by_fractions(states, theta)
    bound = float(total_variation.circuit_error(10, 20, theta[None])[0])
    q = circuit_law(PATH, theta, states)
    assert abs(sum(q) - 1) < 1e-15
    far = float(sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2)
    assert far <= bound < 1e-12
    wrong = circuit_law(PATH, theta, states, flip=1 << 28)
    assert sum(abs(a - b) for a, b in zip(p, wrong, strict=True)) / 2 > bound


@pytest.mark.parametrize("size", [1.0, 30.0])
def test_enumerations_stay_within_the_bound(size):
    """The lengths of the intervals of a uniform number, as fractions. The twin: weights in
    single precision.
    """
    theta = np.random.default_rng(4).normal(size=10) * size
    problem = prepare(PATH)
    (table,) = enumeration.tables(problem, nelson.budget.Budget())
    flat: Tables = enumeration.flatten([table], theta, np.arange(10))
    p = by_fractions(table.rows.astype(bool), theta)
    bound = float(enumeration.variation(problem, theta[None])[0])

    def far(cumulative: np.ndarray) -> float:
        ends = [
            Fraction(0),
            *(Fraction(float(c)) / Fraction(float(cumulative[-1])) for c in cumulative),
        ]
        shares = [b - a for a, b in itertools.pairwise(ends)]
        return float(sum(abs(a - b) for a, b in zip(p, shares, strict=True)) / 2)

    assert far(flat.cumulative) <= bound < 1e-10
    assert far(np.cumsum(np.diff(flat.cumulative, prepend=0).astype(np.float32))) > bound


# --- conditions -----------------------------------------------------------------------------------


def test_lanes_that_ended_in_few_rounds_have_the_law_of_all():
    """Chi-square of what ends within one round: `lovasz` on an extremal formula, `prs` on another,
    `rejection`. The twins: `lovasz` on a formula that is not extremal, and coupled chains that met
    within one sweep, are biased.
    """
    extremal, other = sink_free([(0, 1), (1, 2), (2, 0), (2, 3), (3, 0)]), random_ksat(6, 9, 3, 7)
    assert prepare(extremal).extremal and not prepare(other).extremal
    for method, f, right in (
        ("lovasz", extremal, True),
        ("prs", other, True),
        ("rejection", other, True),
        ("lovasz", other, False),
    ):
        theta = np.linspace(-0.8, 0.8, f.n_vars)
        more = {"sweeps": 0} if method == "lovasz" else {}
        s = nelson.sample(f, theta, 40_000, seed=1, method=method, max_rounds=2, **more)
        assert 2_000 < len(s) <= 40_000
        assert (chi_square(s.to_numpy(), exact_law(f, theta)) > ALPHA) == right, method
        assert s.tv_bound is None or s.tv_bound < MOST


def test_what_coupling_may_cost():
    """m lanes that met within t sweeps: after 8 t a lane is apart with probability below 1e-12."""
    bound = total_variation.of_coupling
    assert bound([(1024, 100)], 1000) < 1e-8
    assert bound([(64, 100)], 200) > 0.01  # little is known, and there is little room
    assert bound([(64, 100), (1024, 50)], 1000) == bound([(1024, 50)], 1000)
    assert bound([(0, 1)], 1000) > 0.99  # nothing is known


def sweeps_until_they_meet(f: Formula, lanes: int, seed: int) -> np.ndarray:
    """The length of the shortest run in which each lane meets: (lanes,)."""
    problem = prepare(f).sweeping_all()
    plain = Reference(problem.program, problem.thresholds(np.zeros((1, f.n_vars)))[0])
    times, length = np.zeros(lanes, int), 0
    while not times.all():
        length += 1
        may = plain.bounds_after(seed, lanes, length)
        times[(times == 0) & ~(may[0] & may[1]).any(1)] = length
    return times


@pytest.fixture(scope="module")
def meeting_times() -> np.ndarray:
    return sweeps_until_they_meet(random_ksat(6, 4, 3, 1), 1 << 14, 1)


def test_runs_of_several_times_the_length_fail_as_seldom_as_the_powers_say(meeting_times):
    """r(2 t) <= r(t)^2, within 5 standard errors. The twin: not r(t)^4."""
    lanes = len(meeting_times)

    def apart(sweeps: int) -> float:
        return float((meeting_times > sweeps).mean())

    (short,) = [t for t in range(1, 99) if apart(t) < 0.3 <= apart(t - 1)]
    r, r2 = apart(short), apart(2 * short)
    noise, error = 5 * math.sqrt(r2 / lanes), 5 * math.sqrt(r / lanes)
    assert r2 <= (r + error) ** 2 + noise
    assert r2 > (r + error) ** 4 + noise


def test_lanes_that_all_met_show_how_seldom_others_do_not(meeting_times):
    """Of 512 groups of 64 lanes, how many say r <= log(1 / a) / 64, after their latest time, where
    it is larger? a = 0.1 of them at most, within 5 standard errors. The twin: not log(1 / a) / 128.
    """
    groups, a = meeting_times.reshape(-1, 64).max(1), 0.1
    r = (meeting_times[None] > groups[:, None]).mean(1)
    noise = 5 * math.sqrt(a / len(groups))
    assert (r > math.log(1 / a) / 64).mean() <= a + noise
    assert (r > math.log(1 / a) / 128).mean() > a + noise


def test_the_order_of_visits_hardly_matters():
    """Of eight seeds, each with an order of its own: the sweeps until 1,024 lanes have met."""
    for f in (random_ksat(60, 60, 5, 1), random_ksat(200, 200, 5, 1), random_ksat(40, 24, 3, 1)):
        late = []
        for seed in range(8):
            trial = coupling._Trial(prepare(f).sweeping_all(), np.zeros(f.n_vars), 1024)
            trial.request = replace(trial.request, seed=seed)
            assert not trial.apart_after(512)
            late.append(trial.made)
        assert max(late) <= 2 * min(late), late


def test_few_lanes_show_little_whatever_was_asked_for():
    """A draw that a limit cut short: only the lanes that there are have met."""
    f = random_ksat(200, 200, 5, 1)
    drawing = nelson.plan(f, method="cftp", max_rounds=128).drawing(1 << 20)
    cut = Block(np.zeros(0), np.zeros(0), rounds=32)
    assert total_variation.of_drawing(drawing, cut, 1 << 20)[1] < MOST
    assert total_variation.of_drawing(drawing, cut, 64)[1] > MOST


def test_chains_that_barely_meet_are_not_called_exact():
    """The longest run was the last one allowed. The twin has room for longer runs."""
    f = random_ksat(200, 200, 5, 1)
    free = nelson.sample(f, n=64, seed=2, method="cftp", max_rounds=1024)
    assert free.guarantee == "exact" and free.info["rounds"] > 2
    tight = nelson.sample(f, n=64, seed=2, method="cftp", max_rounds=free.info["rounds"])
    assert len(tight) == 64 and np.array_equal(tight.packed, free.packed)
    assert tight.guarantee == "heuristic" and tight.tv_bound is None
    assert "total variation" in tight.why and tight.info["tv_bound"] > MOST


# --- the word -------------------------------------------------------------------------------------


def test_every_sampler_that_may_be_exact_says_how_exact():
    problem = prepare(Formula([], n_vars=2))
    for name in registry.names():
        sampler = registry.get(name)
        if sampler.guarantee(problem, 0) == "exact":
            bound = total_variation.of_sampler(sampler, problem, np.array([[0.3, -1.0]]))
            assert bound.shape == (1,) and bound[0] < 1e-7, name


def test_exact_samples_carry_a_bound_and_others_do_not():
    theta = np.random.default_rng(5).normal(size=10)
    for method in ("auto", "lovasz", "prs", "cftp", "rejection", "enumerate", "circuit"):
        s = nelson.sample(PATH, theta, 100, seed=1, method=method)
        assert s.guarantee in ("exact", "heuristic"), method
        if s.guarantee == "exact":
            assert 0 <= s.tv_bound < MOST and "exact within" in repr(s)
    s = nelson.sample(PATH, theta, 100, seed=1, method="gibbs")
    assert s.tv_bound is None and "within" not in repr(s)
    report = nelson.report(PATH, theta)
    assert 0 < report.choice.tv_bound < MOST and "distance from P" in str(report)
    assert report.to_dict()["choice"]["tv_bound"] == report.choice.tv_bound
    terms = nelson.sample(PATH, theta, 100, terms={(1, 2): 0.5})
    assert terms.guarantee == "exact" and 0 < terms.tv_bound < MOST


def test_beyond_the_bound_the_word_is_approximate():
    """Log-odds of -14: rounding changes weights by 1e-5. The twin takes a circuit."""
    f = Formula([[k, k + 1] for k in range(1, 20, 2)])
    theta = np.random.default_rng(6).normal(size=20) - 14
    plan = nelson.plan(f, theta, method="rejection")
    assert plan.guarantee == "approximate" and "total variation" in plan.why
    states, p = exact_law(f, theta)
    q = law_of(states, rounded(theta))
    ratio = np.exp(np.abs(np.log(q / p)).max()) - 1
    s = nelson.sample(f, theta, 10, seed=1, method="lovasz")
    assert s.guarantee == "approximate" and s.tv_bound is None
    assert ratio <= s.info["epsilon"] < 100 * ratio
    exact = nelson.sample(f, theta, 10, seed=1, method="enumerate")
    assert exact.guarantee == "exact" and exact.tv_bound < 1e-9


def test_rows_and_the_summary_line_tell_the_bound(tmp_path):
    space = Space("two")
    a, b = space.flag("a"), space.flag("b")
    space.require(a | b)
    rows = space.sample(10, seed=1)
    assert rows.guarantee == "exact" and 0 <= rows.tv_bound < MOST
    PATH.to_dimacs(tmp_path / "path.cnf")
    done = run("sample", tmp_path / "path.cnf", "-n", 10, "-o", tmp_path / "s.npz")
    assert done.returncode == 0 and "of P" in done.stderr
