"""docs/paper.md names what is there; and the lemmas of the appendix, by exact arithmetic.

The lemmas are checked by sums over all states, so there is nothing random: on two extremal formulas
they hold to rounding, and on one that is not extremal the same sums come out different.
"""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

import nelson
from tests import ROOT
from tests.problems import all_states, cycle_edges, example1, sink_free, weights

PAPER = (ROOT / "docs" / "paper.md").read_text()
EXTREMAL = {"example 1": example1(), "sink-free, a square": sink_free(cycle_edges(4))}
OTHER = nelson.Formula([[1, 2], [1, 3]])  # both fail at 000


# ------------------------------------------------------------------------------------- references


def broken(text: str) -> list[str]:
    """Paths and tests in backticks that are not there."""
    found = []
    for name in re.findall(r"`([\w./-]+\.(?:py|md)(?:::\w+)?)`", text):
        path, _, test = name.partition("::")
        file = ROOT / path
        if not file.is_file() or (test and f"def {test}(" not in file.read_text()):
            found.append(name)
    return found


def test_every_reference_resolves():
    assert len(re.findall(r"`tests/[\w/]+\.py::\w+`", PAPER)) > 50
    assert broken(PAPER) == []


def test_a_reference_to_nothing_is_noticed():
    assert broken("`src/nelson/no_such.py`, `tests/test_paper.py::test_no_such`") == [
        "src/nelson/no_such.py",
        "tests/test_paper.py::test_no_such",
    ]


def rows() -> list[list[str]]:
    lines = [line for line in PAPER.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] != "item" and not set(row[0]) <= {"-"}]


def test_every_item_has_a_file_and_a_test():
    for row in rows():
        assert len(row) in (5, 6), row
        assert any(
            f"`{place}/" in row[2]
            for place in ("src/nelson", "paper/src/nelson_paper", "docs", "lab")
        ), row
        assert "`tests/" in row[3], row


def test_every_experiment_says_whether_its_protocol_is_the_published_one():
    told = {row[0]: row[5] for row in rows() if len(row) == 6}
    assert len(told) == 12
    for item, protocol in told.items():
        expected = ("yes", "no, because", "no, as Figure 1", "not known, because")
        assert protocol.startswith(expected) or item == "not in the paper", item


def test_every_equation_table_and_figure_is_there():
    """Equations 1 to 39, Algorithms 1 and 2, Tables 1 to 5, Figures 1 to 6, and the theorems."""
    items = " ".join(row[0] for row in rows())
    equations = set()
    for list_ in re.findall(r"Eqs?\. ([\d, –]+)", items):
        for part in re.findall(r"(\d+)(?:–(\d+))?", list_):
            equations |= set(range(int(part[0]), int(part[1] or part[0]) + 1))
    assert equations == set(range(1, 40))
    for kind, count in (
        ("Algorithm", 2),
        ("Table", 5),
        ("Figure", 6),
        ("Theorem", 2),
        ("Lemma", 5),
        ("Condition", 1),
    ):
        for k in range(1, count + 1):
            assert re.search(rf"{kind} {k}\b", items), f"{kind} {k}"
    assert "Definitions 3, 4" in items and "Definition 5" in items and "Claim 1" in items


def test_errata_have_the_numbers_that_are_cited():
    text = (ROOT / "docs" / "errata.md").read_text()
    numbered = {
        int(k) for head in re.findall(r"^\*\*([\d, ]+)\. ", text, re.M) for k in head.split(",")
    }
    assert numbered == set(range(1, 19))
    cited = {int(k) for row in rows() for k in re.findall(r"\d+", row[4])}
    assert cited == numbered


# ----------------------------------------------------------------------------------------- lemmas


class Chain:
    """Algorithm 1 on all states: P (states,), violated (states, L), and the sets that occur."""

    def __init__(self, formula: nelson.Formula, theta: np.ndarray) -> None:
        self.clauses = [np.asarray(clause) for clause in formula.clauses()]
        self.x = all_states(formula.n_vars)
        u = 1 / (1 + np.exp(-theta))
        self.u = u
        self.p = np.where(self.x, u, 1 - u).prod(1)
        self.violated = np.stack(
            [(self.x[:, np.abs(c) - 1] != (c > 0)).all(1) for c in self.clauses], axis=1
        )
        self.sets = sorted(
            {frozenset(np.flatnonzero(row).tolist()) for row in self.violated}, key=sorted
        )

    def variables(self, chosen: frozenset[int]) -> set[int]:
        return {int(abs(v)) - 1 for j in chosen for v in self.clauses[j]}

    def reach(self, chosen: frozenset[int]) -> frozenset[int]:
        """Gamma: the set and its neighbours."""
        near = self.variables(chosen)
        return frozenset(
            j for j in range(len(self.clauses)) if self.variables(frozenset([j])) & near
        )

    def exactly(self, chosen: frozenset[int]) -> np.ndarray:
        wanted = np.isin(np.arange(len(self.clauses)), list(chosen))
        return (self.violated == wanted).all(1)

    def holds(self, clauses: set[int]) -> np.ndarray:
        return ~self.violated[:, sorted(clauses)].any(1)

    def q(self, chosen: frozenset[int]) -> float:
        return float(self.p[self.exactly(chosen)].sum())

    def p_of(self, chosen: frozenset[int]) -> float:
        return float(self.p[self.violated[:, sorted(chosen)].all(1)].sum())

    def out_of_reach(self, chosen: frozenset[int]) -> set[int]:
        return set(range(len(self.clauses))) - self.reach(chosen)

    def resampled(self, law: np.ndarray, chosen: frozenset[int]) -> np.ndarray:
        """law (states,) after the variables of `chosen` are redrawn."""
        drawn = sorted(self.variables(chosen))
        kept = [i for i in range(self.x.shape[1]) if i not in drawn]
        code = self.x[:, kept] @ (1 << np.arange(len(kept))) if kept else np.zeros(len(law), int)
        mass = np.bincount(code, law)
        fresh = np.where(self.x[:, drawn], self.u[drawn], 1 - self.u[drawn]).prod(1)
        return mass[code] * fresh


def chain(formula: nelson.Formula) -> Chain:
    return Chain(formula, weights(formula, 3))


def lemma_3(c: Chain) -> float:
    """The largest |q_S - p_S P(out of reach)|."""
    return max(abs(c.q(s) - c.p_of(s) * c.p[c.holds(c.out_of_reach(s))].sum()) for s in c.sets if s)


def record(c: Chain, sets: list[frozenset[int]]) -> float:
    """P(S_1, .., S_T), by running the law of the state."""
    law = np.where(c.exactly(sets[0]), c.p, 0.0)
    for before, after in pairwise(sets):
        law = np.where(c.exactly(after), c.resampled(law, before), 0.0)
    return float(law.sum())


def lemma_5(c: Chain) -> float:
    some = [s for s in c.sets if s]
    records = [
        [a, b, t] for a in some for b in some if b <= c.reach(a) for t in c.sets if t <= c.reach(b)
    ]
    assert records
    gaps = [abs(record(c, r) - c.q(r[2]) * c.p_of(r[0]) * c.p_of(r[1])) for r in records]
    return max(gaps)


@pytest.mark.parametrize("formula", EXTREMAL.values(), ids=list(EXTREMAL))
def test_records_are_independent_sets_that_spread_to_neighbours(formula):
    c = chain(formula)
    for s in c.sets:
        assert sum(len(c.clauses[j]) for j in s) == len(c.variables(s))  # no variable shared
        after = c.resampled(np.where(c.exactly(s), c.p, 0.0), s)
        for t in c.sets:
            assert t <= c.reach(s) or not s or after[c.exactly(t)].sum() == 0


@pytest.mark.parametrize("formula", EXTREMAL.values(), ids=list(EXTREMAL))
def test_ratio_property(formula):
    """After a round that began with S violated, the law is P given the clauses out of reach."""
    c = chain(formula)
    for s in c.sets:
        if s:
            after = c.resampled(np.where(c.exactly(s), c.p, 0.0), s)
            wanted = np.where(c.holds(c.out_of_reach(s)), c.p, 0.0)
            assert np.allclose(after / after.sum(), wanted / wanted.sum(), atol=1e-14)


@pytest.mark.parametrize("formula", EXTREMAL.values(), ids=list(EXTREMAL))
def test_lemma_3_and_4(formula):
    c = chain(formula)
    assert lemma_3(c) < 1e-15
    for s in c.sets:
        if s:
            total = sum(c.q(t) for t in c.sets if t <= c.reach(s))
            assert total == pytest.approx(c.p[c.holds(c.out_of_reach(s))].sum(), abs=1e-15)


@pytest.mark.parametrize("formula", EXTREMAL.values(), ids=list(EXTREMAL))
def test_lemma_5(formula):
    assert lemma_5(chain(formula)) < 1e-15


def test_the_lemmas_need_condition_1():
    c = chain(OTHER)
    assert lemma_3(c) > 1e-3
    assert lemma_5(c) > 1e-3
    s = frozenset([0])
    after = c.resampled(np.where(c.exactly(s), c.p, 0.0), s)
    wanted = np.where(c.holds(c.out_of_reach(s)), c.p, 0.0)
    assert not np.allclose(after / after.sum(), wanted / wanted.sum(), atol=1e-3)
