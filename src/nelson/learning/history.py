"""The history of a run: a list of rows that is also a table, a file and a picture."""

from __future__ import annotations

import csv
import io
import os
from typing import Any

from nelson.errors import NelsonError
from nelson.io import atomic
from nelson.io.arrow import load_pyarrow
from nelson.pictures import Panel, curve, figure


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
        return figure(self.panels(), path)

    def panels(self) -> list[Panel]:
        """The learning curves; a preset that does not test in every iteration has one."""
        gaps = [(row["iteration"], row.get("gap_l1")) for row in self]
        tests = [(row["iteration"], _ratio(row)) for row in self]
        title = "Do data and model have the same shares?"
        drawn = [curve(gaps, y="gap of the shares, summed over variables", title=title)]
        if any(y for _, y in tests):
            title = "At 1 the gap is noise"
            drawn.append(curve(tests, y="χ² / its expectation", title=title, at=1.0))
        return drawn


def _ratio(row: dict[str, Any]) -> float | None:
    chi2, dof = row.get("chi2"), row.get("dof")
    return chi2 / dof if chi2 is not None and dof else None
