"""The figure on uniform sampling: time, validity and rounds over n, every sampler.

`sampling.py` says what is measured.
"""

from __future__ import annotations

from functools import partial

from nelson_paper.experiments import sampling
from nelson_paper.experiments.base import Experiment
from nelson_paper.experiments.learning import prepare

TITLE = "Uniform sampling"

EXPERIMENT = Experiment(
    name="uniform",
    title=TITLE + ", K-SAT",
    reproduces="the figure on uniform sampling",
    cells=partial(sampling.cells, weighted=False),
    prepare=prepare,
    run=partial(sampling.run, weighted=False),
    tables=partial(sampling.tables, title=TITLE),
    plots=partial(sampling.plots, title=TITLE),
    cells_on_files=partial(sampling.cells_on_files, weighted=False),
)
