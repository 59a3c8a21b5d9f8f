"""`match`: shares as asked for at maximum entropy, or a proof that they are impossible."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from nelson.budget import Budget
from nelson.errors import BudgetExceeded, FormulaError, ImpossibleShares, Unsatisfiable
from nelson.exact.enumerated import law
from nelson.exact.hull import features
from nelson.exact.law import law as exact_law
from nelson.formula import Formula
from nelson.learning import match as module
from nelson.learning.match import match
from nelson.policy import DEFAULT, ExactPolicy, FitPolicy, Policy
from nelson.sampling.sample_stream import sample

#: No structure is enumerated: circuits decide.
CIRCUITS = Policy(exact=ExactPolicy(few_cells=0, inputs=0))


def one_hot(*groups):
    clauses = []
    for group in groups:
        clauses += [list(group), *([-a, -b] for a, b in itertools.combinations(group, 2))]
    return clauses


#: Two fields: "colour" 1..3 and "size" 4..7, colour 3 only with sizes 4 and 5; and a free flag 8.
FIELDS = Formula([*one_hot([1, 2, 3], [4, 5, 6, 7]), [-3, 4, 5]], n_vars=8)
LITERALS = [1, 2, 3, 4, 5, 6, 7]
GROUPS = [[0, 1, 2], [3, 4, 5, 6]]
SHARES = [0.6, 0.3, 0.1, 0.4, 0.3, 0.2, 0.1]


def probabilities(formula, theta):
    """All solutions, and P_theta of each; infinite theta is evidence."""
    states, _ = law(formula)
    hard = np.isinf(theta)
    score = states @ np.where(hard, 0.0, theta)
    score[(states[:, hard] != (theta[hard] > 0)).any(axis=1)] = -np.inf
    p = np.exp(score - score.max())
    return states, p / p.sum()


def test_the_entropy_is_the_largest():
    """The same law as a general optimiser finds over all laws with these shares."""
    found = match(FIELDS, LITERALS, SHARES, groups=GROUPS)
    states, p = probabilities(FIELDS, found.theta)
    f = features(states, np.array(LITERALS)).astype(float)
    free = [0, 1, 3, 4, 5]  # the others follow
    best = minimize(
        lambda q: float((q * np.log(q)).sum()),
        np.full(len(p), 1 / len(p)),
        jac=lambda q: np.log(q) + 1,
        bounds=[(1e-9, 1)] * len(p),
        constraints=[
            {"type": "eq", "fun": lambda q: f[:, free].T @ q - np.array(SHARES)[free]},
            {"type": "eq", "fun": lambda q: q.sum() - 1},
        ],
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert np.abs(best.x - p).max() < 1e-5
    assert found.converged and found.guarantee == "exact" and not found.errors.any()
    assert np.abs(found.achieved - SHARES).max() < 1e-9
    assert np.abs(p @ f - SHARES).max() < 1e-9
    assert found.theta[7] == 0.0


def random_case(rng):
    """A formula, literals (also repeated and opposite ones), and shares of some kind."""
    while True:
        n = int(rng.integers(3, 9))
        clauses = [
            [int(v * rng.choice([-1, 1])) for v in rng.choice(n, rng.integers(2, 4), False) + 1]
            for _ in range(rng.integers(1, 2 * n))
        ]
        formula = Formula(clauses, n_vars=n)
        if formula.satisfied(np.array(list(itertools.product([0, 1], repeat=n)), bool)).any():
            break
    states, _ = law(formula)
    k = int(rng.integers(1, n + 2))
    literals = rng.integers(1, n + 1, k) * rng.choice([-1, 1], k)
    f = features(states, literals).astype(float)
    kind = rng.choice(["inside", "sparse", "face", "random", "quarters"])
    if kind == "inside":
        shares = rng.dirichlet(np.ones(len(f))) @ f
    elif kind == "sparse":
        shares = rng.dirichlet(np.full(len(f), 0.1)) @ f
    elif kind == "face":
        value = f @ rng.integers(-2, 3, k)
        f_top = f[value == value.max()]
        shares = rng.dirichlet(np.ones(len(f_top))) @ f_top
    else:
        shares = rng.random(k) if kind == "random" else rng.integers(0, 5, k) / 4
    return formula, literals, shares.clip(0, 1), f


def possible(f, shares):
    """Is there a law over the rows of f with these means? Independent of `exact.hull`."""
    rows = np.vstack([f.T, np.ones(len(f))])
    return linprog(np.zeros(len(f)), A_eq=rows, b_eq=[*shares, 1.0]).success


@pytest.mark.slow
@pytest.mark.parametrize("source", ["enumerated", pytest.param("circuit", marks=pytest.mark.slow)])
def test_random_cases_end_in_the_shares_or_in_a_proof(source, monkeypatch):
    """No third outcome: shares to 1e-9 where a linear program says that they are possible, and
    elsewhere an inequality that holds for every solution and not for the shares."""
    cases = 300
    if source == "circuit":
        pytest.importorskip("py_d4")
        cases = 25
        monkeypatch.setattr(module, "moments_of", lambda f, **_: exact_law(f, policy=CIRCUITS))
    rng, proofs = np.random.default_rng(7), 0
    for _ in range(cases):
        formula, literals, shares, f = random_case(rng)
        if not possible(f, shares):
            proofs += 1
            with pytest.raises(ImpossibleShares) as caught:
                match(formula, literals.tolist(), shares)
            d, error = np.array(caught.value.direction), caught.value
            assert (f @ d).max() == error.highest < error.asked == pytest.approx(d @ shares)
            continue
        found = match(formula, literals.tolist(), shares)
        assert found.converged, found.why
        _, p = probabilities(formula, found.theta)
        assert np.abs(p @ f - shares).max() < 2e-9
        others = np.setdiff1d(np.arange(formula.n_vars), np.abs(literals) - 1)
        assert not found.theta[others].any()
    assert cases / 5 < proofs < 4 * cases / 5


IMPOSSIBLE = {
    "a value that no solution has": (
        Formula([[-1], [2, 3]]),
        ([1, 2], [0.2, 0.5], None),
        ((1, 0), 0),
        "a share of 0.2 for literal 1, which holds in no solution",
    ),
    "a value that every solution has": (
        Formula([[1], [2, 3]]),
        ([1, 2], [0.8, 0.7], None),
        ((-1, 0), -1),
        "a share of 0.2 for literal -1, which holds in no solution",
    ),
    "two that never occur together": (
        Formula([[-1, -2], [3, 4]]),
        ([1, 2, 3], [0.7, 0.4, 0.5], None),
        ((1, 1, 0), 1),
        "sum to 1.1 for the literals 1, 2, of which at most 1",
    ),
    "one that implies another": (
        Formula([[-1, 2], [3, 4]]),
        ([1, 2, 3], [0.7, 0.4, 0.5], None),
        ((1, -1, 0), 0),
        "0.7 for literal 1: every solution with it has 2, whose share is 0.4",
    ),
    "neither of two": (
        Formula([[1, 2], [3, 4]]),
        ([1, 2, 3], [0.3, 0.4, 0.5], None),
        ((-1, -1, 0), -1),
        "sum to 1.3 for the literals -1, -2, of which at most 1",
    ),
    "certain ones that exclude a third": (
        Formula([[-1, -2, -3], [3, 4]]),
        ([1, 2, 3, 4], [1, 1, 0.25, 0.8], None),
        ((1, 1, 1, 0), 2),
        "sum to 2.25 for the literals 1, 2, 3, of which at most 2",
    ),
    "a literal twice": (
        Formula([[1, 2]]),
        ([1, 1], [0.5, 0.6], None),
        ((-1, 1), 0),
        "0.6 for literal 1: every solution with it has 1, whose share is 0.5",
    ),
    "more than all": (
        FIELDS,
        (LITERALS, [0.6, 0.3, 0.2, *SHARES[3:]], GROUPS),
        ((1, 1, 1, 0, 0, 0, 0), 1),
        "sum to 1.1 for the literals 1, 2, 3",
    ),
    "less than all": (
        FIELDS,
        (LITERALS, [0.5, 0.3, 0.1, *SHARES[3:]], GROUPS),
        ((-1, -1, -1, 0, 0, 0, 0), -1),
        "sum to 2.1 for the literals -1, -2, -3, of which at most 2",
    ),
    "a value that implies one of several": (
        FIELDS,
        (LITERALS, [0.1, 0.3, 0.6, 0.2, 0.3, 0.3, 0.2], GROUPS),
        ((0, 0, 1, 0, 0, 1, 1), 1),
        "sum to 1.1 for the literals 3, 6, 7, of which at most 1",
    ),
    "no simple reason": (  # at most two of three, but 2.1 on average
        Formula([[-1, -2, -3], [4, 5]]),
        ([1, 2, 3, 4], [0.7, 0.7, 0.7, 0.5], None),
        ((1, 1, 1, 0), 2),
        "sum to 2.1 for the literals 1, 2, 3, of which at most 2",
    ),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
@pytest.mark.parametrize("source", ["enumerated", "samples"])
def test_impossible_shares_are_proved_simply(name, source, monkeypatch):
    """The same short reason, whether all solutions are known or a solver proves it."""
    formula, (literals, shares, groups), (direction, highest), words = IMPOSSIBLE[name]
    if source == "samples":
        monkeypatch.setattr(module, "moments_of", lambda formula, **_: None)
    with pytest.raises(ImpossibleShares, match=words) as caught:
        match(formula, literals, shares, groups=groups, seed=0)
    error = caught.value
    assert (error.direction, error.highest) == (direction, highest)
    assert error.literals == tuple(literals) and error.targets == tuple(shares)
    states, _ = law(formula)
    assert (features(states, np.array(literals)) @ np.array(direction)).max() == highest
    assert error.asked == pytest.approx(np.dot(direction, shares)) and error.asked > highest


def test_weighted_reasons():
    """2 x1 + x2 + x3 + x4 <= 3, where no pair and no three of the shares contradict a clause."""
    states = np.array(list(itertools.product([False, True], repeat=4)))
    bad = states[states @ [2, 1, 1, 1] > 3]
    formula = Formula([[-(i + 1) if v else i + 1 for i, v in enumerate(row)] for row in bad])
    with pytest.raises(ImpossibleShares, match="2 x 1, 2, 3, 4, of which at most 3") as caught:
        match(formula, [1, 2, 3, 4], [0.6, 0.65, 0.65, 0.65])
    assert caught.value.direction == (2, 1, 1, 1)


def test_on_the_boundary():
    """Possible, but theta would be infinite: the shares converge, and `why` says so. Inside it
    does not."""
    found = match(Formula([[-1, -2], [3, 4]]), [1, 2], [0.5, 0.5])
    assert found.converged and "boundary of what is possible" in found.why
    assert np.abs(found.achieved - 0.5).max() < 1e-9
    assert 10 < np.abs(found.theta).max() < 40
    inside = match(Formula([[-1, -2], [3, 4]]), [1, 2], [0.4, 0.5])
    assert inside.converged and "boundary" not in inside.why


def test_shares_of_0_and_1_are_evidence():
    found = match(FIELDS, LITERALS, [0, 0, 1, 0.3, 0.7, 0, 0], groups=GROUPS)
    assert found.converged and found.achieved.tolist()[:3] == [0, 0, 1]
    assert found.theta[:3].tolist() == [-np.inf, -np.inf, np.inf]
    negated = match(FIELDS, [-1, 2], [1, 0.25])
    assert negated.theta[0] == -np.inf and negated.achieved == pytest.approx([1, 0.25])


def test_no_shares_at_all():
    found = match(FIELDS, [], [])
    assert found.converged and not found.theta.any() and not len(found.achieved)


def test_from_a_base_law():
    """The law nearest to P_base: log p - log p_base is linear in the literals."""
    base = np.array([0.0, 0, 0, 1.5, 0, 0, -1, 2])
    found = match(FIELDS, [1, 2], [0.2, 0.5], base=base)
    assert found.achieved == pytest.approx([0.2, 0.5])
    assert (found.theta[2:] == base[2:]).all()
    base[7] = np.inf  # evidence of the caller stays
    found = match(FIELDS, [1, 8], [0.2, 1], base=base)
    assert found.converged and found.theta[7] == np.inf
    with pytest.raises(ImpossibleShares):
        match(FIELDS, [1, 8], [0.2, 0.5], base=base)


def test_samples_have_the_shares():
    """100,000 exact samples under theta: each share within 5 sigma (false alarm below 1e-5 for all
    of them). The twin: theta = log of the shares, a usual mistake, is rejected."""
    m, found = 100_000, match(FIELDS, LITERALS, SHARES, groups=GROUPS)

    def off(theta):
        x = sample(FIELDS, theta, m, seed=3).to_numpy()
        share = features(x, np.array(LITERALS)).mean(axis=0)
        sigma = np.sqrt(np.array(SHARES) * (1 - np.array(SHARES)) / m)
        return np.abs((share - SHARES) / sigma).max()

    assert off(found.theta) < 5
    wrong = np.zeros(8)
    wrong[:7] = np.log(SHARES)
    assert off(wrong) > 20


def test_where_moments_must_be_sampled(monkeypatch):
    """theta rests on 8 x 65,536 samples, so its exact shares are within 5 sigma of the targets
    (false alarm below 1e-5 for all seven); 20 sigma away, a wrong theta is rejected."""
    exact = match(FIELDS, LITERALS, SHARES)
    monkeypatch.setattr(module, "moments_of", lambda formula, **_: None)
    found = match(FIELDS, LITERALS, SHARES, seed=5)
    assert found.converged, found.why
    assert found.guarantee == "diagnosed" and found.theta[7] == 0.0
    target = np.array(SHARES)
    assert (np.abs(found.achieved - target) < 5 * found.errors).all()
    assert found.errors == pytest.approx(np.sqrt(target * (1 - target) / 65_536), rel=0.05)

    def off(theta):
        states, p = probabilities(FIELDS, theta)
        share = p @ features(states, np.array(LITERALS))
        return np.abs((share - target) / np.sqrt(target * (1 - target) / (8 * 65_536))).max()

    assert off(found.theta) < 5
    assert off(exact.theta + 0.1 * (np.arange(8) == 0)) > 20
    again = match(FIELDS, LITERALS, SHARES, seed=5)
    assert (again.theta == found.theta).all()


def test_sampled_moments_under_evidence_and_a_base(monkeypatch):
    """As above, with a share of 1 and a base; 5 sigma of the fresh samples and of theta."""
    monkeypatch.setattr(module, "moments_of", lambda formula, **_: None)
    base = np.array([0.0, 0, 0, 1.5, 0, 0, -1, 2])
    found = match(FIELDS, [-3, 1, 8], [1, 0.25, 0.5], base=base, seed=1)
    assert found.converged and found.theta[2] == -np.inf and found.achieved[0] == 1
    assert (found.theta[[3, 6]] == [1.5, -1]).all()
    states, p = probabilities(FIELDS, found.theta)
    assert np.abs(p @ states[:, [0, 7]] - [0.25, 0.5]).max() < 5 * 0.5 / np.sqrt(8 * 65_536)


@pytest.mark.slow
def test_many_shares_at_once():
    """400 shares of a chain of 600 variables: the planted theta comes back."""
    pytest.importorskip("py_d4")
    chain = Formula([[-v, -(v + 1)] for v in range(1, 600)])
    circuit = exact_law(chain)
    assert circuit is not None
    theta = np.random.default_rng(0).normal(0, 1, 600)
    theta[400:] = 0.0
    found = match(chain, range(1, 401), circuit.mean(theta[None])[0][:400])
    assert found.converged and found.iterations < 20
    assert np.abs(found.theta - theta).max() < 1e-6


def test_out_of_time(monkeypatch):
    found = match(FIELDS, LITERALS, SHARES, budget=Budget.of(0.0))
    assert not found.converged and found.why.startswith("the time was up: shares are off by")
    assert found.iterations == 0


@pytest.fixture
def undecided(monkeypatch):
    """The solver does not find out in time whether shares are possible."""

    def late(*arguments, **options):
        raise BudgetExceeded("it was not decided whether these shares are possible")

    monkeypatch.setattr(module, "separate", late)


def test_an_undecided_question_is_said(undecided):
    found = match(Formula([[-1, -2, -3]]), [1, 2, 3], [0.7, 0.7, 0.7])
    assert not found.converged
    assert "shares are off by up to 3.3e-02" in found.why  # 0.7 - 2/3
    assert "not decided whether these shares are possible" in found.why


@pytest.mark.slow
def test_no_share_is_called_reached_that_the_loop_did_not_see(undecided, monkeypatch):
    """The loop has one target for each variable; here the second share of variable 1 differs."""
    monkeypatch.setattr(module, "moments_of", lambda formula, **_: None)
    assert match(FIELDS, [1, -1], [0.5, 0.5], seed=0).converged
    found = match(FIELDS, [1, -1], [0.5, 0.6], seed=0)
    assert not found.converged
    assert found.why.startswith("the share of literal -1 differs by more than noise")


def test_bad_input():
    for literals, shares, options, words in [
        ([9], [0.5], {}, "literal 9"),
        ([0], [0.5], {}, "literal 0"),
        ([1.5], [0.5], {}, "float"),
        ([1, 2], [0.5], {}, "1 shares"),
        ([1], [1.5], {}, "a share of 1.5 for literal 1"),
        ([1], [float("nan")], {}, "a share of nan"),
        ([1], [0.5], {"tolerance": 0}, "tolerance"),
        ([1], [0.5], {"groups": [[0, 1]]}, "group"),
        ([1], [0.5], {"base": [0.0]}, "theta of shape"),
    ]:
        with pytest.raises(FormulaError, match=words):
            match(FIELDS, literals, shares, **options)
    with pytest.raises(Unsatisfiable):
        match(Formula([[1], [-1]]), [1], [0.5])


def test_evidence_may_leave_a_formula_that_compiles(monkeypatch):
    """If only the formula under evidence has exact moments, those are used."""
    base = np.zeros(8)
    base[7] = np.inf
    real = module.moments_of
    monkeypatch.setattr(module, "moments_of", lambda f, **_: None if f is FIELDS else real(f))
    found = match(FIELDS, LITERALS, SHARES, base=base)
    assert found.guarantee == "exact" and found.converged and found.theta[7] == np.inf


def test_the_example_of_the_documentation():
    burst = Formula([[1, 2, 3], [-1, -2], [-1, -3], [-2, -3], [-3, 4]])
    assert match(burst, [1, 2, 3], [0.6, 0.3, 0.1]).achieved == pytest.approx([0.6, 0.3, 0.1])
    words = "0.3 for literal 3: every solution with it has 4, whose share is 0.2"
    with pytest.raises(ImpossibleShares, match=words):
        match(burst, [3, 4], [0.3, 0.2])
    assert "boundary" in match(burst, [3, 4], [0.2, 0.2]).why


class Clock:
    """A stand-in for `time.monotonic` that moves only when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def timed_phases(monkeypatch, policy=DEFAULT):
    """A match in 10 seconds, in which every phase takes all of the time that it is given, by a
    clock that only the phases move. An AssertionError if one gets more than is left."""
    clock, given = Clock(), []
    monkeypatch.setattr("nelson.budget.time.monotonic", clock)
    real_sample, real_loop = module.sample, module.Loop

    def spends(name, seconds):
        left = until - clock.now
        given.append((name, seconds))
        assert 0 < seconds <= left + 1e-9, (name, seconds, left)
        clock.now += seconds

    def no_law(formula, budget):
        spends("exact", budget.left)

    def known(*arguments, seconds, **options):
        spends("samples", seconds)
        return real_sample(*arguments, **options)

    def proof(*arguments, budget, **options):
        spends("proof", budget.left)
        raise BudgetExceeded("not decided")

    class Fit(real_loop):
        def __init__(self, learner, *, seed, budget):
            super().__init__(learner, seed=seed)
            self.given = budget

        def outcome(self):
            end = self.given.left
            outcome = super().outcome()
            spends("fit", end)
            return outcome

    monkeypatch.setattr(module, "moments_of", no_law)
    monkeypatch.setattr(module, "sample", known)
    monkeypatch.setattr(module, "separate", proof)
    monkeypatch.setattr(module, "Loop", Fit)
    until = clock.now + 10.0
    found = match(FIELDS, LITERALS, SHARES, seed=0, budget=Budget.of(10.0), policy=policy)
    assert clock.now < until
    return found, given


def test_shares_keep_the_limit_seconds(monkeypatch):
    """No phase of `shares=` gets more time than is left, and their sum is below `seconds=`."""
    found, given = timed_phases(monkeypatch)
    assert [name for name, _ in given] == ["exact", "samples", "proof", "fit"]
    assert sum(seconds for _, seconds in given) < 10.0
    assert len(found.achieved) == len(SHARES)


def test_a_phase_that_takes_more_than_is_left_is_seen(monkeypatch):
    """The twin: the loop is given twice the time that is left."""
    with pytest.raises(AssertionError, match="fit"):
        timed_phases(monkeypatch, Policy(fit=FitPolicy(loop_share=2.0)))
