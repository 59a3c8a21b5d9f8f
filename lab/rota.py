"""A rota that nothing compiles: training by `ContrastiveLoss` against constrained decoding alone.

40 shifts, 6 workers, 240 variables. Two workers are on each shift, one of the first three among
them; nobody works two shifts in a row; everybody works 10 to 16 shifts. A context of 2 numbers
gives log-odds by a hidden linear law, and the target is the most likely rota. The model is linear,
too: with the sigmoid loss, and with the contrastive loss. Both predict the most likely rota of
their log-odds. Each seed has a hidden law, contexts and initial weights of its own.

    python -m lab rota            # about 4 minutes of CPU time
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

import nelson
from lab.common import Row
from nelson import Formula

SHIFTS, WORKERS, SENIORS = 40, 6, 3
LEAST, MOST = 10, 16
INPUTS, TRAIN, TEST, BATCH, EPOCHS, SEEDS = 2, 384, 500, 64, 100, 2
RATE = 0.03
LOSSES = ("sigmoid", "contrastive")


def rota() -> Formula:
    def works(shift: int, worker: int) -> int:
        return shift * WORKERS + worker + 1

    rest = [[-works(s, w), -works(s + 1, w)] for s in range(SHIFTS - 1) for w in range(WORKERS)]
    senior = [[works(s, w) for w in range(SENIORS)] for s in range(SHIFTS)]
    formula = Formula(rest + senior, n_vars=SHIFTS * WORKERS)
    for s in range(SHIFTS):
        formula = formula.exactly([works(s, w) for w in range(WORKERS)], 2)
    for w in range(WORKERS):
        column = [works(s, w) for s in range(SHIFTS)]
        formula = formula.at_most(column, MOST).at_least(column, LEAST)
    return formula


def data(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Contexts (rows, INPUTS), and the most likely rota of each under the hidden law."""
    random = np.random.default_rng(seed)
    hidden = random.normal(size=(INPUTS, SHIFTS * WORKERS))
    contexts = random.normal(size=(rows, INPUTS))
    return contexts, modes(contexts @ hidden)


def modes(theta: np.ndarray) -> np.ndarray:
    """The most likely rota of each row, by integer programming: `nelson.mode` finds the same, but
    needs 0.3 s for most rows and more than 6 s for some.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array, eye_array, kron, vstack

    on, of_workers = eye_array(SHIFTS), eye_array(WORKERS)
    seniors = csr_array(np.array([[w < SENIORS for w in range(WORKERS)]], float))
    table = vstack(
        [
            kron(on, np.ones((1, WORKERS))),
            kron(on, seniors),
            kron(eye_array(SHIFTS - 1, SHIFTS) + eye_array(SHIFTS - 1, SHIFTS, k=1), of_workers),
            kron(np.ones((1, SHIFTS)), of_workers),
        ]
    )
    sizes = (SHIFTS, SHIFTS, (SHIFTS - 1) * WORKERS, WORKERS)
    limits = LinearConstraint(
        table, np.repeat([2, 1, 0, LEAST], sizes), np.repeat([2, 2, 1, MOST], sizes)
    )
    options = {"mip_rel_gap": 0.0}
    found = [
        milp(
            -row,
            integrality=np.ones(row.size),
            bounds=Bounds(0, 1),
            constraints=limits,
            options=options,
        )
        for row in theta
    ]
    return np.array([one.x > 0.5 for one in found])


class Trained(NamedTuple):
    """Of one seed: predictions and targets of the test contexts, by loss, and seconds of a step."""

    made: dict[str, np.ndarray]
    targets: np.ndarray
    steps: list[float]
    noise: str


def trained(formula: Formula, seed: int) -> Trained:
    import torch

    torch.set_num_threads(1)
    contexts, targets = data(TRAIN + TEST, seed)
    x, y = torch.from_numpy(contexts).float(), torch.from_numpy(targets).float()
    loss = nelson.ContrastiveLoss(formula, samples=4, proposals=4000)
    sigmoid = torch.nn.BCEWithLogitsLoss()
    made, spent = {}, []
    for name in LOSSES:
        torch.manual_seed(seed)
        net = torch.nn.Linear(INPUTS, formula.n_vars)
        optimiser = torch.optim.Adam(net.parameters(), lr=RATE)
        for _ in range(EPOCHS):
            for batch in torch.randperm(TRAIN).split(BATCH):
                started = time.process_time()
                out = net(x[batch])
                value = sigmoid(out, y[batch]) if name == "sigmoid" else loss(out, y[batch], batch)
                optimiser.zero_grad()
                value.backward()
                optimiser.step()
                if name == "contrastive":
                    spent.append(time.process_time() - started)
        made[name] = modes(net(x[TRAIN:]).detach().numpy().astype(np.float64))
    last = loss.history[-1]
    noise = f"noise {last['noise']:.3f} of a gradient of {last['gradient']:.3f}; {loss.why}"
    return Trained(made, targets[TRAIN:], spent, noise)


def rows() -> Iterator[Row]:
    formula = rota()
    yield from compared(formula, [trained(formula, seed) for seed in range(SEEDS)])


def compared(formula: Formula, seeds: Iterable[Trained]) -> Iterator[Row]:
    seeds = list(seeds)
    targets = np.concatenate([one.targets for one in seeds])
    right = {}
    for name in LOSSES:
        made = np.concatenate([one.made[name] for one in seeds])
        right[name] = (made == targets).all(1)
        bits, valid = (made == targets).mean(), formula.satisfied(made).mean()
        note = (
            f"{right[name].sum()} of {len(made)} test contexts; bits {bits:.2%}; valid {valid:.1%}"
        )
        share = 100 * float(right[name].mean())
        yield Row(f"rota, exact match, {name} loss and decoding", share, None, None, "%", note=note)
    won = int((right["contrastive"] & ~right["sigmoid"]).sum())
    lost = int((right["sigmoid"] & ~right["contrastive"]).sum())
    z = (won - lost) / math.sqrt(max(1, won + lost))
    note = f"only it is right in {won} contexts, only the other in {lost}: z = {z:.1f} (McNemar)"
    yield Row(
        "rota, contrastive over sigmoid", z, 2.0, 5.0, "sigma", note=f"{note}; {seeds[0].noise}"
    )
    step = float(np.median(np.concatenate([one.steps for one in seeds])))
    yield Row("rota, CPU time of a step of 64 contexts", step, 1.0, 0.5, "s", at_most=True)
