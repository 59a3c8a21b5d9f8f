"""Which compiler tries what, and with how much effort, until a formula is compiled.

An attempt that fails has its effort added to that of the next. The attempts do not depend on the
limit, which only ends them. So the same formula has the same circuit, and the same effort, under
every limit that suffices. With a limit in seconds, each attempt has a share of them.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nelson.exact.circuit.decisions import DecisionCircuit
from nelson.exact.circuit.effort import Limits
from nelson.exact.frontier_order import Order, best_order, given_order
from nelson.formula.components import Component
from nelson.io.progress import phase

#: D4's first efforts on narrow formulas: on its own, then along an order. Together they are the
#: default effort. Then it goes on in rounds: along the order, and on its own.
FIRST_EFFORTS = (5.0, 11.0)
#: Each round has this many times the effort of the round before.
GROWTH = 4.0
#: With a limit in seconds: D4's first share of them on narrow formulas; and its seconds, at most.
FIRST_SHARE = 0.3
FIRST_SECONDS = 2.0
#: The share of the time left then in which an order is searched; and its seconds, at most.
ORDER_SHARE = 0.3
ORDER_SECONDS = 4.0
#: The share of the time left then that D4 gets with the order, before it is left to itself.
ALONG_SHARE = 0.75
#: Log2 of the states below which the frontier compiler, which then takes about two seconds, comes
#: before D4 with the order; and above which D4 does better without the order.
FEW_STATES = 22.0
MANY_STATES = 28.0


class Attempt(NamedTuple):
    """Components for a compiler: -> the circuits of the first ones, None for one without a
    solution; and how it ended.
    """

    compiler: str
    limits: Limits
    effort: float = math.inf  # most of this attempt
    until: float = math.inf  # time.monotonic(), with a clock
    orders: list[Order] | None = None  # for each component
    plain: bool = False  # the first attempt: with a clock, too, it finds what it finds without


def attempts(
    parts: list[Component],
    done: list[DecisionCircuit],
    limits: Limits,
    compiler: str,
    long: bool,
    short: bool = False,
) -> Iterator[Attempt]:
    """What to try next on the parts that are not done yet.

    long: D4 is tried on its own and along an order of the variables, in turns.
    short: the frontier compiler first decides the variables as they are numbered.
    """
    if short:
        end = math.inf if limits.seconds is None else time.monotonic() + limits.seconds
        orders = [given_order(part.literals, part.offsets) for part in parts]
        yield Attempt("frontier", limits, until=end, orders=orders, plain=True)
    if compiler == "frontier":
        yield from _level_by_level(parts, limits)
    elif limits.seconds is not None:
        yield from _timed(parts, done, limits, compiler, long)
    elif not long:
        yield Attempt(compiler, limits, limits.effort, plain=True)
    else:
        yield from _counted(parts, done, limits)


def _level_by_level(parts: Sequence[Component], limits: Limits) -> Iterator[Attempt]:
    end = math.inf if limits.seconds is None else time.monotonic() + limits.seconds
    yield Attempt("frontier", limits, until=end, orders=_orders(parts, end))


def _counted(
    parts: list[Component], done: list[DecisionCircuit], limits: Limits
) -> Iterator[Attempt]:
    """D4 on its own and along an order, in turns. The limit only ends this."""
    left = limits.effort
    effort = min(FIRST_EFFORTS[0], left)
    yield Attempt("d4", limits, effort, plain=True)
    left -= effort
    orders = _orders(parts[len(done) :], math.inf)
    if max(order.work for order in orders) <= FEW_STATES:
        finished = len(done)
        yield Attempt("frontier", limits, orders=orders)
        orders = orders[len(done) - finished :]
    along = max(order.work for order in orders) <= MANY_STATES
    for k in itertools.count(1):  # along, along, alone, along, alone, ...
        ordered = along and (k == 1 or k % 2 == 0)
        effort = min(left, FIRST_EFFORTS[ordered] * GROWTH ** (k // 2)) if along else left
        if effort <= 0:
            return
        first = len(done)
        yield Attempt("d4", limits, effort, orders=orders if ordered else None)
        orders, left = orders[len(done) - first :], left - effort


def _timed(
    parts: list[Component],
    done: list[DecisionCircuit],
    limits: Limits,
    compiler: str,
    long: bool,
) -> Iterator[Attempt]:
    """The same within the caller's seconds."""
    assert limits.seconds is not None
    begin = time.monotonic()
    end = begin + limits.seconds
    if not long:
        yield Attempt(compiler, limits, until=end, plain=True)
        return
    first = min(FIRST_SECONDS, FIRST_SHARE * limits.seconds)
    yield Attempt("d4", limits, FIRST_EFFORTS[0], until=begin + first, plain=True)
    orders = _orders(parts[len(done) :], end)
    if max(order.work for order in orders) <= FEW_STATES:
        finished = len(done)
        yield Attempt("frontier", limits, until=end, orders=orders)
        orders = orders[len(done) - finished :]
    if max(order.work for order in orders) <= MANY_STATES:
        now = time.monotonic()
        yield Attempt("d4", limits, until=now + ALONG_SHARE * (end - now), orders=orders)
    yield Attempt("d4", limits, until=end)


def _orders(parts: Sequence[Component], end: float) -> list[Order]:
    with phase("looking for an order of the variables"):
        now = time.monotonic()
        until = math.inf if end == math.inf else now + min(ORDER_SECONDS, ORDER_SHARE * (end - now))
        return [best_order(part.literals, part.offsets, until) for part in parts]
