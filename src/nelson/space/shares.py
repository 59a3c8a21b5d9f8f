"""The law of maximum entropy over legal rows that has given shares, by `learning.match`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import ImpossibleShares
from nelson.learning.match import match
from nelson.space.clauses.gates import TRUE
from nelson.space.language.expressions import Rule
from nelson.space.language.text import text
from nelson.space.law import RowLaw, circuit_of, extended_law
from nelson.space.names import field_or_rule, has, share_terms

if TYPE_CHECKING:
    from nelson.space.declaration import Declaration


def with_shares(
    space: Declaration, law: RowLaw, asked: Any, seed: int | None, budget: Budget
) -> RowLaw:
    """The law of maximum entropy (relative to `law`) with the asked shares.

    budget: of compiling, of the proof that shares are impossible, and of the fit. When it is spent
    the search ends with what it has reached; the label says so.
    """
    wanted = share_terms(asked, lambda key: field_or_rule(space, key))
    formula, literals = extended_law(space, law, [rule for rule, _ in wanted])
    for x, (rule, share) in zip(literals, wanted, strict=True):
        if abs(x) == TRUE and share != (x > 0):
            always = "always" if x > 0 else "never"
            raise ImpossibleShares(f"a share of {share:g} for {text(rule)}, which {always} holds")
    used = [k for k, x in enumerate(literals) if abs(x) != TRUE]
    wanted = [wanted[k] for k in used]
    base = law.padded(formula.n_vars, evidence=True)
    circuit_of(formula, budget)
    try:
        fit = match(
            formula,
            [literals[k] for k in used],
            [share for _, share in wanted],
            groups=_groups(asked, space, wanted),
            base=base,
            seed=seed,
            budget=budget,
        )
    except ImpossibleShares as error:
        raise _in_words(error, wanted) from None
    achieved = {
        text(rule): float(share) for (rule, _), share in zip(wanted, fit.achieved, strict=True)
    }
    # Rows of a law that misses the asked shares, or may miss them, are not what was asked for.
    label = fit.guarantee if fit.converged else "heuristic"
    info = {
        "shares": achieved,
        "shares_guarantee": label,
        "shares_missed": not fit.converged,
        "shares_why": fit.why,
    }
    fixed = np.flatnonzero(np.isinf(fit.theta))
    given = tuple(int(v + 1) if fit.theta[v] > 0 else -int(v + 1) for v in fixed)
    theta = np.where(np.isinf(fit.theta), 0.0, fit.theta)
    return RowLaw(formula, theta, given, info, (*law.rules, *(rule for rule, _ in wanted)))


def without_shares(space: Declaration, law: RowLaw, asked: Any, why: str) -> RowLaw:
    """`law` in place of the one with the asked shares, which was out of reach: the nearest that is
    known. Of the shares only 0 and 1 are kept, which are conditions.
    """
    wanted = share_terms(asked, lambda key: field_or_rule(space, key))
    certain = [(rule, share) for rule, share in wanted if share in (0, 1)]
    formula, literals = extended_law(space, law, [rule for rule, _ in certain])
    given = [x if share else -x for x, (_, share) in zip(literals, certain, strict=True)]
    info = {
        "shares": {},
        "shares_guarantee": "heuristic",
        "shares_missed": True,
        "shares_why": f"{why}; the rows were drawn without these shares",
    }
    return RowLaw(
        formula,
        law.padded(formula.n_vars, evidence=False),
        (*law.given, *(x for x in given if x != TRUE)),
        info,
        (*law.rules, *(rule for rule, _ in certain)),
        tuple(rule for rule, _ in wanted),
    )


def _groups(asked: Any, space: Declaration, wanted: list[tuple[Rule, float]]) -> list[list[int]]:
    """Places of rules of which exactly one holds: all values of a field."""
    at = {text(rule): k for k, (rule, _) in enumerate(wanted)}
    groups = []
    for key, numbers in asked.items():
        field = field_or_rule(space, key)
        if isinstance(numbers, dict) and len(numbers) == field.size:
            places = [at.get(text(has(field, value))) for value in numbers]
            if None not in places:
                groups.append([k for k in places if k is not None])
    return groups


def _in_words(error: ImpossibleShares, wanted: list[tuple[Rule, float]]) -> ImpossibleShares:
    """The proof that shares are impossible, with the rules in place of literals."""
    terms = [
        (d, text(rule), share)
        for d, (rule, share) in zip(error.direction, wanted, strict=True)
        if d
    ]
    if not terms:
        return error
    return ImpossibleShares(
        f"impossible shares: {_inequality(terms, error.highest, error.asked)}",
        literals=error.literals,
        targets=error.targets,
        direction=error.direction,
        highest=error.highest,
        asked=error.asked,
    )


def _inequality(terms: list[tuple[int, str, float]], highest: int, asked: float) -> str:
    """sum of d [rule] <= highest holds in every legal row, but the shares would need `asked`."""
    plus = [(name, share) for d, name, share in terms if d == 1]
    minus = [(name, share) for d, name, share in terms if d == -1]
    whole = len(plus) + len(minus) == len(terms)
    listed = [" or ".join(name for name, _ in part) for part in (plus, minus)]
    shares = [" + ".join(f"{share:g}" for _, share in part) for part in (plus, minus)]
    if whole and len(plus) == 1 and not minus and highest == 0:
        return f"no legal row has {listed[0]}, but its share is to be {shares[0]}"
    if whole and len(plus) == 2 and not minus and highest == 1:
        return (
            f"no legal row has both {plus[0][0]} and {plus[1][0]}, but their shares "
            f"add up to {shares[0]} = {asked:g}"
        )
    if whole and minus and len(plus) == 1 and highest == 0:
        return (
            f"every legal row with {listed[0]} has {listed[1]} too, but the share {shares[0]} "
            f"is more than {shares[1]}"
        )
    if whole and not plus and highest == -1:
        return f"every legal row has {listed[1]}, but the shares add up to {shares[1]} only"
    left = " + ".join(f"{d} [{name}]" if d != 1 else f"[{name}]" for d, name, _ in terms)
    return (
        f"every legal row has {left.replace('+ -', '- ')} <= {highest}, where [rule] is 1 if the "
        f"rule holds; the shares {', '.join(f'{name}: {s:g}' for _, name, s in terms)} "
        f"would need {asked:g}"
    )
