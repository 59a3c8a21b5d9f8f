"""Samples for the torch modules: all that were asked for, or an error.

`nelson.sample` may return fewer samples than asked for, and reports a guarantee with them. A torch
distribution can do neither, so `draw` returns the full number or raises. If `nelson.sample` returns
too few (training can drive theta against the constraints, and "auto" tries only some of the rows),
samples come from enumeration or a circuit if there is one, else from more rounds. "heuristic"
samples come with a warning.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from nelson.exact.enumerated import Enumerated
from nelson.formula import Formula
from nelson.log_z.moments import moments_of
from nelson.sampling.device.draw import GPU_METHODS
from nelson.sampling.device.gpu import available
from nelson.sampling.device.samples import DeviceSamples
from nelson.sampling.diagnosis.verdict import Verdict
from nelson.sampling.options import Options, gpu_number
from nelson.sampling.sample_stream import draw as draw_samples

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
    verdict: Verdict | None = None,
    reuse: bool = False,
) -> tuple[Any, dict[str, Any]]:
    """`count` samples for each row of theta (b, n) -> (b, count, n) bool, and `Samples.info`.

    method, sweeps: as in `nelson.sample`.
    fallback: may another method step in if `method` returns too few? None: yes if the caller left
              both `method` and `sweeps` open.
    device:   a torch.device. Samples drawn on a GPU are a tensor of bytes there; all others are a
              NumPy array.
    verdict, reuse: of an earlier diagnosis; see `nelson.sampling.options`.

    If all rows are equal they are drawn as one row with b * count samples, so an expanded batch
    costs no more than its samples.
    """
    if not len(theta) or not count:
        return np.zeros((len(theta), count, formula.n_vars), bool), {}
    if len(theta) > 1 and (theta == theta[:1]).all():
        how: dict[str, Any] = {"method": method, "sweeps": sweeps, "fallback": fallback}
        how |= {"verdict": verdict, "reuse": reuse}
        x, info = draw(formula, theta[:1], count * len(theta), seed=seed, device=device, **how)
        return x.reshape(len(theta), count, formula.n_vars), info
    if fallback is None:
        fallback = method == "auto" and sweeps is None
    on_gpu = gpu_number(device) is not None and available()
    on_gpu = on_gpu and method in ("auto", *GPU_METHODS) and bool(np.isfinite(theta).all())
    options = Options(method, sweeps, seed=seed, verdict=verdict, reuse=reuse)
    options = replace(options, device=device if on_gpu else None)
    drawn = draw_samples(formula, theta, count, replace(options, strict=not fallback))
    options = replace(options, strict=True)
    if fallback and drawn.status != "ok":
        if (exact := moments_of(formula)) is not None:
            method = "enumerate" if isinstance(exact, Enumerated) else "circuit"
            told = {"method": method, "why": drawn.info["reason"], "guarantee": "exact"}
            return exact.draw(theta, count, seed), {**drawn.info, **told, "sweeps": 0}
        options = Options(seed=seed, device=options.device, max_rounds=MANY_ROUNDS, strict=True)
        drawn = draw_samples(formula, theta, count, options)
    if fallback and drawn.guarantee == "heuristic":
        why = drawn.info["why"]
        warnings.warn(f"valid samples, but not of the law asked for: {why}", stacklevel=4)
    x = drawn.to_torch() if isinstance(drawn, DeviceSamples) else drawn.to_numpy()
    return x, {**drawn.info, "guarantee": drawn.guarantee}
