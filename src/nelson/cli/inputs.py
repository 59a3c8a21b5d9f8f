"""What commands read: a formula with the names of its variables, a space, or a model; and options
in the words of the user.
"""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from nelson.cli.common import left, say, whole_numbers
from nelson.errors import FormulaError, NelsonError
from nelson.io.progress import phase

if TYPE_CHECKING:
    import numpy as np

    from nelson.formula import Formula
    from nelson.formula.names import Names
    from nelson.space import Space
    from nelson.space.tables.model import TableModel

_NUMBERS = re.compile(r"[-+\d,\s]+")
_TRUTH = {"true": True, "false": False, "1": True, "0": False}
#: `name=value`; a rule such as `a <= 3` or `a == 3` is none.
_ASSIGNMENT = re.compile(r"([^=<>!]+)=(?!=)(.*)", re.DOTALL)


# --- formulas -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NamedFormula:
    """A formula, the names of its variables, and the weights that its file or model gives.

    terms: coefficients of products of variables, of a model that has them.
    """

    formula: Formula
    names: Names | None = None
    file_theta: np.ndarray | None = None
    terms: Mapping[tuple[int, ...], float] | None = None

    def titles(self, variables: Sequence[int]) -> list[str] | None:
        """The names of these variables, for a header; None if there are no names."""
        return None if self.names is None else [str(self.names[v]) for v in variables]

    def shown(self, variable: int) -> str:
        return f"x{variable}" if self.names is None else str(self.names[variable])

    def literals(self, given: list[str]) -> list[int] | None:
        """`--given 1,-5 --given Engine=true --given -Diesel` as literals."""
        return literals(given, self.names)

    def theta(self, weights: str | None, weight: Sequence[str] = ()) -> np.ndarray | None:
        """The log-odds of `--weights`, plus log(factor) for each `--weight Engine=3`."""
        theta = self._theta_of(weights)
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

    def _theta_of(self, choice: str | None) -> np.ndarray | None:
        """`--weights`: those of the file (the default), none, or a vector in another file."""
        if choice == "none":
            return None
        if choice in (None, "file"):
            if choice == "file" and self.file_theta is None:
                raise NelsonError("--weights file: the formula's file gives no weights")
            return self.file_theta
        from nelson.io.table_formats import vector

        theta = vector(str(choice))
        if theta.shape != (self.formula.n_vars,):
            raise NelsonError(
                f"{choice}: theta has shape {theta.shape}; expected {self.formula.n_vars} numbers, "
                "one for each variable: theta_i = log w(x_i) - log w(not x_i)"
            )
        return theta

    def log_odds(
        self, weights: str | None, weight: list[str], given: list[str] | None = None
    ) -> np.ndarray:
        """`theta`, 0 where there is none, with infinite entries for `--given`."""
        import numpy as np

        from nelson.formula.checks import with_evidence

        if self.terms:
            raise FormulaError(
                "a model with terms", expected="one without: only nelson sample draws from terms"
            )
        theta = self.theta(weights, weight)
        theta = np.zeros(self.formula.n_vars) if theta is None else theta
        return with_evidence(theta, self.literals(given or []) or ())


def read_formula(
    file: str, dialect: str, quiet: bool = False, seconds: float | None = None
) -> NamedFormula:
    """The formula of a model folder, or in `file` (`-`: stdin); notes of the reader on stderr.

    seconds     of the command: a file that takes longer is not read to its end
    """
    from nelson.formula.names import Names, names_in_comments

    if is_space(file):
        raise FormulaError("a space", expected="a DIMACS file for this command", source=file)
    if os.path.isdir(file):
        from nelson.learning.model import load as load_model

        model = load_model(file)
        names = Names(model.formula.n_vars, model.names) if model.names else None
        return NamedFormula(model.formula, names, model.theta_for(), model.terms)
    from nelson.budget import Budget
    from nelson.formula import Formula

    source = named_bytes(file)
    with Budget.of(left(seconds)).enforced(), phase(f"reading {source.name}"):
        formula = Formula.from_dimacs(source, dialect=dialect)
    if not quiet:
        for note in formula.notes:
            say(f"note: {note}")
    try:
        titles = names_in_comments(source.getvalue(), source.name, formula.n_vars)
    except FormulaError as error:  # comments are comments: no file is refused for them
        titles = {}
        if not quiet:
            say(f"note: no names are taken from comments: {error.what}")
    return NamedFormula(formula, Names(formula.n_vars, titles) if titles else None, formula.theta)


def named_bytes(file: str) -> Any:
    """The content of a file, decompressed, as an open file whose name is what errors call it."""
    from nelson.io.streams import decompressed, load

    name, data = load(file)
    source: Any = io.BytesIO(decompressed(data, name))
    source.name = name
    return source


def literals(given: list[str], names: Names | None) -> list[int] | None:
    literals: list[int] = []
    for text in given:
        if _NUMBERS.fullmatch(text):
            literals += whole_numbers(text, "--given") or []
            continue
        name, equals, value = text.rpartition("=")
        if not equals:  # a name alone is true, -name is false
            name, value = text.lstrip("-"), str(not text.startswith("-"))
        if value.strip().lower() not in _TRUTH:
            raise typer.BadParameter(f"{text!r}: expected name=true or false", param_hint="--given")
        variable = _variable(name, names, "--given")
        literals.append(variable if _TRUTH[value.strip().lower()] else -variable)
    return literals or None


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


# --- spaces and models of tables ------------------------------------------------------------------


def is_space(file: str) -> bool:
    """Is this the name of a space (TOML, SMT-LIB2) or a feature model (UVL)? Else it is DIMACS."""
    kinds = (".toml", ".uvl", ".smt2")
    return file.lower().removesuffix(".gz").removesuffix(".xz").endswith(kinds)


def read_space(file: str) -> Space:
    """The space in a TOML file, of a feature model in UVL, or of a DIMACS file with names."""
    from nelson.space import Space

    return Space.load(file) if is_space(file) else Space.from_dimacs(file)


def read_source(file: str) -> Space | TableModel | None:
    """What gives rows with fields: a space, or the model of a table. None: FILE is a formula, or
    the model of one (`read_formula`).
    """
    if is_space(file):
        return read_space(file)
    if not os.path.isdir(file):
        return None
    from nelson.space.load import load
    from nelson.space.tables.model import TableModel

    model = load(file)
    return model if isinstance(model, TableModel) else None


def space_of(source: Space | TableModel) -> Space:
    return source.space if hasattr(source, "space") else source


def refuse(used: dict[str, bool], what: str) -> None:
    """Refuse options that make no sense for this kind of file."""
    for name, is_used in used.items():
        if is_used:
            raise typer.BadParameter(what, param_hint=name)


def conditions(space: Space, given: list[str]) -> Any:
    """`--given burst=WRAP --given "len > 4"` as `given` of `Space.sample`."""
    from nelson.space.adapters.toml import value_of
    from nelson.space.names import field_of, has

    pairs: list[tuple[str, Any]] = []
    rules = []
    for text in given:
        if (match := _ASSIGNMENT.fullmatch(text)) is None:
            rules.append(space.rule(text))
            continue
        field = field_of(space, match[1].strip())
        value = value_of(field, match[2].strip())
        pairs.append((field.name, value))
    by_value = not rules and not any(isinstance(value, range) for _, value in pairs)
    if by_value and len({name for name, _ in pairs}) == len(pairs):
        return dict(pairs) or None
    return rules + [has(space.fields[name], value) for name, value in pairs]


def numbers(space: Space, texts: list[str], of_file: dict[Any, Any], option: str) -> Any:
    """`--weight burst.FIXED=60` as `weights` (or `shares`) of `Space.sample`.

    Fields that are named here take nothing from the file; the others keep what the file says.
    """
    chosen: dict[Any, Any] = {}
    for text in texts:
        key, _, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            raise typer.BadParameter(
                f"{text!r}: expected name.value=number, such as burst.FIXED=60", param_hint=option
            ) from None
        of, of_value = _named(space, key.strip())
        if of_value is None:
            chosen[of] = value
        elif not isinstance(chosen.setdefault(of, {}), dict):
            raise FormulaError(f"{option} {text}: {of} has a number already", expected="one kind")
        else:
            chosen[of][of_value] = value
    return {**of_file, **chosen} or None


def _named(space: Space, key: str) -> tuple[Any, Any]:
    """(field, value) of `burst.FIXED`, (flag, None) of `write`, (rule, None) of `len > 4`."""
    from nelson.space.adapters.toml import key_of, value_of

    if key in space:
        return key, None
    for at in (k for k in range(len(key) - 1, 0, -1) if key[k] == "."):
        if key[:at] in space.fields:
            return key[:at], value_of(space.fields[key[:at]], key[at + 1 :])
    return key_of(space, key), None


def law_arguments(
    source: Space | TableModel,
    given: list[str],
    weights: str | None,
    weight: list[str],
    share: list[str],
    first: list[str],
) -> dict[str, Any]:
    """given, weights, shares and first of `Space.sample`, from the options and the file.

    The law of a model is learned: it takes conditions only.
    """
    space = space_of(source)
    if space is not source:
        used = {"--weights": weights is not None, "--weight": bool(weight)}
        refuse(
            used | {"--share": bool(share), "--first": bool(first)}, "not for a model of a table"
        )
        return {"given": conditions(space, given)}
    if weights not in (None, "none", "file"):
        raise typer.BadParameter(
            "expected none or file for a space; give numbers with --weight name.value=3",
            param_hint="--weights",
        )
    of_file = weights != "none"
    return {
        "given": conditions(space, given),
        "weights": numbers(space, weight, space.weights if of_file else {}, "--weight"),
        "shares": numbers(space, share, space.shares if of_file else {}, "--share"),
        "first": first or None,
    }
