"""`nelson.report`: what theory and a pilot run say about a formula, as a table and as a dict."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.budget import Budget, TimeUp
from nelson.errors import Unsatisfiable
from nelson.formula import Formula
from nelson.formula.checks import (
    checked_theta,
    evidence_literals,
    evidence_of,
    with_evidence,
)
from nelson.formula.components import components
from nelson.formula.extremal import condition1
from nelson.formula.propagate import propagated
from nelson.io.json_values import plain
from nelson.kernels.core.deadline import check_time
from nelson.pictures import BLUE, ORANGE, bars, figure
from nelson.sampling.auto import MethodChoice
from nelson.sampling.method_choice import choose
from nelson.sampling.pilot import ExpectedWork, expected_work
from nelson.theory import clause_graph, local_lemma

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Report:
    """What theory and a pilot run say about a formula. Prints as a table.

    Shape and Condition 1 describe the formula as given (after conditioning on infinite theta).
    Degree, criteria and work describe the formula after unit propagation, which a sampler sees.
    """

    n_vars: int
    n_aux: int
    n_clauses: int
    clause_lengths: dict[int, int]
    components: int
    largest_component: int
    free_variables: int
    evidence: int
    fixed: int
    satisfiable: bool | None
    satisfiable_why: str
    extremal: bool
    witness: tuple[int, int] | None
    witness_clauses: tuple[list[int], list[int]] | None
    degree: clause_graph.Degree
    criteria: dict[str, local_lemma.Criterion]
    work: ExpectedWork
    choice: MethodChoice | None
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers and strings; an infinite number becomes None."""
        return plain(asdict(self), lambda _: None)

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(file=StringIO(), width=100, color_system=None)
        console.print(self)
        return console.file.getvalue().rstrip("\n")  # type: ignore[attr-defined]

    __repr__ = __str__

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """A picture: the lengths of the clauses, and how far each criterion of the local lemma is
        from its limit.

        path: a file to write (.png, .svg, .pdf). Returns the matplotlib figure.
        """
        lengths = list(self.clause_lengths)
        panels = [
            bars(
                [f"{k} literals" for k in lengths],
                np.array(list(self.clause_lengths.values()), float),
                x="clauses",
                title=f"{self.n_clauses:,} clauses over {self.n_vars:,} variables",
            )
        ]
        known = {
            _CRITERIA[name]: c
            for name, c in self.criteria.items()
            if c.slack is not None and math.isfinite(c.slack) and c.slack > 0
        }
        if known:
            slack = np.log10(np.array([c.slack for c in known.values()], float))
            colours = [BLUE if c.holds else ORANGE for c in known.values()]
            title = "Does theory promise fast resampling?"
            x = "slack, in powers of ten: it holds right of 0"
            panels.append(bars(list(known), slack, x=x, title=title, colours=colours))
        return figure(panels, path)

    def __rich__(self) -> Table:
        from rich.markup import escape
        from rich.table import Table

        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, text in _rows(self):
            table.add_row(name, escape(text))
        return table


def report(
    formula: Formula,
    theta: Any = None,
    given: Mapping[int, bool] | Iterable[int] | None = None,
    seconds: float | None = None,
    *,
    pilot: bool = True,
    seed: int = 0,
) -> Report:
    """What theory and a pilot run say about a formula; print it, or take `.to_dict()`.

    theta    log-odds (n_vars,), +-inf being evidence; None: uniform
    given    more evidence: {3: True}, or literals
    seconds  a time limit for the pilot run and the choice of `auto`; None: some seconds
    pilot    False skips the run that measures the expected work. To report what `auto` would
             choose may still need a short trial run.

    Cost: linear in the formula, plus the pilot run.

    >>> report = nelson.report(nelson.Formula([[1, 2], [-1, 3]]))
    >>> report.to_dict()["choice"]["why"]
    'extremal (Condition 1 holds): resampling alone is exact'
    """
    budget, theta = Budget.of(seconds), checked_theta(theta, formula.n_vars)
    with budget.enforced():
        return _reported(formula, theta, given, budget, pilot, seed)


def _reported(
    f: Formula, theta: np.ndarray | None, given: Any, budget: Budget, pilot: bool, seed: int
) -> Report:
    if given is not None:
        literals = evidence_literals(given, f.n_vars).tolist()
        theta = with_evidence(np.zeros(f.n_vars) if theta is None else theta, literals)
    evidence = evidence_of(f, None, theta)
    shown, rest, fixed, unsat = f, f, 0, ""
    try:
        left = propagated(f, evidence)
        fixed, rest = len(left.fixed), f.replace(literals=left.literals, offsets=left.offsets)
        shown = f.given(evidence) if evidence else f
    except Unsatisfiable as error:
        unsat = str(error)
    labels, witness = components(rest), condition1(shown)
    check_time()
    mentioned = np.flatnonzero(np.bincount(np.abs(rest.literals), minlength=f.n_total + 1)[1:])
    sizes = np.bincount(labels[mentioned])
    sizes = np.bincount(labels)[np.flatnonzero(sizes)]
    clauses = _clauses(shown, witness)
    criteria = {name: getattr(local_lemma, name)(rest, theta) for name in _CRITERIA}
    rest_extremal = witness is None or (fixed > 0 and condition1(rest) is None)
    satisfiable: bool | None
    notes = []
    if witness is not None and rest_extremal:
        notes.append("after unit propagation the formula is extremal")
    choice = None
    if unsat:
        satisfiable, why, work = False, unsat, ExpectedWork(None, None, "unsatisfiable")
    else:
        work, satisfiable, why = expected_work(f, rest, theta, rest_extremal, pilot, seed, budget)
        proof = next((name for name, c in criteria.items() if c.holds), None)
        if proof is not None:
            satisfiable, why = True, f"{proof} criterion"
        if satisfiable is not False:
            try:
                choice = choose(f, theta, budget=None if budget.counted else budget)
            except Unsatisfiable:
                pass
            except TimeUp as error:
                notes.append(f"what `auto` takes is not known: {error}")
    return Report(
        n_vars=f.n_vars,
        n_aux=f.n_aux,
        n_clauses=f.n_clauses,
        clause_lengths=clause_graph.clause_lengths(f),
        components=len(sizes),
        largest_component=int(sizes.max()) if len(sizes) else 0,
        free_variables=f.n_total - fixed - len(mentioned),
        evidence=len(evidence),
        fixed=fixed,
        satisfiable=satisfiable,
        satisfiable_why=why,
        extremal=witness is None,
        witness=witness,
        witness_clauses=clauses,
        degree=clause_graph.degree(rest),
        criteria=criteria,
        work=work,
        choice=choice,
        notes=notes,
    )


def _clauses(f: Formula, pair: tuple[int, int] | None) -> tuple[list[int], list[int]] | None:
    if pair is None:
        return None
    i, j = (f.literals[f.offsets[k] : f.offsets[k + 1]].tolist() for k in pair)
    return i, j


# --- words ---------------------------------------------------------------------------------------

_CRITERIA = {
    "symmetric": "LLL, symmetric",
    "asymmetric": "LLL, asymmetric",
    "cluster": "LLL, cluster expansion",
    "shearer": "Shearer",
}


def _rows(r: Report) -> list[tuple[str, str]]:
    aux = f" and {r.n_aux:,} auxiliary" if r.n_aux else ""
    rows = [("variables", f"{r.n_vars:,}{aux}, {r.free_variables:,} in no clause")]
    if r.fixed:
        rows.append(("fixed", f"{r.fixed:,} by unit propagation, {r.evidence:,} of them evidence"))
    lengths = ", ".join(f"{n:,} of length {k}" for k, n in list(r.clause_lengths.items())[:8])
    more = ", ..." if len(r.clause_lengths) > 8 else ""
    rows.append(("clauses", f"{r.n_clauses:,}" + (f" ({lengths}{more})" if lengths else "")))
    rows.append(("components", f"{r.components:,}, largest {r.largest_component:,} variables"))
    known = {True: "yes", False: "NO", None: "unknown"}[r.satisfiable]
    rows.append(("satisfiable", f"{known} ({r.satisfiable_why})"))
    if r.witness is None or r.witness_clauses is None:
        rows.append(("Condition 1", "extremal: plain resampling is exact"))
    else:
        i, j = (
            f"clause {k + 1} ({_literals(c)})"
            for k, c in zip(r.witness, r.witness_clauses, strict=True)
        )
        rows.append(("Condition 1", f"not extremal: {i} and {j} can be violated together"))
    d = r.degree
    word = "" if d.exact else "at most "
    rows.append(("dependency degree", f"{word}max {d.max:,}, mean {d.mean:.4g}, {d.edges:,} edges"))
    for name, c in r.criteria.items():
        verdict = {True: "holds", False: "fails", None: "not decided"}[c.holds]
        slack = "" if c.slack is None or math.isinf(c.slack) else f", slack {c.slack:.3g}x"
        note = f" ({c.note})" if c.note else ""
        rows.append((_CRITERIA[name], verdict + slack + note))
    rows.append(("resampled constraints", _work_words(r)))
    if r.choice is not None:
        rows += _choice_rows(r.choice)
    return rows + [("note", note) for note in r.notes]


def _choice_rows(choice: MethodChoice) -> list[tuple[str, str]]:
    """How `auto` draws each component, and why it does not take the steps before."""
    rows = [("preprocessing", ", ".join(choice.steps))] if choice.steps else []
    for part in choice.parts:
        sweeps = f" + {part['sweeps']} sweeps" if part["sweeps"] else ""
        several = part["components"] > 1
        size = f" for {part['components']} components of" if several else " for"
        size = f"{size} {part['variables']:,} variables" if len(choice.parts) > 1 else ""
        text = f"{part['method']}{sweeps}{size}, {part['guarantee']}: {part['why']}"
        rows.append(("auto takes", text))
        rows += [(f"  not {step}", why) for step, why in part["not taken"].items()]
    if choice.tv_bound is not None:
        rows.append(("distance from P", f"at most {choice.tv_bound:.1g} in total variation"))
    return rows + [("would help", text) for text in choice.advice.values()]


def _work_words(r: Report) -> str:
    w = r.work
    if w.value is None:
        return w.how
    if math.isinf(w.value):
        return "infinite: no solution"
    error = f" ± {w.standard_error:.2g}" if w.standard_error else ""
    text = f"{w.value:.4g}{error} per sample ({w.how}"
    return text + ("; Theorem 2)" if w.equality else "; Theorem 2 is for extremal formulas)")


def _literals(clause: list[int]) -> str:
    """The first ten literals."""
    return " ".join(map(str, clause[:10])) + (" ..." if len(clause) > 10 else "")
