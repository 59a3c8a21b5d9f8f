"""The arguments of a call, checked and turned into requests to one sampler."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.errors import FormulaError, NelsonError
from nelson.formula import Formula
from nelson.formula.checks import checked_projection, count, evidence_of, theta_rows
from nelson.kernels.core.threads import usable_cores
from nelson.sampling.guarantee import weakest
from nelson.sampling.problem import Problem, prepare
from nelson.sampling.registry import Choice, get, missing_modules, names
from nelson.sampling.sampler import Request, Sampler

if TYPE_CHECKING:
    from nelson.sampling.auto import Decision


@dataclass
class Plan:
    """Everything a run needs, checked. One part for each set of contexts with the same evidence."""

    formula: Formula
    sampler: Sampler
    choice: Choice
    n: int | None
    single: bool  # theta was one vector
    contexts: int
    parts: list[tuple[Problem, Request]]
    check: bool = True  # drop what violates the formula
    decisions: Mapping[tuple[int, ...], Decision] | None = None  # of "auto", by evidence

    @property
    def problem(self) -> Problem:
        return self.parts[0][0]

    @property
    def request(self) -> Request:
        return self.parts[0][1]

    @property
    def variables(self) -> tuple[int, ...]:
        return tuple((self.request.columns + 1).tolist())


def make_plan(
    formula: Formula,
    theta: Any,
    n: int | None,
    method: str,
    sweeps: int | None,
    given: Any,
    project: Any,
    seed: int | None,
    threads: int | None,
    max_rounds: int,
    seconds: float | None,
    width: int | None,
    check: bool,
) -> Plan:
    from nelson.kernels.core.rng import MAX_ROUNDS
    from nelson.kernels.cpu.tiles import WIDTHS

    if n is not None:
        n = count(n, "n")
    if not 0 <= count(max_rounds, "max_rounds") <= MAX_ROUNDS:
        raise FormulaError(f"max_rounds = {max_rounds}", expected=f"at most {MAX_ROUNDS}")
    if sweeps is not None and count(sweeps, "sweeps") > MAX_ROUNDS:
        raise FormulaError(f"sweeps = {sweeps}", expected=f"at most {MAX_ROUNDS}")
    if seconds is not None and not seconds >= 0:
        raise FormulaError(f"seconds = {seconds}", expected="a duration")
    if width is not None and width not in WIDTHS:
        raise FormulaError(f"width = {width}", expected=f"one of {WIDTHS}")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer))):
        raise FormulaError(f"seed = {seed!r}", expected="an integer")
    rows, single = theta_rows(formula, theta)
    first = get("lovasz" if method == "auto" else method)
    if method != "auto":
        able(first, rows, sweeps)
    deadline = None
    if seconds is not None:  # a first call's compilation is not the user's time
        if first.ready:
            first.ready(1 << 20 if n is None else n, width)
        deadline = time.monotonic() + seconds
    chosen = checked_projection(project, formula.n_vars)
    columns = np.arange(formula.n_vars) if chosen is None else np.array(chosen, int) - 1
    if threads is not None and not count(threads, "threads"):
        raise FormulaError("threads = 0", expected="1 or more")

    patterns: dict[tuple[int, ...], list[int]] = {}
    finite = np.isfinite(rows).all(1)
    plain = evidence_of(formula, given)
    for context in range(len(rows)):
        key = plain if finite[context] else evidence_of(formula, given, rows[context])
        patterns.setdefault(key, []).append(context)
    problems = [prepare(formula, evidence) for evidence in patterns]
    cores = threads or usable_cores()
    choice = Choice(method, first.sweeps or 0, "exact", "asked for")
    sampler, decisions = first, None
    if method == "auto" and sweeps is None:
        own = [rows[members] for members in patterns.values()]
        if deadline is not None and not all(problem.extremal for problem in problems):
            deadline += _ready(n, width)
        terms = cores, deadline, max_rounds, n
        sampler, choice, decisions = _automatic(problems, own, terms)
    elif method == "auto":
        choice = choice._replace(method="lovasz", why=f"{sweeps} sweeps asked for")
    request = Request(
        theta=np.zeros((0, formula.n_vars)),
        contexts=np.zeros(0, np.int64),
        count=n,
        block=n or 64,
        seed=secrets.randbits(63) if seed is None else int(seed),
        columns=columns,
        sweeps=choice.sweeps if sweeps is None else sweeps,
        max_rounds=max_rounds,
        threads=cores,
        deadline=deadline,
        width=width,
        patience=sampler.seconds if seconds is None else None,
    )
    parts = []
    for problem, members in zip(problems, patterns.values(), strict=True):
        contexts = np.array(members, np.int64)
        finite_rows = np.where(np.isinf(rows[contexts]), 0.0, rows[contexts])
        parts.append((problem, replace(request, theta=finite_rows, contexts=contexts)))
    return Plan(formula, sampler, choice, n, single, len(rows), parts, bool(check), decisions)


def _automatic(
    problems: list[Problem],
    theta: list[np.ndarray],
    terms: tuple[int, float | None, int, int | None],
) -> tuple[Sampler, Choice, Mapping[tuple[int, ...], Decision]]:
    """A decision for each problem; then one sampler for all of them, and what it is worth."""
    from nelson.sampling import auto

    decisions = {
        problem.evidence: auto.decide(
            problem, np.where(np.isinf(rows), 0.0, rows), auto.Terms(*terms)
        )
        for problem, rows in zip(problems, theta, strict=True)
    }
    choices = [decision.choice for decision in decisions.values()]
    worst = weakest(choice.guarantee for choice in choices)
    choice = max(choices, key=lambda choice: choice.sweeps)._replace(guarantee=worst)
    if all(choice.whole and choice.method == "lovasz" for choice in choices):
        return get("lovasz"), choice, decisions
    return auto.sampler(decisions), choice, decisions


def _ready(n: int | None, width: int | None) -> float:
    """Compile what a decision may need; -> the seconds that took, which are not the user's."""
    from nelson.sampling import auto

    started = time.monotonic()
    auto.ready(1 << 20 if n is None else n, width)
    return time.monotonic() - started


def able(sampler: Sampler, theta: np.ndarray, sweeps: int | None) -> None:
    """Raise if the sampler's package is missing, or if it cannot do what is asked."""
    missing = missing_modules(sampler)
    if missing:
        raise NelsonError(
            f"method {sampler.name!r} needs {', '.join(missing)}: "
            f'pip install "nelson[{sampler.needs}]"'
        )
    if not sampler.weighted and (np.isfinite(theta) & (theta != 0)).any():
        raise FormulaError(
            f"theta that is not 0 with the uniform sampler {sampler.name!r}",
            expected="theta=None, or one of " + ", ".join(n for n in names() if get(n).weighted),
        )
    if sweeps and sampler.sweeps is None:
        raise FormulaError(
            f"sweeps = {sweeps} with method {sampler.name!r}, which makes none",
            expected="one of " + ", ".join(n for n in names() if get(n).sweeps is not None),
        )
