"""What would help where samples are only heuristic: made here, from what `auto` decided.

Advice is a dict: a few words -> one sentence. It is `s.info["advice"]`; the words stand in the
printed form of `Samples`, and the command line prints the sentences.
"""

from __future__ import annotations

from collections.abc import Iterable

from nelson.exact.circuit.build import missing
from nelson.exact.compile_guess import estimate
from nelson.sampling.auto import Decision, Group, Limits
from nelson.sampling.diagnosis.diagnose import beyond_resolution

Advice = dict[str, str]

#: Seconds that are advised if the caller gave no limit.
_SECONDS = 600.0
#: With a limit: this many times the limit, but at least this many seconds.
_TIMES, _LEAST_SECONDS = 10.0, 60.0
#: Larger formulas do not compile; the guess on them would take longer than 0.1 s.
_MOST_LITERALS = 1 << 20

INSTALL = (
    'pip install "nelson-mrf[samplers]": D4 is missing; with it `auto` may compile a circuit, and '
    "the samples are then exact"
)
COMPILE = (
    "try to compile a circuit once, with more time: `nelson compile FILE`, or "
    'method="circuit" with seconds={0:g}; all later samples are then exact'
)
MEMORY = (
    "try to compile a circuit once, with more memory: `nelson compile FILE --memory 16`; all later "
    "samples are then exact"
)
SECONDS = "give it more time, such as seconds={0:g} (--seconds {0:g}): {1} ended for lack of it"
SMALLER = "take smaller weights: {}"
AUTO = 'leave method= and sweeps= out: "auto" looks for an exact method, and measures sweeps'
TEST = (
    "no other method is known to do better here; `nelson test --samples`, or nelson.judge, tells "
    "whether these samples differ from the law"
)


def for_decisions(decisions: Iterable[Decision], limits: Limits) -> Advice:
    """What would help these decisions of `auto`; nothing if they are better than heuristic."""
    decided = list(decisions)
    weak = [group for d in decided for group in d.groups if group.guarantee == "heuristic"]
    if not weak:
        return {}
    advice: Advice = {}
    hopeful = [group for group in weak if _hopeful(group)]
    lacking = bool(hopeful) and missing("d4") is not None
    longer = _SECONDS
    if limits.seconds is not None:
        longer = max(_LEAST_SECONDS, _TIMES * limits.seconds)
    failed = [told for group in hopeful for told in _failures(group)]
    full = bool(failed) and all("out of memory" in told for told in failed)
    cut = [
        *["preprocessing"] * any(d.reduced is not None and not d.reduced.complete for d in decided),
        *["compiling"] * (bool(failed) and not lacking and not full),
        *["a diagnosis"] * any(not _complete(group) for group in weak),
    ]
    if lacking:
        advice["install nelson-mrf[samplers]"] = INSTALL
    elif failed:
        advice["nelson compile"] = MEMORY if full else COMPILE.format(longer)
    if cut:
        advice["more seconds"] = SECONDS.format(longer, " and ".join(cut))
    if beyond := next(filter(None, (beyond_resolution(group.theta) for group in weak)), ""):
        advice["smaller weights"] = SMALLER.format(beyond)
    return advice or {"nelson test": TEST}


def for_method(guarantee: str) -> Advice:
    """What would help a method, or a number of sweeps, that the caller named."""
    return {'method="auto"': AUTO} if guarantee == "heuristic" else {}


def _hopeful(group: Group) -> bool:
    """May a circuit be compiled at all?"""
    formula = group.problem.formula
    return len(formula.literals) <= _MOST_LITERALS and not estimate(formula).hopeless


def _failures(group: Group) -> list[str]:
    """Why components have no circuit."""
    return [r["not taken"]["circuit"] for r in group.records if "circuit" in r["not taken"]]


def _complete(group: Group) -> bool:
    """Did no clock end the diagnosis?"""
    return all(record.get("complete", True) for record in group.records)
