"""The guarantees of a sample, and their order.

heuristic     valid; nothing is known about the distribution
diagnosed     P_theta(x | C) is stationary under every move, and tests saw no difference between
              chains of different starts. Regions that no start enters are not seen
approximate   within a factor that the sampler states: 1 / (1 + eps) <= Q(x) / P(x) <= 1 + eps
exact         P_theta(x | C) itself
"""

from __future__ import annotations

from collections.abc import Iterable

#: Weakest first.
GUARANTEES = ("heuristic", "diagnosed", "approximate", "exact")


def weakest(guarantees: Iterable[str]) -> str:
    """The guarantee of samples that are put together from several sources; "exact" for none."""
    return min(guarantees, key=GUARANTEES.index, default="exact")
