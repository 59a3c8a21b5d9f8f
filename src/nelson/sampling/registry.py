"""Every sampler under its name: `nelson.samplers()` lists the names, `nelson.sample(...,
method=NAME)` uses one.

A sampler is one file that defines `SAMPLER`, and one line below. A file is imported when its
sampler is first used, so a missing optional package matters only to those who ask for it.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from nelson.errors import FormulaError, NelsonError

if TYPE_CHECKING:
    from nelson.sampling.sampler import Sampler

_REGISTRY = {
    "lovasz": "nelson.sampling.methods.lovasz",
    "moser-tardos": "nelson.sampling.methods.moser_tardos",
    "prs": "nelson.sampling.methods.prs",
    "cftp": "nelson.sampling.methods.cftp",
    "gibbs": "nelson.sampling.methods.gibbs",
    "rejection": "nelson.sampling.methods.rejection",
    "enumerate": "nelson.sampling.methods.enumeration",
    "circuit": "nelson.sampling.methods.circuit",
    "cmsgen": "nelson.sampling.methods.cmsgen",
    "unigen": "nelson.sampling.methods.unigen",
}
#: Peers of the paper, rewritten from their papers: the distribution nelson-paper has them.
_PEERS = {
    name: f"nelson_paper.samplers.{name}"
    for name in ("kus", "waps", "weightgen", "xor", "quicksampler")
}


def names() -> list[str]:
    """All samplers that can be named, those of nelson-paper if it is installed; "auto" picks among
    ours.

    >>> nelson.samplers()[:3]
    ['lovasz', 'moser-tardos', 'prs']
    """
    return [*_REGISTRY, *(_PEERS if _is_installed("nelson_paper") else ())]


def get(name: str) -> Sampler:
    """The `Sampler` of that name."""
    module = _REGISTRY.get(name) or _PEERS.get(name)
    if module is None:
        raise FormulaError(f"no sampler {name!r}", expected="one of auto, " + ", ".join(names()))
    if name in _PEERS and not _is_installed("nelson_paper"):
        raise NelsonError(f"method {name!r} comes with nelson-paper: pip install nelson-paper")
    known = getattr(sys.modules.get(module), "SAMPLER", None)  # `import_module` takes 5 us
    return known or import_module(module).SAMPLER


def missing_modules(sampler: Sampler) -> list[str]:
    """The modules of a sampler that are not installed."""
    return [name for name in sampler.modules if not _is_installed(name)]


@cache
def _is_installed(module: str) -> bool:
    return find_spec(module) is not None


class SamplerRow(NamedTuple):
    """One line of the table of samplers."""

    name: str
    weighted: bool
    guarantee: str  # in words
    needs: str | None  # the extra that installs its packages
    installed: bool
    summary: str
    citation: str


def describe() -> list[SamplerRow]:
    """What each sampler does, promises and needs, in the order of `names()`."""
    return [_row(get(name)) for name in names()]


def _row(sampler: Sampler) -> SamplerRow:
    return SamplerRow(
        sampler.name,
        sampler.weighted,
        sampler.promise + "; may be invalid" * sampler.may_be_invalid,
        sampler.needs,
        not missing_modules(sampler),
        sampler.summary,
        sampler.citation,
    )
