"""The object under test: a registered sampler, a function that draws, or given samples."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.io.boolean_table import Table, boolean
from nelson.io.tables import read
from nelson.sampling import auto
from nelson.sampling.registry import get, names
from nelson.sampling.sample_stream import sample


@dataclass(frozen=True)
class JudgedSamples:
    x: np.ndarray  # (m, columns) bool
    columns: np.ndarray  # the visible variables of the columns, from 0, ascending
    info: dict[str, Any] = field(default_factory=dict)  # what the sampler reported

    def __len__(self) -> int:
        return len(self.x)


Draw = Callable[[Formula, np.ndarray | None, int, int, float], JudgedSamples]


@dataclass(frozen=True)
class Subject:
    """A sampler has `draw(formula, theta, n, seed, seconds)`; given samples are in `samples`.

    `ready(n)` compiles the kernels that n samples need, and no others. `auto` also has
    `held(method)`: draws with the one method that `auto` took for an earlier formula.
    """

    name: str
    draw: Draw | None = None
    samples: JudgedSamples | None = None
    ready: Callable[[int], None] | None = None
    held: Callable[[str], Draw] | None = None


def source_of(
    formula: Formula, what: Any, sweeps: int | None = None, shown: tuple[int, ...] | None = None
) -> Subject:
    """what: a name of `nelson.samplers()` or "auto"; a callable (formula, theta, n, seed) ->
    (m, n) bool; or samples: `Samples`, an array, a file.

    shown: variables; a registered sampler is asked for projected solutions on them.
    """
    if isinstance(what, str) and (what == "auto" or what in names()):
        held = (lambda method: _registered(method, None, shown)) if what == "auto" else None
        return Subject(what, _registered(what, sweeps, shown), ready=_ready(what), held=held)
    if callable(what) and not hasattr(what, "packed"):
        return Subject(getattr(what, "__name__", type(what).__name__), _function(what))
    if isinstance(what, str) and what != "-" and not os.path.exists(what):
        known = ", ".join(["auto", *names()])
        raise FormulaError(f"no sampler or file {what!r}", expected=f"a file, or one of {known}")
    name = os.fspath(what) if isinstance(what, (str, os.PathLike)) else "an array"
    return Subject(name, samples=_columns(formula, read(what, formula.n_vars)))


def _ready(name: str) -> Callable[[int], None] | None:
    ready = auto.ready_once if name == "auto" else get(name).ready
    return None if ready is None else lambda n: ready(n, None)


def _registered(name: str, sweeps: int | None, shown: tuple[int, ...] | None) -> Draw:
    law: dict[str, Any] = {"project": "all"}
    if shown is not None:
        law = {"project": sorted(shown), "project_law": "solutions"}

    def draw(
        formula: Formula, theta: np.ndarray | None, n: int, seed: int, seconds: float
    ) -> JudgedSamples:
        how: dict[str, Any] = {"method": name, "sweeps": sweeps, "seed": seed, "seconds": seconds}
        got = sample(formula, theta, n, **law, **how)
        info = {"guarantee": got.guarantee, "status": got.status, **got.info}
        return JudgedSamples(got.to_numpy(), np.array(got.variables, int) - 1, info)

    return draw


def _function(function: Callable[..., Any]) -> Draw:
    def draw(
        formula: Formula, theta: np.ndarray | None, n: int, seed: int, seconds: float
    ) -> JudgedSamples:
        got = function(formula, theta, n, seed)
        if hasattr(got, "packed"):
            return _columns(formula, read(got, formula.n_vars))
        x = boolean(got)
        if x.shape[1] not in (formula.n_vars, formula.n_total):
            raise FormulaError(
                f"the sampler returned shape {x.shape}", expected=f"(m, {formula.n_vars})"
            )
        return JudgedSamples(x[:, : formula.n_vars], np.arange(formula.n_vars))

    return draw


def _columns(formula: Formula, table: Table) -> JudgedSamples:
    """Sort columns by variable and drop auxiliary ones; some visible ones may be missing."""
    n = formula.n_vars
    if table.variables is None:
        if table.x.shape[1] not in (n, formula.n_total):
            raise FormulaError(
                f"{table.x.shape[1]} columns", expected=f"{n} variables", source=table.source
            )
        return JudgedSamples(table.x[:, :n], np.arange(n))
    variables = np.array(table.variables, np.int64)
    beyond = variables[variables > formula.n_total]
    if len(beyond):
        raise FormulaError(
            f"a column for variable {beyond[0]}", expected=f"1..{n}", source=table.source
        )
    order = np.argsort(variables, kind="stable")
    order = order[variables[order] <= n]
    return JudgedSamples(table.x[:, order], variables[order] - 1)
