"""A space for the columns of a table: fields, ranges that the data choose, ties, dependencies.

1. `recognise` says what each column is.
2. Two columns of dates of which one never comes before the other are *tied*: the later one is
   kept as the ranges of their difference. So are two columns of numbers of which a rule says so.
3. A column that is a function of another one, and not by chance, is *determined* by it: a rule.
4. Ranges of numbers have edges where rules have constants, and where a determined column changes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.errors import FormulaError
from nelson.space.language.expressions import Expression, Rule
from nelson.space.language.fields import Bins, Field
from nelson.space.language.functions import table as listed
from nelson.space.language.measures import Measure
from nelson.space.rows import as_numbers, codes_of, table_codes
from nelson.space.tables.columns import columns_of
from nelson.space.tables.inside import between, bins_for, edges_for, resolution
from nelson.space.tables.recognise import NUMERIC, SMALL, Taken, distinct_values, recognise

if TYPE_CHECKING:
    from nelson.space.space import Space

#: Probability that any dependency or tie of a table is due to chance, at most.
LEVEL = 1e-3
#: Most values of a column that another one determines, and most pieces of a number that does.
MOST_DETERMINED, MOST_PIECES = 256, 64
#: Rows that are looked at for dependencies first: most candidates fail at once.
FIRST_ROWS = 2000


@dataclass
class Draft:
    """What is known of the columns before their fields are declared."""

    frame: Any
    empty: Callable[[], Space]  # makes a space without fields
    taken: dict[str, Taken]
    asked: Mapping[str, Any]
    numbers: dict[str, np.ndarray] = field(default_factory=dict)  # of columns kept as ranges
    after: dict[str, str] = field(default_factory=dict)
    must: dict[str, set[float]] = field(default_factory=dict)  # edges
    determined: dict[str, str] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)

    def note(self, name: str, text: str) -> None:
        self.notes.setdefault(name, []).append(text)

    def undone(self, name: str) -> str:
        """The argument that takes the column for itself."""
        return f"columns={{{name!r}: {self.taken[name].kind!r}}} undoes it"

    def unit(self, name: str) -> str:
        kind = self.taken[name].kind
        return kind if kind in ("date", "duration") else ""

    def difference(self, name: str) -> np.ndarray:
        """The numbers of a column, or their differences to the column before it."""
        own = self.numbers[name]
        return own - self.numbers[self.after[name]] if name in self.after else own


def describe(
    space: Space,
    frame: Any,
    table: str,
    columns: Mapping[str, Any] | None,
    rules: Sequence[Any],
    bins: Any,
) -> None:
    """Add fields for the columns of a frame, and rules, to an empty space; set `space.columns`.

    columns: {name: kind, or "after NAME"}. bins: {name: number of ranges, or their edges}, or a
    number for all.
    """
    asked = _asked(frame, columns, "columns")
    edges = bins if isinstance(bins, Mapping) else {}
    _asked(frame, edges, "bins")
    taken = {}
    for name in frame.columns:
        kind = asked.get(name)
        tied = isinstance(kind, str) and kind.startswith("after ")
        taken[name] = recognise(frame[name], name, None if tied else kind)
        if name in edges and taken[name].kind not in NUMERIC:
            taken[name] = recognise(frame[name], name, "number")
    draft = Draft(frame, type(space), taken, asked)
    _codes_by_dependency(draft)
    for name, each in draft.taken.items():
        if each.kind in NUMERIC and not _small(draft, name, edges):
            draft.numbers[name] = as_numbers(frame[name])
    _ties(draft, rules)
    _edges_of_rules(draft, rules)
    _determined(draft)
    _declare(space, draft, edges, None if isinstance(bins, Mapping) else bins)
    _fields_or_none(space, draft)
    _require_determined(space, draft)
    for rule in rules:
        space.require(rule)
    codes = {name: np.asarray(column) for name, column in table_codes(space.fields, frame).items()}
    space.columns = columns_of(space, frame, codes, draft.taken, draft.notes, table=table)


def _asked(frame: Any, given: Mapping[str, Any] | None, what: str) -> Mapping[str, Any]:
    for name in given or {}:
        if name not in frame.columns:
            raise FormulaError(
                f"{what} of {name!r}", expected=f"one of the columns {list(frame.columns)[:20]}"
            )
    return given or {}


def _small(draft: Draft, name: str, edges: Mapping[str, Any]) -> bool:
    """Whole numbers, few and none missing: an integer, with a share for each value."""
    column = draft.frame[name]
    if draft.taken[name].kind != "integer" or name in edges or column.isna().any():
        return False
    values = as_numbers(column)
    return float(values.max() - values.min()) < SMALL


# --- ties -----------------------------------------------------------------------------------------


def _ties(draft: Draft, rules: Sequence[Any]) -> None:
    for name, kind in draft.asked.items():
        if isinstance(kind, str) and kind.startswith("after "):
            before = kind.removeprefix("after ")
            if before not in draft.numbers or name not in draft.numbers:
                raise FormulaError(
                    f"columns={{{name!r}: {kind!r}}}", expected="two columns of numbers"
                )
            _tie(draft, name, before, "you said so")
    for name, before in _stated(draft, rules):
        _tie(draft, name, before, "a rule says so")
    dates = [name for name in draft.numbers if draft.unit(name) == "date"]
    pairs = list(itertools.permutations(dates, 2))
    best: dict[str, tuple[float, str]] = {}
    for before, name in pairs:
        if name in draft.asked:
            continue
        gap = draft.numbers[name] - draft.numbers[before]
        known = gap[~np.isnan(gap)]
        if (
            len(known)
            and known.min() >= 0
            and _log_chance(draft, before, name) < math.log(LEVEL / len(pairs))
        ):
            spread = float(np.std(known))
            if name not in best or spread < best[name][0]:
                best[name] = spread, before
    for name, (_, before) in best.items():
        _tie(draft, name, before, f"{name} >= {before} in all rows")


def _log_chance(draft: Draft, before: str, name: str) -> float:
    """log of the probability that no row has name < before, if the two were independent."""
    a, b = draft.numbers[before], draft.numbers[name]
    both = ~np.isnan(a) & ~np.isnan(b)
    ordered = np.sort(a[both])
    share = np.searchsorted(ordered, b[both], side="right").mean() / max(1, both.sum())
    return float(both.sum() * math.log(max(share, 1e-300)))


def _tie(draft: Draft, name: str, before: str, why: str) -> None:
    chain = before
    while chain in draft.after:
        chain = draft.after[chain]
    lonely = np.isnan(draft.numbers[before]) & ~np.isnan(draft.numbers[name])
    if name in draft.after or chain == name or lonely.any():
        return
    draft.after[name] = before
    draft.note(
        name,
        f"kept as the difference to {before}: {why}; {draft.undone(name)}",
    )


def _comparisons(rules: Iterable[Any], space: Space) -> list[tuple[str, Measure]]:
    """(operator, sum that is compared with 0) of all comparisons of numbers in rules."""
    found = []
    stack: list[Any] = [space.rule(rule) for rule in rules]
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            stack += node
        elif isinstance(node, Expression):
            if node.op == "measure" and isinstance(node, Rule):
                found.append((node.args[0], node.args[1]))
            else:
                stack += node.args
    return found


def _stated(draft: Draft, rules: Sequence[Any]) -> list[tuple[str, str]]:
    """(later, earlier) column of each inequality `later - earlier >= number` of a rule."""
    found = []
    for rule in rules:
        for op, gap in _comparisons([rule], _sketch(draft)):
            signs = {factor: term.name for term, factor in gap.terms if isinstance(term, Bins)}
            if len(gap.terms) != 2 or set(signs) != {1.0, -1.0}:
                continue
            name, before = (
                (signs[1.0], signs[-1.0]) if op in (">", ">=") else (signs[-1.0], signs[1.0])
            )
            gaps = draft.numbers[name] - draft.numbers[before]
            if op in ("<", "<=", ">", ">=") and name not in draft.asked and not (gaps < 0).any():
                found.append((name, before))
    return found


def _sketch(draft: Draft) -> Space:
    """A space in which each number has one range: enough to read rules."""
    space = draft.empty()
    _declare(space, draft, {}, None, sketch=True)
    return space


def _edges_of_rules(draft: Draft, rules: Sequence[Any]) -> None:
    """Constants that a number is compared with are edges of its ranges."""
    if not rules:
        return
    for op, gap in _comparisons(rules, _sketch(draft)):
        if len(gap.terms) != 1 or not isinstance(gap.terms[0][0], Bins):
            continue
        (term, factor), *_ = gap.terms
        constant = -gap.constant / factor
        if factor < 0:
            op = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op)
        edges = {constant} if op in ("<", ">=") else {_next(draft, term.name, constant)}
        if op in ("==", "!="):
            edges = {constant, _next(draft, term.name, constant)}
        draft.must.setdefault(term.name, set()).update(edges)


def _next(draft: Draft, name: str, value: float) -> float:
    """The least number above a value that the column may have."""
    values = draft.difference(name)
    step = resolution(values[~np.isnan(values)])
    return (
        value + step
        if step and float(value / step).is_integer()
        else float(np.nextafter(value, math.inf))
    )


# --- dependencies ---------------------------------------------------------------------------------


def _codes(draft: Draft, name: str) -> tuple[np.ndarray, int]:
    """The values of a column numbered from 0."""
    column = draft.frame[name]
    found, distinct = load_factorize(column)
    return found, distinct


def load_factorize(column: Any) -> tuple[np.ndarray, int]:
    codes, values = column.factorize(use_na_sentinel=False)
    return codes, len(values)


def _codes_by_dependency(draft: Draft) -> None:
    """Whole numbers with gaps that determine another column are codes, of any width."""
    doubtful = [n for n, t in draft.taken.items() if t.doubt == "code" and n not in draft.asked]
    others = [n for n, t in draft.taken.items() if t.kind == "choice"]
    for name in doubtful:
        codes, size = _codes(draft, name)
        for other in others:
            b, _ = _codes(draft, other)
            if _is_function(codes, size, b) and _log_function(codes, size, b) < math.log(LEVEL):
                taken = draft.taken[name]
                draft.taken[name] = Taken(
                    "code", f"{taken.because}; it determines {other}", "number"
                )
                break


def _is_function(a: np.ndarray, size: int, b: np.ndarray) -> bool:
    """Is b a function of a?"""
    for rows in (slice(FIRST_ROWS), slice(None)):
        first = np.full(size, -1, np.int64)
        first[a[rows][::-1]] = b[rows][::-1]
        if (first[a[rows]] != b[rows]).any():
            return False
    return True


def _log_function(a: np.ndarray, size: int, b: np.ndarray) -> float:
    """log of the probability that rows with equal a have equal b, if the two were independent."""
    shares = np.bincount(b) / len(b)
    first = np.zeros(len(a), bool)
    first[np.unique(a, return_index=True)[1]] = True
    return float(np.log(shares[b[~first]]).sum())


def _determined(draft: Draft) -> None:
    """For each column of few values: the column with fewest values that determines it."""
    few = {}
    for name, taken in draft.taken.items():
        if name in draft.asked and draft.asked[name] == taken.kind:
            continue
        if name not in draft.numbers and taken.kind in ("flag", "choice", "code", "integer"):
            codes, size = _codes(draft, name)
            if 1 < size <= 4096:
                few[name] = codes, size
    tests = max(1, len(few) * (len(few) + len(draft.numbers)))
    bound = math.log(LEVEL / tests)
    order = sorted(few, key=lambda n: (few[n][1], list(few).index(n)))
    for name in order:
        b, size = few[name]
        if size > MOST_DETERMINED:
            continue
        for other in order:
            a, of = few[other]
            later = of > size or (of == size and order.index(other) < order.index(name))
            if (
                other != name
                and later
                and _is_function(a, of, b)
                and _log_function(a, of, b) < bound
            ):
                draft.determined[name] = other
                draft.note(
                    name,
                    f"determined by {other}; {draft.undone(name)}",
                )
                break
        else:
            for number in draft.numbers:
                if (edges := _pieces(draft, number, b, bound)) is not None:
                    draft.determined[name] = number
                    draft.must.setdefault(number, set()).update(edges)
                    draft.note(
                        name,
                        f"determined by {number}; {draft.undone(name)}",
                    )
                    break


def _pieces(draft: Draft, number: str, b: np.ndarray, bound: float) -> list[float] | None:
    """Edges between which b is constant, if it is a function of few pieces of the number."""
    if number in draft.after:
        return None
    values = draft.numbers[number]
    missing = np.isnan(values)
    if missing.any() and len(np.unique(b[missing])) > 1:
        return None
    order = np.argsort(values[~missing], kind="stable")
    x, of = values[~missing][order], b[~missing][order]
    changes = np.flatnonzero(of[1:] != of[:-1])
    if not len(changes) or len(changes) >= MOST_PIECES or len(changes) >= 2 * len(np.unique(b)):
        return None
    if (x[changes] == x[changes + 1]).any():
        return None
    piece = np.concatenate([[0], np.cumsum(of[1:] != of[:-1])])
    if _log_function(piece, int(piece[-1]) + 1, of) >= bound:
        return None
    return [between(x[k], x[k + 1]) for k in changes.tolist()]


# --- fields ---------------------------------------------------------------------------------------


def _declare(
    space: Space, draft: Draft, bins: Mapping[str, Any], every: Any, sketch: bool = False
) -> None:
    """Fields in the order of the columns; a column `after` another one comes after it."""
    waiting = list(draft.frame.columns)
    while waiting:
        name = waiting.pop(0)
        if draft.after.get(name) in waiting:
            waiting.append(name)
            continue
        taken, column = draft.taken[name], draft.frame[name]
        if name in draft.numbers:
            values = draft.difference(name)
            values = values[~np.isnan(values)]
            edges: Iterable[float] = (-math.inf, math.inf)
            if not sketch:
                wanted = bins.get(name, every)
                edges = _edges(name, values, wanted, draft.must.get(name, set()))
            after = space.fields[draft.after[name]] if name in draft.after else None
            missing = bool(column.isna().any())
            space.bins(name, edges, missing=missing, unit=draft.unit(name), after=after)
        elif taken.kind == "flag" and not column.isna().any():
            space.flag(name)
        elif taken.kind == "flag":
            space.choice(name, [False, True, None])
        elif taken.kind == "integer":
            values = as_numbers(column)
            space.integer(name, int(values.min()), int(values.max()))
        elif taken.kind in ("choice", "code", "constant"):
            found = distinct_values(column)
            if taken.kind == "code":
                whole = sorted(int(v) for v in found if v is not None)
                found = [*whole, *[None] * (None in found)]
            space.choice(name, found)


def _fields_or_none(space: Space, draft: Draft) -> None:
    if not space.fields:
        kinds = ", ".join(f"{name} ({taken.kind})" for name, taken in draft.taken.items())
        raise FormulaError(
            f"a table without a column to learn from: {kinds}",
            expected="values that repeat; columns={...} names other kinds",
        )


def _edges(name: str, values: np.ndarray, wanted: Any, must: set[float]) -> Iterable[float]:
    if wanted is None:
        return edges_for(values, bins_for(len(values)), must)
    if isinstance(wanted, (int, np.integer)) and not isinstance(wanted, bool):
        if wanted < 1:
            raise FormulaError(f"{wanted} bins of {name}", expected="1 or more")
        return edges_for(values, int(wanted), must)
    return sorted({*map(float, wanted), *must})


def _require_determined(space: Space, draft: Draft) -> None:
    """The combinations that occur: all that may, since the column is a function of the other."""
    for name, other in draft.determined.items():
        a, b = space.fields[other], space.fields[name]
        x, y = _field_codes(space, draft, a), _field_codes(space, draft, b)
        pairs = sorted(set(zip(x.tolist(), y.tolist(), strict=True)))
        known = {i for i, _ in pairs}
        pairs += [(i, j) for i in range(a.size) if i not in known for j in range(b.size)]
        rows = [(a.value(i), b.value(j)) for i, j in pairs]
        space.require(listed([a, b], rows), name=f"{name} is determined by {other}")
    for name, before in draft.after.items():
        if np.isnan(draft.numbers[before]).any():
            space.require(space[f"{before}.missing"].implies(space[f"{name}.missing"]))


def _field_codes(space: Space, draft: Draft, of: Field) -> np.ndarray:
    if isinstance(of, Bins):
        return of.codes(draft.difference(of.name))
    return codes_of(of, draft.frame[of.name])
