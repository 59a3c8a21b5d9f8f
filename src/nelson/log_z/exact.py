"""log P(C) of independent parts, exactly: by enumeration, by ganak, or by a circuit of D4.

Each function takes the parts and returns (log P or None for each part, how it ended in words). A
counter or a compiler may need any amount of time and memory. It therefore runs in a child process
under limits and is killed when its time is up; the values of finished parts are kept.

counted: the caller set no limit in seconds. D4 then ends by counted effort, and ganak, which counts
nothing, after a number of seconds of CPU time: other programs on the machine do not matter.
"""

from __future__ import annotations

import importlib.util
import time

import numpy as np

from nelson.errors import Unsatisfiable
from nelson.exact.circuit import build
from nelson.exact.circuit.effort import SECONDS_PER_EFFORT, Limits, effort_of
from nelson.exact.count import GANAK, GANAK_SCRIPT
from nelson.kernels.theory import local_lemma
from nelson.log_z.parts import Part
from nelson.process.child import MEMORY, run_child

#: Variables of the largest part that is enumerated.
ENUMERATE = 22
#: States times clauses that are visited for all parts together.
ENUMERATE_WORK = 2_000_000_000
#: ganak is not asked beyond these log-odds: a double holds no weight far below e^-700.
MAX_THETA = 600.0

Values = list[float | None]


def missing(method: str) -> str | None:
    """None, or what has to be installed first."""
    if method == "circuit":
        return build.missing("d4")
    if method == "count" and importlib.util.find_spec(GANAK) is None:
        return 'ganak is not installed: pip install "nelson-mrf[samplers]"'
    return None


def by_enumeration(parts: list[Part]) -> tuple[Values, str]:
    """Each part by a pass over its 2^n states, as long as that is little work."""
    values: Values = []
    work, tables, out = 0, np.empty((2, 1 << (ENUMERATE + 1) // 2)), np.empty(2)
    for part in parts:
        # The size is checked first: 2^n of a large part is beyond the range of a float.
        if part.n > ENUMERATE or work + (part.n_clauses << part.n) > ENUMERATE_WORK:
            values.append(None)
            continue
        work += part.n_clauses << part.n
        mask, negative = np.empty((2, part.n_clauses), np.int64)
        every, place = np.arange(part.n_clauses), np.arange(part.n)
        local_lemma.component_masks(part.literals, part.offsets, every, place, mask, negative)
        local_lemma.enumerate_violations(mask, negative, part.n_clauses, part.log_p, tables, out)
        if out[0] == -np.inf:
            raise Unsatisfiable("enumeration found no solution")
        values.append(float(out[0]))
    left = [part.n for part, value in zip(parts, values, strict=True) if value is None]
    return values, f"a component of {left[-1]} variables is too large" if left else "done"


def by_counting(
    parts: list[Part], seconds: float, memory: int = MEMORY, counted: bool = False
) -> tuple[Values, str]:
    """ganak, a weighted model counter, in a child process."""
    asked = [k for k, part in enumerate(parts) if np.abs(part.theta).max() <= MAX_THETA]
    values: Values = [None] * len(parts)
    ended = "done" if len(asked) == len(parts) else f"|theta| above {MAX_THETA:g}"
    if not asked:
        return values, ended
    started = time.monotonic()
    tasks = [
        {"n": part.n, "clauses": part.clauses(), "weights": np.exp(part.log_p).tolist()}
        for part in (parts[k] for k in asked)
    ]
    answers, died = run_child(GANAK_SCRIPT, tasks, seconds, memory, cpu=counted)
    for k, answer in zip(asked, answers, strict=False):
        if answer.get("unsatisfiable"):
            raise Unsatisfiable("a CDCL solver proved that the formula has no solution")
        if "error" in answer:
            ended = answer["error"]
        else:
            values[k] = answer["log"]
    if len(answers) < len(asked):
        ended = _ended_at(parts[asked[len(answers)]], died, time.monotonic() - started)
    return values, ended


def by_circuits(
    parts: list[Part], seconds: float, memory: int = MEMORY, counted: bool = False
) -> tuple[Values, str]:
    """The value of the d-DNNF that D4 compiles in a child process."""
    values: Values = [None] * len(parts)
    ended, started = "done", time.monotonic()
    clauses = [(part.literals, part.offsets) for part in parts]
    effort = None
    if counted:
        limits = Limits(seconds / SECONDS_PER_EFFORT, None, memory)
        effort, seconds = effort_of(clauses, limits.effort), limits.safety
    circuits, died = build.compile_parts(clauses, "d4", seconds, memory, effort=effort, cpu=counted)
    for k, circuit in enumerate(circuits):
        if isinstance(circuit, str):
            ended = circuit
            continue
        value = circuit.log_value(parts[k].log_p)
        if value == -np.inf:
            raise Unsatisfiable("D4 proved that the formula has no solution")
        values[k] = value
    if len(circuits) < len(parts):
        ended = _ended_at(parts[len(circuits)], died, time.monotonic() - started)
    return values, ended


def _ended_at(part: Part, how: str, seconds: float) -> str:
    size = f"{part.n} variables, {part.n_clauses} clauses"
    return f"{how} after {seconds:.3g} s at a part of {size}"
