"""Samples in files and arrays: how they are read, and whether each is valid."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.io import tables
from tests.judging.known_laws import SEED, SMALL, judge
from tests.problems import all_states, weights

# --- files ----------------------------------------------------------------------------------------


def test_a_file_is_accepted_and_rejected_with_a_twentieth_of_it_biased(tmp_path):
    theta = weights(SMALL)
    right = nelson.sample(SMALL, theta, 100_000, method="prs", seed=SEED).to_numpy()
    wrong = nelson.sample(SMALL, theta, 5000, method="lovasz", sweeps=0, seed=SEED).to_numpy()
    mixed = right.copy()
    mixed[::20][: len(wrong)] = wrong[: len(mixed[::20])]
    for x, accept in ((right, True), (mixed, False)):
        path = tmp_path / "samples.npy"
        np.save(path, x)
        verdict = judge(SMALL, path, theta)
        assert verdict.accept is accept and verdict.test == "chi-square", str(verdict)
        assert verdict.evidence["samples"] == 100_000
        if not accept:
            assert verdict.evidence["p_value"] < 1e-3


def test_a_file_of_the_wrong_weights_is_rejected():
    samples = nelson.sample(SMALL, weights(SMALL), 20_000, method="prs", seed=SEED)
    assert judge(SMALL, samples, weights(SMALL)).accept is True
    assert judge(SMALL, samples).accept is False
    assert judge(SMALL, samples, weights(SMALL, 1)).accept is False


@pytest.mark.parametrize(
    "text",
    [
        "1 -2 3 0\n-1 -2 3 0\n-1 -2 3 0\n",
        "c three samples\nv 1 -2 3 0\nv -1 -2 3 0\nv 3 -2 -1 0\n",
        "s SATISFIABLE\nv 1 -2\nv 3 0\nv -1 -2 3 0\nv -1\nv -2 3 0\n",
        "1:1 -2 3 0\n2:-1 -2 3 0\n",
        "v 1 -2 3 0:1\nv -1 -2 3 0: 2\n",
        "101\n001\n001\n",
        "1 0 1\n0 0 1\n0 0 1\n",
        "0: 101\n7: 001\n2: 001\n",
    ],
)
def test_text_of_samplers_is_read(tmp_path, text):
    path = tmp_path / "samples.txt"
    path.write_text(text)
    table = tables.read(path, 3)
    assert table.variables == (1, 2, 3)
    np.testing.assert_array_equal(table.x, [[1, 0, 1], [0, 0, 1], [0, 0, 1]])


@pytest.mark.parametrize("kind", ["txt", "npz", "parquet"])
def test_files_of_nelson_sample_are_read(tmp_path, kind):
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    from nelson.io.atomic import writing
    from nelson.io.sample_files import make_writer

    samples = nelson.sample(SMALL, None, 5000, method="prs", seed=SEED)
    path = tmp_path / f"samples.{kind}"
    with writing(path) as out:
        writer = make_writer("text" if kind == "txt" else kind, out, samples.variables)
        writer.write(samples.packed, len(samples))
        writer.close({})
    verdict = judge(SMALL, path)
    assert verdict.accept is True and verdict.evidence["samples"] == 5000


@pytest.mark.parametrize(
    "text",
    ["", "1 -2 3\n", "1 -2 x 0\n", "1 -2 0\n1 3 0\n", "1 1 2 0\n", "1 0 -2 0\n", "1 -2 9 0\n"],
)
def test_text_that_holds_no_samples_is_refused(tmp_path, text):
    path = tmp_path / "samples.txt"
    path.write_text(text)
    with pytest.raises(FormulaError, match=r"samples\.txt"):
        judge(Formula([[1, 2, 3]]), path)


def test_a_word_that_is_no_literal_is_told_where_it_stands(tmp_path):
    path = tmp_path / "samples.txt"
    path.write_text("1 2 3 0\n1 -2 x\n3 0\n")
    with pytest.raises(FormulaError, match=r"samples\.txt:2: '1 -2 x'"):
        judge(Formula([[1, 2, 3]]), path)


# --- validity -------------------------------------------------------------------------------------


def test_one_invalid_sample_is_enough_and_its_clause_is_named():
    formula = Formula([[1, 2], [-1, 3]], n_vars=3)
    x = nelson.sample(formula, None, 10_000, method="prs", seed=SEED).to_numpy()
    assert judge(formula, x, test="validity").accept is True
    x[1234] = [True, True, False]
    verdict = judge(formula, x)
    assert verdict.accept is False and verdict.test == "validity"
    assert "sample 1235 breaks clause 2 (-1 3)" in verdict.reason
    assert verdict.evidence["invalid_samples"] == 1


@pytest.mark.slow
def test_evidence_in_theta_is_part_of_the_claim():
    theta = weights(SMALL)
    theta[0] = np.inf
    given = nelson.sample(SMALL, theta, 20_000, method="prs", seed=SEED)
    verdict = judge(SMALL, given, theta)
    assert verdict.accept is True and "given 1 literal" in verdict.law
    assert judge(SMALL, given, np.where(np.isinf(theta), 0, theta)).accept is False
    loose = nelson.sample(SMALL, np.where(np.isinf(theta), 0, theta), 1000, seed=SEED)
    verdict = judge(SMALL, loose, theta)
    assert verdict.test == "validity" and "breaks the evidence 1" in verdict.reason
    for test in ("marginals", "barbarik"):
        assert judge(SMALL, "prs", theta, test=test, seed=SEED).accept is True


def test_samples_of_some_variables_are_tested_against_the_law_of_those(tmp_path):
    samples = nelson.sample(SMALL, None, 20_000, project=[2, 5, 7], method="prs", seed=SEED)
    assert judge(SMALL, samples).accept is True
    assert judge(SMALL, samples, test="marginals").accept is True
    assert judge(SMALL, samples, weights(SMALL)).accept is False
    assert judge(SMALL, samples, test="conditionals").accept is None
    # x1 = x2, seen through x1 and x3 = not x2: (1, 1) has no completion.
    formula = Formula([[-1, 2], [1, -2], [-2, -3], [2, 3]])
    path = tmp_path / "some.csv"
    path.write_text("x1,x3\n" + "1,0\n" * 60 + "1,1\n")
    verdict = judge(formula, path)
    assert verdict.test == "validity" and "sample 61" in verdict.reason
    assert "no completion" in verdict.reason


@pytest.mark.slow
def test_encoded_constraints_are_judged_by_what_they_say():
    formula = Formula([[1, 2, 3, 4]], n_vars=8).xor([1, 2, 3, 4, 5, 6, 7], True)
    assert formula.n_aux
    assert judge(formula, "prs", seed=SEED).accept is True
    states = all_states(8)
    x = states[np.asarray(formula.satisfied(states))]
    assert judge(formula, np.repeat(x[: len(x) // 2], 200, axis=0)).accept is False
    assert judge(formula, "lovasz", test="conditionals", seed=SEED).test == "conditionals"
    assert judge(formula, "prs", test="barbarik", seed=SEED, seconds=20).accept is not False
    x[0, 6] = ~x[0, 6]
    assert "constraint" in judge(formula, x).reason
