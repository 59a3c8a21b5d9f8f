"""What the loop needs of a learner: `Newton`, `FirstOrder` (one theta) or `Conditional` (a net)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from nelson.formula import Formula
from nelson.learning.data import Examples
from nelson.learning.draw import Drawer
from nelson.learning.group import State
from nelson.learning.history import History
from nelson.learning.moments import Draw
from nelson.learning.settings import Settings


class Learner(ABC):
    """The parameters that are learned, and how one step changes them."""

    m: int  # samples to draw at each theta of `draw_at`
    done = False
    drawer: Drawer

    def __init__(self, formula: Formula, examples: Examples, settings: Settings) -> None:
        self.formula, self.examples, self.settings = formula, examples, settings

    def begin(self, drawer: Drawer, saved: State | None) -> None:
        """Start from the data, or from the state in a checkpoint."""
        self.drawer = drawer
        if saved is None:
            self.start()
        else:
            self.restore(saved)

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Further values that must agree between a checkpoint and the run that resumes it."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def draw_at(self, k: int) -> np.ndarray:
        """Where iteration k (from 0) needs samples: theta (n,), or (contexts, n)."""

    @abstractmethod
    def update(self, draw: Draw) -> dict[str, Any]:
        """Move the parameters; the samples come from `draw_at`. Returns columns of the history."""

    @abstractmethod
    def result(self) -> np.ndarray | None:
        """The best theta so far, (n,); None if theta depends on a context."""

    @abstractmethod
    def verdict(self, history: History, ended: str) -> tuple[bool, str]:
        """Has the run converged, and why, in words; `ended` as `Group.halt` returns it."""

    @abstractmethod
    def state(self) -> State:
        """All that `update` changes."""

    @abstractmethod
    def restore(self, state: State) -> None: ...

    def clipped(self, theta: np.ndarray) -> np.ndarray:
        return np.clip(theta, -self.settings.bound, self.settings.bound)
