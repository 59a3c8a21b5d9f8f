"""The definition of an experiment: cells to run, and how their rows become tables and plots.

    EXPERIMENT = Experiment(name=..., title=..., reproduces=..., cells=..., run=..., tables=...)

A *cell* is the smallest unit that is run, timed, limited and remembered: for instance one sampler
on one size. `run(cell)` returns flat *rows* of plain values (str, int, float, bool, None). It is a
pure function of the cell and may run in another process or on another machine, so the key of the
cell holds everything it needs (sizes, seeds). The framework adds the fields of the key to every
row, and

    experiment     the experiment's name
    status         "ok", unless the row sets another: "T.O.", "too large", "limit", "out of
                   memory", "not installed", "failed: ..."; a cell that is killed or dies has one
                   row, with its status
    reason         why, if the status is not "ok" and the sampler said so
    cell_seconds   wall-clock time of the whole cell

`tables` and `plots` get the rows of all finished cells, failed ones included. Rows may be missing,
because a run can be filtered or interrupted; tables and plots must cope with that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nelson.errors import NelsonError

if TYPE_CHECKING:
    from nelson_paper.experiments.plots import Plot

OK, TIMED_OUT, OUT_OF_MEMORY = "ok", "T.O.", "out of memory"
NOT_INSTALLED, FAILED = "not installed", "failed: "
#: A sampler ended early: the formula exceeds what it enumerates, or another limit of its own.
TOO_LARGE, LIMITED = "too large", "limit"

#: Bytes that a cell's process and its children may hold in memory.
MEMORY = 4 << 30
#: Seconds that a cell gets beyond the limit of its sampler: to generate data, to check the samples,
#: and to compile our kernels once on a new machine.
ALLOWANCE = 240.0

#: How long a cell takes: this share of the limit of its sampler, and these seconds beside it. A
#: quick run of 476 cells took 14 minutes on two idle cores; one cell in seven timed out.
LIMIT_SHARE, OTHER_SECONDS = 0.25, 1.1

Value = str | int | float | bool | None
Row = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]
Key = Mapping[str, str | int | float | bool]
#: Number of variables -> number of formulas of that size.
Sizes = Mapping[int, int]


@dataclass(frozen=True)
class Cell:
    """One unit of work. Equal cells give equal rows, except for measured times."""

    #: Everything that determines the result: part, sampler, n, seed.
    key: Key
    seconds: float  # wall-clock limit
    memory: int = MEMORY  # bytes
    experiment: str = ""  # filled in by the runner

    @property
    def id(self) -> str:
        """Identifies the cell; time and memory limits do not count."""
        return json.dumps([self.experiment, sorted(self.key.items())])

    def limit(self, name: str = "limit") -> float:
        """Seconds that the sampler gets, from this field of the key.

        A cell plans twice this time and an allowance. With less (`--cell-seconds`) the sampler gets
        a quarter of the cell's time, so that the cell ends by itself and keeps what it measured.
        """
        planned = float(self.key[name])
        enough = self.seconds >= 2 * float(self.key["limit"])
        return planned if enough else min(planned, self.seconds / 4)

    def expected(self) -> float:
        """Seconds that the cell takes on average, see LIMIT_SHARE."""
        if "limit" not in self.key:
            return min(self.seconds, OTHER_SECONDS)
        return LIMIT_SHARE * self.limit() + OTHER_SECONDS

    def head(self) -> Row:
        """The first fields of each row of the cell: the key, with the limits that were applied."""
        applied = {name: self.limit(name) for name in ("limit", "loop") if name in self.key}
        return {"experiment": self.experiment, **self.key, **applied}

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.key.items())

    def __hash__(self) -> int:
        return hash(self.id)


@dataclass(frozen=True)
class Table:
    """A table as text, ready to print. Empty cells are printed as a dash."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""  # shown folded, below the table
    #: Cells (row, column) with the best value of their column: printed bold.
    best: frozenset[tuple[int, int]] = frozenset()
    #: Rows from this one on are the paper's figures, set apart from ours.
    paper_from: int | None = None
    #: What the table shows, in a sentence: between title and table.
    lead: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise NelsonError(
                    f"table {self.title!r}: a row has {len(row)} cells, there are "
                    f"{len(self.columns)} columns"
                )


def _nothing(key: Key) -> None:
    return


def _no_plots(rows: Rows) -> dict[str, Plot]:
    return {}


@dataclass(frozen=True)
class Experiment:
    """One table or figure. Each experiment is one file of this package that defines EXPERIMENT."""

    name: str
    title: str
    reproduces: str  # one line: the table or figure of the paper, or "ours: ..."
    #: Full sizes or quick ones -> cells in running order; with `from_data`: (full, folder).
    cells: Callable[..., list[Cell]]
    run: Callable[[Cell], list[Row]]
    tables: Callable[[Rows], list[Table]]
    #: name -> draws onto one matplotlib Axes, or `plots.Panels`
    plots: Callable[[Rows], Mapping[str, Plot]] = field(default=_no_plots)
    #: The same for formulas of a folder (`--formulas`). The framework adds the folder to the keys,
    #: as `formulas`. None: the experiment cannot read formulas.
    cells_on_files: Callable[[bool, Sizes], list[Cell]] | None = None
    #: In the worker, before the clock of a cell starts: compiles kernels that the cell needs.
    prepare: Callable[[Key], None] = field(default=_nothing)
    #: Its cells are what a folder of data holds (`nelson bench NAME --data FOLDER`). Without a
    #: folder there are none.
    from_data: bool = False


def plain_row(row: Mapping[str, Any]) -> Row:
    """The row with NumPy scalars as Python numbers. Raises NelsonError for any other type."""
    return {str(name): _plain(name, value) for name, value in row.items()}


def _plain(name: str, value: Any) -> Value:
    if value is None or type(value) in (str, int, float, bool):
        return value
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return _plain(name, value.item())
    raise NelsonError(
        f"a row's {name!r} is {type(value).__name__}, expected str, int, float, bool or None"
    )
