"""`nelson bench routes`: the route figure of the paper, and experiments beyond it.

| part        | shows                                                                              |
|-------------|------------------------------------------------------------------------------------|
| `uniform`   | rounds and time of resampling for batches of 100 uniform routes: the paper's figure|
| `redraw`    | redrawing all clashing positions instead of all but the first does not terminate   |
| `bias`      | resampling with unequal weights draws from another law than the requested one      |
| `enumerate` | weighted routes by chains against the exact law, 8 and 9 locations                 |
| `learn`     | 29 locations: learning, new routes against held-out ones, mixing of the chains     |

Times are for one thread with compiled kernels. The paper reports "roughly 50" rounds and 0.3 s for
a batch. It does not say whether it counts the rounds of one route or those until the whole batch is
valid, so both are shown.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import Any

import numpy as np

from nelson.judging.tails import chi_square_tail
from nelson_paper.experiments.base import Cell, Experiment, Row
from nelson_paper.experiments.route_tables import BATCH, PAPER_LOCATIONS, plots, tables
from nelson_paper.tasks.routes.check import chi_square
from nelson_paper.tasks.routes.data import BAYG29
from nelson_paper.tasks.routes.resample import resample, uniform
from nelson_paper.tasks.routes.task import Routes

#: Standard deviations of the log-weights of locations, in the part `bias`.
_SPREADS = (0.0, 0.5, 1.0)
#: Seconds for a cell.
LIMIT = 1200.0
QUICK_LIMIT = 180.0


def cells(full: bool) -> list[Cell]:
    batches = 1000 if full else 200
    keys: list[dict[str, str | int | float | bool]] = [
        {"part": "uniform", "n": n, "batches": batches if n == PAPER_LOCATIONS else batches // 10}
        for n in ((10, 20, 29, 50, 100, 200) if full else (10, 29, 100))
    ]
    keys.append({"part": "redraw", "n": PAPER_LOCATIONS, "rounds": 200_000 if full else 5_000})
    keys += [{"part": "bias", "n": 5, "spread": s, "m": 1_000_000} for s in _SPREADS]
    keys += [
        {"part": "enumerate", "n": n, "m": m * (10 if full else 1)}
        for n, m in ((8, 50_000), (9, 100_000))
    ]
    examples = 5000 if full else 1000
    keys.append({"part": "learn", "n": PAPER_LOCATIONS, "examples": examples})
    return [Cell({**key, "seed": 0}, LIMIT if full else QUICK_LIMIT) for key in keys]


def run(cell: Cell) -> list[Row]:
    return _PARTS[str(cell.key["part"])](dict(cell.key))


def _uniform(key: dict[str, Any]) -> list[Row]:
    # The first call compiles the kernel and is not timed.
    uniform(key["n"], BATCH, seed=key["seed"], context=key["batches"], threads=1)
    rows = []
    for batch in range(key["batches"]):
        drawn = uniform(key["n"], BATCH, seed=key["seed"], context=batch, threads=1)
        rows.append(
            {
                "batch": batch,
                "rounds_mean": float(drawn.rounds.mean()),
                "rounds_max": int(drawn.rounds.max()),
                "redrawn": int(drawn.redrawn.sum()),
                "valid": int((np.sort(drawn.orders, axis=1) == np.arange(key["n"])).all(1).sum()),
                "seconds": drawn.seconds,
            }
        )
    return rows


def _redraw(key: dict[str, Any]) -> list[Row]:
    rows = []
    for keep in ("first", "none"):
        drawn = resample(key["n"], BATCH, seed=key["seed"], keep=keep, max_rounds=key["rounds"])
        rows.append({"keep": keep, "finished": int(drawn.finished.sum()), "of": BATCH})
    return rows


def _bias(key: dict[str, Any]) -> list[Row]:
    """Each location has a weight. All orders have the same weight, so the right law is uniform."""
    n, m = key["n"], key["m"]
    weights = key["spread"] * np.random.default_rng(key["seed"]).standard_normal(n)
    drawn = resample(n, m, seed=key["seed"], log_weights=weights)
    _, counts = np.unique(drawn.orders @ n ** np.arange(n), return_counts=True)
    orders = factorial(n)
    p = 1 / orders
    error = float(np.abs(counts / m - p).sum()) + (orders - len(counts)) * p
    floor = orders * float(np.sqrt(2 * p * (1 - p) / (np.pi * m)))
    return [{"l1": error, "floor": floor}]


def _enumerate(key: dict[str, Any]) -> list[Row]:
    task = Routes(BAYG29[: key["n"]])
    theta = np.random.default_rng(key["seed"]).normal(0.0, 1.0, task.n_vars)
    rows = []
    # Without sweeps the routes are uniform: the test must reject them.
    for anneal, sweeps in ((10, 40), (0, 0)):
        drawn = task.sample(theta, key["m"], seed=key["seed"], anneal=anneal, sweeps=sweeps)
        routes, p = task.law(theta)
        statistic, degrees = chi_square(task.to_routes(drawn.x), routes, p)
        rows.append(
            {
                "sweeps": anneal + sweeps,
                "chi2": statistic,
                "degrees": degrees,
                "p": chi_square_tail(statistic, degrees),
                "validity": float(task.valid(drawn.x).mean()),
            }
        )
    return rows


def _learn(key: dict[str, Any]) -> list[Row]:
    task, count, seed = Routes(), key["examples"], key["seed"]
    train = task.examples(count, seed=seed)
    held_out = task.examples(count, seed=seed + 1)
    fit = task.learn(train, seed=seed)
    told = task.evaluate(fit.theta, held_out, train=train, seed=seed + 2)
    rows: list[Row] = [
        {
            "row": "fit",
            "converged": fit.converged,
            "fit_seconds": fit.seconds,
            "fit_gap": fit.info["gap_l1"],
            "fit_floor": fit.info["floor"],
            "validity": told["validity"],
            "guarantee": told["guarantee"],
            "distinct": told["distinct"],
            "generated": told["samples"],
            **{name: told[name] for name in _COMPARED},
        }
    ]
    quantiles = told["length_quantiles"]
    rows += [
        {"row": "length", "quantile": q, "held_out": quantiles["held_out"][q], "model": v}
        for q, v in quantiles["model"].items()
    ]
    seen = task.diagnose(fit.theta, seed=seed + 3)
    rows.append(
        {
            "row": "mixing",
            "statistic": "worst of all",
            "rhat": seen["rhat"],
            "ess": seen["ess"],
            "draws": seen["draws"],
            "chains": seen["chains"],
        }
    )
    for name in ("potential", "length", "direction"):
        rows.append({"row": "mixing", "statistic": name, **seen["statistics"][name]})
    return rows


#: Fields of `Routes.evaluate` that compare new routes with held-out ones.
_COMPARED = (
    "edge_correlation",
    "edge_gap",
    "edge_noise",
    "length_ks",
    "length_p",
    "uniform_length_ks",
    "uniform_length_p",
)
_PARTS: dict[str, Callable[[dict[str, Any]], list[Row]]] = {
    "uniform": _uniform,
    "redraw": _redraw,
    "bias": _bias,
    "enumerate": _enumerate,
    "learn": _learn,
}


EXPERIMENT = Experiment(
    name="routes",
    title="Delivery routes",
    reproduces="the route figure: histograms of rounds and time of uniform sampling, 29 locations",
    cells=cells,
    run=run,
    tables=tables,
    plots=plots,
)
