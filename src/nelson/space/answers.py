"""Questions about a space: the law that they ask about, its count, marginals, mode, contradictions.

Loading this module loads the samplers. `Space` does so with the first question, so that declaring a
space stays fast.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import BudgetExceeded, FormulaError, Unsatisfiable
from nelson.exact import queries
from nelson.exact.solver import SECONDS, conflict, satisfiable
from nelson.formula import Formula
from nelson.formula.memo import Recent, Slot
from nelson.policy import DEFAULT
from nelson.space.clauses.decode import rows_of_states
from nelson.space.clauses.gates import TRUE, renumbered
from nelson.space.declaration import Declaration, by_priority
from nelson.space.language.expressions import Rule
from nelson.space.language.functions import all_of
from nelson.space.language.text import text
from nelson.space.law import RowLaw, ValueShares, extended_law, log_shares_of
from nelson.space.law import marginals as marginals_of
from nelson.space.names import conditions, field_of, field_or_rule, has, terms
from nelson.space.shares import with_shares

#: Soft rules that hold together, by (evidence, literals of the rules).
_PREFERRED: Slot[Recent[tuple[tuple[int, ...], tuple[int, ...]], list[int]]] = Slot("soft rules")
_MOST_PREFERRED = 4096


def law_of(
    space: Declaration,
    given: Any = None,
    weights: Any = None,
    shares: Any = None,
    first: Iterable[Any] | None = None,
    seed: int | None = None,
    budget: Budget | None = None,
) -> RowLaw:
    """The law that `Space.sample` draws from with these arguments."""
    budget = budget or Budget.of()
    # Rules that take longer to write leave no time for an answer, and some is needed to take back
    # what was written of a rule.
    with budget.share(DEFAULT.space.writing_share).enforced():
        law = _weighted(space, given, weights, budget)
    if shares is not None and first is not None:
        raise FormulaError("both shares= and first=", expected="one of them")
    if shares is not None:
        return with_shares(space, law, shares, seed, budget)
    return law if first is None else _chosen_first(space, law, first, weights or {}, budget)


def _weighted(space: Declaration, given: Any, weights: Any, budget: Budget) -> RowLaw:
    """Legal rows that agree with `given`, each weighted by the factors of the rules it obeys."""
    asked, evidence = conditions(space, given)
    factors = (
        [] if weights is None else terms(weights, lambda key: field_or_rule(space, key), "weights")
    )
    preferred = by_priority(space)
    rules = [*asked, *preferred, *(rule for rule, _ in factors)]
    formula, literals = space.encoding.extended(rules)
    fixed = len(asked) + len(preferred)
    evidence += [x for x in literals[: len(asked)] if x != TRUE]
    evidence += compatible(formula, evidence, literals[len(asked) : fixed], budget)
    theta = np.zeros(formula.n_vars)
    for x, (_, factor) in zip(literals[fixed:], factors, strict=True):
        if x == -TRUE:  # a rule that no row obeys: its factor is never used
            continue
        if factor == 0:
            evidence.append(-x)
        elif x != TRUE:
            theta[abs(x) - 1] += math.log(factor) if x > 0 else -math.log(factor)
    return RowLaw(formula, theta, tuple(evidence), {}, tuple(rules))


def compatible(
    formula: Formula, evidence: Sequence[int], literals: Sequence[int], budget: Budget
) -> list[int]:
    """The literals that are kept: each one that can hold with the evidence and those before it.

    TRUE and -TRUE are constants. At most one call of a solver for each literal.
    """
    if not literals:
        return []
    known = formula.memo.once(_PREFERRED, lambda: Recent(_MOST_PREFERRED))
    key = tuple(evidence), tuple(literals)
    return known.once(key, lambda: _compatible(formula, list(evidence), literals, budget))


def _compatible(
    formula: Formula, evidence: list[int], literals: Sequence[int], budget: Budget
) -> list[int]:
    held: list[int] = []
    for x in literals:
        if abs(x) == TRUE or -TRUE in evidence:
            continue
        answer = satisfiable(formula, [*evidence, *held, x], seconds=min(budget.left, SECONDS))
        if answer is None:
            raise BudgetExceeded("it was not decided in time which preferred rules can hold")
        if answer:
            held.append(x)
    return held


def count(space: Declaration, given: Any, budget: Budget) -> int:
    """See `Space.count`."""
    law = law_of(space, given, budget=budget)
    if -TRUE in law.given:
        return 0
    return queries.count(law.formula, law.given, budget.left)


def marginals(space: Declaration, asked: dict[str, Any], budget: Budget) -> ValueShares:
    """See `Space.marginals`."""
    with explained(space, asked["given"], budget):
        return marginals_of(space, law_of(space, **asked, budget=budget.share(0.5)), budget)


def mode(space: Declaration, asked: dict[str, Any], budget: Budget) -> dict[str, Any]:
    """See `Space.mode`."""
    with explained(space, asked["given"], budget):
        law = law_of(space, **asked, budget=budget)
        best = queries.mode(law.formula, law.log_odds, seconds=budget.left)
    return rows_of_states(space, best[None])[0]


def _chosen_first(
    space: Declaration,
    law: RowLaw,
    first: Iterable[Any],
    weights: Mapping[Any, Any],
    budget: Budget,
    most: int = 4096,
) -> RowLaw:
    """Uniform over the legal values of some fields, and over the rest given these.

    With weights 1 / P(a) on the values a of these fields P(a) becomes uniform, and the rest given a
    stays uniform. most: combinations of values that the fields may have.
    """
    names = [first] if isinstance(first, (str, Rule)) or hasattr(first, "name") else list(first)
    fields = [field_of(space, name) for name in names]
    if not fields:
        raise FormulaError("first = []", expected="names of fields")
    for key in weights:
        chosen = field_or_rule(space, key)
        if any(chosen is field for field in fields) and set(weights[key].values()) - {0, 1}:
            raise FormulaError(
                f"weights of {chosen.name}, which is chosen first, uniformly over its legal values",
                expected="factors 0 and 1 there, or weights without first=",
            )
    combinations = math.prod(field.size for field in fields)
    if combinations > most:
        raise FormulaError(
            f"first = {[f.name for f in fields]}, of {combinations:,} combinations of values",
            expected=f"at most {most}",
        )
    values = [[has(f, f.value(code)) for code in range(f.size)] for f in fields]
    rules = [all_of(each) for each in itertools.product(*values)]
    formula, literals = extended_law(space, law, rules)
    log_shares = log_shares_of(space, law, rules, budget)
    if log_shares is None:
        raise BudgetExceeded(
            "the order of choice needs exact shares, but the space could not be enumerated or "
            "compiled: fix the fields with given= and draw for each of their values"
        )
    theta = law.padded(formula.n_vars, evidence=False)
    for x, log_share in zip(literals, log_shares.tolist(), strict=True):
        if log_share > -math.inf and abs(x) != TRUE:
            theta[abs(x) - 1] -= log_share if x > 0 else -log_share
    return replace(law, formula=formula, theta=theta, rules=(*law.rules, *rules))


# --- contradictions -------------------------------------------------------------------------------


def contradiction(space: Declaration, given: Any, budget: Budget) -> str | None:
    """See `Space.contradiction`."""
    rules, _ = conditions(space, given)
    encoder = space.encoding.fork()
    names = [str(requirement) for requirement in space.rules]
    groups = list(encoder.groups)
    for rule in rules:
        groups.append([[encoder.literal(rule)]])
        names.append(f"given: {text(rule)}")
    if isinstance(given, Mapping):
        for key, value in given.items():
            field = field_of(space, key)
            groups.append([[x] for x in space.encoding.evidence(field, value)])
            names.append(f"given: {field.name} == {value!r}")
    groups = [[[x for x in c if x != -TRUE] for c in g if TRUE not in c] for g in groups]
    literals = [x for group in groups for clause in group for x in clause]
    hard, _, number = encoder.gates.numbered([], literals)
    clash = conflict(
        list(hard),
        [[[renumbered(x, number) for x in c] for c in group] for group in groups],
        budget.left,
    )
    if clash is None:
        return None
    lines = [f"  {names[k]}" for k in clash.groups]
    what = "this rule cannot hold" if len(lines) == 1 else "these rules cannot hold together"
    return "no row is legal: " + "\n".join([what, *lines])


@contextmanager
def explained(space: Declaration, given: Any, budget: Budget) -> Iterator[None]:
    """Name the rules that contradict each other, instead of "unsatisfiable", if there is time."""
    try:
        yield
    except Unsatisfiable:
        if budget.spent:
            raise
        try:
            reason = contradiction(space, given, budget.within(SECONDS))
        except (ImportError, BudgetExceeded):  # no solver, or no answer in time
            reason = None
        if reason is None:
            raise
        raise Unsatisfiable(reason) from None
