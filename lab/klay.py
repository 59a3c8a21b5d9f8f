"""Weighted counts, forward and backward: `CircuitLayer` against KLay in torch, on random 3-CNF, and
on rules of docs/prediction.md if NELSON_BENCH_DATA names the folder of its data.

    pip install --target FOLDER/klay --no-deps klaycircuits
    python -m lab klay --peers FOLDER

KLay (Maene, Derkinderen, Zuidberg Dos Martires, ICLR 2025) evaluates a d-DNNF layer by layer. Both
get what D4 compiles from the same clauses, the same log-odds in single precision, and one thread;
times are CPU times of log P(C) for a batch and its gradient. `compile=False`: torch.compile is for
GPUs here.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import nelson
from lab.common import Row, ratio, seconds
from lab.prediction import load
from nelson.exact.circuit import compile_child
from tests.problems import random_ksat

#: (variables, clauses) of a formula.
SIZES = ((30, 75), (45, 112), (60, 150))
BATCHES = (1, 32, 128)
#: Tasks whose training steps are compared: their batches have 128 contexts.
TASKS = ("cellcycle", "diatoms", "imclef07d", "paths")


def rows() -> Iterator[Row]:
    folder = Path(os.environ.get("NELSON_BENCH_PEERS", "")) / "klay"
    if not folder.is_dir():
        print(f"klay: skipped, because there is no folder {folder}: see lab/klay.py")
        return
    sys.path.append(str(folder))
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for n, clauses in SIZES:
            yield from _compared(
                f"3-CNF, n = {n}, L = {clauses}", random_ksat(n, clauses, 3, seed=n)
            )
        for name in TASKS if (data := os.environ.get("NELSON_BENCH_DATA")) else ():
            yield from _compared(name, load(str(data), name).formula, BATCHES[-1:])
    finally:
        torch.set_num_threads(threads)


def _compared(
    name: str, formula: nelson.Formula, batches: tuple[int, ...] = BATCHES
) -> Iterator[Row]:
    import torch
    from torch.nn.functional import logsigmoid, softplus

    n = formula.n_vars
    layer, (module, nodes) = nelson.CircuitLayer(formula), _klay(formula)
    for batch in batches:
        theta = torch.randn(batch, n, generator=torch.Generator().manual_seed(0))

        def ours(theta: Any = theta) -> Any:
            theta = theta.clone().requires_grad_()
            value = layer.log_partition(theta) - softplus(theta).sum(-1)
            value.sum().backward()
            return value, theta.grad

        def theirs(theta: Any = theta) -> Any:
            theta = theta.clone().requires_grad_()
            value = module(logsigmoid(theta), logsigmoid(-theta)).reshape(-1)
            value.sum().backward()
            return value, theta.grad

        (a, da), (b, db) = ours(), theirs()
        torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(da, db, atol=1e-3, rtol=1e-3)
        figure, peer, time = ratio(lambda: _median(theirs), lambda: _median(ours), 5)
        note = f"{time * 1e3:.2f} ms against {peer * 1e3:.2f} ms of CPU; {nodes:,} nodes in KLay"
        yield Row(f"{name}, batch {batch}", figure, 1.0, 2.0, "x", note=note)


def _median(job: Any) -> float:
    return float(np.median([seconds(job) for _ in range(3)]))


def _klay(formula: nelson.Formula) -> tuple[Any, int]:
    import klay

    task = {
        "n": formula.n_total,
        "literals": formula.literals.astype(np.int32).tobytes(),
        "offsets": formula.offsets.astype(np.int64).tobytes(),
    }
    circuit = klay.Circuit()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "formula.nnf"
        path.write_bytes(compile_child.solve(task)["nnf"])
        circuit.add_d4_from_file(str(path))
    return circuit.to_torch_module("log", compile=False), circuit.nb_nodes()
