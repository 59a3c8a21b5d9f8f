"""Train the network of a task with one method, and measure its predictions.

Three layers with ReLU and dropout, Adam at 1e-3, batches of 128. Every fifth epoch is looked at on
the validation rows; for each predictor the epoch counts whose exact match is best there.
"""

from __future__ import annotations

import copy
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lab.prediction.methods import Method
from lab.prediction.tasks import Part, Task

LEARNING_RATE, BATCH, LOOK_EVERY = 1e-3, 128, 5


def network(task: Task, width: int) -> nn.Module:
    hidden = task.hidden
    return nn.Sequential(
        nn.Linear(task.train.x.shape[1], hidden), nn.ReLU(), nn.Dropout(task.dropout),
        nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(task.dropout),
        nn.Linear(hidden, width),
    )  # fmt: skip


def train(task: Task, method: Method, seed: int, epochs: int) -> list[dict[str, Any]]:
    """A row of measures for each predictor of the method."""
    _warm_up(task, method)
    torch.manual_seed(seed)
    net = network(task, method.width)
    optimiser = torch.optim.Adam(net.parameters(), LEARNING_RATE)
    x, y = torch.from_numpy(task.train.x), torch.from_numpy(task.train.y).float()
    best: dict[str, tuple[float, int, Any]] = {}
    seconds = 0.0
    for epoch in range(1, epochs + 1):
        started = time.process_time()
        net.train()
        for rows in torch.randperm(len(x)).split(BATCH):
            optimiser.zero_grad()
            method.loss(net(x[rows]), y[rows]).backward()
            optimiser.step()
        seconds += time.process_time() - started
        if epoch % LOOK_EVERY and epoch < epochs:
            continue
        out = _outputs(net, task.valid)
        for predictor in method.predictors:
            made = method.predict(predictor, out)
            exact = _exact(made.numpy(), task.valid.y[:, : task.outputs])
            if predictor not in best or exact > best[predictor][0]:
                best[predictor] = exact, epoch, copy.deepcopy(net.state_dict())
    rows_of_measures = []
    for predictor, (exact, epoch, state) in best.items():
        net.load_state_dict(state)
        row = measures(task, method, predictor, _outputs(net, task.test))
        row |= {"valid_exact": exact, "epoch": epoch, "epoch_seconds": seconds / epochs}
        rows_of_measures.append({"predictor": predictor, **row})
    return rows_of_measures


def _warm_up(task: Task, method: Method) -> None:
    """Compile the formula and the kernels, which no epoch pays for."""
    net = network(task, method.width)
    rows = slice(0, BATCH)
    y = torch.from_numpy(task.train.y[rows]).float()
    method.loss(net(torch.from_numpy(task.train.x[rows])), y).backward()


@torch.no_grad()
def _outputs(net: nn.Module, part: Part) -> Tensor:
    net.eval()
    return net(torch.from_numpy(part.x))


@torch.no_grad()
def measures(task: Task, method: Method, predictor: str, out: Tensor) -> dict[str, Any]:
    """On the test rows. All but log-likelihood, in nats for one row, are shares in per cent."""
    y = task.test.y[:, : task.outputs]
    started = time.process_time()
    made = method.predict(predictor, out).numpy()
    seconds = time.process_time() - started
    both, either = (made & y).sum(1), (made | y).sum(1)
    log_likelihood = method.log_likelihood(out, torch.from_numpy(task.test.y).float())
    return {
        "exact": _exact(made, y),
        "hamming": 100 * float((made == y).mean()),
        "jaccard": 100 * float(np.where(either, both / np.maximum(either, 1), 1).mean()),
        "auprc": average_precision(method.marginals(out).numpy(), y),
        "valid": 100 * valid(task, made),
        "log_likelihood": None if log_likelihood is None else float(log_likelihood.mean()),
        "predict_seconds": seconds,
        "right": "".join("01"[int(v)] for v in (made == y).all(1)),
    }


def _exact(made: np.ndarray, y: np.ndarray) -> float:
    return 100 * float((made == y).all(1).mean())


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
