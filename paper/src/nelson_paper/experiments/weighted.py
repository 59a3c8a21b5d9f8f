"""The figure on weighted sampling: time, validity and rounds over n, samplers with weights.

`sampling.py` says what is measured.
"""

from __future__ import annotations

from functools import partial

from nelson_paper.experiments import sampling
from nelson_paper.experiments.base import Experiment
from nelson_paper.experiments.learning import prepare

TITLE = "Weighted sampling, P(x_i = 1) ~ U(0, 1)"

EXPERIMENT = Experiment(
    name="weighted",
    title=TITLE + ", K-SAT",
    reproduces="the figure on weighted sampling",
    cells=partial(sampling.cells, weighted=True),
    prepare=prepare,
    run=partial(sampling.run, weighted=True),
    tables=partial(sampling.tables, title=TITLE),
    plots=partial(sampling.plots, title=TITLE),
    cells_on_files=partial(sampling.cells_on_files, weighted=True),
)
