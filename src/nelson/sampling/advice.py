"""What would help where samples are only heuristic: made here, from what `auto` decided.

Advice is a dict: a few words -> one sentence. It is `s.info["advice"]`; the words stand in the
printed form of `Samples`, and the command line prints the sentences.
"""

from __future__ import annotations

from collections.abc import Iterable

from nelson.chains.problem import beyond_resolution
from nelson.exact.circuit.build import missing
from nelson.exact.compile_guess import estimate
from nelson.sampling.auto import ComponentGroup, Decision
from nelson.sampling.methods import circuit

Advice = dict[str, str]

_CIRCUIT = circuit.SAMPLER.name


INSTALL = (
    'pip install "nelson-mrf[samplers]": D4 is missing; with it `auto` may compile a circuit, and '
    "the samples are then exact"
)
COMPILE = (
    "try to compile a circuit once, with more time: {1}"
    f'method="{_CIRCUIT}" with seconds={{0:g}}; all later samples are then exact'
)
MEMORY = (
    "try to compile a circuit once, with more memory: {0}`nelson compile {1} --memory 16`; all "
    "later samples are then exact"
)
SECONDS = "give it more time, such as seconds={0:g} (--seconds {0:g}): {1} ended for lack of it"
SMALLER = "take smaller weights: {}"
AUTO = 'leave method= and sweeps= out: "auto" looks for an exact method, and measures sweeps'
TEST = (
    "no other method is known to do better here; `nelson judge --samples`, or nelson.judge, tells "
    "whether these samples differ from P"
)


def for_decisions(
    decisions: Iterable[Decision], seconds: float | None, source: str | None = None
) -> Advice:
    """What would help these decisions of `auto`; nothing if they are better than heuristic.

    seconds: what the caller gave. source: the file of the formula, if it has one.
    """
    decided = list(decisions)
    weak = [group for d in decided for group in d.groups if group.guarantee == "heuristic"]
    if not weak:
        return {}
    advice: Advice = {}
    hopeful = [group for group in weak if _hopeful(group)]
    lacking = bool(hopeful) and missing("d4") is not None
    # Seconds to advise: ten times the caller's, a minute at least; ten minutes if there were none.
    longer = 600.0 if seconds is None else max(60.0, float(f"{10.0 * seconds:.2g}"))
    failed = [reason for group in hopeful for reason in _failures(group)]
    full = bool(failed) and all("out of memory" in reason for reason in failed)
    cut = [
        *["preprocessing"] * any(d.reduced is not None and not d.reduced.complete for d in decided),
        *["compiling"] * (bool(failed) and not lacking and not full),
        *["a diagnosis"] * any(not _complete(group) for group in weak),
    ]
    if lacking:
        advice["install nelson-mrf[samplers]"] = INSTALL
    elif failed:
        advice["nelson compile" if full or source else f'method="{_CIRCUIT}"'] = (
            MEMORY.format("" if source else "write the formula to a file, ", source or "FILE")
            if full
            else COMPILE.format(longer, f"`nelson compile {source}`, or " if source else "")
        )
    if cut:
        advice["more seconds"] = SECONDS.format(longer, " and ".join(cut))
    if beyond := next(filter(None, (beyond_resolution(group.theta) for group in weak)), ""):
        advice["smaller weights"] = SMALLER.format(beyond)
    return advice or {"nelson judge": TEST}


def for_method(guarantee: str) -> Advice:
    """What would help a method, or a number of sweeps, that the caller named."""
    return {'method="auto"': AUTO} if guarantee == "heuristic" else {}


def _hopeful(group: ComponentGroup) -> bool:
    """May a circuit be compiled at all?

    Larger formulas do not compile, and the guess on them would take longer than 0.1 s.
    """
    formula = group.problem.formula
    return len(formula.literals) <= 1 << 20 and not estimate(formula).hopeless


def _failures(group: ComponentGroup) -> list[str]:
    """Why components have no circuit."""
    return [r["not taken"][_CIRCUIT] for r in group.records if _CIRCUIT in r["not taken"]]


def _complete(group: ComponentGroup) -> bool:
    """Did no clock end the diagnosis?"""
    return all(record.get("complete", True) for record in group.records)
