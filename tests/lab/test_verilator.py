"""What the benchmark of Verilator says of a law, on rows whose law is known."""

from __future__ import annotations

import math
import random

from lab.verilator.run import Measured, tables
from lab.verilator.tasks import cases
from nelson_paper.experiments.report import markdown

CASE = next(case for case in cases() if case.name == "implication")


def of(rows) -> Measured:
    return Measured("protocol 1", CASE, "nelson", rows, 5000.0, 4000.0, "obeyed")


def test_a_uniform_law_is_accepted_and_one_rare_row_in_excess_is_not():
    """z is below 5 for a right law; 1,100 rows are too few for a cell of one row."""
    chosen = random.Random(1)
    legal = [{"s": 0, "d": d} for d in range(256)] + [{"s": 1, "d": 0}]
    right = [chosen.choice(legal) for _ in range(1100)]
    wrong = [legal[-1] if chosen.random() < 0.1 else row for row in right]
    assert abs(of(right).law[0]) < 5
    assert of(wrong).law[0] > 50
    assert of([*right, {"s": 1, "d": 7}]).law[0] == math.inf


def test_a_cell_says_what_is_wrong():
    single = [{"s": 0, "d": 7}] * 900
    assert "one single row" in of(single).cell
    silent = Measured("protocol 2", CASE, "z3", [], 0.0, 0.0)
    assert silent.cell.startswith("0 calls in ")
    found = [markdown(table) for table in tables([of(single), silent])]
    assert "one single row" in found[0] and "Protocol 2" in found[1]
