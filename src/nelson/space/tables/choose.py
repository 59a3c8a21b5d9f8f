"""Which pairs of fields does a model need? Chosen by held-out likelihood.

1. Fit the law without pairs.
2. Score each pair of fields: G = 2 n sum d log(d / m), where d are the shares of its values in the
   data and m those under the model. If the model is right, G follows a chi-square law.
3. Add the best pairs, refit, and keep them if rows that were held out become more likely by more
   than the noise of that difference. Repeat from 2.

The first batch is a spanning forest of the strongest pairs (Chow and Liu 1968): where a depends on
b and b on c, the pair (a, c) waits until the others are in the model, and then it is often not
needed. For the same reason the pairs of later batches have no field in common. At the end, pairs
that later ones have made superfluous are taken out: a Wald test finds them.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from nelson.space.tables.fit import COVARIANCE_ROWS, Fitted, Prior, Problem, covariance, fit
from nelson.space.tables.potential import Pair, Potential

if TYPE_CHECKING:
    from nelson.space.space import Space

#: False-alarm rate of the tests of all pairs together.
_LEVEL = 0.01
#: A batch stays if its held-out gain is at least this many standard errors above 0.
_SIGMAS = 2.0
#: Combinations of values of the largest pair that is tried.
_MAX_CELLS = 4096
#: Largest cost, as estimated by `_cost`, of a circuit that is tried. At ten fields of five values
#: each, 34 of the 45 pairs compiled in 9 s; all 45 (cost 12 million) did not in 60 s.
_MAX_COST = 4e6
#: Samples of the model in which pairs are counted, at least.
_SAMPLES = 1 << 17
#: Batches of which not even the best pair helps before the search ends. The pair that differs most
#: from the model is not always the one that helps.
_MAX_MISSES = 3
#: Models that may fail to compile before the search ends. Each takes the full limit of time.
_MAX_FAILURES = 4
Rows = tuple[Mapping[str, np.ndarray], int]


@dataclass(frozen=True)
class Task:
    """Rows are levels: (columns, number of rows)."""

    space: Space
    potential: Potential  # without pairs
    prior: Prior
    train: Rows
    held_out: Rows
    until: float  # `time.monotonic()`
    seed: int
    tell: Callable[[str], None]

    def fitted(
        self, pairs: list[Pair], singles: Fitted | None = None, known: Fitted | None = None
    ) -> Fitted | None:
        """The fit with these pairs; None if there are pairs and no circuit."""
        potential = self.potential.with_pairs(pairs)
        problem = Problem.of(self.space, potential, self.seed, self.until)
        if pairs and problem.source is None:
            return None
        return fit(problem, *self.train, self.prior, singles, known, self.until)

    def late(self) -> bool:
        return time.monotonic() > self.until


@dataclass
class Chosen:
    """The model that was chosen, the one without pairs, and the steps on the way, in words."""

    fitted: Fitted
    singles: Fitted
    score: np.ndarray  # log P of each row that was held out
    steps: list[str] = field(default_factory=list)
    end: str = ""

    @property
    def pairs(self) -> list[Pair]:
        return list(self.fitted.potential.pairs)

    def take(self, fitted: Fitted, score: np.ndarray, what: str, task: Task) -> None:
        self.fitted, self.score = fitted, score
        line = f"{what}: held-out log-likelihood {_shown(score)} a row"
        self.steps.append(line)
        task.tell(line)


def choose(task: Task) -> Chosen:
    """Search for pairs. Without an exact likelihood the law without pairs is all there is."""
    singles = task.fitted([])
    assert singles is not None
    found = Chosen(singles, singles, np.zeros(0))
    if singles.problem.source is None:
        found.end = (
            "no pairs were tried, since there is no exact likelihood to compare "
            f"({singles.problem.why_not}); name them with pairs=[...]"
        )
        return found
    found.take(singles, singles.log_prob(*task.held_out), "no pairs", task)
    candidates = _candidates(task.potential)
    tests, limit = len(candidates), _MAX_COST
    misses = 0  # batches of which not even the best pair helped
    failures, most = 0, tests  # circuits that failed, and new pairs of the next one at most
    while not found.end:
        ranked, too_wide = _ranked(task, found.fitted, candidates, limit, tests)
        batch = (_disjoint(ranked) if found.pairs else _forest(ranked))[:most]
        if not ranked:
            found.end = _ended(too_wide)
        elif task.late():
            found.end = "the time was up"
        else:
            pairs = _within(found.pairs, batch, task.potential, limit)
            tried = task.fitted(pairs, singles, found.fitted)
            if tried is None and failures == _MAX_FAILURES:
                found.end = "larger models did not compile"
            elif tried is None:
                failures += 1
                most = max(1, (len(pairs) - len(found.pairs)) // 2)
                if len(pairs) == len(found.pairs) + 1:
                    limit = _cost(pairs, task.potential)
            elif not _try(task, found, tried):
                misses += 1
                candidates = [pair for pair in candidates if pair != batch[0]]
                if misses < _MAX_MISSES:
                    continue
                found.end = "the next pairs do not help on rows that were held out: "
                found.end += _listed(batch) + _ended(too_wide, "; ")
    if not task.late():
        _prune(task, found, tests)
    return found


def _try(task: Task, found: Chosen, tried: Fitted) -> bool:
    """Keep `tried` if it helps; else the better half of its new pairs, and so on."""
    while True:
        new = [pair for pair in tried.potential.pairs if pair not in found.pairs]
        score = tried.log_prob(*task.held_out)
        gain, error = _difference(score, found.score)
        if gain > _SIGMAS * error:
            found.take(tried, score, f"added {_listed(new)}", task)
            return True
        smaller = None
        if len(new) > 1 and not task.late():
            smaller = task.fitted(
                [*found.pairs, *new[: len(new) // 2]], found.singles, found.fitted
            )
        if smaller is None:
            return False
        tried = smaller


def _difference(score: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """(mean difference, its standard error)."""
    each = score - other
    return float(each.mean()), float(each.std(ddof=1)) / math.sqrt(len(each))


def _shown(score: np.ndarray) -> str:
    return f"{score.mean():.4f} +- {score.std(ddof=1) / math.sqrt(len(score)):.4f}"


def _listed(pairs: list[Pair]) -> str:
    return ", ".join(f"{a} x {b}" for a, b in pairs[:6]) + ", ..." * (len(pairs) > 6)


def _ended(too_wide: list[Pair], before: str = "") -> str:
    if not too_wide:
        return "" if before else "no further pair differs from the model by more than noise"
    return f"{before}the circuit would be too large with {_listed(too_wide)}"


def _candidates(potential: Potential) -> list[Pair]:
    names = [name for name, levels in potential.levels.items() if levels.count > 1]
    pairs = itertools.combinations(names, 2)
    counts = {name: potential.levels[name].count for name in names}
    return [(a, b) for a, b in pairs if counts[a] * counts[b] <= _MAX_CELLS]


def _ranked(
    task: Task, fitted: Fitted, candidates: list[Pair], limit: float, tests: int
) -> tuple[list[tuple[float, Pair]], list[Pair]]:
    """(pairs that differ from the model by more than noise, best first; those too costly)."""
    potential = fitted.potential
    train, n = task.train
    m = max(_SAMPLES, n)
    drawn = potential.levels_of(fitted.draw(task.space, m, seed=task.seed).codes)
    candidates = [pair for pair in candidates if pair not in potential.pairs]
    data, model = potential.counts(train, candidates), potential.counts(drawn, candidates)
    ranked, too_wide = [], []
    for pair in candidates:
        d, k = data[pair], model[pair]
        possible = (d > 0) | (k > 0)
        cells, rows, columns = possible.sum(), possible.any(1).sum(), possible.any(0).sum()
        freedom = max(1, int(cells - rows - columns + 1))
        share = (k + 0.5 * possible) / (m + 0.5 * cells)
        seen = d > 0
        g = 2 * float((d[seen] * np.log(d[seen] / n / share[seen])).sum())
        g /= 1 + n / m  # the samples of the model have noise as well
        if _p_value(g, freedom) * tests < _LEVEL:
            wide = _cost([*potential.pairs, pair], potential) >= limit
            too_wide.append(pair) if wide else ranked.append((g - freedom, pair))
    return sorted(ranked, reverse=True), too_wide


def _forest(ranked: list[tuple[float, Pair]]) -> list[Pair]:
    """The strongest pairs that close no cycle."""
    root: dict[str, str] = {}

    def find(name: str) -> str:
        while (above := root.get(name, name)) != name:
            name = above
        return name

    found = []
    for _, (a, b) in ranked:
        if find(a) != find(b):
            root[find(a)] = find(b)
            found.append((a, b))
    return found


def _disjoint(ranked: list[tuple[float, Pair]]) -> list[Pair]:
    """The strongest pairs without a field in common."""
    used: set[str] = set()
    found = []
    for _, pair in ranked:
        if not used & set(pair):
            used |= set(pair)
            found.append(pair)
    return found


def _within(pairs: list[Pair], batch: list[Pair], potential: Potential, limit: float) -> list[Pair]:
    """pairs, and those of the batch that keep the cost below the limit: at least the first one."""
    for pair in batch:
        if _cost([*pairs, pair], potential) < limit:
            pairs = [*pairs, pair]
    return pairs


def _cost(pairs: list[Pair], potential: Potential) -> float:
    """Entries of all tables if the fields are eliminated one by one, the cheapest first.

    A circuit for the pairs is about as large. Rules are not counted: they remove rows.
    """
    near: dict[str, set[str]] = {}
    for a, b in pairs:
        near.setdefault(a, set()).add(b)
        near.setdefault(b, set()).add(a)
    sizes = {name: float(potential.levels[name].count) for name in near}
    total = 0.0
    while near:
        price = {name: sizes[name] * math.prod(sizes[x] for x in near[name]) for name in near}
        name = min(price, key=lambda x: (price[x], x))
        total += price[name]
        around = near.pop(name)
        for other in around:
            near[other] |= around - {other}
            near[other].discard(name)
    return total


def _prune(task: Task, found: Chosen, tests: int) -> None:
    """Take out pairs whose theta could be 0, unless rows that were held out speak against it."""
    weak = [pair for pair, p in _wald(found.fitted, *task.train).items() if p * tests > _LEVEL]
    if not weak:
        return
    pairs = [pair for pair in found.pairs if pair not in weak]
    tried = task.fitted(pairs, found.singles, found.fitted) if pairs else found.singles
    if tried is not None:
        score = tried.log_prob(*task.held_out)
        loss, error = _difference(found.score, score)
        if loss <= _SIGMAS * error:
            found.take(tried, score, f"took out {_listed(weak)}", task)


def _wald(fitted: Fitted, rows: Mapping[str, np.ndarray], n: int) -> dict[Pair, float]:
    """The p-value of "all theta of this pair are 0", for each pair.

    theta^T (covariance of theta)^-1 theta is chi-square; the covariance of all theta is
    (n Cov(features))^-1.
    """
    potential, theta = fitted.potential, fitted.theta
    matrix = covariance(potential, rows, max(1, n // COVARIANCE_ROWS))
    varies = np.flatnonzero(np.diag(matrix) > 0)
    inverse = np.linalg.inv(matrix[np.ix_(varies, varies)] + 1e-9 * np.eye(len(varies)))
    found = {}
    for pair in potential.pairs:
        place = potential.places[pair]
        inside = np.flatnonzero((varies >= place.start) & (varies < place.stop))
        of = theta[varies[inside]]
        wald = n * float(of @ np.linalg.solve(inverse[np.ix_(inside, inside)], of))
        found[pair] = _p_value(wald, max(1, len(inside)))
    return found


def _p_value(chi_square: float, freedom: int) -> float:
    from scipy.special import chdtrc

    return float(chdtrc(freedom, max(0.0, chi_square)))
