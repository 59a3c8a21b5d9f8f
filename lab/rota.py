"""A rota that nothing compiles: training by `ContrastiveLoss` against constrained decoding alone.

40 shifts, 6 workers, 240 variables. Two workers are on each shift, one of the first three among
them; nobody works two shifts in a row; everybody works 10 to 16 shifts. A context of 2 numbers
gives log-odds by a hidden linear law, and the target is the most likely rota. The model is linear,
too: with the sigmoid loss, and with the contrastive loss. Both predict the most likely rota of
their log-odds.

    python -m lab rota
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

import nelson
from lab.common import Row
from nelson import Formula

SHIFTS, WORKERS, SENIORS = 40, 6, 3
LEAST, MOST = 10, 16
INPUTS, TRAIN, TEST, BATCH, EPOCHS = 2, 128, 32, 64, 100


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


def data(formula: Formula, rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Contexts (rows, INPUTS), and the most likely rota of each under the hidden law."""
    random = np.random.default_rng(seed)
    hidden = random.normal(size=(INPUTS, formula.n_vars))
    contexts = random.normal(size=(rows, INPUTS))
    return contexts, modes(formula, contexts @ hidden)


def modes(formula: Formula, theta: np.ndarray) -> np.ndarray:
    return np.array([nelson.mode(formula, row) for row in theta])


def rows() -> Iterator[Row]:
    import torch

    torch.set_num_threads(1)
    formula = rota()
    contexts, targets = data(formula, TRAIN + TEST)
    x, y = torch.from_numpy(contexts).float(), torch.from_numpy(targets).float()
    loss = nelson.ContrastiveLoss(formula, samples=4, proposals=4000)
    sigmoid = torch.nn.BCEWithLogitsLoss()
    exact, spent = {}, []
    for name in ("sigmoid", "contrastive"):
        torch.manual_seed(0)
        net = torch.nn.Linear(INPUTS, formula.n_vars)
        optimiser = torch.optim.Adam(net.parameters(), lr=0.03)
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
        made = modes(formula, net(x[TRAIN:]).detach().numpy().astype(np.float64))
        right = made == targets[TRAIN:]
        exact[name] = 100 * right.all(1).mean()
        share = 100 * formula.satisfied(made).mean()
        note = f"{TEST} test contexts; bits {100 * right.mean():.2f}%"
        note += f"; valid {share:g}%"
        yield Row(
            f"rota, exact match, {name} loss and decoding", exact[name], None, None, "%", note=note
        )
    last = loss.history[-1]
    note = f"noise {last['noise']:.3f} of a gradient of {last['gradient']:.3f}; {loss.why}"
    gain = exact["contrastive"] - exact["sigmoid"]
    yield Row("rota, exact match, contrastive over sigmoid", gain, 0.0, 5.0, "points", note=note)
    step = float(np.median(spent))
    yield Row("rota, CPU time of a step of 64 contexts", step, 1.0, 0.5, "s", at_most=True)
