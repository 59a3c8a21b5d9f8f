"""The options of a draw in one object: the keyword arguments of `nelson.sample`, checked once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from nelson.chains.diagnosis.verdict import StepVerdict
from nelson.errors import FormulaError
from nelson.formula.checks import checked_projection, count, duration, is_whole
from nelson.kernels.core.rng import MAX_ROUNDS, MAX_SWEEPS
from nelson.kernels.cpu.tiles import WIDTHS
from nelson.policy import DEFAULT, Policy
from nelson.sampling.methods import lovasz
from nelson.sampling.registry import get

#: Draws for "auto" where the caller gives the number of sweeps.
_SWEPT = lovasz.SAMPLER.name
#: What a projection means: the marginal law of all solutions, or each projected solution once.
PROJECT_LAWS = ("marginal", "solutions")
#: What a sweep is; the cheapest first.
MOVES = ("single", "fields", "joint")


@dataclass(frozen=True)
class Options:
    """`nelson.sample` documents the fields, but here `project=None` means all variables.

    Raises FormulaError if a value is wrong for every formula. `Plan` checks what depends on
    the formula and theta: method, given, project.
    """

    method: str = "auto"
    sweeps: int | None = None
    moves: str = "single"
    given: Mapping[int, bool] | Iterable[int] | None = None
    project: Iterable[int] | str | None = None
    project_law: str = "marginal"
    unique: bool = False
    seed: int | None = None
    threads: int | None = None
    max_rounds: int = 1000
    seconds: float | None = None
    strict: bool = False
    width: int | None = None
    device: Any = None
    check: bool = True
    policy: Policy = DEFAULT
    terms: Any = None
    #: The next three are for callers within the package. Two are for those who draw again and again
    #: while theta moves. The verdict that `sweeps` came with:
    verdict: StepVerdict | None = None
    #: "auto": take the last verdict on chains, whatever theta it was for.
    reuse: bool = False
    #: The caller knows that the variables in `project` determine all others, so that each row is
    #: one solution. Distinct rows keep their guarantee only then.
    determined: bool = False

    def __post_init__(self) -> None:
        for name in ("max_rounds", "sweeps", "threads"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 0):
                object.__setattr__(self, name, count(value, name))  # 1e3 becomes 1000
        for name, most in (("max_rounds", MAX_ROUNDS), ("sweeps", MAX_SWEEPS)):
            if (value := getattr(self, name)) is not None and value > most:
                raise FormulaError(f"{name} = {value}", expected=f"at most {most}")
        if self.moves not in MOVES:
            expected = " or ".join(f'"{name}"' for name in MOVES)
            raise FormulaError(f"moves={self.moves!r}", expected=expected)
        other_moves = self.moves != "single"
        if other_moves and (not self.sweeps or not get(self.named).other_moves):
            raise FormulaError(
                f"moves={self.moves!r} with method={self.method!r} and sweeps={self.sweeps}",
                expected=f'method="{_SWEPT}" and the number of moves, sweeps=32 for example',
            )
        if self.terms is not None:
            self._check_terms()
        if self.seconds is not None:
            duration(self.seconds)
        if self.width is not None and self.width not in WIDTHS:
            raise FormulaError(f"width = {self.width}", expected=f"one of {WIDTHS}")
        seed = self.seed
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer))):
            raise FormulaError(f"seed = {seed!r}", expected="an integer")
        if self.threads == 0:
            raise FormulaError("threads = 0", expected="1 or more")
        checked_law(self.project_law)
        if self.gpu is not None and other_moves:
            raise FormulaError(f'moves={self.moves!r} with device="cuda"', expected='device="cpu"')
        if self.gpu is not None and self.unique:
            raise FormulaError('unique=True with device="cuda"', expected='device="cpu"')

    def _check_terms(self) -> None:
        """What a law with terms cannot be drawn with."""
        for name, given, expected in (
            ("method", self.method, ("auto", _SWEPT)),
            ("moves", self.moves, ("single",)),
            ("project_law", self.project_law, ("marginal",)),
            ("unique", self.unique, (False,)),
            ("device", "cpu" if self.gpu is None else self.device, ("cpu",)),
        ):
            if given not in expected:
                choices = " or ".join(map(repr, expected))
                raise FormulaError(f"terms with {name}={given!r}", expected=f"{name}={choices}")

    @classmethod
    def among(cls, arguments: Mapping[str, Any]) -> Options:
        """The options among the arguments of a public function, which passes its `locals()`.

        project=None becomes the projection that the formula carries, if it carries one.
        """
        formula, theta = arguments["formula"], arguments["theta"]
        if is_whole(theta) and theta >= 0:
            raise FormulaError(
                f"theta = {theta!r} (theta is the second argument)",
                expected=f"None or {formula.n_vars} log-odds; did you mean n={int(theta)}?",
            )
        options = {name: arguments[name] for name in _NAMES if name in arguments}
        options["project"] = (
            formula.projection
            if options["project"] is None
            else checked_projection(options["project"], formula.n_vars)
        )
        return cls(**options)

    @property
    def named(self) -> str:
        """The sampler if nothing is decided: "auto" with a number of sweeps is one, too."""
        return _SWEPT if self.method == "auto" else self.method

    @cached_property
    def gpu(self) -> int | None:
        """The number of the GPU to draw on; None: the CPU."""
        return gpu_number(self.device)


_NAMES = [field.name for field in fields(Options)]


def checked_law(law: str) -> str:
    """The law of a projection, if it is one of PROJECT_LAWS."""
    if law not in PROJECT_LAWS:
        expected = " or ".join(f'"{law}"' for law in PROJECT_LAWS)
        raise FormulaError(f"project_law = {law!r}", expected=expected)
    return law


def gpu_number(device: Any) -> int | None:
    """0 for "cuda", 1 for "cuda:1" or such a torch.device; None for the CPU."""
    if device is None or str(device) == "cpu":
        return None
    kind, _, index = str(device).partition(":")
    if kind != "cuda" or not (index == "" or index.isdigit()):
        raise FormulaError(f"device={device!r}", expected='"cpu", "cuda" or "cuda:N"')
    return int(index or 0)
