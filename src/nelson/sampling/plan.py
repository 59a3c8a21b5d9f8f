"""`nelson.plan`: who draws which part of a formula, and under which guarantee. Decided once.

    plan = nelson.plan(formula, theta)
    plan.guarantee, plan.why
    plan.sample(1000, seed=0)                    # the samples of nelson.sample with this seed
    plan.sample(1000, seed=1, theta=other)       # at another theta

`nelson.sample` and `nelson.stream` are a plan that is drawn from once.

*Another theta.* What depends on the formula alone is kept with the formula and never made twice:
unit propagation, components, gates, tables of solutions, circuits, the check of Condition 1. If one
method draws the whole formula exactly for every theta (resampling of an extremal formula,
enumeration, a circuit), it is not even chosen anew. In all other cases `auto` decides for the new
theta: the trials of rejection and of coupled chains and the diagnosis of chains depend on it.
`Plan.at(theta, keep=True)` leaves them out, for callers that move theta in small steps and say
themselves when to decide again.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nelson.budget import Budget, TimeUp
from nelson.chains.guarantee import weakest
from nelson.chains.moves.fields import unit_moves
from nelson.chains.moves.joint import joint_moves
from nelson.chains.moves.protocol import Moves
from nelson.chains.moves.single_flips import SINGLE
from nelson.chains.problem import Problem, beyond_resolution, prepare
from nelson.chains.request import Request
from nelson.errors import BudgetExceeded, FormulaError, NelsonError
from nelson.exact.enumerated import finite
from nelson.formula import Formula
from nelson.formula.checks import checked_projection, count, evidence_of, theta_rows
from nelson.formula.memo import Recent, Slot
from nelson.io.progress import phase
from nelson.kernels.core.bits import words_for
from nelson.kernels.core.deadline import seconds_compiling, without_deadline
from nelson.policy import Policy
from nelson.sampling import auto, total_variation
from nelson.sampling.advice import for_method
from nelson.sampling.auto import MethodChoice
from nelson.sampling.collect import collect, in_blocks, recut
from nelson.sampling.device.draw import collect_on_gpu, in_blocks_on_gpu
from nelson.sampling.distinct_samples import distinct, in_distinct_blocks
from nelson.sampling.drawing import Drawing
from nelson.sampling.method_choice import ChosenSampler, choose_sampler
from nelson.sampling.options import Options
from nelson.sampling.projection import padded, source_of
from nelson.sampling.registry import get, missing_modules, names
from nelson.sampling.reserve import Reserve, Wanted, installed
from nelson.sampling.sampler import Sampler
from nelson.sampling.samples import Samples

#: Samples that kernels are compiled for if their number is not known: enough for the widest tile.
_MANY_SAMPLES = 1 << 20
#: Arrangements are kept with a formula for theta of at most so many bytes. To decide for a larger
#: one takes a small part of the time of its draw.
_SMALL_THETA = 1 << 16


@dataclass(frozen=True)
class _Arrangement:
    """What a plan decided: the problems to draw from, and the sampler that draws them."""

    problems: list[Problem]  # one for each set of contexts with the same evidence
    theta: list[np.ndarray]  # finite rows (contexts, n) of each problem
    contexts: list[np.ndarray]  # the numbers of its contexts
    moves: list[Moves]  # those that the caller asked for
    chosen: ChosenSampler
    determined: bool  # the variables that are returned determine all others
    info: dict[str, Any]  # more entries of `Samples.info`
    variation: list[Any] = field(default_factory=list)  # see `Drawing.variation`


#: What equal calls decided, if it is exact and no clock had a part in it.
_ARRANGEMENTS: Slot[Recent[Hashable, _Arrangement]] = Slot("arrangements of draws")


class Plan:
    """How to draw from P_theta(x | C). `nelson.plan` makes one.

    >>> formula = nelson.Formula([[1, 2], [-1, 3]])
    >>> plan = nelson.plan(formula, [0.5, 0.0, -0.5])
    >>> plan.guarantee, plan.method
    ('exact', 'lovasz')
    >>> len(plan.sample(1000, seed=0))
    1000
    """

    def __init__(self, formula: Formula, theta: Any, options: Options) -> None:
        """Checks the arguments. `decide`, or the first draw, decides."""
        self.formula, self.options = formula, options
        self._rows, self._single = theta_rows(formula, theta)
        if options.method != "auto":
            _require_able(get(options.method), self._rows, options.sweeps)
        projection = checked_projection(options.project, formula.n_vars)
        everything = tuple(range(1, formula.n_vars + 1))
        self._variables = everything if projection is None else projection
        self._given = evidence_of(formula, options.given)
        self._decided: _Arrangement | None = None

    # --- what was decided ------------------------------------------------------------------------

    @property
    def guarantee(self) -> str:
        """The weakest guarantee of all contexts."""
        return self.choice.guarantee

    @property
    def why(self) -> str:
        return self.choice.why

    @property
    def method(self) -> str:
        """The name of a sampler; several joined by " + " where components differ."""
        return self.choice.method

    @property
    def choice(self) -> MethodChoice:
        """Method, sweeps, guarantee and reasons, component by component."""
        self.decide()
        assert self._decided is not None
        return self._decided.chosen.choice

    def __repr__(self) -> str:
        how = "not decided yet"
        if self._decided is not None:
            how = f"{self.guarantee}, method={self.method!r}"
        return f"Plan({self.formula.n_vars} variables, {how})"

    def decide(self, budget: Budget | None = None) -> Plan:
        """Decide, unless that is done. budget: default, the `seconds=` and `threads=` of the plan.

        Raises Unsatisfiable if that is proved on the way.
        """
        if self._decided is None:
            self._decided = self._known_or_arranged(budget or self._budget(None))[0]
        return self

    # --- drawing ---------------------------------------------------------------------------------

    def sample(
        self,
        n: int = 1,
        *,
        seed: int | None = None,
        theta: Any = None,
        unique: bool | None = None,
        strict: bool | None = None,
        seconds: float | None = None,
    ) -> Samples:
        """n samples: those of `nelson.sample` with the same seed.

        theta    another theta than that of the plan; the text above says what is decided anew.
        seconds  for this draw; default: those of the plan, counted anew for each draw.
        unique, strict: as in `nelson.sample`; default: what the plan was made with.
        """
        started = time.monotonic()
        options = self._options(seed, unique, strict, seconds)
        samples = self._at(theta)._drawn(n, options, started)
        if options.strict and samples.status != "ok":
            raise BudgetExceeded(f"{len(samples)} of {n} samples: {samples.info['reason']}")
        return samples

    def _drawn(self, n: int, options: Options, started: float) -> Samples:
        n = count(n, "n")
        budget = self._budget(n, options.seconds)
        reserve = self._reserve(n, options, budget)
        samples = None
        try:
            try:
                samples = self._in_time(n, options, budget, started)
                why = str(samples.info.get("reason", ""))
            except TimeUp as error:
                why = str(error)
            if samples is None or (n and not len(samples)):
                samples = (reserve and reserve.samples(started, why)) or samples
            return self._nothing(n, options, started, why) if samples is None else samples
        finally:
            if reserve is not None:
                reserve.stop()

    def _in_time(self, n: int, options: Options, budget: Budget, started: float) -> Samples:
        """The samples; raises TimeUp if the time was up before there was one."""
        drawing = self.drawing(n, options, budget)
        with without_deadline():  # `until_late` looks at it
            return distinct(drawing, started) if options.unique else carry_out(drawing, started)

    def _reserve(self, n: int, options: Options, budget: Budget) -> Reserve | None:
        """A solver for the case that the time is up before there is a sample."""
        chosen = options.method == "auto" or options.determined
        able = chosen and options.gpu is None and options.project_law == "marginal"
        if budget.counted or not able or not n or not installed():
            return None
        evidence: list[tuple[int, ...]] = [()] * len(self._rows)
        for given, contexts in self._members().items():
            for context in contexts:
                evidence[context] = given
        columns = np.array(self._variables, int) - 1
        wanted = Wanted(
            self.formula, evidence, columns, self._single, n, options.unique, options.seed
        )
        return Reserve(wanted, budget, options.policy.reserve)

    def _nothing(self, n: int, options: Options, started: float, why: str) -> Samples:
        """No sample, since the time was up before one could be drawn."""
        shape = (0, len(self._variables))
        info: dict[str, Any] = {"method": options.method, "why": why, "reason": why}
        info |= {"seed": options.seed, "requested": n, "seconds": time.monotonic() - started}
        packed = np.zeros(shape if self._single else (len(self._rows), *shape), np.uint64)
        return Samples(packed, 0, self._variables, "heuristic", "budget", info)

    def stream(
        self,
        n: int | None = None,
        *,
        block: int = 65536,
        seed: int | None = None,
        theta: Any = None,
        unique: bool | None = None,
        seconds: float | None = None,
    ) -> Iterator[Samples]:
        """The samples of `nelson.stream` with the same seed, in blocks."""
        if not (block := count(block, "block")):
            raise FormulaError("block = 0", expected="1 or more")
        options = self._options(seed, unique, None, seconds)
        if n is not None:
            n = count(n, "n")
        plan, budget = self._at(theta), self._budget(n, options.seconds)
        reserve = plan._reserve(block if n is None else min(n, block), options, budget)
        started = time.monotonic()
        try:
            blocks = plan._blocks(n, block, options, budget)
        except TimeUp as error:
            asked = block if n is None else min(n, block)
            other = reserve and reserve.samples(started, str(error))
            return iter([other or plan._nothing(asked, options, started, str(error))])
        except BaseException:
            if reserve is not None:
                reserve.stop()
            raise
        return blocks if reserve is None else _first_or_reserve(blocks, reserve, started)

    def _blocks(
        self, n: int | None, block: int, options: Options, budget: Budget
    ) -> Iterator[Samples]:
        drawing = self.drawing(n, options, budget)
        if len(drawing.parts) > 1:
            raise FormulaError(
                "a stream over contexts with different evidence", expected="one stream for each"
            )
        whole = 64 * words_for(block)
        if drawing.gpu is not None and whole != block:
            raise FormulaError(f"block = {block}", expected="a multiple of 64 on a GPU")
        if options.unique:
            blocks = in_distinct_blocks(drawing, whole)
        elif drawing.gpu is None:
            blocks = in_blocks(drawing, whole)
        else:
            return in_blocks_on_gpu(drawing, block)
        return blocks if whole == block else recut(blocks, block, n)

    def at(self, theta: Any, *, keep: bool = False) -> Plan:
        """The plan for another theta.

        keep: take the decision of this plan as it is, with its guarantee, even if it was diagnosed
        for another theta; for callers that move theta in small steps.
        """
        plan = copy(self)  # options, projection and evidence are checked
        if keep and not self.options.reuse:
            plan.options = replace(self.options, reuse=True)
        plan._rows, plan._single = theta_rows(self.formula, theta)
        if self.options.method != "auto" and plan._rows.any():
            _require_weights(get(self.options.method), plan._rows)
        if self._decided is not None:
            plan._decided = plan._inherited(self._decided, keep)
        return plan

    def _at(self, theta: Any) -> Plan:
        return self if theta is None else self.at(theta)

    def _options(
        self, seed: int | None, unique: bool | None, strict: bool | None, seconds: float | None
    ) -> Options:
        given = {"seed": seed, "unique": unique, "strict": strict, "seconds": seconds}
        changes: Any = {name: value for name, value in given.items() if value is not None}
        return replace(self.options, **changes) if changes else self.options

    def drawing(
        self, n: int | None, options: Options | None = None, budget: Budget | None = None
    ) -> Drawing:
        """One draw, ready to be carried out. Decides first if that is not done yet."""
        options = options or self.options
        if n is not None:
            n = count(n, "n")
        budget = budget or self._budget(n, options.seconds)
        if self._decided is None:
            self._decided, budget = self._known_or_arranged(budget, n)
        return self._drawing(n, options, budget, self._decided)

    def _drawing(
        self, n: int | None, options: Options, budget: Budget, arranged: _Arrangement
    ) -> Drawing:
        sampler, choice = arranged.chosen.sampler, arranged.chosen.choice
        decisions, policy = arranged.chosen.decisions or {}, options.policy
        on_trial = frozenset(evidence for evidence, d in decisions.items() if d.on_trial)
        seed = secrets.randbits(63) if options.seed is None else int(options.seed)
        columns = np.array(self._variables, int) - 1
        block_seconds = sampler.seconds if options.seconds is None else None
        parts = [
            (
                problem,
                Request(
                    theta=rows,
                    contexts=contexts,
                    count=n,
                    block=n or 64,
                    seed=seed,
                    columns=columns,
                    sweeps=choice.sweeps,
                    max_rounds=options.max_rounds,
                    budget=budget,
                    width=options.width,
                    block_seconds=block_seconds,
                    moves=moves,
                    trial=policy.auto.converged if problem.evidence in on_trial else 0.0,
                ),
            )
            for problem, rows, contexts, moves in zip(
                arranged.problems, arranged.theta, arranged.contexts, arranged.moves, strict=True
            )
        ]

        def otherwise(hopeless: bool) -> Drawing:
            """The same draw as `auto` decides it after the trial of an extremal formula failed."""
            past, left = self._arranged(budget, n, on_trial)
            for problem, rows in zip(past.problems, past.theta, strict=True):
                if hopeless and problem.evidence in on_trial:
                    auto.leave_out_trial(problem, rows, self._policy)
            if hopeless:
                self._arrangements.forget(self._key)
            seeded = replace(options, seed=seed)
            return self._drawing(n, seeded, left, past)

        return Drawing(
            arranged.problems[0].formula,
            sampler,
            choice,
            n,
            self._single,
            len(self._rows),
            parts,
            bool(options.check),
            options.gpu,
            arranged.chosen.on_host,
            arranged.chosen.decisions,
            arranged.determined,
            arranged.info,
            otherwise if on_trial else None,
            policy,
            arranged.variation,
        )

    # --- deciding --------------------------------------------------------------------------------

    def _budget(self, n: int | None, seconds: float | None = None) -> Budget:
        """The budget of a call that begins now. Compiling kernels is not the user's time."""
        seconds = self.options.seconds if seconds is None else seconds
        budget = Budget.of(seconds, self.options.threads)
        if budget.deadline is None or (ready := get(self.options.named).ready) is None:
            return budget
        return _compiled(budget, lambda: ready(n or _MANY_SAMPLES, self.options.width))

    def _members(self) -> dict[tuple[int, ...], list[int]]:
        return _contexts_by_evidence(self.formula, self._rows, self._given)

    @property
    def _policy(self) -> Policy:
        """The policy, with what the options say of it."""
        options, policy = self.options, self.options.policy
        rounds, reuse = options.max_rounds, options.reuse or policy.auto.reuse
        if (rounds, reuse) == (policy.auto.max_rounds, policy.auto.reuse):
            return policy
        return replace(policy, auto=replace(policy.auto, max_rounds=rounds, reuse=reuse))

    @property
    def _key(self) -> Hashable:
        """What the decision depends on, if no clock has a part in it."""
        options = self.options
        project = None if options.project is None else self._variables
        law = self._rows.shape, self._rows.tobytes(), self._given, project
        method = options.method, get(options.named), options.sweeps, options.moves
        return (
            law,
            method,
            options.project_law,
            options.policy,
            options.max_rounds,
            options.determined,
        )

    @property
    def _arrangements(self) -> Recent[Hashable, _Arrangement]:
        """The decisions that are kept with the formula."""
        return self.formula.memo.recent(_ARRANGEMENTS, 8)

    def _known_or_arranged(
        self, budget: Budget, n: int | None = None
    ) -> tuple[_Arrangement, Budget]:
        """As `_arranged`. An equal call on the same formula is not decided again if that decision
        is exact: others may get better by what was compiled or found since.
        """
        options = self.options
        is_private = options.reuse or options.verdict is not None or options.device is not None
        if is_private or not budget.counted or self._rows.nbytes > _SMALL_THETA:
            return self._arranged(budget, n)
        key, arrangements = self._key, self._arrangements
        if (known := arrangements.get(key)) is not None:
            return known, budget
        arranged, budget = self._arranged(budget, n)
        if arranged.chosen.choice.guarantee == "exact":
            arrangements.put(key, arranged)
        return arranged, budget

    def _arranged(
        self,
        budget: Budget,
        n: int | None = None,
        past_trial: frozenset[tuple[int, ...]] = frozenset(),
    ) -> tuple[_Arrangement, Budget]:
        """The decision, and the budget that is left for drawing."""
        members = self._members()
        with budget.enforced(), phase("preparing the formula"):
            source = source_of(
                self.formula, self._rows, members, self._variables, self.options, budget
            )
            options = source.options
            problems = [prepare(source.formulas[evidence], evidence) for evidence in members]
            compiles = budget.deadline is not None and options.method == "auto"
            compiles = compiles and not all(problem.extremal for problem in problems)
        theta = [
            padded(finite(self._rows[contexts]), problem.n)
            for problem, contexts in zip(problems, members.values(), strict=True)
        ]
        if options.method == "auto" and options.sweeps is None:
            if compiles:
                most = n or _MANY_SAMPLES
                budget = _compiled(budget, lambda: auto.ready_once(most, options.width))
            with budget.share(options.policy.reserve.decide_share).enforced():
                chosen = choose_sampler(
                    problems, theta, budget, self._policy, options.gpu is not None, past_trial
                )
        else:
            sampler = source.sampler or get(options.named)
            sweeps = (sampler.sweeps or 0) if options.sweeps is None else options.sweeps
            why = "asked for" if options.method != "auto" else f"{sweeps} sweeps asked for"
            why = source.why or why
            with budget.enforced():
                _require_domain(sampler, problems)
                choice = _asked_for(sampler, problems, theta, sweeps, why, options)
            chosen = ChosenSampler(sampler, choice)
        return (
            _Arrangement(
                problems,
                theta,
                [np.array(contexts, np.int64) for contexts in members.values()],
                [_moves(problem, options.moves) for problem in problems],
                chosen,
                options.determined,
                source.info,
            ),
            budget,
        )

    def _inherited(self, other: _Arrangement, keep: bool) -> _Arrangement | None:
        """The decision of a plan for another theta, if it holds for this one too."""
        members = self._members()
        same = [problem.evidence for problem in other.problems] == list(members)
        if not same or self.options.project_law != "marginal":
            return None
        theta = [
            padded(finite(self._rows[contexts]), problem.n)
            for problem, contexts in zip(other.problems, members.values(), strict=True)
        ]
        chosen: ChosenSampler | None = other.chosen
        if chosen is not None and chosen.decisions is not None:
            chosen = chosen.at(theta, keep)
        elif not keep and self.options.method != "auto":
            chosen = None  # cheap: nothing is tried
        if chosen is None:
            return None
        contexts = [np.array(numbers, np.int64) for numbers in members.values()]
        return replace(other, theta=theta, contexts=contexts, chosen=chosen, variation=[])


def carry_out(drawing: Drawing, started: float) -> Samples:
    """All samples of a drawing, on the device that it names. started: time.monotonic()."""
    if drawing.gpu is not None:
        return collect_on_gpu(drawing, started)
    return collect(drawing, started)


def _asked_for(
    sampler: Sampler,
    problems: Sequence[Problem],
    theta: Sequence[np.ndarray],
    sweeps: int,
    why: str,
    options: Options,
) -> MethodChoice:
    """A method that the caller named: it gets what it promises, or what a verdict says."""
    if options.verdict is not None:
        return MethodChoice(sampler.name, sweeps, options.verdict.guarantee, options.verdict.why)
    guarantee = weakest([sampler.guarantee(problem, sweeps) for problem in problems])
    if sampler.rounds_weights and (beyond := next(filter(None, map(beyond_resolution, theta)), "")):
        guarantee, why = weakest([guarantee, "heuristic"]), f"{why}; but {beyond}"
    elif guarantee == "exact" and total_variation.of_bits_too(sampler):
        bounds = [
            total_variation.of_sampler(sampler, problem, rows).max(initial=0.0)
            for problem, rows in zip(problems, theta, strict=True)
        ]
        most = float(max(bounds))
        guarantee, weaker = total_variation.judged(guarantee, most, rounded=True)
        why += f"; but {weaker}" if weaker else ""
    elif guarantee == "heuristic" and sweeps:
        why += '; these sweeps were not diagnosed (method="auto" does that). All chains of a call '
        why += "visit variables in the same order: before they mix, all may err in one direction"
    return MethodChoice(sampler.name, sweeps, guarantee, why, advice=for_method(guarantee))


def _moves(problem: Problem, name: str) -> Moves:
    """The moves that the caller asked for."""
    if name == "single":
        return SINGLE
    moves, why = (
        (
            joint_moves(problem),
            "needs tables that are too large unless most variables are kept fixed",
        )
        if name == "joint"
        else (unit_moves(problem), "is too large for these moves")
    )
    if moves is None:
        raise FormulaError(f'moves="{name}" with a formula that {why}', expected='moves="single"')
    return moves


def _contexts_by_evidence(
    formula: Formula, theta: np.ndarray, given: tuple[int, ...]
) -> dict[tuple[int, ...], list[int]]:
    """The contexts with the same evidence, which is `given` and the infinite entries of theta."""
    members: dict[tuple[int, ...], list[int]] = {}
    for context, is_finite in enumerate(np.isfinite(theta).all(1).tolist()):
        evidence = given if is_finite else evidence_of(formula, given, theta[context])
        members.setdefault(evidence, []).append(context)
    return members


def _compiled(budget: Budget, ready: Callable[[], None]) -> Budget:
    """The budget, longer by the time that compiling took. To load compiled kernels counts."""
    assert budget.deadline is not None
    before = seconds_compiling()
    with phase("compiling kernels"):
        ready()
    took = seconds_compiling() - before
    return replace(budget, deadline=budget.deadline + took)


def _first_or_reserve(
    blocks: Iterator[Samples], reserve: Reserve, started: float
) -> Iterator[Samples]:
    """The blocks; if the first is empty since the time was up, the samples of the reserve."""
    try:
        first = next(blocks, None)
        if first is not None and first.status == "budget" and not len(first):
            first = reserve.samples(started, str(first.info["reason"])) or first
    finally:
        reserve.stop()
    if first is not None:
        yield first
    yield from blocks


def _require_domain(sampler: Sampler, problems: Sequence[Problem]) -> None:
    """Raise if the sampler does not take one of the problems."""
    for problem in problems if sampler.refuses else ():
        if sampler.refuses and (why := sampler.refuses(problem)):
            raise FormulaError(
                f"method {sampler.name!r} cannot draw from this formula: {why}",
                expected='method="auto"',
            )


def _require_able(sampler: Sampler, theta: np.ndarray, sweeps: int | None) -> None:
    """Raise if the sampler's package is missing, or if it cannot do what the call asks for."""
    missing = missing_modules(sampler)
    if missing:
        raise NelsonError(
            f"method {sampler.name!r} needs {', '.join(missing)}: "
            f'pip install "nelson-mrf[{sampler.needs}]"'
        )
    _require_weights(sampler, theta)
    if sweeps and sampler.sweeps is None:
        raise FormulaError(
            f"sweeps = {sweeps} with method {sampler.name!r}, which makes none",
            expected="one of " + ", ".join(n for n in names() if get(n).sweeps is not None),
        )


def _require_weights(sampler: Sampler, theta: np.ndarray) -> None:
    """Raise if the sampler is uniform and theta is not."""
    if not sampler.weighted and (np.isfinite(theta) & (theta != 0)).any():
        raise FormulaError(
            f"theta that is not 0 with the uniform sampler {sampler.name!r}",
            expected="theta=None, or one of " + ", ".join(n for n in names() if get(n).weighted),
        )
