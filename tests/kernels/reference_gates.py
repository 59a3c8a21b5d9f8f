"""The specification of `cpu/gates.py` in plain NumPy: one boolean per sample and variable."""

from typing import Any

import numpy as np

from nelson.kernels.core.program import Program
from nelson.kernels.core.reference import FAVOURS_ONE, UNWEIGHTED, bernoulli, gate_weights, lanes


def propose(
    program: Program,
    entries: Any,
    thr: np.ndarray,
    theta: np.ndarray,
    seed: int,
    count: int,
    context: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """`count` proposals of one context. -> (x (count, n), does the proposal stay (count,))

    entries: `cpu.gates.Entries`; thr, theta (n,) and x in the order of the formula's variables.
    """
    every, words = np.arange(program.n), np.arange(-(-count // 64))
    gates = entries.target[entries.target >= 0]
    own, favoured = gate_weights(thr[None, program.name], theta[None, program.name], gates)
    x = lanes(bernoulli(seed, context, words, program.name[every], 0, own[0]), count)
    coin, stays = x.copy(), np.ones(count, bool)
    x[:, program.fixed >> 1] = program.fixed & 1
    for e, v in enumerate(entries.target):
        some = np.zeros(count, bool)
        for term in range(entries.first[e], entries.first[e + 1]):
            codes = entries.codes[entries.start[term] : entries.start[term + 1]]
            some |= (x[:, codes >> 1] != (codes & 1)).all(1)
        if v < 0:
            stays &= ~some
            continue
        x[:, v] = some ^ bool(entries.flip[e])
        if favoured[0, v] != UNWEIGHTED:
            stays &= (x[:, v] == (favoured[0, v] == FAVOURS_ONE)) | coin[:, v]
    return x[:, program.place], stays
