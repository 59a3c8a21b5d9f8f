"""log P(C) of a part, exactly: by enumeration here, by ganak or D4 in a child process.

A counter or a compiler may need any amount of time and memory. It therefore runs in a child under
limits (`nelson.process.child`) and is killed when its time is up; finished parts are kept.
"""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

import numpy as np

from nelson.errors import Unsatisfiable
from nelson.exact.reduce import Part
from nelson.process.child import MEMORY, Answers, run_child

#: Largest part that is enumerated, in variables, and state-clause pairs for all parts together.
ENUMERATE = 22
ENUMERATE_WORK = 2_000_000_000
#: Address space that a method reserves and does not use: D4 maps 1.8 GiB at once.
RESERVED = {"count": 0, "circuit": 2 << 30}
#: A double holds no weight far below e^-700: beyond this log-odds ganak is not asked.
MAX_THETA = 600.0
#: The package that each method needs, and what is installed to have it.
NEEDS = {"count": ("pyganak", "ganak"), "circuit": ("py_d4", "D4")}

Values = list[float | None]


def enumerate_parts(parts: list[Part]) -> tuple[Values, str]:
    """Each part by a pass over its 2^n states, as long as that is little work. -> (values, how)."""
    from nelson.kernels.theory import local_lemma

    values: Values = []
    work, tables, out = 0.0, np.empty((2, 1 << (ENUMERATE + 1) // 2)), np.empty(2)
    for part in parts:
        cost = 2.0**part.n * part.n_clauses
        if part.n > ENUMERATE or work + cost > ENUMERATE_WORK:
            values.append(None)
            continue
        work += cost
        mask, negative = np.empty((2, part.n_clauses), np.int64)
        every, place = np.arange(part.n_clauses), np.arange(part.n)
        local_lemma.component_masks(part.literals, part.offsets, every, place, mask, negative)
        local_lemma.enumerate_violations(mask, negative, part.n_clauses, part.log_p, tables, out)
        if out[0] == -np.inf:
            raise Unsatisfiable("enumeration found no solution")
        values.append(float(out[0]))
    left = [part.n for part, value in zip(parts, values, strict=True) if value is None]
    return values, f"a component of {left[-1]} variables is too large" if left else "done"


def missing(method: str) -> str | None:
    """None, or what has to be installed first."""
    module, name = NEEDS[method]
    if importlib.util.find_spec(module) is None:
        return f'{name} is not installed: pip install "nelson[samplers]"'
    return None


def in_child(
    method: str, parts: list[Part], seconds: float, memory: int = MEMORY
) -> tuple[Values, str]:
    """ "count" or "circuit" for each part in turn. -> (log P or None for each, how it ended)."""
    if method == "count":
        asked = [k for k, part in enumerate(parts) if np.abs(part.theta).max() <= MAX_THETA]
    else:
        asked = list(range(len(parts)))
    values: Values = [None] * len(parts)
    ended = "done" if len(asked) == len(parts) else f"|theta| above {MAX_THETA:g}"
    if not asked:
        return values, ended
    started = time.monotonic()
    answers, died = ask_child(method, [parts[k] for k in asked], seconds, memory)
    for k, answer in zip(asked, answers, strict=False):
        if answer.get("unsatisfiable"):
            raise Unsatisfiable("a CDCL solver proved that the formula has no solution")
        if "error" in answer:
            ended = answer["error"]
        elif "log" in answer:
            values[k] = answer["log"]
        else:
            values[k] = _circuit_value(answer["nnf"], parts[k])
    if len(answers) < len(asked):
        left = parts[asked[len(answers)]]
        took = time.monotonic() - started
        ended = (
            f"{died} after {took:.3g} s at a part of {left.n} variables, {left.n_clauses} clauses"
        )
    return values, ended


def _circuit_value(text: str, part: Part) -> float:
    from nelson.exact.circuit.nnf import Circuit

    value = Circuit.parse(text).log_value(part.log_p)
    if value == -np.inf:
        raise Unsatisfiable("D4 proved that the formula has no solution")
    return value


def ask_child(
    method: str, parts: list[Part], seconds: float, memory: int = MEMORY
) -> tuple[Answers, str]:
    """What the child said before it ended, and in words how it ended if that was early."""
    tasks = [
        {
            "method": method,
            "n": part.n,
            "clauses": part.clauses(),
            "weights": np.exp(part.log_p).tolist(),
        }
        for part in parts
    ]
    script = Path(__file__).with_name("count_child.py")
    return run_child(script, tasks, seconds, memory + RESERVED[method])
