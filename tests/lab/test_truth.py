"""The benchmark of labels: it accepts right samples and finds each kind of wrong ones.

Seeds are fixed. A right sampler is called different with probability 0.001 / 40 at most for each
line, by Bonferroni over all variables and pairs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lab import auto, auto_truth, log_z_truth, pages
from lab.auto_truth import Truth, line
from nelson import Formula, Samples, sample
from nelson.exact.enumerated import enumerated
from nelson.policy import LogZPolicy
from tests.structured import Entry, public_suite, small_suite, suite

COUNT = 64 * 320


def clusters() -> Formula:
    """Two far clusters, all of variables 1..6 true or all false, and a clause among the others."""
    ring = [[-i, i % 6 + 1] for i in range(1, 7)]
    return Formula([*ring, [7, 8, 9], [-8, 9, 10], [-7, -9, -10]], n_vars=10)


def known(formula: Formula, theta: np.ndarray | None = None) -> tuple[Entry, Truth]:
    listed = enumerated(formula)
    assert listed is not None
    rows = np.zeros((1, formula.n_vars)) if theta is None else theta[None]
    law = Truth(listed.draw(rows, 50_000, 5)[0], listed.mean(rows)[0])
    return Entry("clusters", lambda: (formula, theta)), law


def drawn(formula: Formula, theta: np.ndarray | None, **options) -> Samples:
    return sample(formula, theta, COUNT, seed=11, method="enumerate", **options)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("means", [False, True])
def test_right_samples_agree(weighted, means):
    theta = np.random.default_rng(1).normal(size=10) if weighted else None
    entry, law = known(clusters(), theta)
    found = line(entry, law if means else Truth(law.reference), 40, drawn)
    assert found.guarantee == "exact" and found.verdict == "agrees" and not found.lie
    assert 4 < found.allowed < 6 and found.tests > 10 and found.gap < 0.02


@pytest.mark.parametrize("means", [False, True])
def test_shifted_marginals_are_a_lie(means):
    entry, law = known(clusters())
    shift = np.where(np.arange(10) == 8, 0.2, 0.0)
    law = law if means else Truth(law.reference)
    assert line(entry, law, 40, lambda formula, _: drawn(formula, shift)).lie


def test_chains_that_stay_in_one_cluster_are_a_lie_unless_they_are_called_heuristic():
    entry, law = known(clusters())

    def stuck(formula: Formula, theta: np.ndarray | None) -> Samples:
        return drawn(formula, theta, given={1: True})

    found = line(entry, law, 40, stuck)
    assert found.lie and found.gap > 0.4
    honest = line(entry, law, 40, lambda *given: replace(stuck(*given), guarantee="heuristic"))
    assert honest.verdict == "differs" and not honest.lie


def test_right_marginals_with_wrong_pairs_are_a_lie():
    entry, law = known(clusters())
    shuffled = np.random.default_rng(2)

    def independent(formula: Formula, theta: np.ndarray | None) -> Samples:
        """Every column is that of a right sample, but in an order of its own."""
        right = drawn(formula, theta)
        return replace(right, packed=shuffled.permuted(right.packed, axis=0))

    found = line(entry, law, 40, independent)
    assert found.lie and found.gap < 0.02


def test_no_samples_are_no_lie():
    entry, law = known(clusters())
    nothing = line(entry, law, 40, lambda formula, theta: sample(formula, theta, 0, seed=1))
    assert nothing.verdict == "no samples" and not nothing.lie


def test_the_steps_that_know_the_law_are_left_out():
    samples = auto_truth.without_circuits(Formula([[1, 2], [1, 3], [-2, 3, 4]]), None)
    assert samples.info["method"] not in ("circuit", "enumerate")
    for part in samples.info["auto"]:
        assert part["not taken"].get("enumerate", "left out") == "left out"


def test_the_table_has_forty_formulas():
    every = {name for name, _ in [*suite(), *public_suite(), *small_suite()]}
    assert every > auto_truth.UNKNOWN
    assert len(auto_truth.entries()) >= auto_truth.LEAST


@pytest.fixture
def docs(tmp_path, monkeypatch):
    """A folder in place of docs/."""
    here = {"cores": "2 of 2", "processor": "a processor", "load": "0.3 (programs)"}
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    monkeypatch.setattr(pages, "machine", lambda: here)
    return tmp_path


@pytest.mark.parametrize("name", pages.PAGES)
def test_every_part_of_a_page_has_its_marks_once(name):
    text = (pages.DOCS / pages.PAGES[name]).read_text()
    assert [text.count(mark) for mark in pages.marks(name)] == [1, 1]


def test_the_page_has_both_tables(docs):
    page = docs / "fifty.md"
    first, last = pages.marks("fifty")
    page.write_text(f"# Title\n\n{first}\nold\n{last}\nend\n")
    known = auto.Outcome("knapsack of 40", 40, 9, "rejection", "exact", "ok", 7, 1.5, "", False)
    none = auto.Outcome("pigeonhole, 9 in 8", 72, 9, "D4", "", "UNSAT", 0, 0.2, "", False)
    wrong = auto_truth.Line("a chain", 5, "cdcl", "diagnosed", 1.0, 9, 9.0, 5.0, 0.1, "circuit")
    pages.write_fifty([known, none], [wrong])
    text = page.read_text()
    assert text.startswith("# Title") and text.endswith("end\n") and "old" not in text
    assert "1 exact, 1 without a solution" in text and "of which 1 have a wrong label" in text
    lines = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
    (row,) = [line for line in lines if line[1:2] == ["knapsack of 40"]]
    assert row[1:8] == ["knapsack of 40", "40", "9", "heuristic", "exact", "rejection", "7"]
    assert [line[-2] for line in lines if line[1:2] == ["a chain"]] == ["LIE"]


def test_the_page_has_log_z(docs):
    page = docs / "fifty.md"
    first, last = pages.marks("log-z")
    page.write_text(f"# Title\n\n{first}\nold\n{last}\nend\n")
    wide = log_z_truth.Found("bounds", "heuristic", 3.0, 40.0, 20.0)
    right = log_z_truth.Found("bridge", "diagnosed", 5.01, 0.02, 3.0, "", "jumps")
    lines = [
        log_z_truth.Line("a model", 9, 5.0, right),
        log_z_truth.Line("a lie", 9, 5.0, right._replace(value=5.2)),
        log_z_truth.Line("a pity", 9, 5.0, wide._replace(reason="no overlap")),
        log_z_truth.Line("a bound", 9, 5.0, wide._replace(reason="the samples are heuristic")),
        log_z_truth.Line("a false bound", 9, 50.0, wide),
    ]
    assert [one.verdict for one in lines] == ["covers", "WRONG", "POOR", "covers", "WRONG"]
    pages.write_log_z(lines)
    text = page.read_text()
    assert text.startswith("# Title") and text.endswith("end\n") and "old" not in text
    assert "2 of all values are wrong, 2 are poor" in text
    assert "± 40 (bounds)" in text
    (row,) = [line for line in text.splitlines() if line.startswith("| a model")]
    assert "± 0.02" in row and "+0.01" in row and "jumps" in row


def test_log_z_of_a_small_formula_is_measured_against_the_truth(monkeypatch):
    monkeypatch.setattr(log_z_truth, "SECONDS", 60.0)
    entry, _ = known(clusters())
    found = log_z_truth.line(entry)
    assert found.verdict == "covers" and found.now.method == "tables" and abs(found.error) < 1e-9
    narrow = replace(log_z_truth.POLICY, log_z=LogZPolicy(tables_work=1))  # for no table
    monkeypatch.setattr(log_z_truth, "POLICY", narrow)
    again = log_z_truth.line(entry)
    assert again.verdict == "covers" and again.now.method != "tables"


def test_all_that_was_heuristic_is_in_the_suites():
    names = {entry.name for entry in [*suite(), *public_suite()]}
    assert len(names) == auto.FORMULAS == 50 and len(auto.HEURISTIC_BEFORE) == 19
    assert names >= auto.HEURISTIC_BEFORE
