"""NELSON-CD: fit theta to examples of valid structures.

The log-likelihood of examples under P_theta(x | C) = exp(theta . x) C(x) / Z is concave, and

    theta <- theta + eta (E_data[x] - E_model[x])

climbs it (Algorithm 2 of Jiang, Gu, Xue, AAAI 2023, with its sign put right: docs/errata.md, 1).
E_model is a mean over samples of the present theta, all of them valid; for unary potentials it is a
popcount over packed bits. `nelson.learn` is this module and, called, the function `learn`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.formula.checks import checked_theta
from nelson.learning.data import load_examples
from nelson.learning.draw import Custom
from nelson.learning.group import ALONE, Group
from nelson.learning.history import History
from nelson.learning.loop import Options, Outcome, run
from nelson.learning.model import Model
from nelson.learning.settings import settings_for
from nelson.sampling.samples import Samples


@dataclass(eq=False)
class Fit:
    """What `learn` returns.

    theta       (n,) float64; None for a conditional model, where it is net(context)
    converged   was the gap between data and model moments within its noise at the end
    why         the same in words, with the figures of the test
    history     one dict an iteration: `.to_pandas()`, `.to_csv()`, `.to_parquet()`, `.plot()`
    guarantee   of the samples that were learned from
    """

    model: Model
    history: History
    converged: bool
    why: str
    guarantee: str
    seed: int
    interrupted: bool = False
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def theta(self) -> np.ndarray | None:
        return self.model.theta

    @property
    def terms(self) -> dict[tuple[int, ...], float] | None:
        """The coefficient of each product, if products were learned."""
        return self.model.terms

    @property
    def formula(self) -> Formula:
        return self.model.formula

    @property
    def net(self) -> Any:
        return self.model.net

    @property
    def mrf(self) -> Any:
        """The fitted `nelson.ConstrainedMRF` (needs torch)."""
        return self.model.mrf

    def sample(self, n: int = 1, **options: Any) -> Samples:
        """New structures: see `Model.sample`."""
        return self.model.sample(n, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """A model folder for `nelson.load`, with the history beside it."""
        self.model.save(path)
        self.history.to_csv(Path(path) / "history.csv")

    def __repr__(self) -> str:
        end = "converged" if self.converged else "not converged"
        return f"Fit({self.formula!r}, {len(self.history)} iterations, {end})"


def learn(
    formula: Formula,
    data: Any,
    *,
    preset: str = "default",
    sampler: str | Custom | None = None,
    sweeps: int | None = None,
    m: int | None = None,
    eta: float | None = None,
    iterations: int | None = None,
    batch: int | None = None,
    optimizer: Any = None,
    prior: float | None = None,
    bound: float | None = None,
    level: float | None = None,
    stop: bool | None = None,
    theta0: Any = None,
    contexts: Any = None,
    net: Any = None,
    terms: Iterable[Iterable[int]] | None = None,
    drop_invalid: bool = False,
    seed: int | None = None,
    threads: int | None = None,
    device: Any = None,
    seconds: float | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 25,
    resume: bool = True,
    progress: bool | None = False,
    tensorboard: str | os.PathLike[str] | None = None,
    callback: Callable[[dict[str, Any]], Any] | None = None,
    group: Group = ALONE,
) -> Fit:
    """Maximise the likelihood of `data`, (N, n) zeros and ones, every row valid.

    data        array, DataFrame, `Samples`, or a path: .npy, .npz, .parquet, .csv, SAT-sampler
                text. Invalid rows are an error that lists them; `drop_invalid` leaves them out.
    preset      "default": natural gradient on growing samples, averaged; stops when the moment gap
                is noise. "paper": Algorithm 2 as published (m=200, eta=0.1, 1,000 iterations, plain
                SGD, Algorithm 1's samples without sweeps). "adam": first order, averaged.
    sampler     "auto", a name of `nelson.samplers()`, or f(formula, theta, m, seed) -> (m, n) bool.
    sweeps      heat-bath sweeps a sample; None: as many as a pilot run says, again as theta moves.
    m, eta, iterations, batch, optimizer ("newton" | "adam" | "sgd")  override the preset.
    prior       pseudo-examples of the uniform valid law mixed into the data: keeps theta finite
                where the data's marginals are 0 or 1. 0: plain likelihood, |theta| <= bound.
    level       false-alarm rate of the test that ends the run.
    contexts, net  a conditional model, theta = net(context): contexts (N, ...) one row an example,
                net an nn.Module to n numbers a row. `optimizer` may be f(parameters) -> a torch
                optimizer (default Adam with step eta).
    terms       products of variables to learn a coefficient for as well, [(1, 2), (2, 3, 5)]: see
                `fit.terms`. Samples come from `nelson.heat_bath`, so `sampler` is not to be given.
    seed        same seed, same theta, on any number of threads.
    device      where samples are drawn, as in `nelson.sample`: never changes what is learned.
    seconds     a budget; a run that is cut says so in `why`.
    checkpoint  a folder. A run that was killed goes on from there (`resume`), to the same bits.
    progress    True, False, or None: if stderr is a terminal.
    group       processes that learn together, each calling this: see `nelson.cli.train`.

    Ctrl-C ends the run with what has been learned so far. Cost: samples, n^2 m / 128 word
    operations and some tens of n^2 for the curvature (n <= 1024); about 15 iterations.
    """
    started = time.monotonic()
    if (contexts is None) != (net is None):
        raise FormulaError("contexts without net, or net without contexts", expected="both")
    if terms is not None and (net is not None or sampler is not None):
        raise FormulaError("terms with net or sampler", expected="terms alone")
    if checkpoint_every < 1:
        raise FormulaError(f"checkpoint_every = {checkpoint_every}", expected="1 or more")
    named = optimizer if isinstance(optimizer, str) else None
    changes: dict[str, Any] = {
        "m": m,
        "eta": eta,
        "iterations": iterations,
        "batch": batch,
        "prior": prior,
        "bound": bound,
        "level": level,
        "stop": stop,
        "sweeps": sweeps,
        "sampler": "custom" if callable(sampler) or terms is not None else sampler,
    }
    settings = settings_for(preset, optimizer=named, **changes)
    if named in ("adam", "sgd") and preset == "default":
        settings = settings_for("adam", optimizer=named, **changes)
    whole, shape = formula, None
    if terms is not None:
        from nelson.learning.terms import completed_examples, sampler_of, shape_of

        shape = shape_of(formula, terms)
        whole, sampler = shape.formula, sampler_of(formula, shape, sweeps, threads)
    options = Options(
        sampler=sampler if callable(sampler) else settings.sampler,
        seed=seed,
        threads=threads,
        device=device,
        theta0=None if theta0 is None else checked_theta(_array(theta0), whole.n_vars),
        seconds=seconds,
        checkpoint=None if checkpoint is None else Path(checkpoint),
        every=checkpoint_every,
        resume=resume,
        progress=progress,
        tensorboard=tensorboard,
        callback=callback,
        group=group,
    )
    if net is not None and group.size > 1:
        raise FormulaError("net on several ranks", expected="theta as one vector, or one process")
    examples = load_examples(formula, data, drop_invalid)
    if net is None:
        seen = examples if shape is None else completed_examples(shape, examples)
        outcome = run(whole, seen, settings, options)
    else:
        from nelson.learning.conditional import Conditional, run_conditional

        how = Conditional(net, contexts, None if named else optimizer)
        outcome = run_conditional(formula, examples, how, preset, changes, options)
    metadata = {
        "preset": preset,
        "examples": examples.count,
        "data": examples.source,
        "dropped": examples.dropped,
        **_told(outcome),
        "seconds": round(time.monotonic() - started, 3),
    }
    theta = None if net is not None else outcome.theta[: formula.n_vars]
    found = None
    if shape is not None:
        found = dict(zip(shape.monomials, outcome.theta[formula.n_vars :].tolist(), strict=True))
    model = Model(formula, theta, examples.names, metadata, net, found)
    return Fit(
        model,
        outcome.history,
        outcome.converged,
        outcome.why,
        outcome.guarantee,
        outcome.seed,
        outcome.interrupted,
        outcome.info,
    )


def _told(outcome: Outcome) -> dict[str, Any]:
    return {
        "iterations": len(outcome.history),
        "converged": outcome.converged,
        "why": outcome.why,
        "seed": outcome.seed,
        "sampler": outcome.info.get("method"),
        "sweeps": outcome.info.get("sweeps"),
        "guarantee": outcome.guarantee,
        "settings": outcome.settings.to_dict(),
    }


def _array(theta: Any) -> Any:
    return theta.detach().cpu().numpy() if hasattr(theta, "detach") else theta
