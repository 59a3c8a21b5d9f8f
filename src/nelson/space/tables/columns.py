"""The columns of a table: what each was taken for, and new columns of the same look.

`Columns` is the one description of a table. A column has a field in the space (`recognise` says
which kind), except ids, texts and what has one value only. A number is kept as a range, the value
of its field, and drawn from the quantiles of that range (`inside`). Ranks inside of ranges are
drawn together, by a Gaussian copula, so that numbers that go together do so inside of ranges too.

Rules on numbers hold exactly: fields obey what ranges can say, and numbers that break a rule inside
of their ranges are drawn again.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.errors import LINES, BudgetExceeded, FormulaError, NelsonError, printable
from nelson.io.json_values import scalar
from nelson.space.language.evaluate import has_measure, possible
from nelson.space.language.expressions import Rule
from nelson.space.language.fields import Bins, Choice, Field, Flag, Integer, NumericChoice
from nelson.space.rows import Rows, as_numbers, number_ends
from nelson.space.tables.inside import Inside, ranks, resolution
from nelson.space.tables.recognise import Taken, pattern_of

if TYPE_CHECKING:
    from nelson.space.declaration import Declaration

#: Draws of the numbers of a row that breaks a rule, before the whole row is drawn again.
INSIDE_DRAWS = 25
#: Rounds of such draws before a model gives up.
ROUNDS = 200
#: A correlation inside of ranges is kept if it is this many standard errors from 0.
SIGMAS = 3.0
MICROSECONDS = 86400e6  # of a day


@dataclass(frozen=True)
class Look:
    """How a column came in: its label and type; form: what cells of objects or texts are."""

    label: Any
    dtype: str
    categories: tuple[Any, ...] | None = None
    ordered: bool = False
    form: str = (
        ""  # cells of "date", "datetime", "timedelta", "Decimal"; ISO texts: "text:D: ", ...
    )
    zone: str = ""

    @classmethod
    def of(cls, label: Any, column: Any) -> Look:
        kind = column.dtype
        if hasattr(kind, "categories"):
            categories = tuple(map(scalar, kind.categories))
            return cls(label, "category", categories, bool(kind.ordered))
        zone = "" if getattr(kind, "tz", None) is None else str(kind.tz)
        return cls(label, str(kind), form=_form(column), zone=zone)


def _form(column: Any) -> str:
    present = column.dropna()
    if getattr(column.dtype, "kind", "O") in "biufcMm" or not len(present):
        return ""
    first = present.iloc[0]
    if isinstance(first, str):
        sizes = present.str.len()
        size, between = int(sizes.max()), first[10:11] or " "
        unit = "D" if size <= 10 else "m" if size <= 16 else "s" if size <= 19 else "us"
        return f"text:{unit}:{between}"
    for kind in (datetime.datetime, datetime.date, datetime.timedelta, decimal.Decimal):
        if isinstance(first, kind):
            return kind.__name__
    return ""


@dataclass(frozen=True, eq=False)
class Column:
    """One column. facts: of an id, the next number and its pattern; missing: the share of rows
    without a value.
    """

    name: str
    taken: Taken
    look: Look
    missing: float = 0.0
    inside: Inside | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def kept_as(self, of: Field | None) -> str:
        """What becomes of the column, in words."""
        if self.taken.kind == "id":
            return f"numbered anew, from {self.id(0)}"
        if self.taken.kind == "text":
            return "left out: the new column is empty"
        if self.taken.kind == "constant" and isinstance(of, (Choice, NumericChoice)):
            missing = " or missing" if of.size > 1 else ""
            return (
                f"always {of.value(0)!r}{missing}" if of.value(0) is not None else "always missing"
            )
        if isinstance(of, Bins):
            what = f"{of.ranges} ranges"
            if of.after is not None:
                what += f" of {self.name} - {of.after.name}"
            step = 0.0 if self.inside is None else self.inside.step
            unit = {"date": "days", "duration": "days"}.get(of.unit, "")
            if not unit:
                unit = "whole numbers" if step == 1 else f"steps of {step:g}" if step else ""
            elif step < 1:
                unit = f"{step * 86400:.6g} s"
            return what + f", {unit}" * bool(unit)
        if isinstance(of, Flag):
            return "true or false"
        assert of is not None
        return of.domain if isinstance(of, Integer) else f"{of.size:,} values"

    def id(self, k: int) -> Any:
        number = int(self.facts["next"]) + k
        if "pattern" not in self.facts:
            return number
        before, width, after = self.facts["pattern"]
        return f"{before}{number:0{width}d}{after}"


@dataclass(frozen=True, eq=False)
class Columns:
    """All columns of a table, in its order; `print` shows what each was taken for.

    copula   (names, correlations) of the ranks inside of ranges
    table    what came in: "pandas", "polars", "arrow"; "" for records without a look
    """

    space: Declaration
    columns: tuple[Column, ...]
    copula: tuple[tuple[str, ...], np.ndarray] = ((), np.zeros((0, 0)))
    table: str = "pandas"

    def __getitem__(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def __len__(self) -> int:
        return len(self.columns)

    # --- words ------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        head = ("column", "taken for", "kept as", "missing", "because")
        lines = [head]
        for column in self.columns:
            because = "; ".join([column.taken.because, *column.notes])
            if column.taken.doubt:
                because += f" (else columns={{{column.name!r}: {column.taken.doubt!r}}})"
            missing = f"{column.missing:.1%}" if column.missing else ""
            kept = column.kept_as(self.space.fields.get(column.name))
            lines.append((column.name, column.taken.kind, kept, missing, because))
        safe = [[printable(cell) for cell in line] for line in lines]
        widths = [max(map(len, cells)) for cells in zip(*safe, strict=True)]
        shown = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in safe]
        return printable("\n".join(shown), keep=LINES)

    # --- numbers ----------------------------------------------------------------------------------

    @property
    def rules(self) -> list[Rule]:
        """The rules that need the numbers themselves."""
        every = [requirement.rule for requirement in self.space.rules]
        return [rule for rule in every if has_measure(rule)]

    def numbers(self, codes: Mapping[str, np.ndarray], u: Callable[[int, int], Any]) -> Numbers:
        """A number for each code of a range: of a column `after` another one, the difference.

        u(k, n): n uniform numbers; k = 0 are those of the copula.
        """
        ranged = [c for c in self.columns if c.inside is not None]
        n = len(next(iter(codes.values()))) if codes else 0
        together = self._together(u, n)
        found = {}
        for k, column in enumerate(ranged, 1):
            of = self.space.fields[column.name]
            assert column.inside is not None
            code = codes[column.name].astype(np.int64)
            uniform = together[column.name] if column.name in together else u(k, n)
            value = column.inside.draw(np.minimum(code, of.ranges - 1), uniform)  # type: ignore[union-attr]
            found[column.name] = np.where(code >= of.ranges, np.nan, value)  # type: ignore[union-attr]
        return found

    def _together(self, u: Callable[[int, int], Any], n: int) -> dict[str, np.ndarray]:
        names, matrix = self.copula
        if not names:
            return {}
        from scipy.special import ndtr, ndtri

        root = np.linalg.cholesky(matrix)
        z = ndtri(u(0, n * len(names)).reshape(n, len(names)).clip(1e-12, 1 - 1e-12)) @ root.T
        return dict(zip(names, ndtr(z).T, strict=True))

    def legal(
        self, codes: Mapping[str, np.ndarray], numbers: Numbers, more: Sequence[Rule] = ()
    ) -> np.ndarray:
        """Which rows obey the rules on numbers."""
        ends = {name: (value, value) for name, value in numbers.items()}
        holds = np.ones(len(next(iter(codes.values()))), bool)
        for rule in [*self.rules, *(r for r in more if has_measure(r))]:
            holds &= np.broadcast_to(possible(rule, codes, ends)[0], holds.shape)
        return holds

    def completed(
        self, rows: Rows, seed: int, given: Sequence[Rule], fixed: Mapping[str, float]
    ) -> tuple[Numbers, np.ndarray]:
        """Numbers for rows, drawn again where they break a rule; which rows are legal in the end.

        fixed: numbers that are given.
        """

        def uniform(turn: int) -> Callable[[int, int], Any]:
            return lambda k, n: np.random.default_rng([seed, turn, k]).random(n)

        def drawn(codes: Mapping[str, np.ndarray], turn: int) -> Numbers:
            return self.numbers(codes, uniform(turn)) | {
                name: np.full(len(codes[name]), value) for name, value in fixed.items()
            }

        numbers = drawn(rows.codes, 0)
        if not self.rules and not any(map(has_measure, given)):
            return numbers, np.ones(len(rows), bool)
        legal = self.legal(rows.codes, numbers, given)
        for turn in range(1, INSIDE_DRAWS):
            bad = np.flatnonzero(~legal)
            if not len(bad):
                break
            codes = {name: column[bad] for name, column in rows.codes.items()}
            again = drawn(codes, turn)
            for name, values in again.items():
                numbers[name][bad] = values
            legal[bad] = self.legal(codes, again, given)
        return numbers, legal

    # --- frames -----------------------------------------------------------------------------------

    def frame(self, rows: Rows, numbers: Numbers, first: int = 0) -> Any:
        """A table like the one that came in. first: the number of rows before these, for ids."""
        pandas = load_pandas()
        columns = [self._series(pandas, rows, numbers, c, first) for c in self.columns]
        index = pandas.RangeIndex(len(rows))
        made = [pandas.Series(values, index=index, copy=False) for values in columns]
        frame = pandas.concat(made, axis=1) if made else pandas.DataFrame(index=index)
        frame.columns = pandas.Index([c.look.label for c in self.columns], tupleize_cols=False)
        plain = (str, int, float, bool, type(None))  # what pandas can compare and write to files
        info = {key: value for key, value in rows.info.items() if isinstance(value, plain)}
        frame.attrs = {"guarantee": rows.guarantee, "status": rows.status, "info": info}
        return frame

    def _series(self, pandas: Any, rows: Rows, numbers: Numbers, column: Column, first: int) -> Any:
        look, n = column.look, len(rows)
        of = self.space.fields.get(column.name)
        if of is None:
            return pandas.Series(_made(column, n, first)).astype(_dtype(pandas, look))
        codes = rows.codes[column.name].astype(np.int64)
        if isinstance(of, Bins):
            if column.inside is None:
                kind = pandas.CategoricalDtype(
                    [v for v in of.values if v is not None], ordered=True
                )
                return pandas.Categorical.from_codes(
                    np.where(codes < of.ranges, codes, -1), dtype=kind
                )
            values = numbers[column.name]
            while of.after is not None:
                of = of.after
                values = values + numbers[of.name]
            return _as_look(pandas, look, values, column.inside.step)
        return _values(pandas, rows, of, codes, look)


Numbers = dict[str, np.ndarray]


def _made(column: Column, n: int, first: int) -> Any:
    """The values of a column without a field."""
    if column.taken.kind == "id":
        return [column.id(first + k) for k in range(n)]
    return [None] * n


def _dtype(pandas: Any, look: Look) -> Any:
    if look.categories is not None:
        index = pandas.Index(list(look.categories), tupleize_cols=False)
        return pandas.CategoricalDtype(index, ordered=look.ordered)
    return pandas.api.types.pandas_dtype(look.dtype)


def _values(pandas: Any, rows: Rows, of: Field, codes: np.ndarray, look: Look) -> Any:
    if look.categories is not None and of.size <= 1 << 16:
        # Values that are no category of the training data come last.
        own = [of.value(code) for code in range(of.size)]
        categories = [v for v in dict.fromkeys([*look.categories, *own]) if v is not None]
        place = {value: k for k, value in enumerate(categories)} | {None: -1}
        places = np.array([place[value] for value in own], np.int64)
        index = pandas.Index(categories, tupleize_cols=False)
        kind = pandas.CategoricalDtype(index, ordered=look.ordered)
        return pandas.Categorical.from_codes(places[codes], dtype=kind)
    values = rows[of.name]
    if look.categories is not None:
        return pandas.Categorical(values, list(look.categories), ordered=look.ordered)
    kind = pandas.api.types.pandas_dtype(look.dtype)
    if isinstance(of, (Integer, NumericChoice)) and kind.kind in "iu":
        limits = np.iinfo(getattr(kind, "numpy_dtype", kind))
        if of.low < limits.min or of.high > limits.max:
            return values
    if kind.kind in "f" and isinstance(of, Choice):  # numbers with gaps: None is NaN
        values = np.array([np.nan if v is None else v for v in values.tolist()], float)
    return pandas.Series(values).astype(kind)


def _as_look(pandas: Any, look: Look, values: np.ndarray, step: float) -> Any:
    """Numbers as the type that came in."""
    missing = np.isnan(values)
    of_time = look.dtype.startswith(("datetime", "timedelta", "date"))
    if of_time or look.zone or look.form not in ("", "Decimal"):
        return _times(pandas, look, values, missing)
    if step:
        values = np.round(np.rint(values / step) * step, 9)
    kind = pandas.api.types.pandas_dtype(look.dtype)
    if kind.kind in "iu":
        whole = pandas.array(np.where(missing, 0, np.rint(values)).astype(np.int64))
        whole[missing] = None
        fits = not missing.any() or hasattr(kind, "numpy_dtype")
        return whole.astype(kind) if fits else whole
    if kind.kind == "O":
        return _cells(pandas, values.tolist(), missing, _number_maker(look.form, step))
    return pandas.Series(np.where(missing, np.nan, values)).astype(kind)


def _number_maker(form: str, step: float) -> Callable[[float], Any]:
    if form == "Decimal":
        digits = len(f"{step:.6g}".partition(".")[2])
        return lambda v: decimal.Decimal(f"{v:.{digits}f}" if step else repr(v))
    return int if step >= 1 else float


def _times(pandas: Any, look: Look, values: np.ndarray, missing: np.ndarray) -> Any:
    """Days as dates or durations, or as their texts or objects."""
    is_duration = look.dtype.startswith("timedelta") or look.form == "timedelta"
    ticks = np.rint(np.where(missing, 0, values) * MICROSECONDS).astype(np.int64)
    stamps = ticks.view("m8[us]" if is_duration else "M8[us]")
    stamps[missing] = "NaT"
    kind = pandas.api.types.pandas_dtype(look.dtype)
    if look.form.startswith("text"):
        _, unit, between = look.form.split(":", 2)
        texts = np.datetime_as_string(stamps, unit=unit)  # type: ignore[call-overload]
        return _cells(
            pandas, texts.tolist(), missing, lambda t: t.replace("T", between or "T")
        ).astype(kind)
    if look.form == "date":
        return _cells(pandas, stamps.tolist(), missing, datetime.datetime.date)
    if look.form:
        return _cells(pandas, stamps.tolist(), missing, lambda value: value)
    series = pandas.Series(stamps)
    if look.zone:
        series = series.dt.tz_localize("UTC").dt.tz_convert(look.zone)
    return series.astype(kind)


def _cells(
    pandas: Any, values: Sequence[Any], missing: np.ndarray, made: Callable[[Any], Any]
) -> Any:
    """A column of objects; None where there is no value."""
    cells = zip(values, missing.tolist(), strict=True)
    return pandas.Series([None if gone else made(v) for v, gone in cells], dtype=object)


# --- from a frame ---------------------------------------------------------------------------------


def columns_of(
    space: Declaration,
    frame: Any,
    codes: Mapping[str, np.ndarray],
    taken: Mapping[str, Taken],
    notes: Mapping[str, Sequence[str]],
    kept: np.ndarray | None = None,
    table: str = "pandas",
    seed: int = 0,
) -> Columns:
    """The columns of a pandas frame whose fields are declared. kept: the rows that count."""
    labels = getattr(frame, "attrs", {}).get("labels", {})
    ends = number_ends(space.fields, frame, {})
    found, residual = [], {}
    for name in frame.columns:
        of, column = space.fields.get(name), frame[name]
        if of is None and name not in taken:
            continue
        column = column if kept is None else column[kept]
        inside, facts = None, {}
        if isinstance(of, Bins):
            values = ends[name][0] if kept is None else ends[name][0][kept]
            present = ~np.isnan(values)
            x, code = values[present], codes[name][present].astype(np.int64)
            step = _step(x, of.unit)
            inside = Inside.of(x, code, of.edges, step)
            residual[name] = _scores(values, codes[name], present, seed)
        elif of is None:
            facts = _facts(taken[name].kind, column)
        because = taken.get(name) or Taken(_kind(of), "a field of the space")
        found.append(
            Column(
                name,
                because,
                Look.of(labels.get(name, name), frame[name]),
                float(column.isna().mean()) if len(column) else 0.0,
                inside,
                facts,
                tuple(notes.get(name, ())),
            )
        )
    return Columns(space, tuple(found), _copula(residual), table)


def _step(values: np.ndarray, unit: str) -> float:
    if not unit:
        return resolution(values)
    for per_day in (1, 24, 1440, 86400, 86400 * 10**3):
        scaled = values * per_day
        if len(values) and np.abs(scaled - np.rint(scaled)).max() < 1e-4:
            return 1 / per_day
    return 0.0


def _facts(kind: str, column: Any) -> dict[str, Any]:
    present = column.dropna()
    if kind != "id":
        return {}
    values = present.to_numpy()
    if isinstance(values[0], str) and (pattern := pattern_of(values)) is not None:
        before, _, after = pattern
        top = max(int(v[len(before) : len(v) - len(after)]) for v in values)
        return {"next": top + 1, "pattern": list(pattern)}
    return {"next": int(as_numbers(present).max()) + 1}


def _kind(of: Field | None) -> str:
    if isinstance(of, Bins):
        return of.unit or "number"
    return "flag" if isinstance(of, Flag) else "integer" if isinstance(of, Integer) else "choice"


def _scores(values: np.ndarray, codes: np.ndarray, present: np.ndarray, seed: int) -> np.ndarray:
    """Normal scores of the ranks inside of ranges; 0 where there is no number."""
    from scipy.special import ndtri

    found = np.zeros(len(values))
    noise = np.random.default_rng(seed).random(int(present.sum()))
    if present.any():
        found[present] = ndtri(ranks(values[present], codes[present].astype(np.int64), noise))
    return found


def _copula(scores: Mapping[str, np.ndarray]) -> tuple[tuple[str, ...], np.ndarray]:
    """Correlations of the scores that are not noise, as a matrix that is positive definite."""
    if len(scores) < 2:
        return (), np.zeros((0, 0))
    names, x = list(scores), np.column_stack(list(scores.values()))
    n, spread = len(x), np.sqrt((x**2).mean(axis=0))
    matrix = (x.T @ x / max(1, n)) / np.outer(spread, spread).clip(1e-12)
    matrix[np.abs(matrix) < SIGMAS / np.sqrt(max(1, n))] = 0.0
    np.fill_diagonal(matrix, 1.0)
    near = [k for k in range(len(names)) if np.count_nonzero(matrix[k]) > 1]
    matrix = matrix[np.ix_(near, near)]
    least = float(np.linalg.eigvalsh(matrix).min()) if near else 1.0
    if least < 1e-6:
        matrix = matrix + (1e-6 - least) * np.eye(len(near))
        scale = np.sqrt(np.diag(matrix))
        matrix = matrix / np.outer(scale, scale)
    return tuple(names[k] for k in near), matrix


def load_pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise NelsonError("DataFrames need pandas: pip install pandas") from error
    return pandas


def given_up(n: int, of: int) -> BudgetExceeded:
    return BudgetExceeded(
        f"{n:,} of {of:,} rows were found whose numbers obey all rules: rules on numbers leave too "
        "little room inside of the ranges; more bins, or a column `after` another one, would help"
    )


def not_a_frame(what: str) -> FormulaError:
    return FormulaError(what, expected="a DataFrame, an Arrow table, records, or a file of rows")
