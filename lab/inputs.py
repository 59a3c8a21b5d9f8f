"""Samplers that take a *sampling set*, applied to the inputs of a circuit only.

The inputs determine all other wires, so hashing or mutating those is wasted work. The papers of
UniGen and QuickSampler use such sets. `weightgen` and `xor` can too: for them the other wires are
declared auxiliary variables. Only uniform sampling, because weights of other wires would be
ignored.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

import nelson
from nelson import Formula
from nelson.chains.problem import prepare
from nelson.process.child import run_child
from nelson.sampling import foreign
from nelson.sampling.methods import unigen
from nelson_paper.samplers import quicksampler

#: Registered samplers that take a sampling set.
SAMPLERS = ("unigen", "weightgen", "xor", "quicksampler")


class Call(NamedTuple):
    """The result of one call of a sampler."""

    count: int  # samples
    rows: Callable[[], np.ndarray]  # (count, n) bool
    seconds: float
    guarantee: str
    validity: float = 1.0
    reason: str = ""  # why there are fewer samples than requested


Draw = Callable[[int], Call]


def on_inputs(formula: Formula, name: str, inputs: int, rows: np.ndarray, seconds: float) -> Draw:
    """A function that draws variables 1..inputs with the sampler `name`.

    The other variables are looked up in `rows` (k, n), which are all solutions of the formula.
    """
    place = np.arange(inputs)
    code = rows[:, :inputs] @ (1 << place)
    order = np.argsort(code)

    def completed(y: np.ndarray) -> np.ndarray:
        wanted = y.astype(np.int64) @ (1 << place)
        at = order[np.searchsorted(code[order], wanted)]
        if (code[at] != wanted).any():
            raise AssertionError(f"{name} returned inputs that belong to no solution")
        return rows[at]

    def hashed(n: int) -> Call:
        started = time.perf_counter()
        s = nelson.sample(hidden, None, n, method=name, threads=1, seed=n, seconds=seconds)
        wall = time.perf_counter() - started
        rows = partial(completed, s.to_numpy())
        return Call(len(s), rows, wall, s.guarantee, 1.0, s.info.get("reason", ""))

    def native(n: int) -> Call:
        task = {"n": formula.n_total, "clauses": clauses, "known": [], "count": n, "seed": n}
        if name == "unigen":
            script, task["set"] = unigen.SCRIPT, list(range(1, inputs + 1))
        else:
            script, task["set"], task["seconds"] = quicksampler.SCRIPT, inputs, seconds
        started = time.perf_counter()
        answers, ended = run_child(script, [task], seconds)
        wall = time.perf_counter() - started
        data = np.frombuffer(b"".join(answer.get("rows", b"") for answer in answers), np.uint8)
        if name == "unigen":
            y = data.reshape(-1, inputs)
        else:
            packed = data.reshape(-1, -(-inputs // 8))
            y = np.unpackbits(packed, axis=1, count=inputs, bitorder="little")
        guarantee = "approximate" if name == "unigen" else "heuristic"
        return Call(len(y[:n]), partial(completed, y[:n]), wall, guarantee, 1.0, ended)

    clauses = foreign.flat_clauses(prepare(formula))
    hidden = Formula.from_arrays(
        formula.literals, formula.offsets, n_vars=inputs, n_aux=formula.n_vars - inputs
    )
    return hashed if name in ("weightgen", "xor") else native
