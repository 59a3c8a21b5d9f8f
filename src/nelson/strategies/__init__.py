"""Legal rows of a space for Hypothesis: `@given(rows(space))`.

    @given(rows(bus, given={"burst": "WRAP"}))
    def test_the_driver(row): ...

Each value is a choice of Hypothesis, weighted by exact conditional counts,

    P(x_k = v | x_1, ..., x_(k-1)) = N(x_1, ..., x_(k-1), v) / N(x_1, ..., x_(k-1)),

so that no example is filtered out, replay, database and shrinking are Hypothesis' own, and each
example that a test ever sees is a legal row.

Hypothesis imports this module when it is imported itself (`register`): so nothing that takes time
is loaded before a strategy is made, and this module does not load Hypothesis.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from nelson.errors import FormulaError, installed

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from nelson.space import Space

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["bind", "cover", "minimal", "rows"]

#: The strategies of dataclasses, made when Hypothesis is imported.
_BOUND: dict[type, Callable[[], Any]] = {}


def rows(
    space: Space, given: Any = None, weights: Any = None, into: Callable[..., Any] | None = None
) -> SearchStrategy[Any]:
    """A strategy for legal rows of a space, as dicts.

    given    a condition, as in `Space.sample`
    weights  factors of values or rules, as in `Space.sample`
    into     a dataclass, or any function, that takes the fields by name; None: dict

    Shrinking goes towards the first field's lowest value, then the second field's, and so on;
    choices have the order in which they were declared. The space is compiled when Hypothesis
    validates the strategy. BudgetExceeded there if it does not compile, Unsatisfiable if no row is
    legal.
    """
    strategy = _strategy()
    shown = [repr(space.name or "space")]
    shown += [f"{k}={v!r}" for k, v in (("given", given), ("weights", weights)) if v is not None]
    if into is not None:
        _check(space, into)
        shown.append(f"into={getattr(into, '__name__', into)}")
    return strategy(
        partial(_walk, space, given, weights), into or dict, f"rows({', '.join(shown)})"
    )


def minimal(
    space: Space,
    where: Callable[[Any], Any] | None = None,
    given: Any = None,
    into: Callable[..., Any] | None = None,
) -> Any:
    """The least legal row: the lowest value of the first field, then of the second, and so on.

    where    look for a row of which this is true, and shrink it: `hypothesis.find`. Hypothesis
             raises NoSuchExample if it finds none.
    """
    if where is None:
        walk = _walk(space, given)
        return (into or dict)(**walk.row(walk.least()))
    _strategy()
    import hypothesis

    settings = hypothesis.settings(max_examples=10_000, database=None, deadline=None)
    return hypothesis.find(rows(space, given, into=into), where, settings=settings)


def cover(
    space: Space,
    t: int = 2,
    *,
    name: str | None = None,
    given: Any = None,
    into: Callable[..., Any] | None = None,
    seed: int = 0,
) -> Callable[[F], F]:
    """Decorates a test: the rows of `Space.cover(t)` are explicit examples (`@example`).

    name    the test's argument that takes them; None: its last argument
    """
    _strategy()
    import hypothesis

    table = [(into or dict)(**row) for row in space.cover(t, given=given, seed=seed)]

    def decorated(test: F) -> F:
        for row in reversed(table):  # the decorator that is applied last is run first
            add = hypothesis.example(**{name: row}) if name else hypothesis.example(row)
            test = add(test)
        return test

    return decorated


def bind(space: Space, given: Any = None, weights: Any = None) -> Callable[[C], C]:
    """Decorates a dataclass: `hypothesis.strategies.from_type` of it, and with it `builds` and
    `@given(...)` by type hints, draw legal rows.

    It does not import Hypothesis: our entry point registers the class when somebody does.
    """

    def decorated(cls: C) -> C:
        _check(space, cls)
        _BOUND[cls] = partial(rows, space, given, weights, cls)
        if "hypothesis" in sys.modules:
            register()
        return cls

    return decorated


def register() -> None:
    """What Hypothesis calls when it is imported (entry point group "hypothesis")."""
    from hypothesis import strategies

    for cls, made in _BOUND.items():
        strategies.register_type_strategy(cls, made())


def _walk(space: Space, given: Any = None, weights: Any = None) -> Any:
    from nelson.space.walk import Walk

    return Walk(space, given, weights)


def _strategy() -> Any:
    with installed('nelson.strategies needs Hypothesis: pip install "nelson-mrf[hypothesis]"'):
        from nelson.strategies.legal import LegalRows
    return LegalRows


def _check(space: Space, into: Callable[..., Any]) -> None:
    """Raises FormulaError unless a dataclass has the fields of the space."""
    if not dataclasses.is_dataclass(into):
        return
    fields, nothing = [f for f in dataclasses.fields(into) if f.init], dataclasses.MISSING
    wanted = {f.name for f in fields}
    required = {f.name for f in fields if f.default is nothing and f.default_factory is nothing}
    lost, missing = sorted(set(space.fields) - wanted), sorted(required - set(space.fields))
    if lost or missing:
        problems = [f"has no {', '.join(lost)}"] * bool(lost)
        problems += [f"asks for {', '.join(missing)}, no field of the space"] * bool(missing)
        raise FormulaError(
            f"into={getattr(into, '__name__', into)}, which {' and '.join(problems)}",
            expected=f"a dataclass of {', '.join(space.fields)}",
        )
