"""What rows are drawn from: a law over the solutions of the formula of a space; its circuit; the
share of each value of each field, and of any rule, under it.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import Unsatisfiable, printable
from nelson.exact.circuit.build import narrow
from nelson.exact.compiled import Compiled, compiled, not_worth_a_try
from nelson.exact.law import Law
from nelson.exact.law import law as exact_law
from nelson.exact.routes import CIRCUIT
from nelson.formula import Formula
from nelson.formula.checks import evidence_of, with_evidence
from nelson.policy import DEFAULT
from nelson.sampling.marginals import marginals as marginals_of
from nelson.space.clauses.gates import TRUE
from nelson.space.language.expressions import Rule
from nelson.space.language.fields import Field, Integer
from nelson.space.names import has

if TYPE_CHECKING:
    from nelson.space.declaration import Declaration


@dataclass(frozen=True)
class RowLaw:
    """What is drawn from: P(x) ~ exp(theta . x) over the solutions that agree with `given`.

    Every variable of the formula is a function of the fields, so a solution is a row.
    """

    formula: Formula
    theta: np.ndarray  # (n_vars,)
    given: tuple[int, ...]
    info: dict[str, Any]  # the achieved shares, if shares were asked for
    rules: tuple[Rule, ...] = ()  # rules that have a literal in the formula besides those stated
    missed: tuple[Rule, ...] = ()  # rules whose shares were asked for and not reached

    @property
    def evidence(self) -> tuple[int, ...]:
        """`given`. Raises Unsatisfiable if it has a condition that never holds."""
        if -TRUE in self.given:
            raise Unsatisfiable("a condition that never holds")
        return self.given

    @property
    def log_odds(self) -> np.ndarray:
        """theta, with infinite entries for `given`."""
        return with_evidence(self.theta, self.evidence)

    def padded(self, n: int, *, evidence: bool) -> np.ndarray:
        """The log-odds of this law for a formula with more variables, n in all.

        evidence: as infinite log-odds; else they are left out.
        """
        theta = self.log_odds if evidence else self.theta
        return np.concatenate([theta, np.zeros(n - len(theta))])


def extended_law(space: Declaration, law: RowLaw, rules: list[Rule]) -> tuple[Formula, list[int]]:
    """A formula with a literal for each rule, where the variables of `law` keep their numbers."""
    formula, literals = space.encoding.extended([*law.rules, *rules])
    return formula, literals[len(law.rules) :]


def circuit_of(formula: Formula, budget: Budget) -> Compiled | None:
    """The circuit of a space, kept with the formula; None if it does not compile.

    A space gets more effort than a formula of unknown origin: one circuit then serves all draws,
    counts, marginals and shares.
    """
    if not_worth_a_try(formula):
        return None
    limits = DEFAULT.space
    if not budget.counted:
        return compiled(formula, budget.share(limits.compile_share))
    effort = limits.narrow_effort if narrow(formula) else limits.compile_effort
    return compiled(formula, budget, effort=effort)


def chosen_method(formula: Formula, budget: Budget) -> str:
    """The circuit of the whole space if there is one; else "auto" looks at its parts."""
    if formula.n_total > DEFAULT.space.one_circuit:
        return "auto"
    return "auto" if circuit_of(formula, budget) is None else CIRCUIT


# --- shares ---------------------------------------------------------------------------------------


class ValueShares(dict[str, dict[Any, float]]):
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
            lines.append(printable(f"{name}: {listed}"))
        return "\n".join([*lines, f"[{self.guarantee}]"])


def _key(value: Any) -> str:
    return f"{value[0]}..{value[-1]}" if isinstance(value, range) else str(value)


def marginals(space: Declaration, law: RowLaw, budget: Budget) -> ValueShares:
    """The share of each value of each field under a law."""
    keys = [(f, key) for f in space.fields.values() for key in value_keys(f)]
    out = ValueShares({name: {} for name in space.fields})
    circuit = circuit_of(law.formula, budget)
    if circuit is not None:
        shares = _by_circuit(
            law, circuit, [space.encoding.cubes(field, key) for field, key in keys]
        )
    else:
        rules = [has(field, key) for field, key in keys]
        shares, out.guarantee, out.error = shares_of(space, law, rules, budget)
    for (field, key), share in zip(keys, shares.tolist(), strict=True):
        out[field.name][key] = share
    return out


def value_keys(field: Field, most: int = 256, ranges: int = 16) -> list[Any]:
    """The values of a field; for an integer of more than `most` values, ranges of equal size."""
    if field.size <= most or not isinstance(field, Integer):
        return [field.value(code) for code in range(field.size)]
    ends = [field.low + k * field.size // ranges for k in range(ranges + 1)]
    return [range(a, b) for a, b in itertools.pairwise(ends)]


def _by_circuit(
    law: RowLaw, circuit: Compiled, events: list[list[list[int]]], rows: int = 256
) -> np.ndarray:
    """The probability of each event, exactly, by passes over the circuit of the law.

    rows: of evidence in one pass.
    An event is a list of sets of literals (`Encoder.cubes`) that exclude each other.
    """
    mean = circuit.mean(law.log_odds[None, :])[0]  # raises Unsatisfiable if no row is legal
    cubes = [cube for event in events for cube in event]
    shares = np.ones(len(cubes))  # of the empty set: it always holds
    for k, cube in enumerate(cubes):
        if len(cube) == 1:
            shares[k] = mean[cube[0] - 1] if cube[0] > 0 else 1 - mean[-cube[0] - 1]
    joint_cubes = [k for k, cube in enumerate(cubes) if len(cube) > 1]
    for first in range(0, len(joint_cubes), rows):
        some = joint_cubes[first : first + rows]
        shares[some] = joint(law, circuit, [cubes[k] for k in some])
    owner = np.repeat(np.arange(len(events)), [len(event) for event in events])
    return np.clip(np.bincount(owner, shares, len(events)), 0.0, 1.0)


def joint(law: RowLaw, circuit: Compiled, cubes: list[list[int]]) -> np.ndarray:
    """P(all literals of a cube hold), for each cube; 0.0 if and only if no row has them.

    P(e | C) = P(C | e) P(e) / P(C), where P is the law of independent variables with the log-odds
    of the law. Evidence e is infinite log-odds.
    """
    theta = law.log_odds
    rows, log_e = np.tile(theta, (len(cubes) + 1, 1)), np.zeros(len(cubes) + 1)
    for k, cube in enumerate(cubes):
        at, sign = np.abs(cube) - 1, np.sign(cube)
        log_e[k] = -np.logaddexp(0.0, -sign * theta[at]).sum()  # -inf: excluded by the law
        rows[k, at] = sign * math.inf
    log_p, _ = circuit.circuit.solve(rows, means=False)  # the last row has no evidence
    return np.exp(log_p[:-1] + log_e[:-1] - log_p[-1])


def shares_of(
    space: Declaration, law: RowLaw, rules: list[Rule], budget: Budget
) -> tuple[np.ndarray, str, float]:
    """(P(rule) for each rule, guarantee, largest standard error)."""
    formula, literals = extended_law(space, law, rules)
    circuit_of(formula, budget)
    theta = law.padded(formula.n_vars, evidence=True)
    means = marginals_of(formula, theta, seconds=None if budget.counted else budget.left)
    mean = means.mean
    constant = {TRUE: 1.0, -TRUE: 0.0}
    shares = [
        constant[x] if abs(x) == TRUE else mean[x - 1] if x > 0 else 1 - mean[-x - 1]
        for x in literals
    ]
    return np.clip(np.array(shares, float), 0.0, 1.0), means.guarantee, means.error


#: Smaller shares are computed as ratios of two Z: as means they are rounded by about 1e-12, which
#: may be all of them.
_RARE = 1e-5


def log_shares_of(
    space: Declaration, law: RowLaw, rules: list[Rule], budget: Budget
) -> np.ndarray | None:
    """log P(rule) for each rule, however small; -inf if and only if no row obeys it.

    None if there is no exact law.
    """
    formula, literals = extended_law(space, law, rules)
    shares, guarantee, _ = shares_of(space, law, rules, budget)
    if guarantee != "exact":
        return None
    with np.errstate(divide="ignore"):
        logs = np.log(shares)
    rare = [k for k in np.flatnonzero(shares < _RARE) if abs(literals[k]) != TRUE]
    if not rare:
        return logs
    theta = law.padded(formula.n_vars, evidence=True)
    exact = exact_law(formula, evidence_of(formula, None, theta), budget)
    if not isinstance(exact, Law):  # the means were computed in another way
        return None
    log_z = exact.log_z(theta[None])[0]
    for k in rare:
        try:
            logs[k] = exact.given([literals[k]]).log_z(theta[None])[0] - log_z
        except Unsatisfiable:
            logs[k] = -math.inf
    return logs
