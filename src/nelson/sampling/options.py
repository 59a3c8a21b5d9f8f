"""The options of a draw in one object: the keyword arguments of `nelson.sample`, checked once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.formula.checks import count, duration
from nelson.kernels.core.rng import MAX_ROUNDS
from nelson.kernels.cpu.tiles import WIDTHS


@dataclass(frozen=True)
class Options:
    """`nelson.sample` documents the fields.

    Raises FormulaError if a value is wrong for every formula. `make_plan` checks what depends on
    the formula and theta: method, given, project.
    """

    method: str = "auto"
    sweeps: int | None = None
    given: Mapping[int, bool] | Iterable[int] | None = None
    project: Iterable[int] | None = None
    unique: bool = False
    seed: int | None = None
    threads: int | None = None
    max_rounds: int = 1000
    seconds: float | None = None
    strict: bool = False
    width: int | None = None
    device: Any = None
    check: bool = True

    def __post_init__(self) -> None:
        for name in ("max_rounds", "sweeps"):
            value = getattr(self, name)
            if value is not None and count(value, name) > MAX_ROUNDS:
                raise FormulaError(f"{name} = {value}", expected=f"at most {MAX_ROUNDS}")
        if self.seconds is not None:
            duration(self.seconds)
        if self.width is not None and self.width not in WIDTHS:
            raise FormulaError(f"width = {self.width}", expected=f"one of {WIDTHS}")
        seed = self.seed
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer))):
            raise FormulaError(f"seed = {seed!r}", expected="an integer")
        if self.threads is not None and not count(self.threads, "threads"):
            raise FormulaError("threads = 0", expected="1 or more")
        if self.gpu is not None and self.unique:
            raise FormulaError('unique=True with device="cuda"', expected='device="cpu"')

    @classmethod
    def among(cls, arguments: Mapping[str, Any]) -> Options:
        """The options among the arguments of a function, which passes its `locals()`."""
        return cls(**{name: arguments[name] for name in _NAMES if name in arguments})

    @property
    def gpu(self) -> int | None:
        """The number of the GPU to draw on; None: the CPU."""
        return gpu_number(self.device)


_NAMES = [field.name for field in fields(Options)]


def gpu_number(device: Any) -> int | None:
    """0 for "cuda", 1 for "cuda:1" or such a torch.device; None for the CPU."""
    if device is None or str(device) == "cpu":
        return None
    kind, _, index = str(device).partition(":")
    if kind != "cuda" or not (index == "" or index.isdigit()):
        raise FormulaError(f"device={device!r}", expected='"cpu", "cuda" or "cuda:N"')
    return int(index or 0)
