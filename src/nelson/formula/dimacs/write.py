"""Writing DIMACS files, in the form of the model counting competition (MCC 2021 and later)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from nelson.formula.dimacs.weights import to_weights
from nelson.io.streams import save

if TYPE_CHECKING:
    from nelson.formula.formula import Formula


def write(f: Formula, target: str | os.PathLike[str] | IO[Any] | None = None) -> str | None:
    """Write the MCC form to a path, "-" (stdout) or an open file; without a target, return it.

    Reading it back gives f again if f has no auxiliary variables; theta survives exactly (see
    `weights.to_weights`). XOR and linear constraints are written as the clauses that encode them,
    with `c p show` of the visible variables, so that projected counters and samplers agree with f.
    A path ending in .gz or .xz compresses.
    """
    text = "\n".join(_lines(f)) + "\n"
    if target is None:
        return text
    save(text, target)
    return None


def _lines(f: Formula) -> Iterator[str]:
    show = tuple(range(1, f.n_vars + 1)) if f.n_aux and f.projection is None else f.projection
    yield "c t " + ("p" * (show is not None)) + ("w" * (f.theta is not None)) + "mc"
    yield f"p cnf {f.n_total} {f.n_clauses}"
    if show is not None:
        yield " ".join(["c p show", *map(str, show), "0"])
    if f.theta is not None:
        for i in np.flatnonzero(f.theta).tolist():
            positive, negative = to_weights(float(f.theta[i]))
            yield f"c p weight {i + 1} {positive} 0"
            yield f"c p weight -{i + 1} {negative} 0"
    for clause in f:
        yield " ".join([*map(str, clause), "0"])
