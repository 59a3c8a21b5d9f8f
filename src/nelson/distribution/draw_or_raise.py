"""Samples for the torch modules: all that were asked for, or an error.

`nelson.sample` may return fewer samples than asked for, and reports a guarantee with them. A torch
distribution can do neither, so `draw` returns the full number or raises. If `nelson.sample` returns
too few (training can drive theta against the constraints, and "auto" tries only some of the rows),
samples come from enumeration or a circuit if there is one, else from more rounds. "heuristic"
samples come with a warning.
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

#: Rounds of the second attempt, which is the last one.
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
    """`count` samples for each row of theta (b, n) -> (b, count, n) bool, and `Samples.info`.

    method, sweeps: as in `nelson.sample`.
    fallback: may another method step in if `method` returns too few? None: yes if the caller left
              both `method` and `sweeps` open.
    device:   a torch.device. Samples drawn on a GPU are a tensor of bytes there; all others are a
              NumPy array.

    If all rows are equal they are drawn as one row with b * count samples, so an expanded batch
    costs no more than its samples.
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
