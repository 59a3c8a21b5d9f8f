"""Are the labels of `auto` true? Without circuits and enumeration, against exact circuits.

We compile each formula, so its law is known: from the circuit of all clauses or, where that takes
too long, from exact samples of `auto`, which compiles the preprocessed formula. Then `auto` draws
from the same formula with the steps "circuit" and "enumerate" left out, and we compare

    each variable                      with its exact probability, or with exact samples
    a pair of variables of a clause    (both true) with exact samples

Tails are binomial, and are stated as standard errors: those of a normal variable with the same
tail. A formula differs if its worst variable or pair is beyond the bound for all these tests. The
bound is Bonferroni's: if all samples are right, the whole table says "differs" somewhere with
probability 0.001 at most. A result that differs and is called better than heuristic is a lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from lab.common import Row
from nelson import Formula, Samples, sample
from nelson.budget import Budget
from nelson.exact.compiled import compiled
from nelson.judging.tails import binomial_tails
from nelson.policy import Policy
from nelson.sampling.auto import ready
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan
from nelson_paper.experiments.base import Table
from nelson_paper.experiments.report import markdown
from tests.structured import Entry, public_suite, small_suite, suite

#: Steps of `auto` that are left out: they would take the circuit that we compare with.
LEFT_OUT = frozenset({"circuit", "enumerate"})
#: Seconds that D4 gets for all clauses of one formula. Circuits are kept on disk.
COMPILE_SECONDS = 30.0
#: Seconds that `auto` gets for exact samples, of which D4 gets a share.
EXACT_SECONDS = 120.0
#: Seconds that `auto` gets for one formula: more than in the suites, since labels are tested here.
DRAW_SECONDS = 30.0
SAMPLES = 20_000
#: Exact samples to compare with.
REFERENCE = 100_000
#: Pairs of variables of one formula that are compared, at most.
MAX_PAIRS = 2000
#: The probability that a table of right samples says "differs" somewhere.
FALSE_ALARM = 1e-3
#: Rounding error of exact probabilities; matters for those near 0 and 1.
ROUNDING = 1e-9
#: The largest number of standard errors that is stated: floats have no smaller tail.
MOST_ERRORS = 37.0
#: The table has at least this many formulas.
LEAST = 40
#: Formulas of the suites that have no solution, or whose law is not known in this time.
UNKNOWN = frozenset(
    {
        "feature model of 3000",
        "feature model of 20000, weighted",
        "multiplier of 10 bits",
        "factors of the prime 3607, 8 bits",
        "random circuit of 3000 gates",
        "4-colourings of 200 vertices",
        "cardinality of 300, weighted",
        "knapsack of 40",
        "XOR system of 100",
        "planted 3-SAT of 600",
        "pigeonhole, 9 in 8",
        "pigeonhole, 13 in 12",
        "random 4-SAT, a million clauses",
        "Kconfig of 6000",
        "product line of 2000",
        "shift register of 40 bits, 20 steps",
        "automaton of 60 latches, 12 steps",
        "planar 4-colourings of 15 x 15",
        "3-colourings of a 14 x 14 grid, weighted",
        "timetable of 40 events",
        "sudoku, 20 given",
        "cipher of 5 rounds",
        "path of 12 branches, 16 bits",
    }
)

Draw = Callable[[Formula, np.ndarray | None], Samples]


@dataclass(frozen=True)
class Truth:
    """What is known about the law of a formula."""

    reference: np.ndarray  # (count, n) bool: independent exact samples
    mean: np.ndarray | None = None  # (n,) exact; None: only the samples are known


class Line(NamedTuple):
    """One formula of the table."""

    name: str
    n: int
    method: str
    guarantee: str
    seconds: float
    tests: int  # variables and pairs compared
    worst: float  # standard errors of the worst of them
    allowed: float  # the bound for all tests of all formulas together
    gap: float  # the largest difference of the probability of a variable
    source: str = ""  # where the law comes from

    @property
    def verdict(self) -> str:
        if not self.guarantee:
            return "no samples"
        return "agrees" if self.worst <= self.allowed else "differs"

    @property
    def lie(self) -> bool:
        return self.verdict == "differs" and self.guarantee != "heuristic"


def entries() -> list[Entry]:
    """The formulas of the table: those of all three suites whose law is known."""
    return [e for e in [*suite(), *public_suite(), *small_suite()] if e.name not in UNKNOWN]


def truth(formula: Formula, theta: np.ndarray | None) -> Truth | None:
    """None if neither a circuit nor a list of all solutions is found in the time given."""
    circuit = compiled(formula, Budget.of(COMPILE_SECONDS))
    if circuit is not None:
        rows = np.zeros((1, formula.n_vars)) if theta is None else theta[None]
        return Truth(circuit.draw(rows, REFERENCE, seed=3)[0], circuit.mean(rows)[0])
    samples = sample(formula, theta, REFERENCE, seed=3, seconds=EXACT_SECONDS)
    known = len(samples) == REFERENCE and samples.guarantee == "exact"
    known &= "circuit" in samples.info["method"] or "enumerate" in samples.info["method"]
    return Truth(samples.to_numpy()) if known else None


def without_circuits(formula: Formula, theta: np.ndarray | None) -> Samples:
    """Samples of `auto` without the steps that would make every formula of the table exact."""
    options = Options(seed=1, seconds=DRAW_SECONDS, policy=Policy().without(*LEFT_OUT))
    return Plan(formula, theta, options).sample(SAMPLES)


def pairs_of(formula: Formula) -> np.ndarray:
    """(k, 2) variables from 0: one random pair of each clause, at most MAX_PAIRS pairs."""
    random = np.random.default_rng(7)
    found: set[tuple[int, int]] = set()
    for clause in random.permutation(formula.n_clauses).tolist():
        literals = formula.literals[formula.offsets[clause] : formula.offsets[clause + 1]]
        own = np.unique(np.abs(literals)) - 1
        own = own[own < formula.n_vars]
        if len(own) > 1 and len(found) < MAX_PAIRS:
            a, b = random.choice(own, 2, replace=False).tolist()
            found.add((min(a, b), max(a, b)))
    return np.array(sorted(found), int).reshape(-1, 2)


def tails(x: np.ndarray, law: Truth, pairs: np.ndarray) -> np.ndarray:
    """The smaller tail of each variable and of each pair of samples x (m, n)."""
    m, count = len(x), x.sum(axis=0)
    if law.mean is None:
        of_variables = two_samples(count, law.reference.sum(axis=0), m, len(law.reference))
    else:
        at_most, _ = binomial_tails(count, m, (law.mean - ROUNDING).clip(0, 1))
        _, at_least = binomial_tails(count, m, (law.mean + ROUNDING).clip(0, 1))
        of_variables = np.minimum(at_most, at_least)
    i, j = pairs.T
    both = ((rows[:, i] & rows[:, j]).sum(axis=0) for rows in (x, law.reference))
    return np.concatenate([of_variables, two_samples(*both, m, len(law.reference))])


def two_samples(here: np.ndarray, there: np.ndarray, m: int, others: int) -> np.ndarray:
    """The smaller tail of `here` of m samples, if `there` of `others` have the same probability.

    Given the sum of both, `here` is hypergeometric. The tails of the binomial are at least as large
    (Hoeffding 1963), so the test errs on the safe side. We count the rarer of an event and its
    complement, for which the two are closest.
    """
    often = 2 * (here + there) > m + others
    here, there = np.where(often, m - here, here), np.where(often, others - there, there)
    return np.minimum(*binomial_tails(here, here + there, m / (m + others)))


def line(entry: Entry, law: Truth, formulas: int, draw_samples: Draw = without_circuits) -> Line:
    """Draw from one formula and compare, in a table of `formulas` formulas."""
    formula, theta = entry.make()
    samples = draw_samples(formula, theta)
    told = (
        samples.info["method"],
        samples.guarantee if len(samples) else "",
        samples.info["seconds"],
    )
    if not len(samples):
        return Line(entry.name, formula.n_vars, *told, 0, 0.0, 0.0, 0.0)
    x = samples.to_numpy()
    found = tails(x, law, pairs_of(formula))
    allowed = -special.ndtri(FALSE_ALARM / formulas / len(found) / 2)
    worst = min(MOST_ERRORS, -float(special.ndtri(found.min())))
    mean = law.reference.mean(axis=0) if law.mean is None else law.mean
    gap = float(np.abs(x.mean(axis=0) - mean).max())
    source = "samples" if law.mean is None else "circuit"
    return Line(entry.name, formula.n_vars, *told, len(found), worst, float(allowed), gap, source)


def table(lines: list[Line]) -> Table:
    title = f"auto without circuits and enumeration on {len(lines)} formulas of known law"
    columns = "formula", "n", "method", "guarantee", "seconds", "tests", "worst", "allowed", "gap"
    rows = []
    for one in lines:
        errors = (f"{value:.1f}" for value in (one.worst, one.allowed))
        shown = f"{one.seconds:.1f}", f"{one.tests:,}", *errors, f"{one.gap:.3f}", one.source
        verdict = "LIE" if one.lie else one.verdict
        rows.append([one.name, f"{one.n:,}", one.method, one.guarantee, *shown, verdict])
    return Table(title, (*columns, "law from", "verdict"), rows)


def lines() -> Iterator[Line]:
    ready(SAMPLES, None)
    chosen = entries()
    for entry in chosen:
        law = truth(*entry.make())
        if law is not None:
            yield line(entry, law, len(chosen))


def rows() -> Iterator[Row]:
    found = list(lines())
    print(markdown(table(found)))
    count = {name: sum(o.guarantee == name for o in found) for name in ("exact", "diagnosed")}
    differ = sum(o.verdict == "differs" and o.guarantee == "heuristic" for o in found)
    note = f"{count['exact']} are called exact, {count['diagnosed']} diagnosed without circuits"
    yield Row("auto, labels: formulas of known law", len(found), LEAST, LEAST, "", note=note)
    note = f"{differ} results that differ are called heuristic"
    lies = sum(o.lie for o in found)
    yield Row("auto, labels: better than heuristic, but wrong", lies, 0, 0, "", True, note)
