"""Reference samples of P_theta(x | C): one structure of each pair in Barbarik's test."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from nelson.errors import NelsonError
from nelson.exact.compiled import compiled
from nelson.exact.enumerated import enumerated
from nelson.formula import Formula
from nelson.sampling.sample_stream import sample

#: Each way to draw may take this share of the time that is left.
_SHARE = 0.25


def reference_samples(
    formula: Formula, theta: np.ndarray, count: int, seed: int, deadline: float
) -> tuple[np.ndarray | None, str]:
    """((count, n) bool, how they were drawn), or (None, why not). theta (n,) finite.

    The first of these that works: enumeration of all structures, a compiled circuit, partial
    rejection sampling (these three are exact), the method that `auto` chooses if it guarantees at
    least "asymptotic".
    """
    if (listed := enumerated(formula)) is not None:
        return listed.draw(theta[None], count, seed)[0], "enumeration of all structures (exact)"
    if (seconds := _SHARE * (deadline - time.monotonic())) <= 0:
        return None, "the time was up"
    if (circuit := compiled(formula, seconds=seconds)) is not None:
        return circuit.draw(theta[None], count, seed)[0], "a compiled circuit (exact)"
    failed = "no circuit"
    for method in ("prs", "auto"):
        seconds = _SHARE * (deadline - time.monotonic())
        if seconds <= 0:
            return None, f"{failed}; the time was up"
        try:
            how: dict[str, Any] = {"method": method, "seed": seed, "seconds": seconds}
            got = sample(formula, theta, count, project="all", **how)
        except NelsonError as error:
            failed += f"; {method}: {error}"
            continue
        if len(got) == count and got.guarantee in ("exact", "asymptotic"):
            sweeps = f" + {got.info['sweeps']} sweeps" if got.info.get("sweeps") else ""
            return got.to_numpy(), f"{got.info['method']}{sweeps} ({got.guarantee})"
        failed += f"; {method}: {len(got)} of {count} samples, {got.guarantee}"
    return None, failed
