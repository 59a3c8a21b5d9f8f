"""What a sampler is: one file with one `SAMPLER`, and one line in the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nelson.samplers.problem import Problem


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


@dataclass
class Block:
    """Samples as they come, for each context: packed (contexts, words, columns) and valid
    (contexts, words).

    `valid` says which lanes are samples at all; the others are dropped by the caller.
    """

    packed: np.ndarray
    valid: np.ndarray
    rounds: int = 0
    resampled: int = 0
    stopped: bool = False  # the deadline cut it short
    interrupted: bool = False  # Ctrl-C did
    frozen: np.ndarray | None = None  # (n,) bool: swept variables that no sweep could move
    info: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Sampler:
    name: str
    #: Math in one line.
    summary: str
    citation: str
    #: May theta differ from 0?
    weighted: bool
    #: "exact" | "asymptotic" | "heuristic", given the problem and the number of sweeps
    guarantee: Callable[[Problem, int], str]
    blocks: Callable[[Problem, Request], Iterator[Block]]
    #: Extra that must be installed: `pip install "nelson[needs]"`.
    needs: str | None = None
