"""What a sampler is: one file with one `SAMPLER`, and one line in the registry.

A sampler of our own kernels yields blocks itself (`engine.py`); one that hands out plain rows
(another package, a child process) is a `draw` function behind `foreign.blocks`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nelson.sampling.problem import Problem


@dataclass(frozen=True)
class Request:
    """What is asked of a sampler. Sample i of context c is a function of (seed, c, i) alone."""

    theta: np.ndarray  # (contexts, n) finite log-odds
    contexts: np.ndarray  # (contexts,) number of each: selects its random numbers
    count: int | None  # samples per context; None: without end
    block: int  # samples per context and block, a multiple of 64 unless it is the only block
    seed: int
    columns: np.ndarray  # variables to hand out, from 0
    sweeps: int
    max_rounds: int
    threads: int
    deadline: float | None = None  # time.monotonic()
    width: int | None = None  # words a row; None: chosen by the sampler
    patience: float | None = None  # seconds a block may take where there is no deadline
    start: int = 0  # number of the first sample (samplers with `may_be_invalid` are asked for more)

    def until(self) -> float | None:
        """When a block that begins now has to be done; time.monotonic()."""
        if self.deadline is not None or self.patience is None:
            return self.deadline
        return time.monotonic() + self.patience


@dataclass
class Block:
    """Samples as they come, for each context: packed (contexts, words, columns) and valid
    (contexts, words).

    `valid` says which lanes are samples at all; the others are dropped by the caller. `sound`, of
    the same shape, says which of those satisfy the formula; None: all of them do. `drawn` and
    `invalid` are counts that `checked.py` fills in.
    """

    packed: np.ndarray
    valid: np.ndarray
    rounds: int = 0
    resampled: int = 0
    stopped: bool = False  # a budget cut it short; info["ended"] may say which
    interrupted: bool = False  # Ctrl-C did
    frozen: np.ndarray | None = None  # (n,) bool: swept variables that no sweep could move
    info: dict[str, Any] = field(default_factory=dict)
    sound: np.ndarray | None = None
    drawn: int = 0
    invalid: int = 0


@dataclass(frozen=True)
class Sampler:
    name: str
    #: Math in one line.
    summary: str
    citation: str
    #: May theta differ from 0?
    weighted: bool
    #: One of `nelson.sampling.registry.GUARANTEES`, given the problem and the number of sweeps
    guarantee: Callable[[Problem, int], str]
    blocks: Callable[[Problem, Request], Iterator[Block]]
    #: Extra that must be installed: `pip install "nelson[needs]"`.
    needs: str | None = None
    #: May it emit assignments that violate the formula? They are then marked in `Block.sound`.
    may_be_invalid: bool = False
    #: Sweeps if the caller does not say how many. None: the method makes none.
    sweeps: int | None = None
    #: Seconds of the budget if the caller gives none (of each block, in a stream). None: the
    #: rounds are budget enough.
    seconds: float | None = None
    #: Called with the number of samples (and the width asked for) before the clock starts: compiles
    #: what has to be compiled.
    ready: Callable[[int, int | None], None] | None = None
    #: Modules that are imported when it draws; `needs` is what installs them.
    modules: tuple[str, ...] = ()
    #: The guarantee in words, for tables.
    promise: str = ""
