"""Which pairs of fields does a model need? Chosen by held-out likelihood.

1. Fit the law without pairs.
2. Score each pair of fields: G = 2 n sum d log(d / m), where d are the shares of its values in the
   data and m those under the model. If the model is right, G follows a chi-square law. For fields
   in an order, the part of chi-square in polynomials of low degree (Lancaster 1953) sees less, and
   sees it sooner: degree 1 is n (difference of their correlations)^2. Each pair takes the form, and
   pairs are ranked, by what they would gain on other rows: G - 2 (numbers), as Akaike has it.
3. Add the best pairs, refit, and keep them if other rows would be more likely (`_better`). Repeat
   from 2.

The first batch is a spanning forest of the strongest pairs (Chow and Liu 1968): where a depends on
b and b on c, the pair (a, c) waits until the others are in the model, and then it is often not
needed. For the same reason the pairs of later batches have no field in common. At the end, pairs
that later ones have made superfluous are taken out: a Wald test finds them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from nelson.budget import Budget, TimeUp
from nelson.formula.flat import check_ahead
from nelson.kernels.core.deadline import check_time
from nelson.policy import DEFAULT, Policy
from nelson.space.language.expressions import leaves
from nelson.space.language.fields import FIELDS
from nelson.space.tables.elimination import order_of
from nelson.space.tables.fit import COVARIANCE_ROWS, Fitted, Prior, TableProblem, covariance, fit
from nelson.space.tables.potential import DEGREES, FREE, Forms, Pair, Potential

if TYPE_CHECKING:
    from nelson.space.space import Space

#: The Wald test inverts the covariance of all features: of more it is left out, and where rows
#: are fewer than two for each number, since their covariance says too little then.
MOST_TESTED = 2000
#: The p-value above which Akaike's criterion would leave out a single number.
WEAK = 0.157
Rows = tuple[Mapping[str, np.ndarray], int]


@dataclass(frozen=True)
class PairSearch:
    """Rows are levels: (columns, number of rows)."""

    space: Space
    potential: Potential  # without pairs
    prior: Prior
    train: Rows
    held_out: Rows
    budget: Budget
    seed: int
    tell: Callable[[str], None]
    policy: Policy = DEFAULT

    def fitted(
        self, pairs: Forms, singles: Fitted | None = None, known: Fitted | None = None
    ) -> Fitted | None:
        """The fit with these pairs; None if there are pairs and no circuit."""
        potential = self.potential.with_pairs(pairs)
        problem = TableProblem.of(self.space, potential, self.seed, self.budget, self.policy)
        if pairs and problem.source is None:
            return None
        return fit(problem, *self.train, self.prior, singles, known, self.budget)

    def late(self) -> bool:
        return self.budget.spent


@dataclass
class ChosenPairs:
    """The model that was chosen, the one without pairs, and the steps on the way, in words."""

    fitted: Fitted
    singles: Fitted
    score: np.ndarray  # log P of each row that was held out
    steps: list[str] = field(default_factory=list)
    end: str = ""

    @property
    def pairs(self) -> dict[Pair, int]:
        return _forms(self.fitted.potential)

    def take(self, fitted: Fitted, score: np.ndarray, what: str, search: PairSearch) -> None:
        self.fitted, self.score = fitted, score
        line = f"{what}: held-out log-likelihood {_shown(score)} a row"
        self.steps.append(line)
        search.tell(line)


def choose(search: PairSearch) -> ChosenPairs:
    """Search for pairs. Without an exact likelihood the law without pairs is all there is."""
    singles = search.fitted({})
    assert singles is not None
    chosen = ChosenPairs(singles, singles, np.zeros(0))
    if singles.problem.source is None:
        chosen.end = (
            "no pairs were tried, since there is no exact likelihood to compare "
            f"({singles.problem.why_not}); name them with pairs=[...]"
        )
        return chosen
    chosen.take(singles, singles.log_prob(*search.held_out), "no pairs", search)
    candidates = _candidates(search.potential, search.policy.pairs.cells)
    try:
        with search.budget.enforced():
            _search(search, chosen, candidates)
    except TimeUp:  # what was chosen so far is a model
        chosen.end = "the time was up"
    return chosen


def _search(search: PairSearch, chosen: ChosenPairs, candidates: list[Pair]) -> None:
    """Batches of pairs until they do not help; then without those that are not needed."""
    singles = chosen.singles
    tests, limit = len(candidates), search.policy.pairs.most_cells(search.train[1])
    tied = _tied(search.space)
    misses = 0  # batches of which not even the best pair helped
    failures, most = 0, tests  # circuits that failed, and new pairs of the next one at most
    while not chosen.end:
        ranked, too_wide = _ranked(search, chosen.fitted, candidates, limit, tests)
        forest = {} if chosen.pairs else _forest(ranked, tied)
        batch = dict(list((forest or _disjoint(ranked)).items())[:most])
        if not ranked:
            chosen.end = _ended(too_wide)
        elif search.late():
            chosen.end = "the time was up"
        else:
            pairs = _within(chosen.pairs, batch, search.potential, limit)
            tried = search.fitted(pairs, singles, chosen.fitted)
            if tried is None and failures == search.policy.pairs.failures:
                chosen.end = "larger models did not compile"
            elif tried is None:
                failures += 1
                new = len(pairs.items() - chosen.pairs.items())
                most = max(1, new // 2)
                if new == 1:
                    limit = _cost(pairs, search.potential)
            elif not _try(search, chosen, tried):
                misses += 1
                candidates = [pair for pair in candidates if pair != next(iter(batch))]
                if misses < search.policy.pairs.misses:
                    continue
                chosen.end = "the next pairs do not help on rows that were held out: "
                chosen.end += _listed(batch) + _ended(too_wide, "; ")
    if not search.late():
        _prune(search, chosen)


def _try(search: PairSearch, chosen: ChosenPairs, tried: Fitted) -> bool:
    """Keep `tried` if it helps; else the better half of its new pairs, and so on."""
    while True:
        new = dict(
            item for item in _forms(tried.potential).items() if item not in chosen.pairs.items()
        )
        score = tried.log_prob(*search.held_out)
        if _better(search, chosen, tried, score):
            chosen.take(tried, score, f"added {_listed(new)}", search)
            return True
        smaller = None
        if len(new) > 1 and not search.late():
            half = dict(list(new.items())[: len(new) // 2])
            smaller = search.fitted(chosen.pairs | half, chosen.singles, chosen.fitted)
        if smaller is None:
            return False
        tried = smaller


def _better(search: PairSearch, chosen: ChosenPairs, tried: Fitted, score: np.ndarray) -> bool:
    """Would new rows be more likely? Both estimates together: the gain on rows that were held out,
    and the gain on the others less one nat for each number (Akaike). The first must not contradict.
    """
    gain, error = _difference(score, chosen.score)
    train = tried.log_prob(*search.train) - chosen.fitted.log_prob(*search.train)
    numbers = tried.potential.freedom - chosen.fitted.potential.freedom
    together = gain * len(score) + float(train.sum()) - numbers
    return together > 0 and gain > -search.policy.pairs.sigmas * error


def _difference(score: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """(mean difference, its standard error)."""
    each = score - other
    return float(each.mean()), float(each.std(ddof=1)) / math.sqrt(len(each))


def _shown(score: np.ndarray) -> str:
    return f"{score.mean():.4f} +- {score.std(ddof=1) / math.sqrt(len(score)):.4f}"


def _listed(pairs: Iterable[Pair]) -> str:
    shown = [f"{a} x {b}" for a, b in pairs]
    return ", ".join(shown[:6]) + ", ..." * (len(shown) > 6)


def _forms(potential: Potential) -> dict[Pair, int]:
    return {pair: potential.forms.get(pair, FREE) for pair in potential.pairs}


def _ended(too_wide: list[Pair], before: str = "") -> str:
    if not too_wide:
        return "" if before else "no further pair differs from the model by more than noise"
    return f"{before}the circuit would be too large with {_listed(too_wide)}"


def _candidates(potential: Potential, most: int) -> list[Pair]:
    names = [name for name, levels in potential.levels.items() if levels.count > 1]
    pairs = itertools.combinations(names, 2)
    counts = {name: potential.levels[name].count for name in names}
    return [(a, b) for a, b in pairs if counts[a] * counts[b] <= most]


@dataclass(frozen=True, order=True)
class Ranked:
    """A pair, the gain that it promises, and the form that gains most."""

    gain: float
    pair: Pair
    degree: int


def _ranked(
    search: PairSearch, fitted: Fitted, candidates: list[Pair], limit: float, tests: int
) -> tuple[list[Ranked], list[Pair]]:
    """(pairs that differ from the model by more than noise, best first; those too costly)."""
    potential = fitted.potential
    forms = _forms(potential)
    check_ahead(len(candidates), 3e-7)
    candidates = [pair for pair in candidates if forms.get(pair) != FREE]
    train, n = search.train
    step = max(1, n * len(candidates) // search.policy.pairs.counted)
    train = {name: column[::step] for name, column in train.items()}
    n = -(-n // step)
    m = max(n, min(search.policy.pairs.samples // step, max(1 << 13, 4 * n)))
    drawn = potential.levels_of(fitted.draw(search.space, m, seed=search.seed).codes)
    data, model = potential.counts(train, candidates), potential.counts(drawn, candidates)
    noise = 1 + n / m  # the samples of the model have noise as well
    found = []
    for pair in candidates:
        check_time()
        tried = [
            (statistic / noise, freedom, degree)
            for statistic, freedom, degree in _statistics(potential, pair, data[pair], model[pair])
            if degree > forms.get(pair, 0)
        ]
        p_value = len(tried) * min(_p_value(each, freedom) for each, freedom, _ in tried)
        gain, degree = max((each - 2 * freedom, degree) for each, freedom, degree in tried)
        found.append((p_value, Ranked(gain, pair, degree)))
    found.sort()
    bounds = search.policy.pairs.level * np.arange(1, len(found) + 1) / tests
    below = np.flatnonzero([p <= bound for (p, _), bound in zip(found, bounds, strict=True)])
    ranked, too_wide = [], []
    for _, each in found[: below.max(initial=-1) + 1]:  # Benjamini and Hochberg 1995
        if each.gain > 2 * n * search.policy.pairs.gain:
            wide = each.pair not in forms and _cost([*forms, each.pair], potential) >= limit
            too_wide.append(each.pair) if wide else ranked.append(each)
    return sorted(ranked, reverse=True), too_wide


def _statistics(
    potential: Potential, pair: Pair, d: np.ndarray, k: np.ndarray
) -> list[tuple[float, int, int]]:
    """(chi-square, degrees of freedom, degree) of each form of a pair, from counts of the data and
    of the model, which are brought to the margins of the data: their noise is no dependence.
    """
    n, m = d.sum(), k.sum()
    possible = (d > 0) | (k > 0)
    cells, rows, columns = possible.sum(), possible.any(1).sum(), possible.any(0).sum()
    share = (k + 0.5 * possible) / (m + 0.5 * cells)
    for axis in (0, 1):
        seen_margin, drawn_margin = d.sum(axis, keepdims=True), share.sum(axis, keepdims=True)
        share = share * (seen_margin / n / np.where(drawn_margin > 0, drawn_margin, 1))
    seen = d > 0
    g = 2 * float((d[seen] * np.log(d[seen] / n / share[seen])).sum())
    found = [(g, max(1, int(cells - rows - columns + 1)), FREE)]
    if not any(name in potential.scores for name in pair):
        return found
    for degree in DEGREES:
        part, freedom = d / n - k / m, 1
        for name, shares in zip(pair, ((d + k).sum(1), (d + k).sum(0)), strict=True):
            if name in potential.scores:
                part = part.T @ potential.factor(name, degree)
                freedom *= part.shape[1]
            else:
                part = part.T / np.sqrt(shares.clip(1e-9) / (n + m))
                freedom *= max(1, int((shares > 0).sum()) - 1)
        found.append((float(n * (part**2).sum()), freedom, degree))
    return found


def _tied(space: Space) -> list[Pair]:
    """Fields that a rule of two fields joins, such as a column and one that it determines."""
    found = []
    for requirement in space.rules:
        names = {leaf.name for leaf in leaves(requirement.rule) if isinstance(leaf, FIELDS)}
        if len(names) == 2:
            a, b = sorted(names)
            found.append((a, b))
    return found


def _forest(ranked: list[Ranked], joined: Sequence[Pair] = ()) -> dict[Pair, int]:
    """The strongest pairs that close no cycle, also not with pairs that are joined already."""
    root: dict[str, str] = {}

    def find(name: str) -> str:
        while (above := root.get(name, name)) != name:
            name = above
        return name

    for a, b in joined:
        if find(a) != find(b):
            root[find(a)] = find(b)
    found = {}
    for each in ranked:
        a, b = each.pair
        if find(a) != find(b):
            root[find(a)] = find(b)
            found[each.pair] = each.degree
    return found


def _disjoint(ranked: list[Ranked]) -> dict[Pair, int]:
    """The strongest pairs without a field in common."""
    used: set[str] = set()
    found = {}
    for each in ranked:
        if not used & set(each.pair):
            used |= set(each.pair)
            found[each.pair] = each.degree
    return found


def _within(
    pairs: dict[Pair, int], batch: Forms, potential: Potential, limit: float
) -> dict[Pair, int]:
    """pairs, and those of the batch that keep the cost below the limit: at least the first one."""
    for pair, degree in batch.items():
        if _cost([*pairs, pair], potential) < limit:
            pairs = pairs | {pair: degree}
    return pairs


def _cost(pairs: Iterable[Pair], potential: Potential) -> float:
    """Entries of all tables if the fields are eliminated one by one, the cheapest first.

    A circuit for the pairs is about as large. Rules are not counted: they remove rows.
    """
    pairs = list(pairs)
    names = {name for pair in pairs for name in pair}
    return order_of(pairs, {name: potential.levels[name].count for name in names}).cells


def _prune(search: PairSearch, chosen: ChosenPairs) -> None:
    """Take out pairs whose numbers could be 0, unless rows that were held out speak against it: all
    at once, or the weaker half, and so on, since of two pairs that say the same each looks weak
    beside the other.
    """
    if chosen.fitted.potential.freedom > min(MOST_TESTED, search.train[1] / 2):
        return
    p_values = _wald(chosen.fitted, *search.train)
    weak = sorted((p, pair) for pair, p in p_values.items() if p > WEAK)
    weakest = [pair for _, pair in reversed(weak)]
    while weakest and not search.late():
        pairs = {pair: form for pair, form in chosen.pairs.items() if pair not in weakest}
        tried = search.fitted(pairs, chosen.singles, chosen.fitted) if pairs else chosen.singles
        score = None if tried is None else tried.log_prob(*search.held_out)
        if tried is not None and score is not None and _better(search, chosen, tried, score):
            chosen.take(tried, score, f"took out {_listed(weakest)}", search)
            return
        weakest = weakest[: len(weakest) // 2]


def _wald(fitted: Fitted, rows: Mapping[str, np.ndarray], n: int) -> dict[Pair, float]:
    """The p-value of "all numbers w of this pair are 0", for each pair.

    w^T (covariance of w)^-1 w is chi-square; the covariance of all w is (n Cov(features))^-1.
    """
    potential = fitted.potential
    numbers = potential.numbers(fitted.theta)
    matrix = covariance(potential, rows, max(1, n // COVARIANCE_ROWS))
    varies = np.flatnonzero(np.diag(matrix) > 0)
    inverse = np.linalg.inv(matrix[np.ix_(varies, varies)] + 1e-9 * np.eye(len(varies)))
    found = {}
    for pair in potential.pairs:
        part = potential.parts[pair]
        inside = np.flatnonzero((varies >= part.start) & (varies < part.stop))
        of = numbers[varies[inside]]
        wald = n * float(of @ np.linalg.solve(inverse[np.ix_(inside, inside)], of))
        found[pair] = _p_value(wald, max(1, len(inside)))
    return found


def _p_value(chi_square: float, freedom: int) -> float:
    from scipy.special import chdtrc

    return float(chdtrc(freedom, max(0.0, chi_square)))
