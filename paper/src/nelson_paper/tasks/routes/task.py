"""Delivery routes: round trips through all locations, weighted by their edges.

    P_theta(x) = exp(sum_ij theta_ij x_ij) / Z,      x_ij = 1 if i -> j is driven

x has n (n - 1) columns, one for each ordered pair of locations; location 0 is the depot. Uniform
routes (theta None) come from resampling and are exact. Weighted routes come from chains
(`moves.py`) and are diagnosed. Clauses over the x_ij alone would have to forbid about 2^n ways to
split a route into smaller round trips, so `formula` is None; `cnf()` has a formula over positions.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from nelson.errors import FormulaError
from nelson.learning.metrics import mean_likelihood
from nelson_paper.tasks.base import Generated, Learned, Task
from nelson_paper.tasks.drawing import AnyPath
from nelson_paper.tasks.routes import convert, data, tsplib
from nelson_paper.tasks.routes.cnf import RouteFormula, route_formula
from nelson_paper.tasks.routes.compare import alike, ks
from nelson_paper.tasks.routes.diagnose import diagnose_chains
from nelson_paper.tasks.routes.examples import example_routes, planted_theta
from nelson_paper.tasks.routes.learn import learn_theta
from nelson_paper.tasks.routes.moves import SWEEPS, weighted
from nelson_paper.tasks.routes.picture import draw_overview, draw_route
from nelson_paper.tasks.routes.resample import uniform

#: `law` enumerates the round trips of up to 9 locations: 8! = 40,320.
_MAX_ENUMERATED = 9
#: The largest R-hat of chains that are called diagnosed.
_MIXED = 1.1


class Routes(Task):
    """Routes through coordinates (n, 2), or given a matrix of distances (n, n), or both; without
    either, through bayg29.

    places     (n, 2) of the locations on the map
    distances  (n, n) summed by `lengths`; Euclidean unless given
    locations  names; the first is the depot
    """

    name = "routes"
    heading = "Delivery routes"
    KINDS: ClassVar[tuple[str, ...]] = ("districts", "short", "planted")

    def __init__(
        self,
        coordinates: Any = None,
        *,
        names: Any = None,
        distances: Any = None,
        title: str = "",
    ) -> None:
        if coordinates is None and distances is None:
            coordinates, title = data.BAYG29, title or "bayg29"
        if distances is not None:
            self.distances = data.checked_distances(distances)
        if coordinates is not None:
            self.places = data.checked_coordinates(coordinates)
        else:
            self.places = data.laid_out(self.distances)
        if distances is None:
            self.distances = data.euclidean(self.places)
        self.n = len(self.places)
        if len(self.distances) != self.n:
            raise FormulaError(
                f"distances between {len(self.distances)} locations", expected=f"{self.n}"
            )
        self.locations = data.checked_names(names, self.n)
        self.title = title
        self.n_vars = self.n * (self.n - 1)
        a, b = convert.pairs(self.n)
        self.names = [
            f"{self.locations[i]}->{self.locations[j]}" for i, j in zip(a, b, strict=True)
        ]

    @classmethod
    def from_tsplib(cls, path: AnyPath) -> Self:
        """Any TSPLIB file of locations or distances; its first node is the depot."""
        file = tsplib.read(path)
        return cls(file.places, names=file.ids, distances=file.distances, title=file.name)

    @classmethod
    def from_table(
        cls, table: Any, *, x: str | None = None, y: str | None = None, name: str | None = None
    ) -> Self:
        """A CSV file, an array (n, 2), a DataFrame or {name: (x, y)}; x, y, name: its columns."""
        places, names = data.from_table(table, x, y, name)
        return cls(places, names=names)

    @classmethod
    def small(cls, seed: int = 0) -> Self:
        """Nine locations of bayg29: the first, and eight chosen by the seed."""
        random = np.random.default_rng([seed, 29])
        chosen = [0, *sorted((1 + random.permutation(len(data.BAYG29) - 1)[:8]).tolist())]
        places = [data.BAYG29[k] for k in chosen]
        return cls(places, names=[str(k + 1) for k in chosen], title="nine of bayg29")

    def describe(self) -> str:
        title = f" ({self.title})" if self.title else ""
        return f"round trips that visit each of {self.n} locations{title} once"

    # ------------------------------------------------------------------------------- conversions

    def valid(self, x: Any) -> np.ndarray:
        return convert.follow(self.checked(x), self.n)[1]

    def to_routes(self, x: Any) -> np.ndarray:
        """x (m, n_vars) -> (m, n) locations, each row starting at the depot."""
        return convert.to_routes(self.checked(x), self.n)

    def to_x(self, routes: Any) -> np.ndarray:
        """(m, n) locations -> x (m, n_vars) bool."""
        return convert.to_x(convert.checked_routes(routes, self.n))

    def matrix(self, theta: Any) -> np.ndarray:
        """theta (n_vars,) -> (n, n); None is 0, a matrix is checked and kept."""
        if theta is not None and np.shape(theta) == (self.n, self.n):
            theta = convert.to_vector(theta)
        return convert.to_matrix(self.checked_weights(theta), self.n)

    def vector(self, matrix: Any) -> np.ndarray:
        """theta (n, n) -> (n_vars,); the diagonal is left out."""
        return convert.to_vector(self.matrix(matrix))

    def lengths(self, x: Any) -> np.ndarray:
        """Length of each route: x (m, n_vars) -> (m,)."""
        return self.checked(x) @ convert.to_vector(self.distances)

    def readable(self, x: Any) -> list[list[str]]:
        """The locations of each route by name, in the order they are visited."""
        return [[self.locations[k] for k in route] for route in self.to_routes(x)]

    def cnf(self, edges: bool = False) -> RouteFormula:
        """The same structures as clauses over position x location; see `routes.cnf`."""
        return route_formula(self.locations, edges)

    def law(self, theta: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """All routes ((n - 1)!, n) and their probabilities, by enumeration; up to 9 locations."""
        routes, phi = self._enumerated(theta)
        weight = np.exp(phi - phi.max())
        return routes, weight / weight.sum()

    def _enumerated(self, theta: Any) -> tuple[np.ndarray, np.ndarray]:
        """All routes ((n - 1)!, n) and their potentials."""
        if self.n > _MAX_ENUMERATED:
            raise FormulaError(
                f"{self.n} locations", expected=f"at most {_MAX_ENUMERATED} to enumerate routes"
            )
        rest = np.array(list(permutations(range(1, self.n))), np.int64)
        routes = np.concatenate([np.zeros((len(rest), 1), np.int64), rest], axis=1)
        return routes, convert.summed(self.matrix(theta), routes)

    # ---------------------------------------------------------------- examples, samples, learning

    def examples(self, n: int, *, seed: int = 0, kind: str | None = None) -> np.ndarray:
        """`districts`, `short` or `planted`: see `routes.examples`."""
        kind = self.checked_kind(kind)
        return convert.to_x(example_routes(self.distances, self.places, n, kind=kind, seed=seed))

    def planted_theta(self) -> np.ndarray:
        """theta* of the examples of kind `planted`, (n_vars,)."""
        return convert.to_vector(planted_theta(self.distances, self.places))

    def sample(self, theta: Any, n: int, *, seed: int = 0, **options: Any) -> Generated:
        """theta (n_vars,), (n, n) or None. Options: threads; with weights also anneal, sweeps."""
        started = time.perf_counter()
        info: dict[str, Any] = {"seed": seed}
        rounds: np.ndarray | None
        if theta is None:
            drawn = uniform(self.n, n, seed=seed, **options)
            routes, guarantee, rounds = drawn.routes, "exact", drawn.rounds
            info |= {"method": "resampling", "redrawn": int(drawn.redrawn.sum())}
        else:
            chains = weighted(self.matrix(theta), n, seed=seed, **options)
            guarantee, rhat = self._label(theta, **options)
            routes, rounds = chains.rotated(), chains.rounds
            info |= {
                "rhat": rhat,
                "method": "chains from uniform starts",
                "sweeps": chains.steps // self.n,
                "moved": chains.moved_share(),
            }
        assert rounds is not None
        info["rounds"] = int(rounds.max(initial=0))
        info["mean_rounds"] = float(rounds.mean()) if n else 0.0
        info["seconds"] = time.perf_counter() - started
        return Generated(convert.to_x(routes), guarantee, info)

    def learn(self, data: Any, *, seed: int = 0, **options: Any) -> Learned:
        """See `routes.learn`; the distances are the free direction unless `free` is given."""
        routes = convert.to_routes(self.checked_data(data), self.n)
        if "free" not in options:
            options["free"] = convert.to_vector(self.distances)[None]
        if options.get("start") is not None:
            options["start"] = self.vector(options["start"])
        fit = learn_theta(routes, seed=seed, **options)
        guarantee, rhat = self._label(fit.theta, threads=options.get("threads"))
        return replace(fit, guarantee=guarantee, info=fit.info | {"rhat": rhat})

    def _label(self, theta: Any, **options: Any) -> tuple[str, float]:
        """The guarantee of chains with these weights, and their largest R-hat.

        Diagnosed: the chains of a pilot run agree, and the sweeps of a sample are enough for the
        correlation with its start, exp(-2 sweeps / autocorrelation time), to fall to 0.1.
        """
        seen = self.diagnose(theta, **options)
        times = [s["time"] for s in seen["statistics"].values()]  # NaN: it never changes
        slowest = max((time for time in times if np.isfinite(time)), default=0.0)
        forgotten = options.get("sweeps", SWEEPS) >= slowest * np.log(10) / 2
        passed = seen["rhat"] <= _MIXED and bool(forgotten)
        return "diagnosed" if passed else "heuristic", float(seen["rhat"])

    def diagnose(self, theta: Any, **options: Any) -> dict[str, Any]:
        """Split R-hat and effective sample size of several chains: see `routes.diagnose`."""
        matrix = self.matrix(theta)
        return diagnose_chains(matrix, {"potential": matrix, "length": self.distances}, **options)

    def further_report(
        self, theta: Any, generated: Generated, held_out: np.ndarray, train: Any, seed: int
    ) -> dict[str, Any]:
        """How alike edges and lengths are (`routes.compare.alike`), and the log-likelihoods if all
        routes can be enumerated.

        "uniform_length_ks" compares the held-out lengths with those of uniform routes: the value
        for a model that has learned nothing.
        """
        trained = 0 if train is None else len(train)
        held, new = self.to_routes(held_out), self.to_routes(generated.x)
        report = alike(held, new, self.distances, trained)
        blind = self.sample(None, len(generated), seed=seed + 1)
        statistic, p = ks(self.lengths(held_out), self.lengths(blind.x))
        report["uniform_length_ks"], report["uniform_length_p"] = statistic, p
        if self.n <= _MAX_ENUMERATED and theta is not None:
            report["log_likelihood"] = self.log_likelihood(theta, held_out)
            if train is not None:
                report["train_log_likelihood"] = self.log_likelihood(theta, train)
        return report

    def log_likelihood(self, theta: Any, x: Any) -> dict[str, float]:
        """Mean log P_theta(x) in nats, {"value", "half_width"}, exact by enumeration (n <= 9).

        half_width: 95%, because the examples are a sample.
        """
        matrix = self.matrix(theta)
        _, phi = self._enumerated(matrix)
        log_z = float(phi.max() + np.log(np.exp(phi - phi.max()).sum()))
        phi = self.checked_data(x) @ convert.to_vector(matrix)
        mean = mean_likelihood(phi, log_z, 0.0, "enumerate")
        return {"value": mean.value, "half_width": mean.half_width}

    # ----------------------------------------------------------------------------------- pictures

    def draw(self, x: Any, path: AnyPath, *, theta: Any = None, title: str | None = None) -> Path:
        weights = None if theta is None else self.matrix(theta)
        return draw_route(self, self.to_routes(x)[0], path, weights, title)

    def picture(self, data: Any, theta: Any, generated: Any, path: AnyPath) -> Path:
        routes, new = self.to_routes(data), self.to_routes(generated)
        return draw_overview(self, routes, self.matrix(theta), new, path)
