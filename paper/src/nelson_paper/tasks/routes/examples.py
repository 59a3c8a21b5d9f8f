"""Training data: good but varied routes under a hidden preference.

The depot is location 0. All other locations belong to *districts*: sectors around the centre of the
map, of equal size. The preference is to serve the districts in a fixed order, first to last:

    liked i -> j:  from the depot to the first district; within a district, or on to the next;
                   from the last district to the depot

Every other edge costs RELUCTANCE mean distances on top of its length:

    worth_ij = -(d_ij / mean d) - RELUCTANCE * [i -> j is not liked]

| kind        | a route is                                                                        |
|-------------|-----------------------------------------------------------------------------------|
| `districts` | a local optimum of 2-opt and or-opt moves from a uniform start. Each route has its|
|             | own worths, worth_ij + NOISE g_ij with independent Gumbel draws g                 |
| `short`     | the same without districts: short routes in either direction                      |
| `planted`   | a draw from P_theta* with theta* = worth / TEMPERATURE, by chains                 |

The best route under Gumbel noise is nearly a draw from P_(worth / NOISE) (perturb and maximise:
Papandreou and Yuille 2011), so a model of edge weights can nearly fit. Only nearly, because the
noise is on edges, not on routes, and 2-opt stops at local optima.

The order of the districts is not their order around the map, so these routes are not the shortest:
a planner that knows only distances would not find them.
"""

from __future__ import annotations

import numpy as np

from nelson.kernels.core.rng import spread_seed
from nelson_paper.tasks.base import EXAMPLES
from nelson_paper.tasks.routes.convert import rotated
from nelson_paper.tasks.routes.kernels.route_descent import descend
from nelson_paper.tasks.routes.moves import weighted
from nelson_paper.tasks.routes.resample import uniform
from nelson_paper.tasks.threads import on_threads

NOISE = 0.1
RELUCTANCE = 2.0
TEMPERATURE = 0.15


def districts(places: np.ndarray, most: int = 4) -> np.ndarray:
    """District of each location, (n,): 0, 1, ... in the preferred order; -1 is the depot."""
    n = len(places)
    count = max(1, min(most, (n - 1) // 3))
    towards = places[1:] - places[1:].mean(axis=0)
    order = np.argsort(np.arctan2(towards[:, 1], towards[:, 0]), kind="stable")
    sector = np.empty(n - 1, np.int64)
    sector[order] = np.arange(n - 1) * count // (n - 1)
    served = [*range(0, count, 2), *range(1, count, 2)]  # not in order around the map
    rank = np.empty(count, np.int64)
    rank[served] = np.arange(count)
    return np.concatenate([[-1], rank[sector]])


def liked(district: np.ndarray) -> np.ndarray:
    """(n, n) bool: edges that keep to the order of the districts."""
    last = district.max()
    a, b = district[:, None], district[None, :]
    inner = (a >= 0) & (b >= 0) & ((a == b) | (b == a + 1))
    return inner | ((a == -1) & (b == 0)) | ((a == last) & (b == -1))


def worth(distances: np.ndarray, district: np.ndarray | None) -> np.ndarray:
    """worth_ij as above, (n, n); district None: length alone."""
    n = len(distances)
    value = -distances * (n * (n - 1) / max(distances.sum(), 1e-300))
    if district is not None:
        value = value - RELUCTANCE * ~liked(district)
    np.fill_diagonal(value, 0.0)
    return value


def local_optima(
    worth: np.ndarray, count: int, *, noise: float, seed: int, threads: int | None = None
) -> np.ndarray:
    """`count` local optima, each from its own uniform start under its own noise. (count, n)."""
    n, spread = len(worth), spread_seed(seed)
    routes = uniform(n, count, seed=seed, context=EXAMPLES, threads=threads).orders
    flat = np.ascontiguousarray(worth, np.float64).reshape(-1)

    def work(first: int, last: int, stop: np.ndarray) -> None:
        own, space = np.empty(n * n), np.empty(n, np.int64)
        descend(flat, noise, spread, EXAMPLES, first, last, routes, own, space, stop)

    on_threads(work, count, threads)
    return rotated(routes)


def planted_theta(distances: np.ndarray, places: np.ndarray) -> np.ndarray:
    """theta* of the kind `planted`, (n, n)."""
    return worth(distances, districts(places)) / TEMPERATURE


def example_routes(
    distances: np.ndarray, places: np.ndarray, count: int, *, kind: str, seed: int
) -> np.ndarray:
    """`count` routes of a kind, (count, n), each starting at the depot."""
    if kind == "planted":
        theta = planted_theta(distances, places)
        return weighted(theta, count, seed=seed, context=EXAMPLES).rotated()
    district = districts(places) if kind == "districts" else None
    return local_optima(worth(distances, district), count, noise=NOISE, seed=seed)
