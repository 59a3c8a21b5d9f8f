"""Thirty structured formulas of the kinds and sizes that users bring."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from nelson.formula import Formula
from nelson.formula.random_ksat import random_ksat
from tests.structured import circuits, features, graphs, puzzles, random_constraints

Problem = tuple[Formula, np.ndarray | None]


class Entry(NamedTuple):
    name: str
    make: Callable[[], Problem]  # builds (formula, theta); theta None: uniform


def _problem(
    make: Callable[..., Formula], *args: int | float, weighted: bool, seed: int
) -> Problem:
    formula = make(*args, seed=seed)
    if not weighted:
        return formula, None
    return formula, np.random.default_rng([seed, 99]).normal(size=formula.n_vars)


def entry(name: str, make: Callable[..., Formula], *args: float) -> Entry:
    """A formula of seed 1; one whose name ends with ", weighted" has theta ~ N(0, 1)."""
    weighted = name.endswith(", weighted")
    return Entry(name, partial(_problem, make, *args, weighted=weighted, seed=1))


def suite() -> list[Entry]:
    """A name and a maker for each, deterministic: `for name, make in suite(): f, theta = make()`.

    Three have no solution (two pigeonholes, the factors of a prime), one has a million clauses.
    """
    return [
        entry("feature model of 100", features.feature_model, 100, 15),
        entry("feature model of 500, weighted", features.feature_model, 500, 100),
        entry("feature model of 3000", features.feature_model, 3000, 600),
        entry("feature model of 20000, weighted", features.feature_model, 20000, 2000),
        entry("adder of 24 bits, total given", circuits.adder, 24, 20_000_000),
        entry("multiplier of 6 bits", circuits.multiplier, 6),
        entry("multiplier of 10 bits", circuits.multiplier, 10),
        entry("factors of 3599, 8 bits", circuits.multiplier, 8, 3599),
        entry("factors of 4324320, 12 bits", circuits.multiplier, 12, 4_324_320),
        entry("factors of the prime 3607, 8 bits", circuits.multiplier, 8, 3607),
        entry("random circuit of 300 gates", circuits.random_circuit, 30, 300, 6),
        entry("random circuit of 3000 gates", circuits.random_circuit, 200, 3000, 20),
        entry("3-colourings of 60 vertices, weighted", graphs.random_colouring, 60, 110, 3),
        entry("4-colourings of 200 vertices", graphs.random_colouring, 200, 500, 4),
        entry("3-colourings of 150 vertices, dense", graphs.random_colouring, 150, 345, 3),
        entry("cardinality of 60", random_constraints.cardinality, 60, 10, 8),
        entry("cardinality of 300, weighted", random_constraints.cardinality, 300, 30, 12),
        entry("knapsack of 40", random_constraints.knapsack, 40),
        entry("XOR chain of 200", random_constraints.xor_chain, 200, 3),
        entry("XOR chain of 500, width 7, weighted", random_constraints.xor_chain, 500, 7),
        entry("XOR system of 100", random_constraints.xor_system, 100, 60, 4),
        entry("planted 3-SAT of 150", random_constraints.planted_ksat, 150, 4.2),
        entry("planted 3-SAT of 600", random_constraints.planted_ksat, 600, 4.2),
        entry("grid path, 6 x 6 in 14", puzzles.grid_path, 6, 6, 14, 6),
        entry("grid path, 8 x 8 in 20, weighted", puzzles.grid_path, 8, 8, 20, 10),
        entry("latin square of 6, 8 given", puzzles.latin_square, 6, 8),
        entry("latin square of 9, 30 given", puzzles.latin_square, 9, 30),
        entry("pigeonhole, 9 in 8", puzzles.pigeonhole, 9, 8),
        entry("pigeonhole, 13 in 12", puzzles.pigeonhole, 13, 12),
        entry("random 4-SAT, a million clauses", random_ksat, 500_000, 1_000_000, 4),
    ]
