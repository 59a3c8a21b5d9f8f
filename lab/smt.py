"""Bit vectors and SMT-LIB2 beside z3 and cvc5: random expressions value by value, random scripts.

`python -m lab smt` needs z3-solver and cvc5 (the extra `dev` has them). Each row must be 0.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import numpy as np

from lab.common import Row
from nelson.space.language.evaluate import evaluate
from nelson.space.smt.session import Session
from tests.space.random_vectors import RandomVectors
from tests.space.smt.random_scripts import RandomScripts, answers, cvc5_answers, z3_answers

EXPRESSIONS, VALUES, SCRIPTS = 1000, 16, 2000


def rows() -> Iterator[Row]:
    wrong, values = _expressions()
    yield Row(
        f"{EXPRESSIONS:,} expressions", wrong, 0, 0, "wrong", True, f"{values:,} values of z3"
    )
    yield _scripts()


def _expressions() -> tuple[int, int]:
    """(values that differ from those of z3, values compared)."""
    import z3

    wrong = compared = 0
    for seed in range(EXPRESSIONS):
        made = RandomVectors(10_000 + seed)
        term = made.vector(made.small(1, 8), 4)
        script = f"{made.declarations}(declare-const out (_ BitVec {term.node.width}))"
        (equation,) = z3.parse_smt2_string(f"{script}(assert (= out {term.smt}))")
        formula = equation.arg(1) if str(equation.arg(0)) == "out" else equation.arg(0)
        grid = made.grid()
        ours = np.broadcast_to(evaluate(term.node, grid), len(grid["v0"]))
        for k in made.rng.permutation(len(ours))[:VALUES].tolist():
            row = [
                (z3.BitVec(name, width), z3.BitVecVal(int(grid[name][k]), width))
                for name, width in made.widths.items()
            ]
            wrong += z3.simplify(z3.substitute(formula, *row)).as_long() != ours[k]
            compared += 1
    return wrong, compared


def _scripts() -> Row:
    seconds: Counter[str] = Counter()
    found: Counter[str] = Counter()
    wrong = 0
    solvers = {"nelson": _answers, "z3": z3_answers, "cvc5": cvc5_answers}
    for seed in range(SCRIPTS):
        script = RandomScripts(seed).script()
        said = []
        for name, solve in solvers.items():
            begun = time.process_time()
            said.append(solve(script))
            seconds[name] += time.process_time() - begun
        found.update(said[0])
        wrong += not said[0] == said[1] == said[2]
    times = ", ".join(f"{name} {used:.1f} s" for name, used in seconds.items())
    answered = ", ".join(f"{n:,} {status}" for status, n in sorted(found.items()))
    return Row(f"{SCRIPTS:,} scripts", wrong, 0, 0, "wrong", True, f"{answered}; CPU: {times}")


def _answers(script: str) -> list[str]:
    session = Session()
    found = answers(session.reply(script) + session.finish())
    session.close()
    return found
