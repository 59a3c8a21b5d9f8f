"""`Space.plan`: who draws the rows of a space, and under which guarantee. Decided once.

plan = space.plan(weights={burst: {"FIXED": 60}})
plan.guarantee, plan.why
plan.sample(1000, seed=0)            # the rows of space.sample with this seed
for row in plan.rows(seed=0): ...    # without end, one dict after the other
plan.row(given={"len": 4})           # the next row with these values
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.budget import Budget
from nelson.chains.guarantee import weakest
from nelson.errors import BudgetExceeded, FormulaError
from nelson.formula.checks import count
from nelson.formula.memo import Recent, Slot
from nelson.kernels.core.deadline import without_deadline
from nelson.policy import DEFAULT
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan
from nelson.sampling.samples import Samples
from nelson.space.answers import explained, law_of
from nelson.space.clauses.decode import rows_of_samples
from nelson.space.conditioned import TRIAL_SEED, Condition, condition
from nelson.space.language.evaluate import evaluate
from nelson.space.language.text import text
from nelson.space.law import RowLaw, chosen_method
from nelson.space.names import rules_and_values
from nelson.space.rows import Rows
from nelson.space.shares import without_shares

if TYPE_CHECKING:
    from nelson.space.declaration import Declaration

#: Of all rows that wait: a value is one of a list; a stream has a plan and a block of samples.
MEMORY, VALUE_BYTES, STREAM_BYTES = 64 << 20, 16, 32 << 10
#: Rows of a stream that are drawn at once: a block costs a third of a millisecond.
BLOCK = 256

Row = dict[str, Any]
#: By the options of the draw.
_PLANS: Slot[Recent[Hashable, SpacePlan]] = Slot("plan of a space")


class SpacePlan:
    """How to draw legal rows of a space. `Space.plan` makes one.

    >>> space = nelson.Space()
    >>> x = space.integer("x", 1, 6)
    >>> plan = space.plan(given="x > 4")
    >>> plan.guarantee
    'exact'
    >>> rows = plan.rows(seed=0)
    >>> next(rows)["x"] in (5, 6)
    True
    """

    def __init__(
        self, space: Declaration, given: Any, law: RowLaw, plan: Plan, budget: Budget
    ) -> None:
        self._space, self._given, self._law, self._plan = space, given, law, plan
        self._budget = budget  # of the call that made the plan: it may also explain a contradiction
        self._condition: Condition | None = None
        self._asked: dict[str, Any] = {}
        self._how: dict[str, Any] = {"seed": None}
        self._ahead: RowsAhead | None = None

    @property
    def guarantee(self) -> str:
        """The guarantee of the rows; that of the shares, if it is weaker."""
        of_shares = self._law.info.get("shares_guarantee", "exact")
        return weakest([self._plan.guarantee, of_shares])

    @property
    def why(self) -> str:
        return self._plan.why + (f"; {self._condition.why}" if self._condition else "")

    @property
    def method(self) -> str:
        """The name of a sampler; several joined by " + " where parts of the space differ."""
        return self._plan.method

    @property
    def inside(self) -> tuple[Declaration, Plan, RowLaw, Condition | None]:
        """The space, the plan of its formula, its law, and what rows have to obey besides, for
        draws by several processes.
        """
        return self._space, self._plan, self._law, self._condition

    def __repr__(self) -> str:
        return f"SpacePlan({len(self._space.fields)} fields, {self._plan!r})"

    def sample(self, n: int = 1, *, seed: int | None = None, seconds: float | None = None) -> Rows:
        """n rows: those of `Space.sample` with the same seed."""
        if self._condition is not None:
            n = count(n, "n")
            if n:
                return next(self.stream(n, block=n, seed=seed, seconds=seconds))
        with explained(self._space, self._given, self._budget):
            samples = self._plan.sample(n, seed=seed, seconds=seconds)
        return self._rows(samples)

    def _rows(self, samples: Samples) -> Rows:
        info, wanted = dict(self._law.info), self._law.missed
        with without_deadline():
            rows = rows_of_samples(self._space, samples, info)
        if wanted and len(rows):
            held = {text(rule): evaluate(rule, rows.codes) for rule in wanted}
            rows.info["shares"] = {name: float(np.mean(holds)) for name, holds in held.items()}
        return rows

    def stream(
        self,
        n: int | None = None,
        *,
        block: int = 65536,
        seed: int | None = None,
        seconds: float | None = None,
    ) -> Iterator[Rows]:
        """The rows of `Space.stream` with the same seed, in blocks; n None: without end."""
        if self._condition is not None:
            first = self._how["seed"] if seed is None else seed
            yield from self._condition.stream(
                lambda size: self._blocks(None, size, first, seconds), n, block
            )
        else:
            yield from self._blocks(n, block, seed, seconds)

    def _blocks(
        self, n: int | None, block: int, seed: int | None, seconds: float | None
    ) -> Iterator[Rows]:
        with explained(self._space, self._given, self._budget):
            for samples in self._plan.stream(n, block=block, seed=seed, seconds=seconds):
                yield self._rows(samples)

    def row(self, given: Mapping[Any, Any] | None = None) -> dict[str, Any]:
        """The next row with these values of fields besides, as a dict.

        Each evidence has a stream of rows of its own, and all share one circuit. Rows are drawn
        ahead; `MEMORY` bounds the memory of all that wait. With a seed of the plan, row
        i of an evidence is the same whatever else is asked for. Threads may share a plan.
        """
        values = (
            () if given is None else tuple((str(getattr(k, "name", k)), given[k]) for k in given)
        )
        if self._ahead is None:
            fields = len(self._space.fields)
            self._ahead = RowsAhead(self._stream_given, fields, self._how["seed"])
        return self._ahead.next(tuple(sorted(values)), dict(values))

    def _stream_given(self, given: dict[str, Any], seed: int) -> Iterator[dict[str, Any]]:
        given_to_plan = self._asked.get("given")
        if given_to_plan is not None and not isinstance(given_to_plan, Mapping) and given:
            raise FormulaError(
                f"plan.row(given={given!r}) of a plan with a rule in given",
                expected="values of fields in both, or space.sample",
            )
        both = (
            {**(given_to_plan or {}), **given} or None
            if isinstance(given_to_plan, Mapping)
            else given or given_to_plan
        )
        plan = space_plan(self._space, self._asked | {"given": both}, self._how, Budget.of())
        for block in plan.stream(block=BLOCK, seed=seed):
            yield from block

    def rows(self, seed: int | None = None) -> Iterator[dict[str, Any]]:
        """Rows one by one, as dicts, without end."""
        for block in self.stream(block=4096, seed=seed):  # small, so that the first row comes soon
            yield from block


def space_plan(
    space: Declaration, asked: dict[str, Any], how: dict[str, Any], budget: Budget
) -> SpacePlan:
    """asked: arguments of `law_of`; how: options of the draw, as in `nelson.sample`."""
    plan = _with_condition(space, asked, how, budget) or _compiled_plan(space, asked, how, budget)
    plan._asked, plan._how = asked, how | {"seed": how.get("seed")}
    return plan


def _with_condition(
    space: Declaration, asked: dict[str, Any], how: dict[str, Any], budget: Budget
) -> SpacePlan | None:
    """The plan for rules in `given`, out of the plan without them, if many rows obey them.

    Not with a time limit: the trial is then no part of the time that is shared out.
    """
    given = asked["given"]
    if given is None or isinstance(given, Mapping) or space.preferences or not budget.counted:
        return None
    freely = how["method"] == "auto" and not how["unique"]
    if not freely or asked["shares"] is not None or asked["first"] is not None:
        return None
    rules, values = rules_and_values(space, given)
    alone = {field.name: value for field, value in values} or None
    if not rules or len(alone or {}) < len(values):
        return None
    base = kept_plan(space, asked | {"given": alone}, how, budget)
    if base.guarantee != "exact":
        return None
    condition_kept = condition(
        rules, lambda size: base._blocks(size, size, TRIAL_SEED, None), DEFAULT.space
    )
    if condition_kept is None:
        return None
    plan = copy(base)
    plan._given, plan._condition, plan._ahead = given, condition_kept, None
    return plan


def _compiled_plan(
    space: Declaration, asked: dict[str, Any], how: dict[str, Any], budget: Budget
) -> SpacePlan:
    with explained(space, asked["given"], budget), budget.enforced():
        law = _law(space, asked, budget)
        # If shares were out of reach, the formula did not compile either.
        known = law.info.get("shares_missed", False) or how["method"] != "auto"
        method = how["method"] if known else chosen_method(law.formula, budget)
        seconds = None if budget.deadline is None else budget.left
        options = Options(
            **how
            | {
                "given": law.evidence or None,
                "project": law.formula.projection,
                "determined": True,
                "method": method,
                "seconds": seconds,
            }
        )
        plan = Plan(law.formula, law.theta, options)
        return SpacePlan(space, asked["given"], law, plan, budget)


def drawn(
    space: Declaration, asked: dict[str, Any], how: dict[str, Any], budget: Budget, n: int
) -> Rows:
    """n rows of a plan that is drawn from once."""
    seed = how.pop("seed")
    return kept_plan(space, asked, how | {"seed": None}, budget).sample(n, seed=seed)


def kept_plan(
    space: Declaration, asked: dict[str, Any], how: dict[str, Any], budget: Budget
) -> SpacePlan:
    """The plan. If the formula of the space alone says what is drawn, it is kept with it, provided
    that it is exact and no clock had a part in it.
    """
    asks = any(value is not None for name, value in asked.items() if name != "seed")
    if asks or space.preferences or not budget.counted:
        return space_plan(space, asked, how, budget)
    how = how | {"seed": None}
    known, key = space.formula.memo.recent(_PLANS, 4), tuple(how.values())
    if (plan := known.get(key)) is None:
        plan = space_plan(space, asked, how, budget)
        if plan.guarantee == "exact":
            known.put(key, plan)
    return plan


def _law(space: Declaration, asked: dict[str, Any], budget: Budget) -> RowLaw:
    """What is drawn from: with shares that were out of reach, the law without them."""
    if asked["shares"] is None:
        return law_of(space, **asked, budget=budget)
    part = budget.share(DEFAULT.space.law_share)
    try:
        with part.enforced():
            return law_of(space, **asked, budget=part)
    except BudgetExceeded as error:
        base = law_of(space, **asked | {"shares": None}, budget=budget)
        return without_shares(space, base, asked["shares"], str(error))


# --- rows drawn ahead -----------------------------------------------------------------------------


class RowsAhead:
    """Rows that are drawn ahead, for each evidence that is asked for in turn. Threads may share it.

    A state machine asks for one row given what happened before: the same few hundred evidences come
    again and again. Each has a stream of rows, drawn in blocks; a row out of a block costs about a
    microsecond. The blocks that wait take at most MEMORY bytes, about: the stream that was not used
    for longest is given up, and begins anew with other random numbers when it is asked for again.
    """

    def __init__(
        self, stream: Callable[[Any, int], Iterator[Row]], fields: int, seed: int | None
    ) -> None:
        """stream: (evidence, seed) -> rows without end. seed: None draws one."""
        self._stream, self._seed = stream, secrets.randbits(63) if seed is None else int(seed)
        self.most = max(1, MEMORY // (BLOCK * VALUE_BYTES * fields + STREAM_BYTES))  # streams
        self._streams: OrderedDict[Hashable, Iterator[Row]] = OrderedDict()
        self._begun: dict[Hashable, int] = {}  # how often the stream of an evidence began
        self._lock = threading.Lock()

    def next(self, key: Hashable, evidence: Any) -> Row:
        """The next row of an evidence. key: what tells it from others."""
        with self._lock:
            stream = self._streams.get(key)
            if stream is None:
                begun = self._begun[key] = self._begun.get(key, 0) + 1
                named = hashlib.sha256(repr((self._seed, key, begun)).encode()).digest()
                stream = self._stream(evidence, int.from_bytes(named[:8]) >> 1)
                self._streams[key] = stream
                if len(self._streams) > self.most:
                    self._streams.popitem(last=False)
            else:
                self._streams.move_to_end(key)
            return next(stream)
