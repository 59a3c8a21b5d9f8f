"""Samples for the torch modules: `nelson.sample`, in full or not at all.

`nelson.sample` says how good its samples are and may return fewer than asked for. A distribution
can do neither: here the full number comes back or an error. Where it falls short (a network that
learns likes to drive theta against the constraints, and "auto" tries some of the rows only) samples
come from the list of all structures or from a circuit if there is one, else with more rounds; what
is without promise is announced by a warning.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from nelson.exact.enumerated import Enumerated
from nelson.formula import Formula
from nelson.log_z.moments import moments_of
from nelson.sampling.device import device as card
from nelson.sampling.device import draw as gpu
from nelson.sampling.device.samples import DeviceSamples
from nelson.sampling.sample_stream import sample

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

    method, sweeps: as in `nelson.sample`.
    fallback: may "auto" step in where `method` falls short; None: if both are left open.
    Equal rows are drawn as one: an expanded batch costs what its samples cost.
    """
    if not len(theta) or not count:
        return np.zeros((len(theta), count, formula.n_vars), bool), {}
    if len(theta) > 1 and (theta == theta[:1]).all():
        options: dict[str, Any] = {"method": method, "sweeps": sweeps, "fallback": fallback}
        x, info = draw(formula, theta[:1], count * len(theta), seed=seed, device=device, **options)
        return x.reshape(len(theta), count, formula.n_vars), info
    if fallback is None:
        fallback = method == "auto" and sweeps is None
    settings: dict[str, Any] = {"method": method, "sweeps": sweeps, "seed": seed}
    if _on_gpu(device) and method in ("auto", *gpu.METHODS) and np.isfinite(theta).all():
        settings["device"] = device
    drawn = sample(formula, theta, count, strict=not fallback, **settings)
    if fallback and drawn.status != "ok":
        if (exact := moments_of(formula)) is not None:
            method = "enumerate" if isinstance(exact, Enumerated) else "circuit"
            told = {"method": method, "why": drawn.info["reason"], "guarantee": "exact"}
            return exact.draw(theta, count, seed), {**drawn.info, **told, "sweeps": 0}
        settings |= {"method": "auto", "sweeps": None, "max_rounds": MANY_ROUNDS}
        drawn = sample(formula, theta, count, strict=True, **settings)
    if fallback and drawn.guarantee == "heuristic" and settings.pop("device", None) is not None:
        drawn = sample(formula, theta, count, strict=True, **settings)  # the host has more methods
    if fallback and drawn.guarantee == "heuristic":
        why = drawn.info["why"]
        warnings.warn(f"valid samples, but not of the law asked for: {why}", stacklevel=4)
    x = drawn.to_torch() if isinstance(drawn, DeviceSamples) else drawn.to_numpy()
    return x, {**drawn.info, "guarantee": drawn.guarantee}


def _on_gpu(device: Any) -> bool:
    return card.number(device) is not None and card.available()
