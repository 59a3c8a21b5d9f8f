"""Where a run is: what a checkpoint keeps of it, and what rank 0 tells the other ranks."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from nelson.learning.group import Group, State
from nelson.learning.newton import Newton
from nelson.learning.steps import FirstOrder


def told(found: State | None, seed: int | None, group: Group) -> tuple[State | None, int]:
    """The checkpoint to go on from, if there is one, and the seed, on every rank: rank 0's."""
    if found is not None:
        seed = int(found[1]["run"]["seed"])
    elif seed is None:
        seed = secrets.randbits(62)
    arrays, rest = found or ({}, None)
    arrays, all_of_it = group.tell((arrays, {"rest": rest, "seed": seed}))
    rest = all_of_it["rest"]
    return None if rest is None else (arrays, rest), int(all_of_it["seed"])


def state_of(rule: Newton | FirstOrder) -> State:
    """All that `update` reads and writes."""
    arrays = {name: getattr(rule, name) for name in rule.ARRAYS}
    return arrays, {"scalars": {name: getattr(rule, name) for name in rule.SCALARS}}


def restore(rule: Newton | FirstOrder, arrays: dict[str, np.ndarray], rest: dict[str, Any]) -> None:
    for name in rule.ARRAYS:
        setattr(rule, name, np.array(arrays[name]))
    for name in rule.SCALARS:
        setattr(rule, name, rest["scalars"][name])


def follow(rule: Newton | FirstOrder, group: Group) -> None:
    """Be where rank 0 is. The others have computed the same, but for what their processors round
    differently.
    """
    if group.size > 1:
        restore(rule, *group.tell(state_of(rule)))
