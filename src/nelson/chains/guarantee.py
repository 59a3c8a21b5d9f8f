"""The guarantees of a sample, and their order.

heuristic     valid; nothing is known about the distribution
asymptotic    P_theta(x | C) is stationary, and the chains are measured to have forgotten their
              start: the bias only shrinks with more sweeps
approximate   within a factor that the sampler states: 1 / (1 + eps) <= Q(x) / P(x) <= 1 + eps
exact         P_theta(x | C) itself
"""

from __future__ import annotations

from collections.abc import Iterable

#: Weakest first.
GUARANTEES = ("heuristic", "asymptotic", "approximate", "exact")


def weakest(guarantees: Iterable[str]) -> str:
    """The guarantee of samples that are put together from several sources; "exact" for none."""
    return min(guarantees, key=GUARANTEES.index, default="exact")
