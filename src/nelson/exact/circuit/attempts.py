"""Which compiler tries what, and with how much effort, until a formula is compiled.

*Effort* is what no clock measures. One unit is 131,072 recursive calls of D4, or a MiB of its
cache: D4 prints a line for both. It makes about five units a second. D4 prints nothing while it
decomposes a formula, or looks for a first solution. If that takes too long, a limit in seconds of
CPU time ends it, and the result says so.

An attempt that fails has its effort added to that of the next. The attempts do not depend on the
limit, which only ends them. So the same formula has the same circuit, and the same effort, under
every limit that suffices. With a limit in seconds, each attempt has a share of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nelson.budget import Budget
from nelson.exact.circuit.decisions import DecisionCircuit
from nelson.exact.frontier_order import Order, best_order, given_order
from nelson.formula.components import Component
from nelson.io.progress import phase
from nelson.process.child import Effort

#: The effort of a compiler unless the caller sets a limit: about 3 s of D4.
EFFORT = 16.0
#: About the seconds that D4 takes for one unit.
SECONDS_PER_EFFORT = 3.0 / EFFORT
#: CPU seconds after which a child ends whatever its effort is: for each unit of the limit, and at
#: least. D4 prints nothing while it decomposes the formula or looks for a first solution. This is
#: three to five times what the effort takes, so that a call without a limit ends within a minute.
SAFETY_PER_EFFORT, SAFETY = 0.6, 15.0
#: Bytes of a page of D4's cache, at least: one unit of effort. D4 does not clean this cache.
PAGE_BYTES = 1 << 20
#: A limit in seconds above this one makes D4 clean its cache, which would outgrow the memory. The
#: cache then has pages of this many bytes, and effort is not counted.
LONG_SECONDS, LONG_PAGE_BYTES = 300.0, 1 << 26


def safety_seconds(effort: float) -> float:
    """CPU seconds of an attempt, if effort is counted."""
    return max(SAFETY, SAFETY_PER_EFFORT * effort)


def effort_of(parts: Sequence[tuple[np.ndarray, np.ndarray]], most: float = math.inf) -> Effort:
    """What D4's lines on these parts add up to, with a limit."""
    page = page_of(parts) / PAGE_BYTES

    def of_line(line: bytes) -> float:
        if line.startswith(b"c Allocate a new page"):
            return page
        return float(line.startswith(b"c |") and b"time" not in line)

    return Effort(of_line, most)


def page_of(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> int:
    """Bytes of a page of D4's cache; an entry takes up to some bytes for each literal."""
    longest = max((len(literals) for literals, _ in parts), default=0)
    return PAGE_BYTES * max(1, -(-16 * longest // PAGE_BYTES))


#: D4's first efforts on narrow formulas: on its own, then along an order. Together they are the
#: default effort. Then it goes on in rounds: along the order, and on its own.
FIRST_EFFORTS = (5.0, 11.0)
#: Log2 of the states below which the frontier compiler, which then takes about two seconds, comes
#: before D4 with the order; and above which D4 does better without the order.
FEW_STATES = 22.0
MANY_STATES = 28.0


class Attempt(NamedTuple):
    """Components for a compiler: -> the circuits of the first ones, None for one without a
    solution; and how it ended.
    """

    compiler: str
    budget: Budget
    effort: float  # most of this attempt
    orders: list[Order] | None = None  # for each component
    #: It comes first and has a fixed effort, so its result does not depend on a clock.
    first: bool = False


def attempts(
    parts: list[Component],
    done: list[DecisionCircuit],
    budget: Budget,
    effort: float,
    compiler: str,
    long: bool,
    short: bool = False,
) -> Iterator[Attempt]:
    """What to try next on the parts that are not done yet.

    effort: most of all attempts, if the budget has no deadline.
    long: D4 is tried on its own and along an order of the variables, in turns.
    short: the frontier compiler first decides the variables as they are numbered.
    """
    if short:
        orders = [given_order(part.literals, part.offsets) for part in parts]
        yield Attempt("frontier", budget, math.inf, orders, first=True)
    if compiler == "frontier":
        yield Attempt("frontier", budget, math.inf, _orders(parts, budget))
    elif not long:
        yield Attempt(compiler, budget, effort if budget.counted else math.inf, first=True)
    elif budget.counted:
        yield from _counted(parts, done, budget, effort)
    else:
        yield from _timed(parts, done, budget)


def _counted(
    parts: list[Component], done: list[DecisionCircuit], budget: Budget, left: float
) -> Iterator[Attempt]:
    """D4 on its own and along an order, in turns. The effort that is left only ends this."""
    # Each round has this many times the effort of the round before.
    growth = 4.0
    effort = min(FIRST_EFFORTS[0], left)
    yield Attempt("d4", budget, effort, first=True)
    left -= effort
    orders = _orders(parts[len(done) :], budget)
    if max(order.work for order in orders) <= FEW_STATES:
        finished = len(done)
        yield Attempt("frontier", budget, math.inf, orders)
        orders = orders[len(done) - finished :]
    along = max(order.work for order in orders) <= MANY_STATES
    for k in itertools.count(1):  # along, along, alone, along, alone, ...
        ordered = along and (k == 1 or k % 2 == 0)
        effort = min(left, FIRST_EFFORTS[ordered] * growth ** (k // 2)) if along else left
        if effort <= 0:
            return
        finished = len(done)
        yield Attempt("d4", budget, effort, orders if ordered else None)
        orders, left = orders[len(done) - finished :], left - effort


def _timed(
    parts: list[Component], done: list[DecisionCircuit], budget: Budget
) -> Iterator[Attempt]:
    """The same with a share of the time for each."""
    # D4's first share of the time; and its seconds, at most.
    first_share, first_seconds = 0.3, 2.0
    # The share of the time left then that D4 gets with the order, before it is left to itself.
    along_share = 0.75
    first = budget.share(first_share).within(first_seconds)
    yield Attempt("d4", first, FIRST_EFFORTS[0], first=True)
    orders = _orders(parts[len(done) :], budget)
    if max(order.work for order in orders) <= FEW_STATES:
        finished = len(done)
        yield Attempt("frontier", budget, math.inf, orders)
        orders = orders[len(done) - finished :]
    if max(order.work for order in orders) <= MANY_STATES:
        yield Attempt("d4", budget.share(along_share), math.inf, orders)
    yield Attempt("d4", budget, math.inf)


def _orders(parts: Sequence[Component], budget: Budget) -> list[Order]:
    # The share of the time left then in which an order is searched; and its seconds, at most.
    order_share, order_seconds = 0.3, 4.0
    with phase("looking for an order of the variables"):
        if not budget.counted:
            budget = budget.share(order_share).within(order_seconds)
        return [best_order(part.literals, part.offsets, budget) for part in parts]
