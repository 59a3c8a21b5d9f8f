"""DIMACS formulas on the command line, with the names that their comments give to variables."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from nelson.cli.common import read_weights, say, whole_numbers
from nelson.errors import FormulaError

if TYPE_CHECKING:
    import numpy as np

    from nelson.formula import Formula
    from nelson.formula.names import Names

_NUMBERS = re.compile(r"[-+\d,\s]+")
_TRUTH = {"true": True, "false": False, "1": True, "0": False}


@dataclass(frozen=True)
class Named:
    """A formula and the names of its variables; None if the file gives none."""

    formula: Formula
    names: Names | None

    def titles(self, variables: Sequence[int]) -> list[str] | None:
        """The names of these variables, for a header."""
        return None if self.names is None else [str(self.names[v]) for v in variables]

    def shown(self, variable: int) -> str:
        return f"x{variable}" if self.names is None else str(self.names[variable])

    def literals(self, given: list[str]) -> list[int] | None:
        """`--given 1,-5 --given Engine=true --given -Diesel` as literals."""
        return literals(given, self.names)

    def theta(self, weights: str | None, weight: list[str]) -> np.ndarray | None:
        """The log-odds of `--weights`, plus log(factor) for each `--weight Engine=3`."""
        theta = read_weights(weights, self.formula)
        if not weight:
            return theta
        import numpy as np

        theta = np.zeros(self.formula.n_vars) if theta is None else theta.copy()
        for text in weight:
            name, _, number = text.rpartition("=")
            try:
                factor = float(number)
                if not (factor > 0 and math.isfinite(factor)):
                    raise ValueError
            except ValueError:
                raise typer.BadParameter(
                    f"{text!r}: expected name=factor, a number above 0", param_hint="--weight"
                ) from None
            theta[_variable(name, self.names, "--weight") - 1] += math.log(factor)
        return theta

    def log_odds(
        self, weights: str | None, weight: list[str], given: list[str] | None = None
    ) -> np.ndarray:
        """`theta`, 0 where there is none, with infinite entries for `--given`."""
        import numpy as np

        from nelson.formula.checks import with_evidence

        theta = self.theta(weights, weight)
        theta = np.zeros(self.formula.n_vars) if theta is None else theta
        return with_evidence(theta, self.literals(given or []) or ())


def read_named(file: str, dialect: str, quiet: bool = False) -> Named:
    """The formula in `file` (`-`: stdin) and its names. Notes of the reader go to stderr."""
    from nelson.formula import Formula
    from nelson.formula.names import Names, names_in_comments
    from nelson.io.streams import decompressed, load

    name, data = load(file)
    data = decompressed(data, name)
    source: Any = io.BytesIO(data)
    source.name = name  # what errors call it
    formula = Formula.from_dimacs(source, dialect=dialect)
    if not quiet:
        for note in formula.notes:
            say(f"note: {note}")
    try:
        found = names_in_comments(data, name, formula.n_vars)
    except FormulaError as error:  # comments are comments: no file is refused for them
        found = {}
        if not quiet:
            say(f"note: no names are taken from comments: {error.what}")
    return Named(formula, Names(formula.n_vars, found) if found else None)


def literals(given: list[str], names: Names | None) -> list[int] | None:
    found: list[int] = []
    for text in given:
        if _NUMBERS.fullmatch(text):
            found += whole_numbers(text, "--given") or []
            continue
        name, equals, value = text.rpartition("=")
        if not equals:  # a name alone is true, -name is false
            name, value = text.lstrip("-"), str(not text.startswith("-"))
        if value.strip().lower() not in _TRUTH:
            raise typer.BadParameter(f"{text!r}: expected name=true or false", param_hint="--given")
        variable = _variable(name, names, "--given")
        found.append(variable if _TRUTH[value.strip().lower()] else -variable)
    return found or None


def _variable(text: str, names: Names | None, option: str) -> int:
    """The variable of a number, `x7`, or a name."""
    name = text.strip()
    if name.isdecimal():
        return int(name)
    if names is not None and name in list(names):
        return names.variable(name)
    if names is None and re.fullmatch(r"x[1-9]\d*", name):
        return int(name[1:])
    known = "variables by number" if names is None else f"names such as {next(iter(names))!r}"
    raise typer.BadParameter(f"{text!r} is no variable; the file has {known}", param_hint=option)
