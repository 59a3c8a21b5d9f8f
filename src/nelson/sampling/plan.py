"""The arguments of a call, checked and turned into requests to one sampler."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nelson.errors import FormulaError, NelsonError
from nelson.formula import Formula
from nelson.formula.checks import checked_projection, count, evidence_of, theta_rows
from nelson.io.progress import phase
from nelson.kernels.core.threads import usable_cores
from nelson.sampling import auto
from nelson.sampling.advice import for_method
from nelson.sampling.auto import Choice, Decision, Limits
from nelson.sampling.choose import Chosen, choose_sampler, finite
from nelson.sampling.diagnosis.diagnose import beyond_resolution
from nelson.sampling.guarantee import weakest
from nelson.sampling.joint import joint_moves
from nelson.sampling.options import Options
from nelson.sampling.problem import Problem, prepare
from nelson.sampling.projection import padded, source_of
from nelson.sampling.registry import get, missing_modules, names
from nelson.sampling.sampler import Moves, Request, Sampler
from nelson.sampling.units import unit_moves

#: Samples that kernels are compiled for if their number is not known: enough for the widest tile.
_MANY_SAMPLES = 1 << 20


@dataclass
class Plan:
    """Everything a run needs, checked. One part for each set of contexts with the same evidence."""

    formula: Formula
    sampler: Sampler
    choice: Choice
    n: int | None  # samples per context; None: without end
    single: bool  # theta was one vector
    contexts: int
    parts: list[tuple[Problem, Request]]
    check: bool = True  # drop samples that violate the formula
    gpu: int | None = None  # the number of the GPU that gets the samples; None: the CPU
    on_host: bool = False  # the CPU draws, and the samples move to the GPU
    decisions: Mapping[tuple[int, ...], Decision] | None = None  # of "auto", by evidence
    determined: bool = False  # the variables that are returned determine all others
    info: dict[str, Any] = field(default_factory=dict)  # more entries of `Samples.info`

    @property
    def problem(self) -> Problem:
        return self.parts[0][0]

    @property
    def request(self) -> Request:
        return self.parts[0][1]

    @property
    def variables(self) -> tuple[int, ...]:
        """The DIMACS variable of each column."""
        return tuple((self.request.columns + 1).tolist())

    @property
    def sweeps(self) -> int:
        """Sweeps that are made: none if every component is extremal."""
        return self.request.sweeps if any(len(p.program.order) for p, _ in self.parts) else 0

    @property
    def guarantee(self) -> str:
        """The weakest of all contexts."""
        return self.choice.guarantee

    @property
    def guarantees(self) -> list[str]:
        """The guarantee of each context."""
        labels = [self.guarantee] * self.contexts
        for problem, request in self.parts:
            if self.decisions is not None:
                rows = self.decisions[problem.evidence].choice.rows
                for context, label in zip(request.contexts.tolist(), rows, strict=False):
                    labels[context] = label
        return labels


def make_plan(formula: Formula, theta: Any, n: int | None, options: Options) -> Plan:
    if n is not None:
        n = count(n, "n")
    rows, single = theta_rows(formula, theta)
    sampler = get("lovasz" if options.method == "auto" else options.method)
    if options.method != "auto":
        _require_able(sampler, rows, options.sweeps)
    deadline = None
    if options.seconds is not None:  # compiling kernels in a first call is not the user's time
        if sampler.ready:
            with phase("compiling kernels"):
                sampler.ready(_MANY_SAMPLES if n is None else n, options.width)
        deadline = time.monotonic() + options.seconds
    projection = checked_projection(options.project, formula.n_vars)
    variables = tuple(range(1, formula.n_vars + 1)) if projection is None else projection

    members = _contexts_by_evidence(formula, rows, options.given)
    source = source_of(formula, rows, members, variables, options, deadline)
    options = source.options
    problems = [prepare(source.formulas[evidence], evidence) for evidence in members]
    theta_of = [
        padded(finite(rows[contexts]), problem.n)
        for problem, contexts in zip(problems, members.values(), strict=True)
    ]
    threads = options.threads or usable_cores()
    if options.method == "auto" and options.sweeps is None:
        if deadline is not None and not all(problem.extremal for problem in problems):
            deadline += _ready(n, options.width)
        limits = Limits(
            threads,
            deadline,
            options.max_rounds,
            n,
            skip=options.skip,
            reuse=options.reuse,
            seconds=options.seconds,
        )
        chosen = choose_sampler(problems, theta_of, limits, gpu=options.gpu is not None)
    else:
        sampler = source.sampler or get("lovasz" if options.method == "auto" else options.method)
        sweeps = (sampler.sweeps or 0) if options.sweeps is None else options.sweeps
        why = "asked for" if options.method != "auto" else f"{sweeps} sweeps asked for"
        why = source.why or why
        chosen = Chosen(sampler, _asked_for(sampler, problems, theta_of, sweeps, why, options))
    request = Request(
        theta=np.zeros((0, formula.n_vars)),
        contexts=np.zeros(0, np.int64),
        count=n,
        block=n or 64,
        seed=secrets.randbits(63) if options.seed is None else int(options.seed),
        columns=np.array(variables, int) - 1,
        sweeps=chosen.choice.sweeps,
        max_rounds=options.max_rounds,
        threads=threads,
        deadline=deadline,
        width=options.width,
        patience=chosen.sampler.seconds if options.seconds is None else None,
    )
    parts = [
        (problem, replace(request, theta=own, contexts=np.array(contexts, np.int64), moves=moves))
        for problem, own, contexts in zip(problems, theta_of, members.values(), strict=True)
        for moves in [_moves(problem, options.moves)]
    ]
    return Plan(
        problems[0].formula,
        chosen.sampler,
        chosen.choice,
        n,
        single,
        len(rows),
        parts,
        bool(options.check),
        options.gpu,
        chosen.on_host,
        chosen.decisions,
        options.determined,
        source.info,
    )


def _asked_for(
    sampler: Sampler,
    problems: Sequence[Problem],
    theta: Sequence[np.ndarray],
    sweeps: int,
    why: str,
    options: Options,
) -> Choice:
    """A method that the caller named: it gets what it promises, or what a verdict says."""
    if options.verdict is not None:
        return Choice(sampler.name, sweeps, options.verdict.guarantee, options.verdict.why)
    guarantee = weakest(sampler.guarantee(problem, sweeps) for problem in problems)
    if sampler.rounds_weights and (beyond := next(filter(None, map(beyond_resolution, theta)), "")):
        guarantee, why = weakest([guarantee, "heuristic"]), f"{why}; but {beyond}"
    elif guarantee == "heuristic" and sweeps:
        why += '; nobody has diagnosed these sweeps: method="auto" does'
    return Choice(sampler.name, sweeps, guarantee, why, advice=for_method(guarantee))


def _moves(problem: Problem, name: str) -> Moves | None:
    """The moves that the caller asked for."""
    if name == "single":
        return None
    moves, why = (
        (joint_moves(problem), "stays too wide unless most variables are held")
        if name == "joint"
        else (unit_moves(problem), "is too large for them")
    )
    if moves is None:
        raise FormulaError(f'moves="{name}" with a formula that {why}', expected='moves="single"')
    return moves


def _contexts_by_evidence(
    formula: Formula, theta: np.ndarray, given: Any
) -> dict[tuple[int, ...], list[int]]:
    """The contexts with the same evidence, which is `given` and the infinite entries of theta."""
    members: dict[tuple[int, ...], list[int]] = {}
    plain = evidence_of(formula, given)
    for context, is_finite in enumerate(np.isfinite(theta).all(1)):
        evidence = plain if is_finite else evidence_of(formula, given, theta[context])
        members.setdefault(evidence, []).append(context)
    return members


def _ready(n: int | None, width: int | None) -> float:
    """Compile what a decision may need; -> the seconds it took, which are not the user's."""
    started = time.monotonic()
    with phase("compiling kernels"):
        auto.ready(_MANY_SAMPLES if n is None else n, width)
    return time.monotonic() - started


def _require_able(sampler: Sampler, theta: np.ndarray, sweeps: int | None) -> None:
    """Raise if the sampler's package is missing, or if it cannot do what the call asks for."""
    missing = missing_modules(sampler)
    if missing:
        raise NelsonError(
            f"method {sampler.name!r} needs {', '.join(missing)}: "
            f'pip install "nelson-mrf[{sampler.needs}]"'
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
