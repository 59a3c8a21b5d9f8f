"""The problems of the experiments: our own random formulas, or files of a folder; solution lists.

    nelson bench uniform --formulas FOLDER        every .cnf file below FOLDER, by size and name

The authors' formulas (jiangnanhugo/nelson-cd, datasets/rand-k-sat) are such files, from CNFgen:
random 5-SAT without repeated clauses, 100 files for n = L = 500 and a script that makes the other
sizes. Our own formulas have exactly L = n clauses too: a formula in which a clause was drawn twice
is replaced by another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logit

from nelson.errors import FormulaError
from nelson.exact.listing import structures
from nelson.formula import Formula
from nelson_paper.experiments.base import Rows, Sizes
from nelson_paper.tasks.ksat.task import KSat, first_models

#: Formulas tried until one has exactly L clauses. At n = 10 one in 60 has fewer.
_MAX_TRIES = 100
#: Formulas with at most this many variables are enumerated to count their solutions.
_MAX_COUNTED = 20


@cache
def files(folder: str) -> dict[int, list[Path]]:
    """The .cnf files below a folder, by their number of variables, each list in order of name."""
    found: dict[int, list[Path]] = {}
    for path in sorted(Path(folder).rglob("*.cnf")):
        found.setdefault(_variables(path), []).append(path)
    if not found:
        raise FormulaError(f"no .cnf file below {folder}", expected="a folder of DIMACS files")
    return dict(sorted(found.items()))


def _variables(path: Path) -> int:
    """n of the line "p cnf n L"."""
    with open(path) as file:
        for line in file:
            words = line.split()
            if words[:2] == ["p", "cnf"] and len(words) == 4 and words[2].isdigit():
                return int(words[2])
            if words and words[0] != "c":
                break
    raise FormulaError(
        "no line 'p cnf VARIABLES CLAUSES'", expected="a DIMACS file", source=str(path)
    )


def sizes(folder: str) -> Sizes:
    """n -> number of files with n variables."""
    return {n: len(paths) for n, paths in files(folder).items()}


def each(counts: Sizes, full: bool, step: int = 1) -> Iterator[tuple[int, int]]:
    """(first seed, n) of cells with `step` formulas each. Ordered by seed, so that an interrupted
    run has all sizes of some formulas. Quick runs take the first cell of each size.
    """
    last = max(counts.values(), default=0) if full else 1
    for seed in range(0, last, step):
        yield from ((seed, n) for n, count in counts.items() if seed < count)


def ksat(key: Mapping[str, Any], seed: int | None = None) -> KSat:
    """The formula of a cell with the fields n, seed and perhaps `formulas`, a folder.

    seed: another formula than that of the key.
    """
    n, seed = int(key["n"]), int(key["seed"]) if seed is None else seed
    if "formulas" in key:
        formula = Formula.from_dimacs(files(str(key["formulas"]))[n][seed])
        return KSat(formula, seed=seed)
    return own(n, seed)


def own(n: int, seed: int, clauses: int | None = None) -> KSat:
    """Our random formula number `seed`: satisfiable 5-SAT with exactly n clauses, or `clauses`."""
    wanted = n if clauses is None else clauses
    for attempt in range(_MAX_TRIES):
        task = KSat.random(n, wanted, seed=seed if not attempt else seed + 1_000_003 * attempt)
        if task.formula.n_clauses == wanted:
            return KSat(task.formula, seed=seed)
    raise FormulaError(
        f"{wanted} different clauses of 5-SAT with n = {n}", expected="fewer clauses"
    )


def published_weights(n: int, seed: int) -> np.ndarray:
    """Log-odds of the authors' script for weighted sampling: P(x_i = 1) is uniform in (0, 1)."""
    return logit(np.random.default_rng([seed, 69]).uniform(1e-9, 1 - 1e-9, n))


def solution_list(formula: Formula, count: int, seed: int) -> np.ndarray:
    """(at most count, n) bool: the first solutions that Glucose4 enumerates, in random order.

    This is the published kind of data (errata 16), with the solver's default phases as there: at
    n = 500 a fifth of all values is 1. seed: of the order. A formula with fewer solutions gives
    all.
    """
    if formula.n_vars <= _MAX_COUNTED:
        every = structures(formula)
        count = count if every is None else min(count, len(every))
    rows = first_models(formula, count)
    return rows[np.random.default_rng([seed, 66]).permutation(count)]


def told(rows: Rows) -> str:
    """Whose formulas these are, for the note of a table."""
    folders = sorted({str(row["formulas"]) for row in rows if row.get("formulas")})
    if folders:
        return f"Formulas: the files in {', '.join(folders)}."
    return (
        "Formulas: our own random 5-SAT with exactly L = n clauses, not the authors' files "
        "(`--formulas FOLDER` takes those)."
    )
