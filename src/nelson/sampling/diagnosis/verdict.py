"""What a diagnosis says of chains: the sweeps they need, and the guarantee they then get."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from nelson.sampling.sampler import Moves


@dataclass(frozen=True)
class Verdict:
    """It travels with the number of sweeps to every caller; nobody derives a guarantee anew.

    rows   one guarantee for each context; empty: `guarantee` holds for all
    more   the measurements
    """

    sweeps: int
    guarantee: str
    why: str
    more: dict[str, Any] = field(default_factory=dict)
    starts: list[np.ndarray] = field(default_factory=list)
    rows: tuple[str, ...] = ()
    complete: bool = True  # no deadline cut the diagnosis short
    converged: bool = True  # resampling found valid states to start from
    moves: Moves | None = None  # what a sweep is; None: every variable once, given all others
