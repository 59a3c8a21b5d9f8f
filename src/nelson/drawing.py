"""Samples for the torch modules: `nelson.sample`, and exact draws of another kind where that fails.

`nelson.sample` says how good its samples are and may return fewer than asked for. A distribution
can do neither: here the full number comes back or an error. Where resampling runs out of rounds (a
network that learns likes to drive theta against the constraints) or promises nothing on the law,
samples come from the list of all structures or from a circuit if there is one; else resampling gets
more rounds, and what is without promise is announced by a warning.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from nelson.compiled import Compiled, compiled
from nelson.errors import BudgetExceeded
from nelson.formula import Formula
from nelson.moments import Enumerated, enumerated, moments_of
from nelson.samplers import gpu
from nelson.samplers.api import sample
from nelson.samplers.device import DeviceSamples

#: Rounds of a second try.
MANY_ROUNDS = 20_000


def draw(
    formula: Formula,
    theta: np.ndarray,
    count: int,
    *,
    method: str = "auto",
    sweeps: int | None = None,
    seed: int,
    fallback: bool | None = None,
    device: Any = None,
) -> tuple[Any, dict[str, Any]]:
    """`count` samples for each row of theta (b, n) -> (b, count, n) bool, and how they were made.

    device: a torch.device. On a GPU that can be drawn on, the result is a tensor of bytes there;
    elsewhere, and where another method stepped in, a NumPy array.

    method, sweeps: as in `nelson.sample`; "enumerate" and "circuit" draw exactly at once.
    fallback: may another method step in; None: if method and sweeps are left open.
    Equal rows are drawn as one: an expanded batch costs what its samples cost.
    """
    if not len(theta) or not count:
        return np.zeros((len(theta), count, formula.n_vars), bool), {}
    if len(theta) > 1 and (theta == theta[:1]).all():
        options: dict[str, Any] = {"method": method, "sweeps": sweeps, "fallback": fallback}
        x, info = draw(formula, theta[:1], count * len(theta), seed=seed, device=device, **options)
        return x.reshape(len(theta), count, formula.n_vars), info
    if method in ("enumerate", "circuit"):
        listed = enumerated(formula) if method == "enumerate" else compiled(formula)
        if listed is None:
            raise BudgetExceeded(f"{method!r} cannot be had for {formula!r}")
        return _exactly(listed, theta, count, seed, "asked for")
    if fallback is None:
        fallback = method == "auto" and sweeps is None
    settings: dict[str, Any] = {"method": method, "sweeps": sweeps, "seed": seed}
    if _on_gpu(device) and method in ("auto", *gpu.METHODS) and np.isfinite(theta).all():
        settings["device"] = device
    drawn = sample(formula, theta, count, strict=not fallback, **settings)
    if fallback and (drawn.status != "ok" or drawn.guarantee == "heuristic"):
        why = drawn.info["reason"] if drawn.status != "ok" else drawn.info["why"]
        if (exact := moments_of(formula)) is not None:
            return _exactly(exact, theta, count, seed, why)
        if drawn.status != "ok":
            settings["max_rounds"] = MANY_ROUNDS
            drawn = sample(formula, theta, count, strict=True, **settings)
        if drawn.guarantee == "heuristic":
            why = drawn.info["why"]
            warnings.warn(f"valid samples, but not of the law asked for: {why}", stacklevel=4)
    x = drawn.to_torch() if isinstance(drawn, DeviceSamples) else drawn.to_numpy()
    return x, {**drawn.info, "guarantee": drawn.guarantee}


def _on_gpu(device: Any) -> bool:
    return gpu.number(device) is not None and gpu.available()


def _exactly(
    source: Enumerated | Compiled, theta: np.ndarray, count: int, seed: int, why: str
) -> tuple[np.ndarray, dict[str, Any]]:
    method = "circuit" if isinstance(source, Compiled) else "enumerate"
    info = {"method": method, "why": why, "guarantee": "exact", "sweeps": 0, "seed": seed}
    return source.draw(theta, count, seed), info
