"""What a sampler is.

A sampler is one file in `methods/` that defines `SAMPLER`, and one line in the registry. It is
asked a `Request` (`nelson.chains.request`) and answers with blocks (`nelson.chains.block`). A
sampler that runs our kernels yields blocks itself (`nelson.chains.engine`). A sampler that produces
plain rows (of another package, or of a child process) is a `draw` function behind `foreign.blocks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from nelson.chains.block import Block
from nelson.chains.problem import Problem
from nelson.chains.request import Request


@dataclass(frozen=True, eq=False)  # a sampler is equal to itself only, also as part of a key
class Sampler:
    name: str
    #: Math in one line.
    summary: str
    citation: str
    #: May theta differ from 0?
    weighted: bool
    #: One of `nelson.chains.guarantee.GUARANTEES`, for a problem and a number of sweeps.
    guarantee: Callable[[Problem, int], str]
    blocks: Callable[[Problem, Request], Iterator[Block]]
    #: Why it cannot draw from a problem, "" if it can. None: it takes every formula.
    refuses: Callable[[Problem], str] | None = None
    #: The extra that installs its packages: `pip install "nelson-mrf[needs]"`.
    needs: str | None = None
    #: May it return assignments that violate the formula? It then marks them in `Block.valid`.
    may_be_invalid: bool = False
    #: Sweeps if the caller gives no number. None: the method makes no sweeps.
    sweeps: int | None = None
    #: Seconds of the budget if the caller gives none (per block, in a stream). None: the number of
    #: rounds is budget enough.
    seconds: float | None = None
    #: Called with the number of samples and the width before the clock starts: compiles kernels.
    ready: Callable[[int, int | None], None] | None = None
    #: Does it round probabilities to multiples of 2^-32?
    rounds_weights: bool = False
    #: Is it keyed by the sample: is sample i a function of (seed, i) alone? If it may be invalid,
    #: this holds for what it draws, not for the valid samples among that.
    keyed: bool = False
    #: How far its law may be from P where it is called exact, for a problem and rows of theta
    #: (`total_variation.py`). None: it is not known, and nothing is called exact.
    variation: Callable[[Problem, np.ndarray], np.ndarray] | None = None
    #: The number of its kernel on a GPU. None: only the host runs it.
    gpu_method: int | None = None
    #: Does it draw from the circuit of a formula, compiled once?
    from_circuit: bool = False
    #: Does it make sweeps of fields and joint moves?
    other_moves: bool = False
    #: Is it biased on a formula that is not extremal, unless sweeps follow?
    needs_sweeps: bool = False
    #: Does a trial that depends on theta tell whether it draws at all?
    tried_on_theta: bool = False
    #: Modules that it imports when it draws.
    modules: tuple[str, ...] = ()
    #: The guarantee in words, for tables.
    promise: str = ""
