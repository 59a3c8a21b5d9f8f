"""One circuit for all components that may have one, in one child process."""

from __future__ import annotations

import time
from collections.abc import Sequence

from nelson.exact.circuit.build import missing
from nelson.exact.compile_guess import estimate
from nelson.exact.compiled import Compiled, compiled, why_not
from nelson.formula import Formula
from nelson.sampling.auto.groups import Part, joined

#: Seconds for the compiler where the caller set no limit, and its share of a limit.
SECONDS, SHARE = 3.0, 0.3


def installed() -> bool:
    return missing("d4") is None


def promising(parts: Sequence[Part]) -> list[Part]:
    """Those worth a try; the others are told why not."""
    lacking, found = missing("d4"), []
    for part in parts:
        if lacking:
            part.passed["circuit"] = lacking
        elif (guess := estimate(part.formula)).hopeless:
            part.passed["circuit"] = guess.why
        else:
            found.append(part)
    return found


def circuit(
    owner: Formula, parts: Sequence[Part], whole: Part | None, until: float | None
) -> tuple[list[Part], Compiled | None]:
    """The parts that compiled, and their circuit: of all of them, else of all but the largest.

    whole: the formula as given, if it is no more than these parts: then its own circuit is the one
    that everybody else uses too.
    """
    for k, chosen in enumerate((list(parts), list(parts[1:]))):
        if not chosen:
            continue
        formula = (whole if whole and not k else joined(owner, chosen)).formula
        seconds = 0.0 if until is None else max(0.0, until - time.monotonic())
        found = compiled(formula, max(seconds, 0.5 * k))
        if found is not None:
            return chosen, found
        for part in chosen:
            part.passed.setdefault("circuit", why_not(formula))
    return [], None
