"""Every sampler under its name: `nelson.samplers()` lists them, `nelson.sample(..., method=NAME)`
uses one.

A sampler is one file that defines `SAMPLER`, and one line below. Files are imported when first
used, so that a missing optional package hurts nobody who does not ask for it.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nelson.errors import FormulaError
from nelson.formula import Formula

if TYPE_CHECKING:
    from nelson.sampling.sampler import Sampler

_REGISTRY = {
    "lovasz": "nelson.sampling.methods.lovasz",
    "moser-tardos": "nelson.sampling.methods.moser_tardos",
    "prs": "nelson.sampling.methods.prs",
    "gibbs": "nelson.sampling.methods.gibbs",
    "rejection": "nelson.sampling.methods.rejection",
    "enumerate": "nelson.sampling.methods.enumeration",
    "circuit": "nelson.sampling.methods.circuit",
    "kus": "nelson.sampling.methods.kus",
    "waps": "nelson.sampling.methods.waps",
    "cmsgen": "nelson.sampling.methods.cmsgen",
    "unigen": "nelson.sampling.methods.unigen",
    "weightgen": "nelson.sampling.methods.weightgen",
    "xor": "nelson.sampling.methods.xor",
    "quicksampler": "nelson.sampling.methods.quicksampler",
}


class Choice(NamedTuple):
    """What `auto` does with a formula."""

    method: str  # several, joined by " + ", where components differ
    sweeps: int
    guarantee: str  # the weakest of all components
    why: str
    whole: bool = True  # one method for the formula as given: `method=` and `sweeps=` do the same
    parts: list[dict[str, Any]] = []  # noqa: RUF012  (never written to) how each component is drawn
    steps: list[str] = []  # noqa: RUF012  what preprocessing did


def names() -> list[str]:
    """All registered samplers; "auto" picks among them."""
    return list(_REGISTRY)


def get(name: str) -> Sampler:
    """The `Sampler` of that name."""
    if name not in _REGISTRY:
        raise FormulaError(f"no sampler {name!r}", expected="one of auto, " + ", ".join(names()))
    return import_module(_REGISTRY[name]).SAMPLER


def missing_modules(sampler: Sampler) -> list[str]:
    """Those of its modules that are not installed."""
    return [name for name in sampler.modules if find_spec(name) is None]


class Row(NamedTuple):
    """One line of the table of samplers."""

    name: str
    weighted: bool
    guarantee: str  # in words
    needs: str | None  # the extra that brings its packages
    installed: bool
    summary: str
    citation: str


def describe() -> list[Row]:
    """What each sampler does, promises and needs, in the order of `names()`."""
    rows = []
    for name in names():
        sampler = get(name)
        promise = sampler.promise + "; may be invalid" * sampler.may_be_invalid
        installed = not missing_modules(sampler)
        rows.append(
            Row(
                name,
                sampler.weighted,
                promise,
                sampler.needs,
                installed,
                sampler.summary,
                sampler.citation,
            )
        )
    return rows


def choose(formula: Formula, theta: Any = None, given: Any = None) -> Choice:
    """What `auto` takes for one theta vector; what it finds out is kept with the formula."""
    from nelson.formula.checks import evidence_of, theta_rows
    from nelson.sampling.auto import Terms, decide
    from nelson.sampling.problem import prepare

    rows, _ = theta_rows(formula, theta)
    problem = prepare(formula, evidence_of(formula, given, rows[0]))
    return decide(problem, np.where(np.isinf(rows[:1]), 0.0, rows[:1]), Terms()).choice


def sweeps_for(formula: Formula, theta: Any = None) -> int:
    """Sweeps that `lovasz` needs on the formula as given; 0 if it is extremal."""
    from nelson.formula.checks import evidence_of, theta_rows
    from nelson.sampling.mixing import mixing
    from nelson.sampling.problem import prepare

    rows, _ = theta_rows(formula, theta)
    problem = prepare(formula, evidence_of(formula, None, rows[0]))
    if problem.extremal:
        return 0
    return mixing(problem, np.where(np.isinf(rows[:1]), 0.0, rows[:1]), 1, None).sweeps
