"""A reference that draws from P_theta(x | C): the other half of each pair in a conditional test."""

from __future__ import annotations

import time

import numpy as np

from nelson.errors import NelsonError
from nelson.exact.enumerated import enumerated
from nelson.formula import Formula

#: Of the time that is left, what each reference may take.
_SHARE = 0.25


def ideal(
    formula: Formula, theta: np.ndarray, count: int, seed: int, deadline: float
) -> tuple[np.ndarray | None, str]:
    """(count, n) bool and where they are from, or None and why. theta (n,) finite.

    In this order: the list of all structures, a compiled circuit, partial rejection sampling (all
    of these exact), the method that `auto` takes if it promises at least "asymptotic".
    """
    from nelson.exact.compiled import compiled
    from nelson.sampling.sample_stream import sample

    if (listed := enumerated(formula)) is not None:
        return listed.draw(theta[None], count, seed)[0], "the list of all structures (exact)"
    if (seconds := _SHARE * (deadline - time.monotonic())) <= 0:
        return None, "the time was up"
    if (circuit := compiled(formula, seconds=seconds)) is not None:
        return circuit.draw(theta[None], count, seed)[0], "a compiled circuit (exact)"
    said = "no circuit"
    for method in ("prs", "auto"):
        seconds = _SHARE * (deadline - time.monotonic())
        if seconds <= 0:
            return None, f"{said}; the time was up"
        try:
            got = sample(formula, theta, count, method=method, seed=seed, seconds=seconds)
        except NelsonError as error:
            said += f"; {method}: {error}"
            continue
        if len(got) == count and got.guarantee in ("exact", "asymptotic"):
            taken = got.info["method"]
            sweeps = f" + {got.info['sweeps']} sweeps" if got.info.get("sweeps") else ""
            return got.to_numpy(), f"{taken}{sweeps} ({got.guarantee})"
        said += f"; {method}: {len(got)} of {count} samples, {got.guarantee}"
    return None, said
