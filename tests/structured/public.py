"""Twenty formulas like those of public collections, and smaller ones of the same kinds."""

from __future__ import annotations

from nelson.formula.random_ksat import random_ksat
from tests.structured import graphs, kconfig, planning, puzzles, sequential, words
from tests.structured import random_constraints as constraints
from tests.structured.suite import Entry, entry


def public_suite() -> list[Entry]:
    """Feature models, bounded model checking, circuits, plans, colourings, timetables, a cipher,
    test generation. All have a solution. D4 compiles about half of them within seconds.
    """
    return [
        entry("Kconfig of 900", kconfig.kconfig, 900),
        entry("Kconfig of 2500, weighted", kconfig.kconfig, 2500),
        entry("Kconfig of 6000", kconfig.kconfig, 6000),
        entry("product line of 600, weighted", kconfig.product_line, 600, 60),
        entry("product line of 2000", kconfig.product_line, 2000, 500),
        entry("counter of 12 bits, 16 steps", sequential.counter_run, 12, 16, 1000),
        entry("shift register of 40 bits, 20 steps", sequential.shift_register, 40, 20, 8),
        entry("automaton of 30 latches, 10 steps", sequential.automaton, 30, 10, 150, 10, 15),
        entry("automaton of 60 latches, 12 steps", sequential.automaton, 60, 20, 300, 12, 30),
        entry("netlist of 400 gates", sequential.netlist, 60, 400, 40, 0.15),
        entry("netlist of 2400 gates, weighted", sequential.netlist, 200, 2400, 120, 0.15),
        entry("blocks world of 6, 9 steps", planning.blocks_world, 6, 9),
        entry("logistics of 5 packages, 8 steps", planning.logistics, 5, 3, 6, 8),
        entry("planar 4-colourings of 15 x 15", graphs.planar_colouring, 15, 15, 4),
        entry("3-colourings of a 14 x 14 grid, weighted", graphs.grid_colouring, 14, 14, 3),
        entry("timetable of 40 events", planning.timetable, 40, 10, 5, 100),
        entry("sudoku, 20 given", puzzles.sudoku, 3, 20),
        entry("cipher of 4 rounds", words.feistel, 16, 4, 3, 14),
        entry("cipher of 5 rounds", words.feistel, 16, 5, 2, 18),
        entry("path of 12 branches, 16 bits", words.path_condition, 6, 16, 12),
    ]


def small_suite() -> list[Entry]:
    """Smaller formulas of the kinds that do not compile above. These do, so their law is known."""
    return [
        entry("Kconfig of 250", kconfig.kconfig, 250),
        entry("Kconfig of 500, weighted", kconfig.kconfig, 500),
        entry("product line of 300", kconfig.product_line, 300, 75),
        entry("counter of 8 bits, 10 steps", sequential.counter_run, 8, 10, 100),
        entry("shift register of 16 bits, 10 steps", sequential.shift_register, 16, 10, 4),
        entry("automaton of 40 latches, 8 steps", sequential.automaton, 40, 14, 200, 8, 20),
        entry("blocks world of 5, 6 steps", planning.blocks_world, 5, 6),
        entry("logistics of 3 packages, 6 steps", planning.logistics, 3, 2, 5, 6),
        entry("planar 4-colourings of 6 x 6", graphs.planar_colouring, 6, 6, 4),
        entry("3-colourings of an 8 x 8 grid, weighted", graphs.grid_colouring, 8, 8, 3),
        entry("4-colourings of a 5 x 5 grid", graphs.grid_colouring, 5, 5, 4),
        entry("timetable of 8 events", planning.timetable, 8, 4, 3, 8),
        entry("sudoku, 26 given", puzzles.sudoku, 3, 26),
        entry("cipher of 4 rounds, small", words.feistel, 8, 4, 2, 8),
        entry("path of 5 branches, 8 bits", words.path_condition, 4, 8, 5),
        entry("4-colourings of 40 vertices", graphs.random_colouring, 40, 90, 4),
        entry("cardinality of 100, weighted", constraints.cardinality, 100, 12, 8),
        entry("knapsack of 16", constraints.knapsack, 16),
        entry("planted 3-SAT of 80", constraints.planted_ksat, 80, 3.0),
        entry("random 3-SAT of 60, weighted", random_ksat, 60, 90, 3),
        entry("random 3-SAT of 100, sparse", random_ksat, 100, 50, 3),
        entry("random 5-SAT of 60", random_ksat, 60, 60, 5),
        entry("random 5-SAT of 80, sparse, weighted", random_ksat, 80, 48, 5),
        entry("random 7-SAT of 40", random_ksat, 40, 40, 7),
        entry("4-colourings of 60 vertices, sparse", graphs.random_colouring, 60, 60, 4),
    ]
