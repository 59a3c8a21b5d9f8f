"""Algorithm 2 for unary potentials: theta <- theta + step(E_data[x] - E_model[x]), and around it
budget, history and checkpoints.

Everything random is a function of (seed, iteration), and sums over samples are integer popcounts:
a run that is killed and resumed ends with the same bits, on any number of threads, and of ranks
(`group.py`): those draw and count together, rank 0 tells the others where it is, and rank 0 alone
reads and writes checkpoints.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nelson.formula import Formula
from nelson.learning.checkpoint import load_checkpoint, same_run, save_checkpoint
from nelson.learning.data import Examples
from nelson.learning.draw import Custom, Drawer
from nelson.learning.group import ALONE, Group
from nelson.learning.history import History
from nelson.learning.newton import Newton
from nelson.learning.settings import Settings
from nelson.learning.state import follow, restore, state_of, told
from nelson.learning.steps import FirstOrder, check_row
from nelson.learning.watch import Watcher
from nelson.sampling.guarantee import weakest

_REFRESH = 25  # iterations after which the number of sweeps is measured again
_LAST_CHECK = 4096  # samples of the final test of a run that was not told to stop by itself
_UNIFORM = 4096  # samples that the uniform law's moments are taken from
_KEYS = 1 << 40  # keys of draws that are no iteration lie above


@dataclass
class Outcome:
    """What a run ends with."""

    theta: np.ndarray
    history: History
    converged: bool
    why: str
    seed: int
    settings: Settings
    guarantee: str = "exact"
    interrupted: bool = False
    info: dict[str, Any] = field(default_factory=dict)


@dataclass
class Options:
    """What does not change the result, and what makes a run resumable."""

    sampler: str | Custom
    seed: int | None = None
    threads: int | None = None
    device: Any = None
    theta0: np.ndarray | None = None
    seconds: float | None = None
    checkpoint: Path | None = None
    every: int = 25
    resume: bool = True
    progress: bool | None = None
    tensorboard: Any = None
    callback: Callable[[dict[str, Any]], Any] | None = None
    group: Group = ALONE


def formula_fingerprint(formula: Formula) -> str:
    digest = hashlib.sha256(f"{formula.n_vars} {formula.n_aux} ".encode())
    digest.update(np.ascontiguousarray(formula.literals, "<i4").tobytes())
    digest.update(np.ascontiguousarray(formula.offsets, "<i8").tobytes())
    return digest.hexdigest()


def identity(
    formula: Formula, examples: Examples, settings: Settings, options: Options
) -> dict[str, Any]:
    """What must agree between a checkpoint and the run that resumes it."""
    free = ("iterations",)
    same: dict[str, Any] = {
        f"setting {name}": value for name, value in settings.to_dict().items() if name not in free
    }
    start = options.theta0
    same |= {
        "formula": formula_fingerprint(formula),
        "data": examples.fingerprint(),
        "theta0": None if start is None else hashlib.sha256(start.tobytes()).hexdigest(),
    }
    if options.seed is not None:
        same["seed"] = options.seed
    return same


def run(formula: Formula, examples: Examples, settings: Settings, options: Options) -> Outcome:
    started = time.monotonic()
    same = identity(formula, examples, settings, options)
    group = options.group
    reads = options.resume and group.rank == 0
    found = load_checkpoint(options.checkpoint) if reads and options.checkpoint else None
    found, seed = told(found, options.seed, group)
    if found is not None and options.checkpoint is not None:
        same_run(options.checkpoint, found[1]["run"], same)
    same["seed"] = seed
    drawer = Drawer(
        formula, options.sampler, settings.sweeps, seed, options.threads, options.device, group
    )
    newton = settings.optimizer == "newton"
    history = History()
    if found is not None:
        arrays, rest = found
        kind = Newton if newton else FirstOrder
        rule = kind(settings, arrays["target"], np.zeros(formula.n_vars), examples.count)
        restore(rule, arrays, rest)
        drawer.restore(rest["drawer"])
        history.extend(rest["history"])
        chosen_at, guarantee = rest["chosen_at"], rest["guarantee"]
    else:
        rule = _begin(formula, examples, settings, options, drawer)
        chosen_at, guarantee = [-_REFRESH, 0], "exact"
    follow(rule, group)
    batches = None
    if settings.batch is not None and settings.batch < examples.count and not newton:
        batches = examples.shuffled(seed)

    def save() -> None:
        if options.checkpoint is None or group.rank != 0:
            return
        arrays, scalars = state_of(rule)
        save_checkpoint(
            options.checkpoint,
            arrays,
            {
                "iteration": len(history),
                "run": same,
                **scalars,
                "drawer": drawer.state(),
                "chosen_at": chosen_at,
                "guarantee": guarantee,
                "history": list(history),
            },
        )

    why, interrupted = "", False
    with Watcher(settings.iterations, options.progress, options.tensorboard) as watcher:
        try:
            while not rule.done and len(history) < settings.iterations:
                late = options.seconds is not None and time.monotonic() - started > options.seconds
                if halt := group.halt(late):
                    interrupted = halt == "interrupted"
                    why = "interrupted" if interrupted else "the time was up"
                    why += f" after {len(history):,} iterations"
                    break
                k = len(history)
                if k - chosen_at[0] >= _REFRESH or rule.m > 2 * chosen_at[1]:
                    drawer.refresh(rule.point)
                    chosen_at = [k, rule.m]
                draw = drawer(rule.point, rule.m, k + 1)
                before = time.perf_counter()
                m = rule.m
                if isinstance(rule, Newton):
                    row = rule.update(draw)
                else:
                    target = rule.target
                    if batches is not None and settings.batch is not None:
                        target = batches.batch_mean(rule.batch_number, settings.batch)
                    row = rule.update(draw, target)
                follow(rule, group)
                guarantee = weakest([guarantee, draw.guarantee])
                row = {"iteration": k + 1, **row}
                row |= {"m": draw.count, "rounds": draw.rounds, "sweeps": drawer.sweeps or 0}
                row |= {"sampling": draw.seconds, "update": time.perf_counter() - before}
                if draw.count < m:
                    row["missing"] = m - draw.count
                history.append(row)
                if len(history) % options.every == 0 and not rule.done:
                    save()
                watcher.row(row)
                if options.callback is not None:
                    options.callback(row)
        except KeyboardInterrupt:
            interrupted, why = True, f"interrupted after {len(history):,} iterations"
    save()
    theta = rule.result().copy()
    converged, verdict = _verdict(rule, history, settings, drawer, theta, examples, bool(why))
    verdict = (f"{why}; " if why else "") + verdict + caution(guarantee, history)
    outcome = Outcome(theta, history, converged, verdict, seed, settings, guarantee)
    outcome.interrupted = interrupted
    outcome.info = {"method": drawer.method, "sweeps": drawer.sweeps, "how": drawer.why}
    return outcome


def caution(guarantee: str, history: History) -> str:
    """What the test of the moments cannot see: samples that are not the model's."""
    short = sum("missing" in row for row in history)
    parts = []
    if guarantee == "heuristic":
        parts.append("the samples are heuristic (valid, but of a law that is not the model's)")
    if short:
        parts.append(f"{short} draws gave fewer samples than asked for")
    return f"; but {', and '.join(parts)}: theta carries their bias" if parts else ""


def _begin(
    formula: Formula, examples: Examples, settings: Settings, options: Options, drawer: Drawer
) -> Newton | FirstOrder:
    """The data's moments, with the prior's share in them, and where to start."""
    n = formula.n_vars
    target = examples.mean()
    newton = settings.optimizer == "newton"
    uniform = np.full(n, 0.5)
    start = np.zeros(n) if options.theta0 is None else options.theta0.astype(np.float64)
    if settings.prior > 0 or newton:
        drawer.refresh(np.zeros(n))
        draw = drawer(np.zeros(n), _UNIFORM, _KEYS)
        if draw.count:
            # Of a variable that took one value only, the other is not impossible: just rare.
            edge = 0.5 / draw.count
            uniform = np.clip(draw.mean, edge, 1 - edge)
            uniform = np.where(_fixed(formula), draw.mean, uniform)
        weight = settings.prior / (examples.count + settings.prior)
        target = (1 - weight) * target + weight * uniform
    start = np.clip(start, -settings.bound, settings.bound)
    if not newton:
        return FirstOrder(settings, target, start, examples.count)
    if options.theta0 is not None:
        return Newton(settings, target, start, examples.count)
    with np.errstate(divide="ignore", invalid="ignore"):
        start = np.log(target / (1 - target)) - np.log(uniform / (1 - uniform))
    start = np.where(np.isnan(start), 0.0, np.clip(start, -settings.bound, settings.bound))
    rule = Newton(settings, target, start, examples.count)
    rule.began_at_zero(uniform)
    return rule


def _fixed(formula: Formula) -> np.ndarray:
    """Visible variables that unit propagation fixes: theta means nothing there, and stays 0."""
    from nelson.sampling.problem import prepare

    fixed = np.zeros(formula.n_total, bool)
    fixed[np.abs(prepare(formula).fixed) - 1] = True
    return fixed[: formula.n_vars]


def _verdict(
    rule: Newton | FirstOrder,
    history: History,
    settings: Settings,
    drawer: Drawer,
    theta: np.ndarray,
    examples: Examples,
    cut: bool,
) -> tuple[bool, str]:
    """(converged, why) in words, with the figures of the test."""
    last = history[-1] if history else None
    if not rule.done:
        if cut or not history:
            return False, "no claim is made about the moments"
        m = rule.m if drawer.custom is not None else max(_LAST_CHECK, rule.m)
        draw = drawer(theta, m, _KEYS + 1)
        if not draw.count:
            return False, "no valid sample at the last theta"
        last = check_row(draw, rule.target, settings.level, np.inf)
    assert last is not None
    test = (
        f"chi2 = {last['chi2']:.4g}, {last['dof']:.0f} expected of noise alone, at most "
        f"{last['bound']:.4g} in {1 - settings.level:.0%} of cases"
    )
    if rule.done and isinstance(rule, Newton):
        share = examples.count / rule.behind if rule.behind else 0.0
        return True, (
            f"the gap between data and model moments is within its noise ({test}); samples add "
            f"{share:.1%} to the error that {examples.count:,} examples leave"
        )
    if last["within"]:
        return True, f"the gap between data and model moments is within its noise ({test})"
    return False, (
        f"{len(history):,} iterations done, and the gap between data and model moments is more "
        f"than noise ({test})"
    )
