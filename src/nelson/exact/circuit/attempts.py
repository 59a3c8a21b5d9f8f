"""Which compiler tries what, and with how much effort, until a formula is compiled.

An attempt that fails has its effort added to that of the next. The attempts do not depend on the
limit, which only ends them. So the same formula has the same circuit, and the same effort, under
every limit that suffices. With a limit in seconds, each attempt has a share of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nelson.budget import Budget
from nelson.exact.circuit.decisions import DecisionCircuit
from nelson.exact.frontier_order import Order, best_order, given_order
from nelson.formula.components import Component
from nelson.io.progress import phase

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
