"""The samplers of the tables: ours, and every sampler that the paper compares with.

    draw(entry, formula, theta, m, seed, seconds)     m samples, invalid ones included

Ours are `auto` (the default of `nelson.sample`), `lovasz` (the paper's Algorithm 1, no sweeps),
`prs` and `circuit`. Peers run as the baselines of the paper do: samplers that only draw
uniformly ignore theta, and invalid samples are not dropped.

Of the peers, `cmsgen` (pycmsgen) and `unigen` (pyunigen) are their authors' programs. The others
are rewrites: `kus` and `waps` compile with D4 and draw with our kernel; `gibbs`, `quicksampler`,
`weightgen` and `xor` are implemented in this package from their papers, and docs/samplers.md lists
the differences. `originals.py` runs their authors' program instead where it is on the path.
`gibbs-published` repeats the Gibbs sampler of the paper's authors. `cmsgen` uses theta here;
`cmsgen-published` ignores it, as the authors' scripts do, so the paper's figures are of that kind.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.kernels.core.bits import pack
from nelson.sampling.method_choice import verdict_for
from nelson.sampling.registry import get as registered
from nelson.sampling.registry import missing_modules
from nelson.sampling.sample_stream import sample
from nelson.sampling.samples import Samples
from nelson_paper.experiments import originals
from nelson_paper.experiments.base import LIMITED, TIMED_OUT, TOO_LARGE, Table
from nelson_paper.experiments.published_gibbs import published_gibbs


@dataclass(frozen=True)
class Entry:
    """A sampler with its options: one row of the tables."""

    name: str  # in the tables
    method: str  # in `nelson.sample`
    ours: bool = False
    sweeps: int | None = None  # heat-bath sweeps; None: the default of the method
    piloted: bool = False  # a pilot run decides the number of sweeps
    weighted: bool = True  # can it draw with theta other than 0?
    child: bool = False  # does each draw start a process?
    rewrite: bool = False  # of a program of others, in this package
    twin: str = ""  # an entry that differs only in that it uses theta: equal if theta is 0
    #: Draws instead of `nelson.sample`: (formula, theta, m, seed, seconds) -> (at most m, n) bool.
    own: Callable[[Formula, np.ndarray | None, int, int, float], np.ndarray] | None = None


LOVASZ = Entry("lovasz", "lovasz", ours=True, sweeps=0)
OURS = (
    Entry("auto", "auto", ours=True),
    LOVASZ,
    Entry("prs", "prs", ours=True),
    Entry("circuit", "circuit", ours=True),
)
PEERS = (
    Entry("gibbs", "gibbs", rewrite=True),
    Entry("gibbs-published", "gibbs", rewrite=True, own=published_gibbs),
    Entry("cmsgen", "cmsgen", child=True),
    Entry("cmsgen-published", "cmsgen", weighted=False, child=True, twin="cmsgen"),
    Entry("quicksampler", "quicksampler", weighted=False, child=True, rewrite=True),
    Entry("unigen", "unigen", weighted=False, child=True),
    Entry("kus", "kus", weighted=False, rewrite=True),
    Entry("waps", "waps", rewrite=True),
    Entry("weightgen", "weightgen", child=True, rewrite=True),
    Entry("xor", "xor", child=True, rewrite=True),
)
#: In a table only if its authors' program is on the path: we have no sampler of that name.
SPUR = Entry("spur", "spur", weighted=False, child=True)
#: `lovasz` followed by as many sweeps as a pilot run finds necessary.
SWEPT = Entry("lovasz + sweeps", "lovasz", ours=True, piloted=True)
#: Samplers of this package that no table of the paper has.
OTHERS = (
    Entry("moser-tardos", "moser-tardos", sweeps=0),
    Entry("cftp", "cftp", ours=True),
    Entry("rejection", "rejection"),
    Entry("enumerate", "enumerate"),
)
#: Samplers of the tables on learning.
LEARNERS = (*OURS, SWEPT, *PEERS)
#: The samplers whose learning the paper prints: its own, Gibbs and CMSGen as its authors call them.
PRINTED = ("lovasz", "gibbs-published", "cmsgen-published")
#: What tables and plots call a sampler, where that is not its name.
LABELS = {
    "lovasz": "lovasz (the paper's NELSON)",
    "gibbs-published": "gibbs, as published",
    "cmsgen": "cmsgen, with weights",
    "cmsgen-published": "cmsgen, as published: no weights",
}
#: What readers should know about a sampler, said once on a page.
ABOUT = {
    "auto": "the strongest guarantee that the formula allows (docs/auto.md)",
    "lovasz": "Algorithm 1 of the paper, without sweeps",
    "lovasz + sweeps": "`lovasz`, and as many heat-bath sweeps as a pilot run asks for",
    "spur": "uniform samples from the search tree of a model counter; its authors' program",
    "gibbs": "100 sweeps; violated clauses are penalised",
    "gibbs-published": (
        "the authors' Gibbs sampler: hard clauses, 50 sweeps from fair coins, and a variable both "
        "of whose values have weight 0 stays as it is. Their script for uniform sampling gives "
        "x = 1 the weight 0, so that many chains stay invalid; the paper's validities of Gibbs are "
        "of that kind"
    ),
    "cmsgen": "CMSGen, called with the weights of the model",
    "cmsgen-published": (
        "CMSGen as the authors call it, without weights. The paper's figures are of that kind"
    ),
    "quicksampler": (
        "ignores weights. It prints no column for a variable that is in no clause, and the "
        "authors' script numbers the printed columns 1, 2, 3, ...: behind the first such variable "
        "every column belongs to another variable. That is why the paper has 7.42% and 0% valid "
        "samples at n = 500 and 1000"
    ),
    "kus": "ignores weights",
    "unigen": "ignores weights",
    "moser-tardos": "resamples the first violated clause only; not in the paper's comparison",
    "rejection": "not in the paper's comparison",
    "enumerate": "not in the paper's comparison; for formulas with few solutions",
    "cftp": "coupling from the past; not in the paper's comparison",
}
#: Samplers for which the tables count the cells where they are valid, fastest or unbiased.
CLAIMED = ("auto", "lovasz", "lovasz + sweeps")

_ALL = {entry.name: entry for entry in (*OURS, SWEPT, *PEERS, SPUR, *OTHERS)}


def every() -> list[Entry]:
    """All samplers of all tables."""
    return list(_ALL.values())


def get(name: str) -> Entry:
    if name not in _ALL:
        raise FormulaError(f"no sampler {name!r}", expected="one of " + ", ".join(_ALL))
    return _ALL[name]


def label(name: str) -> str:
    """What tables and plots call this sampler."""
    return LABELS.get(name, name)


def order(names: Iterable[str]) -> list[str]:
    """Names in the order of the tables; `lovasz + k` follows `lovasz`, ordered by k."""
    known = list(_ALL)

    def place(name: str) -> tuple[int, int, str]:
        base, _, sweeps = name.partition(" + ")
        at = known.index(name) if name in known else len(known)
        return (known.index(base), int(sweeps), name) if sweeps.isdigit() else (at, -1, name)

    return sorted(names, key=place)


def is_peer(name: str) -> bool:
    """Does the paper compare with this sampler?"""
    return any(entry.name == name for entry in (*PEERS, SPUR))


def lacking(entry: Entry) -> list[str]:
    """Modules that this sampler needs and that are not installed."""
    if entry.method == "auto" or entry.own is not None or originals.find(entry.name):
        return []
    return ["spur"] if entry is SPUR else missing_modules(registered(entry.method))


def draw(
    entry: Entry,
    formula: Formula,
    theta: np.ndarray | None,
    m: int,
    seed: int,
    seconds: float,
    *,
    threads: int | None = 1,
    check: bool = False,
) -> Samples:
    """m samples, or fewer if the time is over before. check=False keeps invalid samples."""
    from nelson.kernels.core.rng import MAX_ROUNDS

    if not entry.weighted:
        theta = None
    if (program := originals.find(entry.name)) is not None:
        x = originals.draw(entry.name, program, formula, theta, m, seed, seconds)
        return _samples(formula, x, m, check, program)
    if entry.own is not None:
        return _samples(formula, entry.own(formula, theta, m, seed, seconds), m, check)
    options: dict[str, Any] = {"sweeps": entry.sweeps}
    if entry.piloted:
        options["sweeps"] = verdict_for(formula, theta).sweeps
    if entry.method in ("prs", "moser-tardos", "rejection"):
        options["max_rounds"] = MAX_ROUNDS  # their rounds are short: only `seconds` limits them
    return sample(
        formula,
        theta,
        m,
        method=entry.method,
        seed=seed,
        seconds=max(seconds, 0.001),
        threads=threads,
        check=check,
        project="all",
        **options,
    )


def _samples(formula: Formula, x: np.ndarray, m: int, check: bool, program: str = "") -> Samples:
    """Rows of another program as samples without a guarantee."""
    if check:
        x = x[formula.satisfied(x)]
    variables, info = tuple(range(1, formula.n_vars + 1)), {"method": program or "own"}
    status = "ok" if len(x) == m else "budget"
    return Samples(pack(x), len(x), variables, "heuristic", status, info)


def misnumbered(formula: Formula, x: np.ndarray) -> np.ndarray:
    """Which samples count as valid if columns are numbered as in the published script: (m,) bool.

    QuickSampler prints no column for a variable that is in no clause. The script numbers the
    printed columns 1, 2, 3, ..., so all columns behind such a variable belong to another variable.
    A sample is valid there if it can be completed: clauses with a variable that got no column count
    as satisfied.
    """
    occurring = np.unique(np.abs(formula.literals)) - 1
    shifted = np.zeros_like(x)
    shifted[:, : len(occurring)] = x[:, occurring]
    decided = [c for c in formula.clauses() if max(map(abs, c)) <= len(occurring)]
    return Formula(decided, n_vars=formula.n_vars).satisfied(shifted)


def about(rows: Iterable[Mapping[str, Any]]) -> Table | None:
    """The samplers of some tables: whose program ran, and what readers should know."""
    rows = list(rows)
    here = {row["sampler"] for row in rows if row.get("sampler") in _ALL}
    if not here:
        return None
    original = {row["sampler"] for row in rows if row.get("original")}
    original |= here & {"cmsgen", "cmsgen-published", "unigen"}
    rewrites = {entry.name for entry in PEERS if entry.rewrite} - original
    body = [
        [
            label(name),
            "its authors'" if name in original else "a rewrite" if name in rewrites else "ours",
            ABOUT.get(name) or _summary(_ALL[name]),
        ]
        for name in order(here)
    ]
    return Table(
        "The samplers of the tables",
        ["sampler", "program", "what it is"],
        body,
        lead="A rewrite is a program of this package that follows a paper of others.",
    )


def _summary(entry: Entry) -> str:
    """What the registry of samplers says of an entry that needs no other words."""
    return "" if entry.own is not None else registered(entry.method).summary


def gave_up(entry: Entry, spent: float, limit: float, reason: str) -> dict[str, Any]:
    """Status and reason of a sampler that returned too few samples after `spent` seconds of
    `limit`: it timed out if it used at least half of its time, else it met a limit of its own.
    """
    ended = TOO_LARGE if entry.method == "enumerate" else LIMITED
    return {
        "status": TIMED_OUT if spent >= 0.5 * limit else ended,
        "reason": reason.partition("; a solver says")[0],
    }


@cache
def overhead(entry: Entry, repeats: int = 5) -> float:
    """Seconds that a draw spends on starting a child process; 0 if it starts none.

    Measured once per process: the shortest of five draws of one sample with three variables.
    """
    if not (entry.child or originals.find(entry.name)) or lacking(entry):
        return 0.0
    tiny, times = Formula([[1, 2], [-2, 3]]), []
    for k in range(repeats):
        started = time.perf_counter()
        draw(entry, tiny, None, 1, k, 10.0)
        times.append(time.perf_counter() - started)
    return min(times)


@contextmanager
def nothing_kept() -> Iterator[None]:
    """Disable the disk cache of circuits, so that every cell pays for its set-up."""
    before = os.environ.get("NELSON_CACHE_BYTES")
    os.environ["NELSON_CACHE_BYTES"] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ["NELSON_CACHE_BYTES"]
        else:
            os.environ["NELSON_CACHE_BYTES"] = before
