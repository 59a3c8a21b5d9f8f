"""Laws over the legal rows of a space: under weights, with given shares, in an order of choice.

weights   P(row) ~ product of the factors of its values
shares    of all laws with these shares the one of maximum entropy; it has weights as well,
          which `nelson.learning.match` finds
first     weights 1 / P(a) on the values a of some fields: P(a) becomes uniform, and the rest
          given a stays uniform
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.errors import BudgetExceeded, FormulaError, ImpossibleShares, Unsatisfiable
from nelson.exact.circuit.build import narrow
from nelson.exact.compiled import Compiled, compiled, not_worth_a_try
from nelson.formula import Formula
from nelson.learning.match import match
from nelson.log_z.moments import moments_of
from nelson.sampling.options import Options
from nelson.sampling.sample_stream import draw
from nelson.space.clauses.gates import TRUE
from nelson.space.language.expressions import Rule
from nelson.space.language.fields import Field, Integer
from nelson.space.language.text import text
from nelson.space.terms import has, share_terms

if TYPE_CHECKING:
    from nelson.space.space import Space

#: Values of the largest field whose marginal is listed value by value, and ranges beyond that.
MAX_VALUES = 256
RANGES = 16
#: Combinations of values that fields which are chosen first may have.
MAX_FIRST = 4096
#: Seconds to compile a space, and the share of a limit that the caller set.
COMPILE_SECONDS = 10.0
#: Seconds for a space of small width, for which more time is likely to help.
NARROW_SECONDS = 20.0
COMPILE_SHARE = 0.5
#: Rows of evidence in one pass over a circuit.
_ROWS = 256
#: Samples for estimated shares.
_SAMPLES = 1 << 16


@dataclass(frozen=True)
class Law:
    """What is drawn from: P(x) ~ exp(theta . x) over the solutions that agree with `given`.

    Every variable of the formula is a function of the fields, so a solution is a row.
    """

    formula: Formula
    theta: np.ndarray  # (n_vars,)
    given: tuple[int, ...]
    info: dict[str, Any]  # the achieved shares, if shares were asked for
    rules: tuple[Rule, ...] = ()  # rules that have a literal in the formula besides those stated

    @property
    def log_odds(self) -> np.ndarray:
        """theta, with infinite entries for `given`."""
        theta = self.theta.copy()
        for x in self.given:
            if abs(x) == TRUE:
                raise Unsatisfiable("a condition that never holds")
            end = math.inf if x > 0 else -math.inf
            if theta[abs(x) - 1] == -end:
                raise Unsatisfiable("two conditions that contradict each other")
            theta[abs(x) - 1] = end
        return theta


class Marginals(dict[str, dict[Any, float]]):
    """{field: {value: share}}.

    guarantee   "exact", or that of the samples from which the shares were estimated
    error       standard error of a share, at most; 0 if exact
    """

    guarantee = "exact"
    error = 0.0

    def __repr__(self) -> str:
        lines = []
        for name, shares in self.items():
            listed = ", ".join(f"{_key(v)}: {share:.4g}" for v, share in shares.items())
            lines.append(f"{name}: {listed}")
        return "\n".join([*lines, f"[{self.guarantee}]"])


def _key(value: Any) -> str:
    return f"{value[0]}..{value[-1]}" if isinstance(value, range) else str(value)


def circuit_of(formula: Formula, seconds: float | None = None) -> Compiled | None:
    """The circuit of a space, kept with the formula; None if it does not compile.

    A space gets more time than a formula of unknown origin: one circuit then serves all draws,
    counts, marginals and shares.
    """
    if not_worth_a_try(formula):
        return None
    unlimited = NARROW_SECONDS if narrow(formula) else COMPILE_SECONDS
    return compiled(formula, unlimited if seconds is None else COMPILE_SHARE * seconds)


def chosen_method(formula: Formula, seconds: float | None) -> str:
    """The circuit of the whole space if there is one; else "auto" looks at its parts."""
    return "auto" if circuit_of(formula, seconds) is None else "circuit"


def marginals(space: Space, law: Law) -> Marginals:
    """The share of each value of each field under a law."""
    keys = {name: value_keys(field) for name, field in space.fields.items()}
    out = Marginals()
    circuit = circuit_of(law.formula)
    if circuit is not None:
        shares = _from_circuit(space, law, circuit, keys)
    else:
        rules = [has(space.fields[name], key) for name, listed in keys.items() for key in listed]
        shares, out.guarantee, out.error = shares_of(space, law, rules)
    at = iter(shares.tolist())
    for name, listed in keys.items():
        out[name] = {key: next(at) for key in listed}
    return out


def _from_circuit(
    space: Space, law: Law, circuit: Compiled, keys: dict[str, list[Any]]
) -> np.ndarray:
    """P(field has key) for all fields and keys, exactly, by passes over the circuit of the law.

    A value is a set of literals, its evidence e; a range is a few of them, which exclude each
    other. P(e | C) = P(C | e) P(e) / P(C), where P is the law of independent variables with the
    log-odds of the law, and evidence is infinite log-odds.
    """
    theta = law.log_odds
    evidence = [
        cube
        for name, listed in keys.items()
        for key in listed
        for cube in space.cubes(space.fields[name], key)
    ]
    sizes = [
        len(space.cubes(space.fields[name], key)) for name, listed in keys.items() for key in listed
    ]
    mean = circuit.mean(theta[None, :])[0]  # raises Unsatisfiable if no row is legal
    log_p = float(circuit.circuit.solve(theta[None, :], means=False)[0][0])
    shares = np.zeros(len(evidence))
    asked = []
    for k, cube in enumerate(evidence):
        if len(cube) == 1:
            x = cube[0]
            shares[k] = mean[x - 1] if x > 0 else 1 - mean[-x - 1]
        elif not cube:
            shares[k] = 1.0
        elif not any(theta[abs(x) - 1] == (-math.inf if x > 0 else math.inf) for x in cube):
            asked.append(k)
    for first in range(0, len(asked), _ROWS):
        rows = np.tile(theta, (len(asked[first : first + _ROWS]), 1))
        log_e = np.zeros(len(rows))
        for row, k in enumerate(asked[first : first + _ROWS]):
            at = np.array(evidence[k])
            sign = np.where(at > 0, 1.0, -1.0)
            log_e[row] = -np.logaddexp(0.0, -sign * theta[np.abs(at) - 1]).sum()
            rows[row, np.abs(at) - 1] = sign * math.inf
        given, _ = circuit.circuit.solve(rows, means=False)
        shares[asked[first : first + _ROWS]] = np.exp(given + log_e - log_p)
    starts = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    return np.clip(np.add.reduceat(shares, starts), 0.0, 1.0)


def value_keys(field: Field) -> list[Any]:
    """The values of a field; equal ranges of them if there are many."""
    if field.size <= MAX_VALUES:
        return [field.value(code) for code in range(field.size)]
    if not isinstance(field, Integer):
        return [field.value(code) for code in range(field.size)]
    ends = [field.low + k * field.size // RANGES for k in range(RANGES + 1)]
    return [range(a, b) for a, b in itertools.pairwise(ends)]


def shares_of(space: Space, law: Law, rules: list[Rule]) -> tuple[np.ndarray, str, float]:
    """(P(rule) for each rule, guarantee, largest standard error)."""
    formula, literals = space.extended_law(law, rules)
    variables = sorted({abs(x) for x in literals if abs(x) != TRUE})
    theta = _padded(law.log_odds, formula.n_vars)
    circuit_of(formula)
    moments = moments_of(formula)
    if moments is not None:
        mean = moments.mean(theta[None, :])[0]
        guarantee, error = "exact", 0.0
    else:
        options = Options(given=law.given or None, project=variables, seed=0)
        samples = draw(formula, _padded(law.theta, formula.n_vars), _SAMPLES, options)
        mean = np.zeros(formula.n_vars)
        mean[np.array(variables, int) - 1] = samples.mean()
        guarantee, error = samples.guarantee, 0.5 / math.sqrt(max(1, len(samples)))
    constant = {TRUE: 1.0, -TRUE: 0.0}
    shares = [
        constant[x] if abs(x) == TRUE else mean[x - 1] if x > 0 else 1 - mean[-x - 1]
        for x in literals
    ]
    return np.clip(np.array(shares, float), 0.0, 1.0), guarantee, error


def _padded(theta: np.ndarray, n: int) -> np.ndarray:
    return np.concatenate([theta, np.zeros(n - len(theta))])


def chosen_first(space: Space, law: Law, first: Iterable[Any]) -> Law:
    """Uniform over the legal values of some fields, and over the rest given these."""
    names = [first] if isinstance(first, (str, Rule)) or hasattr(first, "name") else list(first)
    fields = [space.field(name) for name in names]
    if not fields:
        raise FormulaError("first = []", expected="names of fields")
    combinations = math.prod(field.size for field in fields)
    if combinations > MAX_FIRST:
        raise FormulaError(
            f"first = {[f.name for f in fields]}, of {combinations:,} combinations of values",
            expected=f"at most {MAX_FIRST}",
        )
    rules: list[Rule] = []
    for codes in itertools.product(*(range(f.size) for f in fields)):
        each = [has(f, f.value(code)) for f, code in zip(fields, codes, strict=True)]
        rule = each[0]
        for other in each[1:]:
            rule = rule & other
        rules.append(rule)
    formula, literals = space.extended_law(law, rules)
    shares, guarantee, _ = shares_of(space, law, rules)
    if guarantee != "exact":
        raise BudgetExceeded(
            "the order of choice needs exact shares, but the space could not be enumerated or "
            "compiled: fix the fields with given= and draw for each of their values"
        )
    theta = _padded(law.theta, formula.n_vars)
    for x, share in zip(literals, shares.tolist(), strict=True):
        if share > 0 and abs(x) != TRUE:
            theta[abs(x) - 1] -= math.log(share) if x > 0 else -math.log(share)
    return replace(law, formula=formula, theta=theta, rules=(*law.rules, *rules))


def with_shares(space: Space, law: Law, asked: Any, seed: int | None) -> Law:
    """The law of maximum entropy (relative to `law`) with the asked shares."""
    wanted = share_terms(asked, space.find)
    formula, literals = space.extended_law(law, [rule for rule, _ in wanted])
    for x, (rule, share) in zip(literals, wanted, strict=True):
        if abs(x) == TRUE and share != (x > 0):
            always = "always" if x > 0 else "never"
            raise ImpossibleShares(f"a share of {share:g} for {text(rule)}, which {always} holds")
    used = [k for k, x in enumerate(literals) if abs(x) != TRUE]
    wanted = [wanted[k] for k in used]
    base = _padded(law.log_odds, formula.n_vars)
    circuit_of(formula)
    try:
        found = match(
            formula,
            [literals[k] for k in used],
            [share for _, share in wanted],
            groups=_groups(asked, space, wanted),
            base=base,
            seed=seed,
        )
    except ImpossibleShares as error:
        raise _in_words(error, wanted) from None
    achieved = {
        text(rule): float(share) for (rule, _), share in zip(wanted, found.achieved, strict=True)
    }
    info: dict[str, Any] = {"shares": achieved}
    info |= {"shares_guarantee": found.guarantee, "shares_why": found.why}
    if not found.converged:
        info["shares_missed"] = True
    fixed = np.flatnonzero(np.isinf(found.theta))
    given = tuple(int(v + 1) if found.theta[v] > 0 else -int(v + 1) for v in fixed)
    theta = np.where(np.isinf(found.theta), 0.0, found.theta)
    return Law(formula, theta, given, info, (*law.rules, *(rule for rule, _ in wanted)))


def _groups(asked: Any, space: Space, wanted: list[tuple[Rule, float]]) -> list[list[int]]:
    """Places of rules of which exactly one holds: all values of a field."""
    at = {text(rule): k for k, (rule, _) in enumerate(wanted)}
    groups = []
    for key, numbers in asked.items():
        field = space.find(key)
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
