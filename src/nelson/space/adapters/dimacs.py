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
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from nelson.errors import FormulaError
from nelson.formula.dimacs.read import read
from nelson.formula.names import names_in_comments
from nelson.io.streams import decompressed, load
from nelson.space.language.functions import parity

if TYPE_CHECKING:
    from nelson.space.space import Space


#: Variables that a file may declare although no clause has room for them.
UNUSED = 100_000


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
    space.require_clauses(literals[a:b] for a, b in itertools.pairwise(ends))
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


def _weight(log_odds: float) -> dict[bool, float]:
    """Factors at most 1 whose ratio is exp(log_odds): nothing overflows, only +-inf gives 0."""
    factor = math.exp(-abs(log_odds))
    if math.isfinite(log_odds):
        factor = max(factor, float(np.finfo(float).smallest_subnormal))
    return {log_odds < 0: factor}
