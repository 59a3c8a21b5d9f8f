"""Learn a law over the legal rows of a space from a table: see `Space.learn`."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import FormulaError
from nelson.policy import Policy
from nelson.space.language.fields import Bins
from nelson.space.names import field_of
from nelson.space.rows import Rows, columns_of_records, table_codes
from nelson.space.tables.columns import columns_of
from nelson.space.tables.fit import Fitted, Prior, TableProblem, fit
from nelson.space.tables.frames import as_frame
from nelson.space.tables.model import Facts, TableModel
from nelson.space.tables.pair_search import ChosenPairs, PairSearch, choose
from nelson.space.tables.potential import Pair, Potential, levels_of, scores_of

if TYPE_CHECKING:
    from nelson.space.space import Space


def learn(
    space: Space,
    frame: Any,
    pairs: str | Iterable[tuple[Any, Any]] | None,
    *,
    bins: Mapping[Any, Any] | None,
    drop_invalid: bool,
    prior: float,
    pair_prior: float,
    validation: Any,
    seed: int | None,
    seconds: float | None,
    progress: bool | Callable[[str], None] | None,
    policy: Policy,
) -> TableModel:
    """`Space.learn` says what the arguments mean."""
    started = time.monotonic()
    budget = Budget.of(seconds)
    seed = int(np.random.default_rng().integers(2**31)) if seed is None else seed
    smoothing = _prior(prior, pair_prior)
    frame, table = _frame(space, frame)
    codes, n, dropped, legal = legal_codes(space, frame, drop_invalid)
    potential = _potential(space, codes, bins)
    rows = potential.levels_of(codes)
    asked = _pairs(space, potential, pairs)
    notes = _notes(potential, dropped, n)
    taken = {c.name: c.taken for c in space.columns.columns} if space.columns is not None else {}
    said = {c.name: c.notes for c in space.columns.columns} if space.columns is not None else {}
    others = [c for c in frame.columns if c not in space.fields and c not in taken] if table else []
    if others:
        notes.append(f"columns that are no fields were left out: {', '.join(others)}")
    tell = _teller(progress)
    score: np.ndarray | None = None
    steps: list[str] = []
    if asked is None:
        chosen, score = _searched(
            space,
            potential,
            rows,
            n,
            smoothing,
            validation,
            drop_invalid,
            budget,
            seed,
            tell,
            policy,
        )
        steps = [*chosen.steps, f"end of the search: {chosen.end}"]
        found = chosen.fitted
        if not _is_table(validation) and n >= policy.pairs.rows and not budget.spent:
            # Now with all rows.
            found = _refitted(chosen, rows, n, smoothing, budget)
    else:
        found = _fitted(space, potential, asked, rows, n, smoothing, budget, seed, policy)
        if _is_table(validation):
            held, m, *_ = legal_codes(space, _frame(space, validation)[0], drop_invalid)
            if found.problem.source is not None:
                score = found.log_prob(potential.levels_of(held), m)
    facts = Facts(
        guarantee=found.guarantee,
        converged=found.converged,
        why="; ".join([found.why, *steps[-1:]]),
        examples=n,
        dropped=dropped,
        seed=seed,
        prior=smoothing.uniform,
        pair_prior=smoothing.independent,
        held_out=None if score is None or not len(score) else _mean(score),
        steps=tuple(steps),
        notes=tuple(notes),
        seconds=round(time.monotonic() - started, 3),
    )
    columns = None
    if table:
        kept = None if legal.all() else legal
        columns = columns_of(space, frame, codes, taken, said, kept, table, seed)
    return TableModel(
        space, found.potential, found.theta, found.shares, columns, facts, found.problem
    )


def _frame(space: Space, table: Any) -> tuple[Any, str]:
    """(a DataFrame, what it was before); other tables of codes stay as they are, with ""."""
    plain = isinstance(table, (np.ndarray, list, dict)) and space.columns is None
    if isinstance(table, Rows) or (plain and not any_bins(space)):
        return columns_of_records(table), ""
    return as_frame(table)


def any_bins(space: Space) -> bool:
    return any(isinstance(field, Bins) for field in space.fields.values())


def legal_codes(
    space: Space, frame: Any, drop_invalid: bool
) -> tuple[dict[str, np.ndarray], int, int, np.ndarray]:
    """(codes of the legal rows, how many they are, how many were dropped, which rows are legal)."""
    codes = {name: np.asarray(column) for name, column in table_codes(space.fields, frame).items()}
    n = len(next(iter(codes.values()))) if codes else 0
    if not n:
        raise FormulaError("a table without rows", expected="one row or more")
    numbers = any_bins(space) and not isinstance(frame, Rows)
    broken = space.violations(frame if numbers else Rows(space.fields, codes, n))
    legal = np.ones(n, bool)
    if not broken:
        return codes, n, 0, legal
    for positions in broken.values():
        legal[positions] = False
    if not drop_invalid:
        raise FormulaError(_complaint(space, frame, broken, n), expected="legal rows only")
    if not legal.any():
        raise FormulaError(
            f"a table of {n:,} rows, none of which is legal: "
            + _complaint(space, frame, broken, n),
            expected="legal rows",
        )
    kept = {name: column[legal] for name, column in codes.items()}
    return kept, int(legal.sum()), int((~legal).sum()), legal


def _complaint(
    space: Space, frame: Any, broken: Mapping[str, np.ndarray], n: int, most: int = 5
) -> str:
    """The first rows (at most `most`) that break a rule, each with the first rule it breaks."""
    first: dict[int, str] = {}
    for rule, positions in broken.items():
        for row in positions[:most].tolist():
            first.setdefault(row, rule)
    bad = len(np.unique(np.concatenate(list(broken.values()))))
    shown = sorted(first)[:most]
    parts = [
        f"row {row} breaks {first[row]}{_value(space, frame, first[row], row)}" for row in shown
    ]
    more = f"; and {bad - len(shown):,} more" if bad > len(shown) else ""
    return (
        f"{bad:,} of {n:,} rows are not legal: {'; '.join(parts)}{more} (rows count from 0; "
        "drop_invalid=True leaves them out)"
    )


def _value(space: Space, frame: Any, rule: str, row: int) -> str:
    """The value itself, where it is outside of the domain of a field."""
    for name, field in space.fields.items():
        if rule == f"{name} is not in {field.domain}":
            column = frame[name]
            column = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
            return f" ({name} = {column[row]})"
    return ""


def _prior(uniform: float, independent: float) -> Prior:
    for name, value in (("prior", uniform), ("pair_prior", independent)):
        if not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise FormulaError(f"{name} = {value!r}", expected="0 or more pseudo-examples")
    return Prior(float(uniform), float(independent))


def _potential(space: Space, codes: Mapping[str, np.ndarray], bins: Any) -> Potential:
    asked: dict[str, Any] = {}
    for key, value in (bins or {}).items():
        asked[field_of(space, key).name] = value
    levels = {
        name: levels_of(field, asked.get(name), codes[name]) for name, field in space.fields.items()
    }
    reference, scores = {}, {}
    for name, each in levels.items():
        counts = np.bincount(each.of(codes[name]), minlength=each.count)
        reference[name] = int(counts.argmax())
        if (table := scores_of(each, counts)) is not None:
            scores[name] = table
    return Potential(levels, reference, scores=scores)


def _pairs(space: Space, potential: Potential, pairs: Any) -> list[Pair] | None:
    """The pairs that were asked for; None: to be chosen."""
    if isinstance(pairs, str):
        if pairs != "auto":
            raise FormulaError(f"pairs = {pairs!r}", expected='"auto", None or [("a", "b"), ...]')
        return None
    order = {name: k for k, name in enumerate(space.fields)}
    found: list[Pair] = []
    for given in pairs or ():
        if isinstance(given, str) or not hasattr(given, "__len__") or len(given) != 2:
            raise FormulaError(f"the pair {given!r}", expected="two names of fields")
        a, b = sorted((field_of(space, key).name for key in given), key=order.__getitem__)
        if a == b:
            raise FormulaError(f"the pair {a} x {b}", expected="two different fields")
        for name in (a, b):
            if potential.levels[name].count == 1:
                raise FormulaError(
                    f"the pair {a} x {b}, where {name} has no theta",
                    expected=f"bins={{{name!r}: 16}}, for ranges of its values",
                )
        if (a, b) not in found:
            found.append((a, b))
    return found


def _fitted(
    space: Space,
    potential: Potential,
    pairs: list[Pair],
    rows: Mapping[str, np.ndarray],
    n: int,
    prior: Prior,
    budget: Budget,
    seed: int,
    policy: Policy,
) -> Fitted:
    singles = fit(
        TableProblem.of(space, potential, seed, budget, policy), rows, n, prior, budget=budget
    )
    if not pairs:
        return singles
    problem = TableProblem.of(space, potential.with_pairs(pairs), seed, budget, policy)
    return fit(problem, rows, n, prior, singles, budget=budget)


def _searched(
    space: Space,
    potential: Potential,
    rows: Mapping[str, np.ndarray],
    n: int,
    prior: Prior,
    validation: Any,
    drop_invalid: bool,
    budget: Budget,
    seed: int,
    tell: Callable[[str], None],
    policy: Policy,
) -> tuple[ChosenPairs, np.ndarray | None]:
    """Search for pairs on a part of the rows; the others judge."""
    train, count = rows, n
    if _is_table(validation):
        codes, m, *_ = legal_codes(space, _frame(space, validation)[0], drop_invalid)
        held_out = potential.levels_of(codes)
    else:
        share = _share(validation)
        order = np.random.default_rng(seed).permutation(n)
        m = min(n - 1, max(2, round(share * n)))
        held_out = {name: column[order[:m]] for name, column in rows.items()}
        train = {name: column[order[m:]] for name, column in rows.items()}
        count = n - m
    if n < policy.pairs.rows or m < 2:
        singles = fit(
            TableProblem.of(space, potential, seed, budget, policy), rows, n, prior, budget=budget
        )
        end = f"{n} rows are too few to search for pairs; name them with pairs=[...]"
        return ChosenPairs(singles, singles, np.zeros(0), end=end), None
    found = choose(
        PairSearch(
            space, potential, prior, (train, count), (held_out, m), budget, seed, tell, policy
        )
    )
    return found, found.score


def _refitted(
    found: ChosenPairs, rows: Mapping[str, np.ndarray], n: int, prior: Prior, budget: Budget
) -> Fitted:
    """The chosen model, with the rows that were held out as well."""
    singles = fit(found.singles.problem, rows, n, prior, known=found.singles, budget=budget)
    if not found.pairs:
        return singles
    return fit(found.fitted.problem, rows, n, prior, singles, found.fitted, budget)


def _is_table(validation: Any) -> bool:
    return not isinstance(validation, (int, float, str, np.number)) and validation is not None


def _share(validation: Any) -> float:
    if validation is None or isinstance(validation, (bool, str)) or not 0 < validation < 1:
        raise FormulaError(
            f"validation = {validation!r}", expected="a share between 0 and 1, or a table"
        )
    return float(validation)


def _mean(score: np.ndarray) -> tuple[float, float]:
    return float(score.mean()), float(score.std(ddof=1)) / math.sqrt(len(score))


def _notes(potential: Potential, dropped: int, n: int) -> list[str]:
    notes = []
    if dropped:
        notes.append(f"{dropped:,} of {dropped + n:,} rows broke a rule and were left out")
    if wide := [name for name, levels in potential.levels.items() if levels.count == 1]:
        wide = [name for name in wide if potential.levels[name].field.size > 1]
        if wide:
            notes.append(
                f"{', '.join(wide)}: too many values for a theta each, uniform given the rest; "
                f"bins={{{wide[0]!r}: 16}} gives a theta to ranges"
            )
    return notes


def _teller(progress: bool | Callable[[str], None] | None) -> Callable[[str], None]:
    if callable(progress):
        return progress
    shown = sys.stderr.isatty() if progress is None else progress
    return (lambda line: print(line, file=sys.stderr, flush=True)) if shown else lambda line: None
