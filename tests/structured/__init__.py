"""Generators of structured formulas: the kinds that users bring, deterministic in their seed.

    from tests.structured import feature_model, multiplier, suite
    formula = multiplier(8, product=3599)        # its solutions are the pairs of factors

Each docstring says which variable means what and, where it is known, how many solutions there are.
"""

from nelson.formula.random_ksat import random_ksat
from tests.structured.circuits import Circuit, adder, multiplier, random_circuit
from tests.structured.features import FeatureTree, feature_model, feature_tree
from tests.structured.graphs import colouring, cycle, grid, random_colouring, random_graph
from tests.structured.public import public_suite, small_suite
from tests.structured.puzzles import grid_obstacles, grid_path, latin_square, pigeonhole
from tests.structured.random_constraints import (
    cardinality,
    knapsack,
    planted_ksat,
    xor_chain,
    xor_system,
)
from tests.structured.suite import Entry, suite

__all__ = [
    "Circuit",
    "Entry",
    "FeatureTree",
    "adder",
    "cardinality",
    "colouring",
    "cycle",
    "feature_model",
    "feature_tree",
    "grid",
    "grid_obstacles",
    "grid_path",
    "knapsack",
    "latin_square",
    "multiplier",
    "pigeonhole",
    "planted_ksat",
    "public_suite",
    "random_circuit",
    "random_colouring",
    "random_graph",
    "random_ksat",
    "small_suite",
    "suite",
    "xor_chain",
    "xor_system",
]
