"""theta = net(context): one law a context, all over one formula.

    grad of sum_k log P_theta_k(x_k | C) with respect to theta_k  =  x_k - E_theta_k[x]

so the network's backward pass is fed (E_model - data) / batch at its output: the score, without a
surrogate loss. E_model comes from m samples of each context, one theta row each, one call.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nelson.errors import BudgetExceeded, FormulaError
from nelson.formula import Formula
from nelson.learning.checkpoint import load_checkpoint, same_run, save_checkpoint
from nelson.learning.data import Examples
from nelson.learning.draw import Drawer, stream_seed
from nelson.learning.history import History
from nelson.learning.loop import _REFRESH, Options, Outcome, caution, identity
from nelson.learning.noise import judge
from nelson.learning.settings import Settings
from nelson.learning.watch import Watcher
from nelson.sampling.guarantee import weakest

_SETTINGS = {"optimizer": "adam", "m": 64, "eta": 0.01, "batch": 64, "iterations": 1000}


@dataclass
class Conditional:
    net: torch.nn.Module
    contexts: Any
    optimizer: Callable[[Any], torch.optim.Optimizer] | None = None


def run_conditional(
    formula: Formula,
    examples: Examples,
    how: Conditional,
    preset: str,
    changes: dict[str, Any],
    options: Options,
) -> Outcome:
    given = {name: value for name, value in changes.items() if value is not None}
    paper = {"m": 200, "eta": 0.1, "batch": 200, "sampler": "lovasz", "sweeps": 0}
    base: dict[str, Any] = _SETTINGS | (paper if preset == "paper" else {})
    settings = Settings(**(base | given))
    contexts = torch.as_tensor(how.contexts)
    if examples.kept is not None:
        contexts = contexts[torch.as_tensor(examples.kept)]
    if len(contexts) != examples.count:
        raise FormulaError(f"{len(contexts)} contexts", expected=f"{examples.count}, one a row")
    parameters = [p for p in how.net.parameters() if p.requires_grad]
    weight = next(iter(parameters), None)
    if weight is not None and contexts.is_floating_point():
        contexts = contexts.to(weight.dtype)
    same = identity(formula, examples, settings, options)
    same["contexts"] = hashlib.sha256(contexts.cpu().numpy().tobytes()).hexdigest()
    found = load_checkpoint(options.checkpoint) if options.checkpoint and options.resume else None
    seed = options.seed if options.seed is not None else secrets.randbits(62)
    if found is not None and options.checkpoint is not None:
        same_run(options.checkpoint, found[1]["run"], same)
        seed = int(found[1]["run"]["seed"])
    same["seed"] = seed
    drawer = Drawer(
        formula, options.sampler, settings.sweeps, seed, options.threads, options.device
    )
    make = how.optimizer or (lambda p: torch.optim.Adam(p, lr=settings.eta))
    optimizer = make(parameters)
    history = History()
    guarantee = "exact"
    if found is not None:
        arrays, rest = found
        _restore(how.net, optimizer, arrays, rest)
        drawer.restore(rest["drawer"])
        history.extend(rest["history"])
        guarantee = rest["guarantee"]

    def save() -> None:
        if options.checkpoint is None:
            return
        arrays, groups = _state(how.net, optimizer)
        rest = {
            "iteration": len(history),
            "run": same,
            "groups": groups,
            "drawer": drawer.state(),
            "guarantee": guarantee,
            "history": list(history),
        }
        save_checkpoint(options.checkpoint, arrays, rest)

    loop = _Loop(formula, examples, contexts, how.net, optimizer, drawer, settings, seed)
    started, why, interrupted = time.monotonic(), "", False
    how.net.train()
    with Watcher(settings.iterations, options.progress, options.tensorboard) as watcher:
        try:
            while len(history) < settings.iterations:
                if options.seconds is not None and time.monotonic() - started > options.seconds:
                    why = f"the time was up after {len(history):,} iterations; "
                    break
                row, worth = loop.step(len(history))
                guarantee = weakest([guarantee, worth])
                history.append(row)
                if len(history) % options.every == 0:
                    save()
                watcher.row(row)
                if options.callback is not None:
                    options.callback(row)
        except KeyboardInterrupt:
            interrupted, why = True, f"interrupted after {len(history):,} iterations; "
    save()
    how.net.eval()
    converged, told = loop.verdict(interrupted)
    outcome = Outcome(
        np.zeros(0),
        history,
        converged,
        why + told + caution(guarantee, history),
        seed,
        settings,
        guarantee,
        interrupted,
    )
    outcome.info = {"method": drawer.method, "sweeps": drawer.sweeps, "how": drawer.why}
    return outcome


class _Loop:
    def __init__(
        self,
        formula: Formula,
        examples: Examples,
        contexts: torch.Tensor,
        net: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        drawer: Drawer,
        settings: Settings,
        seed: int,
    ) -> None:
        self.n = formula.n_vars
        self.data = examples.to_numpy()
        self.contexts, self.net, self.optimizer = contexts, net, optimizer
        self.drawer, self.settings, self.seed = drawer, settings, seed
        self.batch = min(settings.batch or 64, len(self.data))
        self.m = settings.m or 64

    def step(self, k: int) -> tuple[dict[str, Any], str]:
        """One minibatch. Which examples, which samples: functions of (seed, k)."""
        started = time.perf_counter()
        random = np.random.default_rng(stream_seed(self.seed, (1 << 41) + k))
        rows = random.choice(len(self.data), self.batch, replace=False)
        theta = self._theta(self.contexts[torch.as_tensor(rows)])
        values = self._clipped(theta)
        if k % _REFRESH == 0:
            self.drawer.refresh(values)
        drawing = time.perf_counter()
        drawn = self.drawer.sample(values, self.m, k + 1)
        drawing = time.perf_counter() - drawing
        if not len(drawn):
            raise BudgetExceeded("the sampler finds no valid sample for some context")
        gap = self.data[rows] - drawn.mean()
        self.optimizer.zero_grad()
        theta.backward(torch.as_tensor(-gap / self.batch, dtype=theta.dtype, device=theta.device))
        self.optimizer.step()
        mean = np.abs(gap.mean(0))
        row = {
            "iteration": k + 1,
            "phase": "net",
            "gap_l1": float(mean.sum()),
            "gap_max": float(mean.max(initial=0.0)),
            "m": len(drawn) * self.batch,
            "rounds": int(drawn.info.get("rounds") or 0),
            "sweeps": self.drawer.sweeps or 0,
            "sampling": drawing,
            "update": time.perf_counter() - started - drawing,
        }
        return row, drawn.guarantee

    def _theta(self, contexts: torch.Tensor) -> torch.Tensor:
        theta = self.net(contexts)
        if theta.shape != (len(contexts), self.n):
            raise FormulaError(
                f"a net that gives shape {tuple(theta.shape)}",
                expected=f"({len(contexts)}, {self.n})",
            )
        return theta

    def _clipped(self, theta: torch.Tensor) -> np.ndarray:
        values = theta.detach().double().cpu().numpy()
        return np.clip(values, -self.settings.bound, self.settings.bound)

    def verdict(self, interrupted: bool) -> tuple[bool, str]:
        """The mean of x_k - E_theta_k[x] over all examples: is it noise?

        A necessary condition only: it is the score of a constant added to theta.
        """
        if interrupted:
            return False, "no claim is made about the moments"
        mean, variance = np.zeros(self.n), np.zeros(self.n)
        rows = np.random.default_rng(stream_seed(self.seed, 1 << 40)).permutation(len(self.data))[
            :4096
        ]
        for k in range(0, len(rows), 256):
            part = rows[k : k + 256]
            with torch.no_grad():
                values = self._clipped(self._theta(self.contexts[torch.as_tensor(part)]))
            drawn = self.drawer.sample(values, 64, (1 << 40) + k).mean()
            mean += (self.data[part] - drawn).sum(0)
            variance += (drawn * (1 - drawn)).sum(0)
        free = variance > 0
        v = variance[free] / len(rows)
        gap = judge(mean[free] / len(rows), v, 65 / 64 / len(rows), 0.0, self.settings.level)
        verdict = "within its noise" if gap.within else "more than noise"
        return gap.within, (
            f"over {len(rows):,} examples the mean gap between data and model moments is {verdict} "
            f"(chi2 = {gap.chi2:.4g}, {gap.dof:.0f} expected of noise alone, correlations not "
            "counted)"
        )


def _state(
    net: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Weights, the optimizer's tensors and torch's random state, flat; the rest for JSON."""
    arrays = {f"net.{k}": v.detach().cpu().numpy() for k, v in net.state_dict().items()}
    whole = optimizer.state_dict()
    plain: dict[str, Any] = {}
    for index, entry in whole["state"].items():
        for key, value in entry.items():
            if isinstance(value, torch.Tensor):
                arrays[f"opt.{index}.{key}"] = value.detach().cpu().numpy()
            else:
                plain[f"{index}.{key}"] = value
    arrays["rng"] = torch.get_rng_state().numpy()
    return arrays, {"param_groups": whole["param_groups"], "plain": plain}


def _restore(
    net: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    arrays: dict[str, np.ndarray],
    rest: dict[str, Any],
) -> None:
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    net.load_state_dict({k[4:]: v for k, v in tensors.items() if k.startswith("net.")})
    state: dict[int, dict[str, Any]] = {}
    entries = {k[4:]: v for k, v in tensors.items() if k.startswith("opt.")}
    for name, value in (entries | rest["groups"]["plain"]).items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = value
    groups = rest["groups"]["param_groups"]
    for group, now in zip(groups, optimizer.state_dict()["param_groups"], strict=True):
        group |= {k: tuple(v) for k, v in group.items() if isinstance(now.get(k), tuple)}
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    torch.set_rng_state(tensors["rng"])
