"""DIMACS files as spaces: every variable is a flag, every clause a rule.

    c 1 Engine                  names variable 1
    c 2 Winter tyres            names variable 2
    p cnf 3 2                   variable 3 has no name: x3
    -2 1 0

This is how tools for feature models write CNF files.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from nelson.errors import FormulaError
from nelson.formula.dimacs.read import read
from nelson.formula.names import names_in_comments
from nelson.io.streams import decompressed, load, text_lines
from nelson.space.declaration import Requirement
from nelson.space.language.expressions import Rule
from nelson.space.language.fields import Flag
from nelson.space.language.functions import any_of, parity

if TYPE_CHECKING:
    from nelson.space.space import Space


#: Variables that a file may declare although no clause has room for them.
UNUSED = 100_000


def is_dimacs(path: str | os.PathLike[str]) -> bool:
    """Does the first line of a file that is no comment begin with `p`, as in `p cnf 3 2`?"""
    with text_lines(os.fspath(path)) as lines:
        for line in lines:
            if line.strip() and not line.startswith("c"):
                return line.split()[0] == "p"
    return False


def fill(
    space: Space,
    source: str | os.PathLike[str] | IO[Any] | bytes,
    *,
    names: bool = True,
    dialect: str = "auto",
) -> None:
    """Add the variables and clauses of a file. names=False ignores names in comments."""
    known, data = load(source)
    data = decompressed(data, known)
    file = read(data, dialect=dialect, name=known)
    limit = UNUSED + len(data) // 2
    if file.n_vars > limit:
        raise FormulaError(
            f"a header with {file.n_vars} variables",
            expected=f"at most {limit} for a file of this size, each of which becomes a field",
            source=known,
        )
    called = names_in_comments(data, known, file.n_vars) if names else {}
    for variable in range(1, file.n_vars + 1):
        space.flag(called.get(variable, f"x{variable}"))
    literals, ends = file.literals.tolist(), file.offsets.tolist()
    require_clauses(space, (literals[a:b] for a, b in itertools.pairwise(ends)))
    flags = list(space.fields.values())
    for xor in file.xors:
        odd = parity(*(flags[v - 1] for v in xor.variables)) if xor.variables else False
        space.require(odd == xor.parity)
    if file.theta is not None:
        space.weights = {
            flag.name: _weight(t)
            for flag, t in zip(flags, file.theta.tolist(), strict=True)
            if t != 0
        }


def require_clauses(space: Space, clauses: Iterable[Iterable[int]]) -> None:
    """Require clauses over flags: 3 stands for the third field, -3 for its negation.

    Each clause becomes a rule, as by `Space.require`, but some 60,000 in a second.
    """
    fields = list(space.fields.values())
    sides: dict[int, Rule] = {}
    variables: dict[int, int] = {}
    for k, field in enumerate(fields, 1):
        if not isinstance(field, Flag):
            raise FormulaError(f"clauses over the field {field.name!r}", expected="flags only")
        sides[k], sides[-k] = field, ~field
        [variable] = space.encoding.of_field[field.name]
        variables[k], variables[-k] = variable, -variable
    stated: list[tuple[Rule, list[int]]] = []
    for clause in clauses:
        literals = list(dict.fromkeys(clause))
        if any(-x in literals for x in literals):
            continue
        try:
            rule = any_of(tuple(sides[x] for x in literals))
        except KeyError as error:
            raise FormulaError(
                f"the literal {error.args[0]} in a clause", expected=f"1 to {len(fields)}, or -"
            ) from None
        stated.append((rule, [variables[x] for x in literals]))
    space.encoding.require_clauses(stated)
    space.rules += [Requirement(rule) for rule, _ in stated]


def _weight(log_odds: float) -> dict[bool, float]:
    """Factors at most 1 whose ratio is exp(log_odds): nothing overflows, only +-inf gives 0."""
    factor = math.exp(-abs(log_odds))
    if math.isfinite(log_odds):
        factor = max(factor, float(np.finfo(float).smallest_subnormal))
    return {log_odds < 0: factor}
