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
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nelson.budget import Budget, TimeUp
from nelson.chains.guarantee import weakest
from nelson.formula import Formula
from nelson.learning.checkpoint import load_checkpoint, refused, same_run, save_checkpoint
from nelson.learning.draw import Custom, Drawer, NamedSampler
from nelson.learning.group import State
from nelson.learning.learner import Learner
from nelson.learning.run_options import History, Run, Watcher


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


class Loop:
    """A run; afterwards `learner.result()` has what was learned."""

    def __init__(
        self,
        learner: Learner,
        method: str | Custom = "auto",
        *,
        seed: int | None = None,
        budget: Budget | None = None,
        device: Any = None,
        options: Run | None = None,
    ) -> None:
        """method: of the samples, as in `nelson.sample`, or a function. budget: of the run."""
        budget, options = budget or Budget(), options or Run()
        self.learner, self.options, self.budget = learner, options, budget
        self.policy = learner.settings.policy.fit
        self.identity = _identity(learner, method, seed)
        saved, seed = _saved(options, seed, self.identity)
        self.identity["seed"] = seed
        self.drawer = Drawer(
            learner.formula,
            method,
            learner.settings.sweeps,
            seed,
            budget,
            device,
            options.group,
            learner.settings.policy,
        )
        self.history = History()
        self.guarantee = "exact"
        self.refreshed = [-self.policy.refresh_every, 0]  # iteration of the last refresh, and its m
        if saved is None:
            learner.begin(self.drawer, None)
        else:
            self._resume(saved)
        self._follow()

    def _resume(self, saved: State) -> None:
        learner, rest = self.learner, saved[1]
        with refused(_folder(self.options)):
            learner.begin(self.drawer, saved)
            self.drawer.restore(rest["drawer"])
            self.drawer.take(saved[0])
            self.history.extend(rest["history"])
            self.guarantee = rest["guarantee"]
            # Older checkpoints of networks do not have it: their m never changes.
            latest = (
                (len(self.history) - 1) // self.policy.refresh_every * self.policy.refresh_every
            )
            self.refreshed = rest.get("chosen_at", [latest, learner.m])

    def outcome(self) -> Outcome:
        """Iterate, and say how it ended."""
        ended = self._iterate()
        self._save()
        if not ended:
            self._diagnose()
        elif isinstance(self.drawer.custom, NamedSampler):
            self.guarantee = weakest([self.guarantee, self.drawer.custom.unjudged])
        converged, why = self.learner.verdict(self.history, ended)
        # Moments that agree show nothing if the samples are not those of the model. For a plain
        # function as a sampler its author answers.
        custom = self.drawer.custom
        vouched = custom is not None and not isinstance(custom, NamedSampler)
        trusted = (vouched or self.guarantee != "heuristic") and not self._short
        converged = converged and trusted
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
        """Iterate until done. Returns why the run ended earlier, as `ProcessGroup.halt` says it."""
        options, history = self.options, self.history
        total, late = self.learner.settings.iterations, False
        with Watcher(total, options.progress, options.tensorboard) as watcher:
            try:
                while not self.learner.done and len(history) < total:
                    if ended := options.group.halt(late or self.budget.spent):
                        return ended
                    row = self._step()
                    if row is None:
                        late = True
                        continue
                    history.append(row)
                    if len(history) % options.every == 0 and not self.learner.done:
                        self._save()
                    watcher.row(row)
                    late = options.callback is not None and options.callback(row) is False
            except KeyboardInterrupt:
                return "interrupted"
        return ""

    def _step(self) -> dict[str, Any] | None:
        """One iteration, as a row of the history; None if the time was up before its samples were
        drawn."""
        k, learner, drawer = len(self.history), self.learner, self.drawer
        began = time.perf_counter()
        point = learner.draw_at(k)
        update = time.perf_counter() - began
        m = learner.m
        try:
            # Several processes must end together: `halt` sees to that.
            with self.budget.enforced() if self.options.group.size == 1 else nullcontext():
                if self._due(k, m, point):
                    drawer.refresh(point)
                    self.refreshed = [k, m]
                draw = drawer(point, m, k + 1)
        except TimeUp:
            return None
        if draw.count < m and self.options.group.size == 1 and self.budget.spent:
            return None
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
        late = k - at >= self.policy.refresh_every
        return late and (k >= 2 * at or self.drawer.moved(point) > self.policy.moved)

    def _follow(self) -> None:
        """Take over rank 0's state. Other ranks may differ by how their processors round."""
        if self.options.group.size > 1:
            self.learner.restore(self.options.group.tell(self.learner.state()))

    def _save(self) -> None:
        folder = _folder(self.options)
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

    @property
    def _short(self) -> int:
        """Draws that gave fewer samples than asked for."""
        return sum("missing" in row for row in self.history)

    def _caution(self) -> str:
        """Problems of the samples that the test of the moments cannot see."""
        short, parts = self._short, []
        if self.guarantee == "heuristic":
            parts.append("the samples are heuristic (valid, but not distributed as the model)")
        if short:
            parts.append(f"{short} draws gave fewer samples than asked for")
        return f"; but {', and '.join(parts)}: theta carries their bias" if parts else ""


def _folder(options: Run) -> Path | None:
    return None if options.checkpoint is None else Path(options.checkpoint)


def _saved(options: Run, seed: int | None, identity: dict[str, Any]) -> tuple[State | None, int]:
    """The checkpoint to resume, if there is one, and the seed: rank 0's, on every rank."""
    folder, group = _folder(options), options.group
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


def _identity(learner: Learner, method: str | Custom, seed: int | None) -> dict[str, Any]:
    """Values that must agree between a checkpoint and the run that resumes it."""
    settings = learner.settings.to_dict()
    del settings["iterations"]  # a resumed run may be longer
    same = {f"setting {name}": value for name, value in settings.items()}
    same |= {
        "method": "custom" if callable(method) else method,
        "formula": formula_fingerprint(learner.formula),
        "data": learner.examples.fingerprint(),
        **learner.identity(),
    }
    if seed is not None:
        same["seed"] = seed
    return same


def formula_fingerprint(formula: Formula) -> str:
    digest = hashlib.sha256(f"{formula.n_vars} {formula.n_aux} ".encode())
    digest.update(np.ascontiguousarray(formula.literals, "<i4").tobytes())
    digest.update(np.ascontiguousarray(formula.offsets, "<i8").tobytes())
    return digest.hexdigest()
