"""Train networks of a task with one method, and measure their predictions.

Adam in batches of 128. All settings of a method that have one shape, and all seeds, are trained
side by side (`stack.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lab.prediction.methods import METHODS, Method, Setting
from lab.prediction.stack import Stack, Step
from lab.prediction.tasks import Task
from nelson import CircuitLayer

BATCH = 128
#: Rows times members that are evaluated at a time, divided by the components.
CHUNK = 4096


class Data(NamedTuple):
    """All rows of a task, on a device."""

    x: Tensor
    y: Tensor
    given: Tensor | None

    @classmethod
    def of(cls, task: Task, device: torch.device) -> Data:
        given = None if task.given is None else torch.from_numpy(task.given).float().to(device)
        return cls(
            torch.from_numpy(task.x).to(device), torch.from_numpy(task.y).float().to(device), given
        )

    def rows(self, at: Tensor) -> Data:
        return Data(self.x[at], self.y[at], None if self.given is None else self.given[at])


class Member(NamedTuple):
    setting: Setting
    seed: int


class Training:
    """Members of one shape, learning the rows (members, rows) of a task."""

    def __init__(
        self, task: Task, name: str, members: Sequence[Member], data: Data, layer: CircuitLayer
    ) -> None:
        self.task, self.data = task, data
        device = data.x.device
        setting = members[0].setting
        self.method: Method = METHODS[name](task, layer, setting)
        hidden = [task.hidden, task.hidden]
        if setting.trunk == "deep":
            hidden += [128, 256, 256]
        sizes = [task.x.shape[1], *hidden, self.method.width]
        drops = [m.setting.dropout for m in members]
        self.stack = Stack(
            sizes,
            (0, 1),
            [m.seed for m in members],
            [m.setting.rate for m in members],
            [task.dropout if d is None else d for d in drops],
            device,
        )
        self._step: Step | None = None

    def _work(self, at: Tensor) -> None:
        batch = self.data.rows(at)
        out = self.stack(batch.x, training=True)
        losses = self.method.loss(out, batch.y, batch.given)
        self.stack.descend(losses.mean(-1).sum())

    def epochs(self, rows: np.ndarray) -> Iterator[int]:
        """Learn these rows (members, rows); yields after each epoch its number, from 1."""
        rows_there = torch.from_numpy(rows).to(self.data.x.device)
        epoch = 0
        while True:
            steps = _shuffled(rows_there)
            if self._step is None:
                self._step = Step(self.stack, self._work, steps[0])
            for at in steps:
                self._step(at)
            epoch += 1
            yield epoch

    @torch.no_grad()
    def apart(self, rows: np.ndarray) -> Iterator[tuple[Tensor, Data]]:
        """Outputs (members, some rows, width) for rows (members, rows), and the data."""
        per = max(1, CHUNK // self.method.setting.components)
        for some in np.array_split(rows, 1 + rows.size // per, axis=1):
            batch = self.data.rows(torch.from_numpy(some).to(self.data.x.device))
            yield self.stack(batch.x), batch

    def exact(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """By predictor: the share of exact matches of each member on rows (members, rows)."""
        right: dict[str, list[Tensor]] = {one: [] for one in self.method.predictors}
        for out, batch in self.apart(rows):
            y = batch.y[..., : self.task.outputs] > 0.5
            for one, found in right.items():
                made = self.method.predict(one, out, batch.given)
                found.append((made == y).all(-1))
        return {k: torch.cat(v, 1).float().mean(1).cpu().numpy() for k, v in right.items()}

    @torch.no_grad()
    def measures(self, predictor: str, rows: np.ndarray) -> list[dict[str, Any]]:
        """Of each member. All but log-likelihood, in nats for one row, are shares in per cent."""
        made, scores, nats = [], [], []
        for out, batch in self.apart(rows):
            made.append(self.method.predict(predictor, out, batch.given).cpu().numpy())
            scores.append(self.method.marginals(out, batch.given).cpu().numpy())
            found = self.method.log_likelihood(out, batch.y, batch.given)
            nats.append(None if found is None else found.cpu().numpy())
        all_made, all_scores = np.concatenate(made, 1), np.concatenate(scores, 1)
        all_nats = None if nats[0] is None else np.concatenate(nats, 1)
        targets = self.task.y[rows][..., : self.task.outputs]
        return [
            {
                **measured(self.task, all_made[k], all_scores[k], targets[k]),
                "log_likelihood": None if all_nats is None else float(all_nats[k].mean()),
            }
            for k in range(len(rows))
        ]


def _shuffled(rows: Tensor) -> Tensor:
    """(members, rows) -> (steps, members, batch), a new order for each member; the last batch is
    filled with the first rows.
    """
    order = torch.rand(rows.shape, device=rows.device).argsort(1)
    mixed = rows.gather(1, order)
    batch = min(BATCH, rows.shape[1])
    steps = -(-rows.shape[1] // batch)
    mixed = torch.cat([mixed, mixed[:, : steps * batch - rows.shape[1]]], 1)
    return mixed.reshape(len(rows), steps, batch).transpose(0, 1).contiguous()


def measured(task: Task, made: np.ndarray, scores: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    both, either = (made & y).sum(1), (made | y).sum(1)
    right = (made == y).all(1)
    return {
        "exact": 100 * float(right.mean()),
        "hamming": 100 * float((made == y).mean()),
        "jaccard": 100 * float(np.where(either, both / np.maximum(either, 1), 1).mean()),
        "auprc": average_precision(scores, y),
        "valid": 100 * valid(task, made),
        "right": "".join("01"[int(v)] for v in right),
    }


def valid(task: Task, made: np.ndarray) -> float:
    """The share of predictions that are valid, after completion by the variables they determine."""
    if task.formula.n_vars == task.outputs:
        return float(task.formula.satisfied(made).mean())
    from lab.prediction.small import degree_one

    return float(task.formula.satisfied(np.concatenate([made, degree_one(made)], 1)).mean())


def average_precision(scores: np.ndarray, y: np.ndarray) -> float:
    """The area under the precision-recall curve of all labels together, in [0, 1]."""
    order = np.argsort(-scores, axis=None, kind="stable")
    right = y.ravel()[order].cumsum()
    last = np.flatnonzero(np.diff(scores.ravel()[order], append=-np.inf))  # ends of ties
    precision, recall = right[last] / (last + 1), right[last] / right[-1]
    return float((np.diff(recall, prepend=0.0) * precision).sum())


def seconds_per_epoch(training: Training, rows: np.ndarray, repeats: int = 3) -> float:
    """Of one epoch without a graph, the median after one to warm up."""

    def once() -> float:
        wait()
        started = time.perf_counter()
        for at in _shuffled(torch.from_numpy(rows).to(training.data.x.device)):
            training._work(at)
        wait()
        return time.perf_counter() - started

    wait: Callable[[], Any] = torch.cuda.synchronize if training.data.x.is_cuda else lambda: None
    once()
    return float(np.median([once() for _ in range(repeats)]))
