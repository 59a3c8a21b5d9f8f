"""`Space.plan`: who draws the rows of a space, and under which guarantee. Decided once.

plan = space.plan(weights={burst: {"FIXED": 60}})
plan.guarantee, plan.why
plan.sample(1000, seed=0)            # the rows of space.sample with this seed
for row in plan.rows(seed=0): ...    # without end, one dict after the other
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.budget import Budget
from nelson.chains.guarantee import weakest
from nelson.errors import BudgetExceeded
from nelson.formula.memo import Recent, Slot
from nelson.kernels.core.deadline import without_deadline
from nelson.policy import DEFAULT
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan
from nelson.sampling.samples import Samples
from nelson.space.answers import explained, law_of
from nelson.space.clauses.decode import rows_of_samples
from nelson.space.language.evaluate import evaluate
from nelson.space.language.text import text
from nelson.space.law import RowLaw, chosen_method
from nelson.space.rows import Rows
from nelson.space.shares import without_shares

if TYPE_CHECKING:
    from nelson.space.declaration import Declaration


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

    @property
    def guarantee(self) -> str:
        """The guarantee of the rows; that of the shares, if it is weaker."""
        found = self._law.info.get("shares_guarantee", "exact")
        return weakest([self._plan.guarantee, found])

    @property
    def why(self) -> str:
        return self._plan.why

    @property
    def method(self) -> str:
        """The name of a sampler; several joined by " + " where parts of the space differ."""
        return self._plan.method

    @property
    def inside(self) -> tuple[Declaration, Plan, Any]:
        """The space, the plan of its formula, and theta, for draws by several processes."""
        return self._space, self._plan, self._law.theta

    def __repr__(self) -> str:
        return f"SpacePlan({len(self._space.fields)} fields, {self._plan!r})"

    def sample(self, n: int = 1, *, seed: int | None = None, seconds: float | None = None) -> Rows:
        """n rows: those of `Space.sample` with the same seed."""
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
        with explained(self._space, self._given, self._budget):
            for samples in self._plan.stream(n, block=block, seed=seed, seconds=seconds):
                yield self._rows(samples)

    def rows(self, seed: int | None = None) -> Iterator[dict[str, Any]]:
        """Rows one by one, as dicts, without end."""
        for block in self.stream(block=4096, seed=seed):  # small, so that the first row comes soon
            yield from block


def space_plan(
    space: Declaration, asked: dict[str, Any], how: dict[str, Any], budget: Budget
) -> SpacePlan:
    """asked: arguments of `law_of`; how: options of the draw, as in `nelson.sample`."""
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
    """n rows of a plan that is drawn from once. If the formula of the space alone says what is
    drawn, the plan is kept with it, provided that it is exact and no clock had a part in it.
    """
    seed = how.pop("seed")
    asks = any(value is not None for name, value in asked.items() if name != "seed")
    if asks or space.preferences or not budget.counted:
        return space_plan(space, asked, how, budget).sample(n, seed=seed)
    known, key = space.formula.memo.recent(_PLANS, 4), tuple(how.values())
    if (plan := known.get(key)) is not None:
        return plan.sample(n, seed=seed)
    plan = space_plan(space, asked, how, budget)
    rows = plan.sample(n, seed=seed)
    if plan.guarantee == "exact":
        known.put(key, plan)
    return rows


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
