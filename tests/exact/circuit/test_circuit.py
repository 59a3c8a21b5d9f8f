"""Circuits: their normal form, log Z and means against enumeration and counting; samples bit for
bit against a plain descent.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import nelson
from nelson.budget import Budget
from nelson.exact.circuit import build, decisions, draw
from nelson.exact.circuit.decisions import NnfCircuit, decisions_of, joined
from nelson.exact.circuit.draw import Draws, clauses_of
from nelson.exact.compiled import compiled
from nelson.kernels.circuit import passes
from nelson.kernels.core import rng
from nelson.kernels.core.bits import unpack
from nelson.log_z import log_z
from tests.problems import exact_law, extremal, non_extremal, random_ksat, weights

pytest.importorskip("py_d4")

SEED = 1977
ENCODED = nelson.Formula([[1, 2, -3]], 7).exactly(range(1, 8), 3).xor([1, 3, 5, 7])
FORMULAS = extremal() | non_extremal() | {"encoded": ENCODED}


def rows_of(formula, theta):
    rows = np.zeros((1, formula.n_total))
    rows[0, : formula.n_vars] = theta
    return rows


# --- the normal form -----------------------------------------------------------------------------

TEXTS = {
    "or of four": "o 1 0\nt 2 0\n1 2 1 2 0\n1 2 1 -2 0\n1 2 -1 3 0\n1 2 -1 -3 4 0\n",
    "false below": "o 1 0\na 2 0\nf 3 0\nt 4 0\n2 3 1 0\n2 4 2 0\n1 2 -1 0\n1 4 1 3 0\n",
    "shared and": "o 1 0\na 2 0\no 3 0\nt 4 0\n3 4 3 0\n3 4 -3 4 0\n2 3 0\n2 4 2 -5 6 0\n"
    "1 2 1 0\n1 2 -1 7 0\n",
    "shared link": "o 1 0\na 2 0\no 3 0\nt 4 0\n3 4 3 0\n3 4 -3 4 0\n2 3 -5 0\n1 2 1 0\n1 2 -1 0\n",
    "chain of ands": "a 1 0\na 2 0\na 3 0\nt 4 0\no 5 0\n5 4 1 0\n5 4 -1 2 0\n3 5 0\n2 3 3 0\n"
    "2 4 -4 0\n1 2 5 0\n",
    "true": "t 1 0\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_normal_form_has_the_value_of_the_text(name):
    parsed = NnfCircuit.parse(TEXTS[name])
    own = np.array([4, 0, 6, 2, 1, 3, 5])  # variables of a larger formula
    circuit = joined([decisions_of(parsed, own)], np.array([9, -8], np.int32), 9)
    assert circuit.sound() and circuit.decisions <= len(parsed.kind) + 3
    theta = np.random.default_rng(0).normal(size=(5, 9)) * 3
    theta[1, 4], theta[2, 2] = np.inf, -np.inf
    log_p, mean = circuit.solve(theta, means=True)
    for row, value in zip(theta, log_p, strict=True):
        pair = np.stack([-np.logaddexp(0, row), -np.logaddexp(0, -row)], axis=1)
        top = pair[8, 1] + pair[7, 0]
        assert value == pytest.approx(parsed.log_value(pair[own]) + top, abs=1e-12)
    assert (mean[:, 8] == 1).all() and (mean[:, 7] == 0).all()


def test_what_is_false_or_no_circuit():
    assert decisions_of(NnfCircuit.parse("f 1 0\n"), np.arange(3)) is None
    dead = "o 1 0\na 2 0\nf 3 0\n2 3 1 0\n1 2 0\n"
    assert decisions_of(NnfCircuit.parse(dead), np.arange(3)) is None
    for text in ("", "x 1 0\n", "o 1 0\n1 7 2 0\n", "o 1 0\nt 2 0\n1 2 3\n"):
        with pytest.raises(ValueError, match="circuit"):
            NnfCircuit.parse(text)


HOSTILE = {
    "a line too short after many literals": "o 1 0\nt 2 0\n1 2 3 3 3 0\n1 2\n",
    "a node that overflows": f"o {2**64 - 5} 0\no 1 0\nt 2 0\n1 2 3 0\n",
    "a node beyond the text": "o 2000000000 0\no 1 0\nt 2 0\n1 2 3 0\n",
    "an edge out of a leaf": "o 1 0\nt 2 0\nt 3 0\n2 3 1 0\n1 2 0\n",
    "an edge to itself": "o 1 0\na 2 0\nt 3 0\n2 2 1 0\n1 3 1 0\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_texts_that_would_lead_kernels_out_of_bounds(name):
    with pytest.raises(ValueError, match="circuit"):
        NnfCircuit.parse(HOSTILE[name])


@pytest.mark.parametrize(
    "literal", [5, -5, 2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**32 - 1, 2**64 + 1]
)
def test_literals_beyond_the_variables_are_refused(literal):
    circuit = NnfCircuit.parse(f"o 1 0\nt 2 0\n1 2 1 0\n1 2 {literal} 0\n")
    with pytest.raises(ValueError, match=r"variables 1\.\.4"):
        decisions_of(circuit, np.arange(4))
    with pytest.raises(ValueError, match=r"variables 1\.\.4"):
        circuit.log_value(np.zeros((4, 2)))


def chain(levels: int, same: bool) -> decisions.DecisionCircuit:
    """Each decision has the one below it twice in its first branch (`same`), or once."""
    kids = np.repeat(np.arange(levels - 1), 1 + same)
    counts = np.zeros(2 * levels, np.int64)
    counts[2::2] = 1 + same
    return decisions.DecisionCircuit(
        2,
        np.zeros(2 * levels + 1, np.int32),
        np.zeros(0, np.int32),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        kids.astype(np.int32),
        np.zeros(levels, np.uint8),
    )


def test_arrays_whose_draw_would_never_end_are_no_circuit():
    """64 levels that double: 2^64 decisions for each sample. The twin has one decision a level."""
    assert chain(64, same=False).sound()
    assert not chain(64, same=True).sound()


def test_pointers_whose_differences_overflow_are_no_circuit():
    good = chain(3, same=False)
    most = 2**31 - 1
    wrong = np.array([0, most, -most - 1, -1, 0, 0, 0], np.int32)
    assert good.sound()
    assert not replace(good, lit_ptr=wrong).sound()


@pytest.mark.process
@pytest.mark.parametrize("compiler", ["d4", "frontier"])
@pytest.mark.parametrize("name", ["random 3-SAT", "free variable", "triangles", "encoded"])
def test_log_z_and_means_against_enumeration(name, compiler):
    pytest.importorskip(build.COMPILERS[compiler][0])
    formula = FORMULAS[name]
    found = compiled(formula, Budget.of(60.0), compiler=compiler)
    states, _ = exact_law(formula)
    theta = np.stack([weights(formula, k) * (1 + 3 * k) for k in range(4)])
    theta[2, 1] = np.inf if states[0, 1] else -np.inf
    for row, value, mean in zip(theta, found.log_z(theta), found.mean(theta), strict=True):
        law, soft = exact_law(formula, row), np.where(np.isinf(row), 0, row)
        logs = law[0] @ soft
        assert value == pytest.approx(np.logaddexp.reduce(logs), abs=1e-11)
        np.testing.assert_allclose(mean, law[1] @ law[0], atol=1e-13)
    assert found.log_z(np.zeros((1, formula.n_vars))) == pytest.approx(math.log(len(states)))


@pytest.mark.process
def test_log_z_and_means_against_ganak():
    pytest.importorskip("pyganak")
    formula = random_ksat(32, 50, 4, seed=3)
    theta = weights(formula)
    found = compiled(formula, Budget.of(60.0))
    value = log_z(formula, theta, method="count").value
    assert found.log_z(theta[None]) == pytest.approx(value, abs=1e-9)
    given = formula.given([7])
    part = log_z(given, np.where(np.arange(32) == 6, 0, theta), method="count").value
    expected = math.exp(part + theta[6] - value)
    assert found.mean(theta[None])[0, 6] == pytest.approx(expected, rel=1e-9)


@pytest.mark.process
def test_many_theta_on_threads_are_those_of_one():
    formula = random_ksat(30, 30, 5, seed=1)
    found = compiled(formula, Budget.of(60.0))
    theta = np.random.default_rng(1).normal(size=(64, 30))
    assert len(theta) * found.edges > decisions.MIN_THREADED_VISITS
    mean, log_z = found.mean(theta), found.log_z(theta)
    for k in (0, 17, 63):
        assert np.array_equal(found.mean(theta[k : k + 1])[0], mean[k])
        assert found.log_z(theta[k : k + 1])[0] == log_z[k]


@pytest.mark.process
def test_weights_that_no_double_holds():
    """P(C) is below e^-10,000; its conditionals are what they are."""
    formula = random_ksat(30, 60, 3, seed=5)
    found = compiled(formula, Budget.of(60.0))
    theta = np.full((1, 30), -2000.0)
    fewest = found.log_z(theta)[0] / -2000
    assert fewest == pytest.approx(round(fewest), abs=0.01) and 1 < fewest < 30
    x = found.draw(theta, 200, SEED)
    assert formula.satisfied(x).all() and (x.sum(axis=2) == round(fewest)).all()


# --- samples, bit for bit ------------------------------------------------------------------------


def plain_thresholds(circuit, theta, in_log_space):
    """P(branch 1) of each decision, times 2^64, in the order of operations of `levels.climb`."""
    with np.errstate(over="ignore"):
        w = np.stack([1.0 / (1.0 + np.exp(theta)), 1.0 / (1.0 + np.exp(-theta))], axis=1).ravel()
    value, thr = np.zeros(circuit.decisions), np.zeros(circuit.decisions, np.uint64)
    for i in range(circuit.decisions):
        term = [1.0, 0.0 if circuit.single[i] else 1.0]
        for side in range(1 if circuit.single[i] else 2):
            b = 2 * i + side
            for code in circuit.lits[circuit.lit_ptr[b] : circuit.lit_ptr[b + 1]]:
                term[side] *= w[code]
            for kid in circuit.kids[circuit.kid_ptr[b] : circuit.kid_ptr[b + 1]]:
                term[side] *= value[kid]
        value[i] = term[0] + term[1]
        if min(term) > 0.0:
            odds = min(term) / max(term)
            thr[i] = passes.odds_threshold(odds, term[1] <= term[0])
        elif term[1]:
            thr[i] = passes.CERTAIN
    # Log space has other last digits and nothing more.
    assert np.allclose(thr.astype(float), in_log_space.astype(float), rtol=1e-12)
    return thr


def plain_descent(formula, circuit, theta, seed, context, count):
    """The specification of `kernels.circuit.descent`: one sample after the other."""
    work, log_p = passes.work(circuit.n, circuit.decisions), np.zeros(1)
    passes.solve(circuit.kernel, theta, work, log_p, np.zeros((0, 0)), 0, 1)
    thresholds = plain_thresholds(circuit, theta[0], work.thr)
    x = np.zeros((count, circuit.n), bool)
    laws = np.zeros(circuit.n, np.uint64)
    for v in range(circuit.n):
        off, on = work.log_w[2 * v : 2 * v + 2]
        laws[v] = passes.threshold(off, on) if np.isfinite([off, on]).all() else 0
        laws[v] = passes.CERTAIN if off == -np.inf else laws[v]

    def bernoulli(thr, word, lane, variable, round):
        if thr in (0, passes.CERTAIN):
            return thr != 0
        with np.errstate(over="ignore"):
            key0, key1 = rng.keys(rng.spread_seed(seed), np.uint64(context), np.uint64(word))
            start = key0 + rng.counter(round, variable, 0)
            for k in range(64):
                random = rng.scramble(start + np.uint64(k) * rng.GOLDEN, key1)
                if not int(random) >> lane & 1:
                    return bool(int(thr) >> (63 - k) & 1)
        return False

    for s in range(count):
        word, lane = divmod(s, 64)
        x[s] = [bernoulli(laws[v], word, lane, v, 0) for v in range(circuit.n)]
        pending = [circuit.decisions - 1]
        while pending:
            i = pending.pop()
            b = 2 * i + bernoulli(thresholds[i], word, lane, i, 1)
            for code in circuit.lits[circuit.lit_ptr[b] : circuit.lit_ptr[b + 1]]:
                x[s, code >> 1] = code & 1
            pending += circuit.kids[circuit.kid_ptr[b] : circuit.kid_ptr[b + 1]].tolist()
    return x


def kernel_draws(formula, circuit, theta, seed, context, count, lanes, width, threads=1):
    """The same from the kernel, with decisions dense from `lanes` lanes a tile on; None: nothing is
    dense; "few": few samples of a large circuit.
    """
    few, draw._MAX_DECISIONS_PER_SAMPLE = draw._MAX_DECISIONS_PER_SAMPLE, 10**9
    plain, draw._DECISIONS_OF_FEW = draw._DECISIONS_OF_FEW, 10**9
    before = draw.DENSE_LANES
    if lanes == "few":
        draw._DECISIONS_OF_FEW = 0
    elif lanes is not None:
        draw.DENSE_LANES = lanes
    try:
        draws = Draws(
            circuit,
            theta,
            np.arange(circuit.n),
            clauses_of(formula),
            seed,
            np.array([context]),
            threads,
            width,
            count,
        )
        assert draws.plain == (lanes == "few")
        if lanes is None:
            draws.job = draws.job._replace(least=2.0)
        return unpack(draws.block(0, count).packed[0], count)
    finally:
        draw.DENSE_LANES, draw._MAX_DECISIONS_PER_SAMPLE = before, few
        draw._DECISIONS_OF_FEW = plain


BITWISE = {
    "free variable": (FORMULAS["free variable"], 150),
    "encoded": (ENCODED, 150),
    "two components": (FORMULAS["triangles"], 150),
    "random 5-SAT of 24": (random_ksat(24, 24, 5, seed=4), 200),
    "random 3-SAT of 30": (random_ksat(30, 60, 3, seed=5), 200),
}


@pytest.mark.process
@pytest.mark.parametrize("name", BITWISE)
def test_the_kernel_is_the_plain_descent_bit_for_bit(name):
    formula, count = BITWISE[name]
    theta = rows_of(formula, 2 * weights(formula))
    source = compiled(formula, Budget.of(60.0))
    circuit = source.circuit
    theta[0, 2] = np.inf if source.mean(np.zeros((1, formula.n_vars)))[0, 2] > 0 else -np.inf
    expected = plain_descent(formula, circuit, theta, SEED, 3, count)
    for width in (1, 16):
        for lanes in (None, 1e-9, 2.0, 40.0, "few"):
            found = kernel_draws(formula, circuit, theta, SEED, 3, count, lanes, width)
            assert np.array_equal(found, expected), (width, lanes)
    assert np.array_equal(
        kernel_draws(formula, circuit, theta, SEED, 3, 70, 2.0, 16), expected[:70]
    )
    other = kernel_draws(formula, circuit, theta, SEED + 1, 3, count, 2.0, 16)
    assert not np.array_equal(other, expected)
    # Under theta = 0 many thresholds are 1/2, where a last digit decides all others.
    even = np.zeros_like(theta)
    expected = plain_descent(formula, circuit, even, SEED, 3, count)
    for lanes in (2.0, "few"):
        assert np.array_equal(
            kernel_draws(formula, circuit, even, SEED, 3, count, lanes, 16), expected
        )


@pytest.mark.process
def test_few_samples_are_drawn_in_log_space_if_terms_are_too_small_for_doubles(monkeypatch):
    """25 pairs, each with one true variable at least, under theta = -40: P(C) is about e^-1000."""
    formula = nelson.Formula([[k, k + 25] for k in range(1, 26)], n_vars=50)
    theta = np.full((2, 50), -40.0)
    theta[1] = 0.1
    circuit = compiled(formula, Budget.of(60.0)).circuit
    asked = circuit, theta, np.arange(50), clauses_of(formula), SEED, np.arange(2), 1, None, 100
    expected = Draws(*asked)
    monkeypatch.setattr(draw, "_DECISIONS_OF_FEW", 0)
    few = Draws(*asked)
    assert few.plain and not expected.plain
    assert np.array_equal(few.block(0, 100).packed, expected.block(0, 100).packed)
    assert not few.plain and np.allclose(few.log_p, expected.log_p)
    plain = Draws(circuit, theta[1:], *asked[2:5], np.arange(1, 2), 1, None, 100)
    assert np.array_equal(plain.block(0, 100).packed[0], expected.block(0, 100).packed[1])
    assert plain.plain and np.allclose(plain.log_p, expected.log_p[1:])


@pytest.mark.process
def test_seeds_threads_blocks_widths_and_batches_give_the_same_bits():
    formula = random_ksat(30, 40, 4, seed=6)
    theta = weights(formula)
    count = 40_000 + 13
    options = {"method": "circuit", "seed": SEED}
    s = nelson.sample(formula, theta, count, threads=1, **options)
    assert s.guarantee == "exact" and s.status == "ok" and len(s) == count
    for threads in (2, 5):
        other = nelson.sample(formula, theta, count, threads=threads, **options)
        assert np.array_equal(other.packed, s.packed)
    x = s.to_numpy()
    assert formula.satisfied(x).all()
    for few in (0, 1, 63, 64, 65, 1025):
        found = nelson.sample(formula, theta, few, **options)
        assert np.array_equal(found.to_numpy(), x[:few])
        if few % 64:
            assert not (found.packed[-1] >> np.uint64(few % 64)).any()  # nothing behind the tail
    for width in (1, 16):
        assert np.array_equal(
            nelson.sample(formula, theta, 700, width=width, **options).to_numpy(), x[:700]
        )
    parts = list(nelson.stream(formula, theta, 1000, block=192, **options))
    assert np.array_equal(np.concatenate([part.to_numpy() for part in parts]), x[:1000])
    assert not np.array_equal(nelson.sample(formula, theta, 700, method="circuit", seed=1), x[:700])


@pytest.mark.process
def test_contexts_are_their_own_streams():
    formula = random_ksat(24, 30, 4, seed=7)
    rows = np.stack([weights(formula, k) for k in range(7)])
    options = {"method": "circuit", "seed": SEED}
    first = nelson.sample(formula, rows, 3000, threads=2, **options).to_numpy()
    again = nelson.sample(formula, rows, 3000, threads=1, **options).to_numpy()
    assert first.shape == (7, 3000, 24) and np.array_equal(first, again)
    alone = nelson.sample(formula, rows[0], 3000, **options).to_numpy()
    assert np.array_equal(first[0], alone)
    assert np.array_equal(nelson.sample(formula, rows, 5, **options).to_numpy(), first[:, :5])
    found = compiled(formula).draw(rows, 3000, SEED)
    assert np.array_equal(found, first)
