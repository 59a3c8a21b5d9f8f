"""What happened in each iteration: a list of rows that is also a table, a file and a picture."""

from __future__ import annotations

import csv
import io
import math
import os
from importlib import import_module
from typing import Any

from nelson.errors import NelsonError


class History(list[dict[str, Any]]):
    """One dict an iteration.

    iteration         from 1
    phase             what the iteration was for: grow, average, check, cut; sgd, adam, net
    m, rounds, sweeps how many samples were drawn, and how
    gap_l1, gap_max   |E_data[x] - E_model[x]|, summed over the variables and at most
    chi2, dof, bound  the test of the gap, where there was one: noise if chi2 <= bound
    sampling, update  seconds
    """

    def columns(self) -> list[str]:
        return list(dict.fromkeys(key for row in self for key in row))

    def to_pandas(self) -> Any:
        try:
            pandas = import_module("pandas")
        except ImportError as error:
            raise NelsonError("a DataFrame needs pandas: pip install pandas") from error
        return pandas.DataFrame(list(self), columns=self.columns())

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        from pathlib import Path

        from nelson.learning.checkpoint import write_atomically

        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns())
        writer.writeheader()
        writer.writerows(self)
        write_atomically(Path(path), text.getvalue().encode())

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        from nelson.io import atomic
        from nelson.io.arrow import load_pyarrow

        pa, pq = load_pyarrow()
        columns = {name: [row.get(name) for row in self] for name in self.columns()}
        with atomic.writing(path) as out:
            pq.write_table(pa.table(columns), out)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """The learning curve, moment gap and chi^2 over its expectation against iterations.

        Returns the figure; writes it to `path` if there is one.
        """
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError as error:
            raise NelsonError('a plot needs matplotlib: pip install "nelson[plots]"') from error
        figure = Figure(figsize=(7, 4.5), layout="constrained")
        FigureCanvasAgg(figure)
        curves = {
            "moment gap (L1)": [(r["iteration"], r.get("gap_l1")) for r in self],
            "χ² / its expectation": [(r["iteration"], _ratio(r)) for r in self],
        }
        # A preset that does not test as it goes has no second curve.
        told = {
            label: [(x, y) for x, y in points if y is not None and math.isfinite(y) and y > 0]
            for label, points in curves.items()
        }
        shown = {label: points for label, points in told.items() if points} or told
        panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (label, points) in zip(panels, shown.items(), strict=True):
            style = "-" if len(points) > 60 else "o-"
            axes.plot([x for x, _ in points], [y for _, y in points], style, markersize=3)
            axes.set_ylabel(label)
            if points:
                axes.set_yscale("log")
            if label.startswith("χ²"):
                axes.axhline(1.0, color="grey", linestyle=":")
            axes.grid(alpha=0.3)
        panels[-1].set_xlabel("iteration")
        if path is not None:
            figure.savefig(os.fspath(path), dpi=150)
        return figure


def _ratio(row: dict[str, Any]) -> float | None:
    chi2, dof = row.get("chi2"), row.get("dof")
    return chi2 / dof if chi2 is not None and dof else None
