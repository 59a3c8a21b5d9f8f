"""The paper's own examples and theorems: Appendix A.5, Theorems 1 and 2.

Example 1 and Eqs. 8-15 are in tests/distribution/test_dense.py.

Algorithm 1 is a Markov chain with the valid states absorbing, so on small formulas Theorems 1 and 2
are statements of linear algebra, tested here to rounding. The real sampler is then held to the same
numbers, statistically.
"""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.formula import Formula
from nelson.theory import local_lemma
from tests import problems

# --- Algorithm 1 as a Markov chain ---------------------------------------------------------------


def violated_clauses(f: Formula, x: np.ndarray) -> list[list[int]]:
    return [c for c in f if not any(x[abs(v) - 1] == (v > 0) for v in c)]


def chain(f: Formula, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(T, first row, violated clauses) over all 2^n states, from the text of Algorithm 1."""
    states = problems.all_states(f.n_vars)
    one = 1 / (1 + np.exp(-theta))
    marginal = np.where(states, one, 1 - one)  # P of each variable's value, by state
    T, count = np.zeros((len(states), len(states))), np.zeros(len(states))
    for s, x in enumerate(states):
        bad = violated_clauses(f, x)
        count[s] = len(bad)
        redrawn = np.zeros(f.n_vars, bool)
        redrawn[[abs(v) - 1 for c in bad for v in c]] = True
        reachable = (states[:, ~redrawn] == x[~redrawn]).all(axis=1)
        T[s] = reachable * marginal[:, redrawn].prod(axis=1)
    return T, marginal.prod(axis=1), count


def test_appendix_a5():
    """Uniform over the four valid states. Errata: they are s3, s4, s6, s8, not s1 .. s4."""
    T, x, _ = chain(problems.example1(), np.zeros(3))
    np.testing.assert_allclose(T.sum(axis=1), 1)
    valid = np.isin(np.arange(1, 9), [3, 4, 6, 8])
    np.testing.assert_array_equal(np.diag(T) == 1, valid)
    # s5 = (1, 0, 0) violates (not X1 or X3): X1 and X3 are redrawn, X2 = 0 stays.
    np.testing.assert_allclose(T[4], np.array([1, 1, 0, 0, 1, 1, 0, 0]) / 4)
    far = np.linalg.matrix_power(T, 2000)
    np.testing.assert_allclose(far.sum(axis=1), 1)  # row s6 of the printed matrix sums to 1.25
    np.testing.assert_allclose(x, 1 / 8)
    np.testing.assert_allclose(x @ far, np.where(valid, 1 / 4, 0), atol=1e-12)


def absorbed(f: Formula, theta: np.ndarray) -> tuple[np.ndarray, float]:
    """(law over all states on termination, expected resampled constraints), by linear algebra."""
    T, first, count = chain(f, theta)
    open_ = count > 0
    inside = T[np.ix_(open_, open_)]
    visits = np.linalg.solve((np.eye(len(inside)) - inside).T, first[open_])
    law = np.zeros(len(T))
    law[~open_] = first[~open_] + visits @ T[np.ix_(open_, ~open_)]
    return law, float(visits @ count[open_])


def full_law(f: Formula, theta: np.ndarray) -> np.ndarray:
    states, probability = problems.exact_law(f, theta)
    law = np.zeros(2**f.n_vars)
    law[problems.state_codes(states)] = probability
    return law


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", problems.extremal())
def test_theorems_1_and_2_by_linear_algebra(name, weighted):
    f = problems.extremal()[name]
    theta = problems.weights(f) if weighted else np.zeros(f.n_vars)
    law, work = absorbed(f, theta)
    np.testing.assert_allclose(law, full_law(f, theta), atol=1e-10)
    assert work == pytest.approx(local_lemma.expected_resamplings(f, theta), rel=1e-9)


@pytest.mark.parametrize("name", ["shared literal", "path", "horn", "random 3-SAT"])
def test_theorems_1_and_2_need_condition_1(name):
    """The twin: on formulas that are not extremal both equalities fail, and by much."""
    f = problems.non_extremal()[name]
    law, work = absorbed(f, np.zeros(f.n_vars))
    assert law.sum() == pytest.approx(1)
    assert np.abs(law - full_law(f, np.zeros(f.n_vars))).sum() > 0.01
    assert abs(work / local_lemma.expected_resamplings(f) - 1) > 0.02


def laws_by_round(f: Formula, theta: np.ndarray, rounds: int) -> list[np.ndarray]:
    """Law of the output given that it appears in round t, for t = 0 .. rounds - 1."""
    T, now, count = chain(f, theta)
    laws = []
    for _ in range(rounds):
        done = np.where(count == 0, now, 0)
        laws.append(done / done.sum())
        now = (now - done) @ T
    return laws


def test_output_is_independent_of_the_running_time():
    """Extremal: every round's output has the same law, so a budget of rounds costs no exactness."""
    f = problems.sink_free(problems.complete_edges(4))
    theta = problems.weights(f, 3)
    for law in laws_by_round(f, theta, 12):
        np.testing.assert_allclose(law, full_law(f, theta), atol=1e-10)
    # The twin: not so for a formula that is not extremal.
    f = problems.non_extremal()["path"]
    laws = laws_by_round(f, np.zeros(5), 3)
    assert np.abs(laws[1] - laws[0]).sum() > 0.05


# --- Theorem 2 by the real sampler ---------------------------------------------------------------

BATCHES, DRAWS, SEED = 24, 4096, 20


def measured_work(f: Formula, theta: np.ndarray | None) -> tuple[float, float]:
    """Mean resampled constraints a sample and its standard error, from independent batches."""
    means = []
    for batch in range(BATCHES):
        s = nelson.sample(f, theta, DRAWS, method="lovasz", sweeps=0, seed=1000 * SEED + batch)
        assert s.status == "ok"
        means.append(s.info["resampled"] / DRAWS)
    return float(np.mean(means)), float(np.std(means, ddof=1) / np.sqrt(BATCHES))


# 7 standard errors of Student's t with 23 degrees of freedom: a false alarm in 2.5 million.
BAND = 7.0


@pytest.mark.parametrize("n", [3, 5, 8, 12])
def test_theorem_2_on_cycles(n):
    mean, error = measured_work(problems.sink_free(problems.cycle_edges(n)), None)
    print(f"seed {SEED}: C_{n} {mean:.4f} +- {error:.4f}, theory {n * (n - 1) / 2}")
    assert abs(mean - n * (n - 1) / 2) < BAND * error
    # The twin: the test tells C_n from C_(n+1), and 5% too many from the truth.
    assert abs(mean - n * (n + 1) / 2) > BAND * error
    assert abs(mean - 1.05 * n * (n - 1) / 2) > BAND * error


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["example1", "complete4", "bowtie", "triangles", "tree"])
def test_theorem_2_on_extremal_formulas(name, weighted):
    f = problems.extremal()[name]
    theta = problems.weights(f) if weighted else None
    mean, error = measured_work(f, theta)
    theory = local_lemma.expected_resamplings(f, theta)
    print(f"seed {SEED}: {name} {mean:.4f} +- {error:.4f}, theory {theory:.4f}")
    assert abs(mean - theory) < BAND * error


@pytest.mark.parametrize("name", ["shared literal", "path", "horn"])
def test_theorem_2_is_rejected_without_condition_1(name):
    """The twin: the sampler follows the chain, and the chain does not follow Theorem 2."""
    f = problems.non_extremal()[name]
    mean, error = measured_work(f, None)
    assert abs(mean - local_lemma.expected_resamplings(f)) > BAND * error
    assert abs(mean - absorbed(f, np.zeros(f.n_vars))[1]) < BAND * error


def test_theorem_2_with_unit_clauses_is_about_the_formula_as_given():
    """`lovasz` fixes the variables of unit clauses first, so it resamples what is left: 1/3, and
    not the 5/3 of the formula as given. BAND is 7 standard errors. The docstring says which is
    which.
    """
    f, left = Formula([[1], [-1, 2, 3]]), Formula([[2, 3]], n_vars=3)
    assert local_lemma.expected_resamplings(f) == pytest.approx(5 / 3)
    assert local_lemma.expected_resamplings(left) == pytest.approx(1 / 3)
    mean, error = measured_work(f, None)
    assert abs(mean - 1 / 3) < BAND * error
    assert abs(mean - 5 / 3) > BAND * error
    told = str(local_lemma.expected_resamplings.__doc__)
    assert "as given" in told and "unit" in told and "5/3" in told and "1/3" in told


def test_the_appendix_example_of_sink_free_orientations():
    """Erratum 18: the printed orientation violates the printed clauses and no corrected one."""
    edges = [(1, 2), (1, 3), (2, 3), (2, 4), (3, 4)]
    printed = Formula([[1, 2], [-1, 3, -4], [-2, -3, 5], [4, -5]])
    x = np.array([[1, 1, 1, 0, 1]], bool)
    assert not printed.satisfied(x)[0]
    right = problems.sink_free([(u - 1, v - 1) for u, v in edges])
    assert right.satisfied(x)[0]
    assert {frozenset(c) for c in right.clauses()} == {
        frozenset(c) for c in ([1, 2], [-1, 3, 4], [-2, -3, 5], [-4, -5])
    }
