"""The history of a run: a list of rows that is also a table, a file and a picture."""

from __future__ import annotations

import csv
import io
import math
import os
from pathlib import Path
from typing import Any

from nelson.errors import NelsonError
from nelson.io import atomic
from nelson.io.arrow import load_pyarrow


class History(list[dict[str, Any]]):
    """One dict for each iteration.

    iteration         from 1
    phase             the purpose of the iteration: grow, average, check, cut; sgd, adam, net
    gap_l1, gap_max   |E_data[x] - E_model[x]|: sum and maximum over the variables
    chi2, dof, bound  the test of the gap, if there was one; dof is the mean of chi2 for noise alone
    within            chi2 <= bound: the gap is noise
    move              the largest change of a theta_i
    m, rounds, sweeps samples drawn; rounds and sweeps of the sampler
    sampling, update  seconds
    missing           samples that the sampler did not find, if any
    """

    def columns(self) -> list[str]:
        return list(dict.fromkeys(key for row in self for key in row))

    def to_pandas(self) -> Any:
        try:
            import pandas
        except ImportError as error:
            raise NelsonError("a DataFrame needs pandas: pip install pandas") from error
        return pandas.DataFrame(list(self), columns=self.columns())

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        atomic.write(path, self.as_csv())

    def as_csv(self) -> bytes:
        """The content of a CSV file."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns())
        writer.writeheader()
        writer.writerows(self)
        return text.getvalue().encode()

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        pa, pq = load_pyarrow()
        columns = {name: [row.get(name) for row in self] for name in self.columns()}
        with atomic.writing(path) as out:
            pq.write_table(pa.table(columns), out)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """The learning curves: moment gap, and chi^2 over its expectation, against the iteration.

        Returns the figure, and writes it to `path` if given.
        """
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError as error:
            raise NelsonError('a plot needs matplotlib: pip install "nelson-mrf[plots]"') from error
        figure = Figure(figsize=(7, 4.5), layout="constrained")
        FigureCanvasAgg(figure)
        curves = {
            "moment gap (L1)": [(r["iteration"], r.get("gap_l1")) for r in self],
            "χ² / its expectation": [(r["iteration"], _ratio(r)) for r in self],
        }
        curves = {
            label: [(x, y) for x, y in points if y is not None and math.isfinite(y) and y > 0]
            for label, points in curves.items()
        }
        # A preset that does not test in every iteration has no second curve.
        shown = {label: points for label, points in curves.items() if points} or curves
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
            with atomic.writing(path) as out:
                figure.savefig(out, dpi=150, format=Path(path).suffix[1:] or "png")
        return figure


def _ratio(row: dict[str, Any]) -> float | None:
    chi2, dof = row.get("chi2"), row.get("dof")
    return chi2 / dof if chi2 is not None and dof else None
