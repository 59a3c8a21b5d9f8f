"""One circuit for all components that may have one, in one child process."""

from __future__ import annotations

import time
from collections.abc import Sequence

from nelson.exact.circuit import effort
from nelson.exact.circuit.build import missing
from nelson.exact.compiled import (
    Compiled,
    compiled,
    kept_on_disk,
    not_worth_a_try,
    was_cut,
    why_not,
)
from nelson.formula import Formula
from nelson.sampling.auto.decision import SAFETY, Part, joined
from nelson.sampling.diagnosis.verdict import Verdict

#: The compiler's share of a limit in seconds.
SHARE = 0.3
#: Its share of the time left when all other steps gave heuristic samples.
LATE_SHARE = 0.6
#: Its effort without such a limit.
EFFORT = effort.EFFORT


def installed() -> bool:
    return missing("d4") is None


def kept_verdict(formula: Formula) -> Verdict | None:
    """The verdict on the circuit that the user had compiled (`nelson compile`), if there is one."""
    if (circuit := kept_on_disk(formula)) is None:
        return None
    told = f"a d-DNNF of {circuit.circuit.decisions:,} decisions, kept by `nelson compile`"
    return Verdict(0, "exact", told)


def promising(parts: Sequence[Part]) -> list[Part]:
    """The parts worth a try; the others get the reason in `passed`."""
    worth_a_try = []
    for part in parts:
        if reason := not_worth_a_try(part.formula):
            part.passed["circuit"] = reason
        else:
            worth_a_try.append(part)
    return worth_a_try


def compile_parts(
    owner: Formula, parts: Sequence[Part], whole: Part | None, until: float | None
) -> tuple[list[Part], Compiled | None]:
    """The parts that compiled, and their circuit: of all parts, else of all but the largest.

    until: time.monotonic(); None: effort is counted.
    whole: the formula as given, if it consists of these parts alone. Its circuit is then compiled
    for the formula itself, where `method="circuit"` and others find it again.
    """
    for k, chosen in enumerate((list(parts), list(parts[1:]))):
        if not chosen:
            continue
        formula = (whole if whole and not k else joined(owner, chosen)).formula
        seconds = None if until is None else max(0.0, until - time.monotonic(), 0.5 * k)
        circuit = compiled(formula, seconds, effort=EFFORT)
        if circuit is not None:
            return chosen, circuit
        for part in chosen:
            part.passed.setdefault("circuit", why_not(formula))
            if until is None and was_cut(formula):
                part.passed.setdefault(SAFETY, why_not(formula))
    return [], None
