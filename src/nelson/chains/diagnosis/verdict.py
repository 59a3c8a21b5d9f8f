"""What a diagnosis says of chains: the sweeps they need, and the guarantee they then get."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nelson.chains.moves.protocol import Moves
from nelson.chains.moves.single_flips import SINGLE


@dataclass(frozen=True)
class StepVerdict:
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
    moves: Moves = SINGLE  # what a sweep is
