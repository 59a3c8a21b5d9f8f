"""The loop of Algorithm 2: draw samples at theta, let the learner move theta, until it is done.

The learner (`learner.py`) holds theta or a network's weights and says how one step changes them.
The loop has all the rest: budget, history, checkpoints.

Everything random is a function of (seed, iteration), and sums over samples are integer popcounts.
So a run that is killed and resumed ends with the same bits, on any number of threads and of ranks
(`group.py`). Ranks draw and count together. Rank 0 alone reads and writes checkpoints, and tells
the others its state.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nelson.formula import Formula
from nelson.learning.checkpoint import load_checkpoint, refused, same_run, save_checkpoint
from nelson.learning.draw import Custom, Drawer, Kept
from nelson.learning.group import ALONE, Group, State
from nelson.learning.history import History
from nelson.learning.learner import Learner
from nelson.learning.watch import Watcher
from nelson.sampling.guarantee import weakest

#: Method and sweeps are chosen again, for the present theta, at the earliest after this many
#: iterations: if a weight has moved by more than _MOVED, or the iterations have doubled. While
#: learning converges, theta moves less and less, and a pilot run can cost as much as 100 steps.
_REFRESH_EVERY, _MOVED = 25, 0.25


@dataclass
class Options:
    """How a run is carried out: what is neither a `Settings` nor part of the learner."""

    sampler: str | Custom
    seed: int | None = None
    threads: int | None = None
    device: Any = None
    seconds: float | None = None
    checkpoint: Path | None = None
    checkpoint_every: int = 25
    resume: bool = True
    progress: bool | None = None
    tensorboard: Any = None
    callback: Callable[[dict[str, Any]], Any] | None = None
    group: Group = ALONE


@dataclass(eq=False)
class Outcome:
    """How a run ended. `Fit` says what the fields mean."""

    history: History
    converged: bool
    why: str
    guarantee: str
    seed: int
    interrupted: bool
    info: dict[str, Any]


def run(learner: Learner, options: Options) -> Outcome:
    """`learner.result()` has what was learned."""
    return _Run(learner, options).outcome()


class _Run:
    def __init__(self, learner: Learner, options: Options) -> None:
        self.started = time.monotonic()
        self.learner, self.options = learner, options
        self.identity = _identity(learner, options)
        saved, seed = _saved(options, self.identity)
        self.identity["seed"] = seed
        self.drawer = Drawer(
            learner.formula,
            options.sampler,
            learner.settings.sweeps,
            seed,
            options.threads,
            options.device,
            options.group,
        )
        self.history = History()
        self.guarantee = "exact"
        self.refreshed = [-_REFRESH_EVERY, 0]  # iteration of the last refresh, and its m
        if saved is None:
            learner.begin(self.drawer, None)
        else:
            self._resume(saved)
        self._follow()

    def _resume(self, saved: State) -> None:
        learner, rest = self.learner, saved[1]
        with refused(self.options.checkpoint):
            learner.begin(self.drawer, saved)
            self.drawer.restore(rest["drawer"])
            self.drawer.take(saved[0])
            self.history.extend(rest["history"])
            self.guarantee = rest["guarantee"]
            # Older checkpoints of networks do not have it: their m never changes.
            latest = (len(self.history) - 1) // _REFRESH_EVERY * _REFRESH_EVERY
            self.refreshed = rest.get("chosen_at", [latest, learner.m])

    def outcome(self) -> Outcome:
        ended = self._iterate()
        self._save()
        if not ended:
            self._diagnose()
        elif isinstance(self.drawer.custom, Kept):
            self.guarantee = weakest([self.guarantee, self.drawer.custom.unjudged])
        converged, why = self.learner.verdict(self.history, ended)
        if ended:
            reason = "interrupted" if ended == "interrupted" else "the time was up"
            why = f"{reason} after {len(self.history):,} iterations; {why}"
        drawer = self.drawer
        return Outcome(
            self.history,
            converged,
            why + self._caution(),
            self.guarantee,
            drawer.seed,
            ended == "interrupted",
            {"method": drawer.method, "sweeps": drawer.sweeps, "how": drawer.why},
        )

    def _diagnose(self) -> None:
        """The guarantee holds at the last theta, too, not only where samples were drawn before."""
        theta = self.learner.result()
        if theta is None:
            return
        self.drawer.judge(theta)
        if self.drawer.guarantee is not None:
            self.guarantee = weakest([self.guarantee, self.drawer.guarantee])

    def _iterate(self) -> str:
        """Iterate until done; why the run ended earlier, if it did (as `Group.halt` says it)."""
        options, history = self.options, self.history
        total = self.learner.settings.iterations
        with Watcher(total, options.progress, options.tensorboard) as watcher:
            try:
                while not self.learner.done and len(history) < total:
                    spent = time.monotonic() - self.started
                    late = options.seconds is not None and spent > options.seconds
                    if ended := options.group.halt(late):
                        return ended
                    history.append(self._step())
                    if len(history) % options.checkpoint_every == 0 and not self.learner.done:
                        self._save()
                    watcher.row(history[-1])
                    if options.callback is not None:
                        options.callback(history[-1])
            except KeyboardInterrupt:
                return "interrupted"
        return ""

    def _step(self) -> dict[str, Any]:
        """One iteration, as a row of the history."""
        k, learner, drawer = len(self.history), self.learner, self.drawer
        began = time.perf_counter()
        point = learner.draw_at(k)
        update = time.perf_counter() - began
        m = learner.m
        if self._due(k, m, point):
            drawer.refresh(point)
            self.refreshed = [k, m]
        draw = drawer(point, m, k + 1)
        began = time.perf_counter()
        columns = learner.update(draw)
        self._follow()
        update += time.perf_counter() - began
        self.guarantee = weakest([self.guarantee, draw.guarantee])
        contexts = 1 if point.ndim == 1 else len(point)
        row = {"iteration": k + 1, **columns, "m": draw.count * contexts, "rounds": draw.rounds}
        row |= {"sweeps": drawer.sweeps or 0, "sampling": draw.seconds, "update": update}
        if draw.count < m:
            row["missing"] = (m - draw.count) * contexts
        return row

    def _due(self, k: int, m: int, point: np.ndarray) -> bool:
        """Is it time to choose method and sweeps again?"""
        at, before = self.refreshed
        if at < 0 or m > 2 * before:
            return True
        late = k - at >= _REFRESH_EVERY
        return late and (k >= 2 * at or self.drawer.moved(point) > _MOVED)

    def _follow(self) -> None:
        """Take over rank 0's state. Other ranks may differ by how their processors round."""
        if self.options.group.size > 1:
            self.learner.restore(self.options.group.tell(self.learner.state()))

    def _save(self) -> None:
        folder = self.options.checkpoint
        if folder is None or self.options.group.rank != 0:
            return
        arrays, rest = self.learner.state()
        rest = {
            "iteration": len(self.history),
            "run": self.identity,
            **rest,
            "drawer": self.drawer.state(),
            "chosen_at": self.refreshed,
            "guarantee": self.guarantee,
            "history": list(self.history),
        }
        save_checkpoint(folder, {**arrays, **self.drawer.arrays()}, rest)

    def _caution(self) -> str:
        """Problems of the samples that the test of the moments cannot see."""
        short = sum("missing" in row for row in self.history)
        parts = []
        if self.guarantee == "heuristic":
            parts.append("the samples are heuristic (valid, but not distributed as the model)")
        if short:
            parts.append(f"{short} draws gave fewer samples than asked for")
        return f"; but {', and '.join(parts)}: theta carries their bias" if parts else ""


def _saved(options: Options, identity: dict[str, Any]) -> tuple[State | None, int]:
    """The checkpoint to resume, if there is one, and the seed: rank 0's, on every rank."""
    folder, group, seed = options.checkpoint, options.group, options.seed
    saved = None
    if folder is not None and options.resume and group.rank == 0:
        saved = load_checkpoint(folder)
    if saved is not None:
        seed = int(saved[1]["run"]["seed"])
    elif seed is None:
        seed = secrets.randbits(62)
    arrays, rest = saved or ({}, None)
    arrays, message = group.tell((arrays, {"rest": rest, "seed": seed}))
    rest = message["rest"]
    if rest is None:
        return None, int(message["seed"])
    if folder is not None:
        same_run(folder, rest["run"], identity)
    return (arrays, rest), int(message["seed"])


def _identity(learner: Learner, options: Options) -> dict[str, Any]:
    """Values that must agree between a checkpoint and the run that resumes it."""
    settings = learner.settings.to_dict()
    del settings["iterations"]  # a resumed run may be longer
    same = {f"setting {name}": value for name, value in settings.items()}
    same |= {
        "formula": formula_fingerprint(learner.formula),
        "data": learner.examples.fingerprint(),
        **learner.identity(),
    }
    if options.seed is not None:
        same["seed"] = options.seed
    return same


def formula_fingerprint(formula: Formula) -> str:
    digest = hashlib.sha256(f"{formula.n_vars} {formula.n_aux} ".encode())
    digest.update(np.ascontiguousarray(formula.literals, "<i4").tobytes())
    digest.update(np.ascontiguousarray(formula.offsets, "<i8").tobytes())
    return digest.hexdigest()
