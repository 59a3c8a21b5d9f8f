"""Models of the rows of a data set, and the share of rows that break rules. With an exact log Z:

    fields   a theta for each value of a field; groups of columns are the only rules
    rules    the same, over the rows that obey all rules
    tree     besides, the pairs of a Chow-Liu tree of the fields
    pairs    besides, pairs of fields chosen by the likelihood of the validation rows

and one whose log Z is an estimate with an interval:

    all pairs   a coefficient for each pair of columns in different fields, by `nelson.learn`. Only
                for sets without rules between fields: under such rules the chains freeze

A rule that new rows may break would cost an infinite log-loss. So what is scored is a mixture, with
sum 1 over all rows of bits:

    P(x) = (1 - s) P_model(x) + s ((1 - s) P_free(x) + s P_bits(x))

P_free has no rules but the groups: `fields` beside `rules`, and the tree without rules beside the
models with pairs. P_bits has independent bits. A part that is not needed is left out: P_free if
there is no rule, P_bits if there is no group. The slack s is (b + 1) / (v + 2), where b of the v
validation rows broke a rule that the training rows gave.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lab.density.data import DataSet
from lab.density.fields import Found, formula_of
from nelson.learning.learn import learn
from nelson.log_z import compute
from nelson.space import Rows, Space, TableModel

ALL_PAIRS = "all pairs"
MODELS = ("fields", "rules", "tree", "pairs", ALL_PAIRS)
#: The model without rules that stands beside each model with rules.
FREE = {"rules": "fields", "tree": "free tree", "pairs": "free tree"}
#: Rows drawn to see whether all are legal.
_DRAWN = 10_000


@dataclass(frozen=True, eq=False)
class Scored:
    """A fitted model and how likely it makes the rows of a part.

    scores        log P of each row under the mixture, in nats
    log_z_error   half the width of the interval of log Z; 0 if log Z is exact
    broken        rows of the part that break a rule
    valid         share of drawn rows that obey all rules
    """

    pairs: int  # pairs of fields, or of columns, that have coefficients
    numbers: int  # numbers that were learned
    guarantee: str
    why: str
    slack: float
    scores: np.ndarray
    log_z_error: float
    broken: int
    valid: float
    seconds: float

    @property
    def mean(self) -> float:
        return float(self.scores.mean())

    @property
    def error(self) -> float:
        return float(self.scores.std(ddof=1)) / math.sqrt(len(self.scores))


def slack(found: Found, data: DataSet) -> float:
    """The share of the mixture for rows that break rules."""
    return (found.broke + 1) / (len(data.valid) + 2)


def scored(
    data: DataSet,
    found: Found,
    kind: str,
    *,
    seed: int = 0,
    seconds: float = 120.0,
    tell: Callable[[str], None] | None = None,
) -> Scored:
    """Fit one of MODELS to the training rows and score the test rows."""
    started = time.monotonic()
    share = slack(found, data)
    part = data.scored[1]
    if kind == ALL_PAIRS:
        law = all_pairs(found, data, part, seed, seconds)
    else:
        model = fitted(found, data, kind, seed, seconds, tell or (lambda line: None))
        drawn = model.rows(_DRAWN, seed=seed + 1)
        law = _Law(
            model.log_prob(found.rows(part, model.space)),
            model.log_z.half_width,
            float(model.space.satisfied(drawn).mean()),
            len(model.pairs),
            len(model.vector),
            model.guarantee,
            model.why,
        )
    took = time.monotonic() - started
    scores = law.scores
    outside = []
    if found.rules and kind != "fields":
        free = fitted(found, data, FREE[kind], seed, seconds, lambda line: None)
        outside.append(free.log_prob(found.rows(part, free.space)))
    if any(len(group.columns) > 1 for group in found.groups):
        outside.append(_independent_bits(data.train, part))
    for k, other in enumerate(outside, 1):
        last = k == len(outside)
        rest = math.log(share) * k + (0.0 if last else math.log1p(-share))
        scores = np.logaddexp(scores + math.log1p(-share) * (k == 1), rest + other)
    broken = int((~found.space.satisfied(found.rows(part))).sum())
    return Scored(
        law.pairs,
        law.numbers,
        law.guarantee,
        law.why,
        share * bool(outside),
        scores,
        law.log_z_error,
        broken,
        law.valid,
        took,
    )


@dataclass(frozen=True, eq=False)
class _Law:
    """What a fitted model says about the rows of a part; -inf for those that it excludes."""

    scores: np.ndarray
    log_z_error: float
    valid: float
    pairs: int
    numbers: int
    guarantee: str
    why: str


def all_pairs(found: Found, data: DataSet, part: np.ndarray, seed: int, seconds: float) -> _Law:
    """A coefficient for each pair of columns, stopped by the validation rows; log Z estimated."""
    formula = formula_of(found)
    fit = learn(
        formula, data.train, terms="pairs", valid=data.valid, drop_invalid=True, seed=seed,
        seconds=seconds,
    )  # fmt: skip
    assert fit.theta is not None
    terms = fit.terms or {}
    log_z = compute.log_z(formula, fit.theta, terms=terms, starts=data.train, seed=seed)
    both = np.zeros((formula.n_vars, formula.n_vars))
    for (a, b), coefficient in terms.items():
        both[a - 1, b - 1] = coefficient
    x = part.astype(float)
    scores = x @ fit.theta + ((x @ both) * x).sum(axis=1) - log_z.value
    drawn = fit.sample(_DRAWN, seed=seed + 1).to_numpy()
    return _Law(
        np.where(formula.satisfied(part.astype(bool)), scores, -np.inf),
        log_z.half_width,
        float(formula.satisfied(drawn).mean()),
        len(terms),
        len(terms) + formula.n_vars,
        fit.guarantee,
        f"{fit.why}; log Z: {log_z.why}",
    )


def fitted(
    found: Found,
    data: DataSet,
    kind: str,
    seed: int,
    seconds: float,
    tell: Callable[[str], None],
) -> TableModel:
    """Fit a model to the training rows; the validation rows choose what there is to choose."""
    space = found.plain if kind in ("fields", "free tree") else found.space
    train, valid = found.rows(data.train, space), found.rows(data.valid, space)
    pairs: Any = {"fields": None, "rules": None, "pairs": "auto"}.get(kind, ())
    return space.learn(
        train,
        chow_liu(train, space) if pairs == () else pairs,
        validation=valid,
        drop_invalid=True,
        seed=seed,
        seconds=seconds,
        progress=tell,
    )


def chow_liu(rows: Rows, space: Space) -> list[tuple[str, str]]:
    """The edges of the tree of greatest likelihood (Chow and Liu 1968), from codes of rows.

    The weight of an edge is the mutual information, less (parameters) / 2n for the noise; edges
    of no weight are left out.
    """
    n = len(rows)
    weighted = []
    for a, b in itertools.combinations(space.fields, 2):
        shape = space.fields[a].size, space.fields[b].size
        flat = rows.codes[a].astype(np.int64) * shape[1] + rows.codes[b]
        joint = np.bincount(flat, minlength=shape[0] * shape[1]).reshape(shape) / n
        alone = np.outer(joint.sum(axis=1), joint.sum(axis=0))
        seen = joint > 0
        gain = float((joint[seen] * np.log(joint[seen] / alone[seen])).sum())
        seen_a, seen_b = seen.any(axis=1).sum(), seen.any(axis=0).sum()
        gain -= float(seen_a - 1) * float(seen_b - 1) / (2 * n)
        if gain > 0:
            weighted.append((gain, (a, b)))
    root: dict[str, str] = {}

    def top(name: str) -> str:
        while (above := root.get(name, name)) != name:
            name = above
        return name

    edges = []
    for _, (a, b) in sorted(weighted, reverse=True):
        if top(a) != top(b):
            root[top(a)] = top(b)
            edges.append((a, b))
    return edges


def _independent_bits(train: np.ndarray, part: np.ndarray) -> np.ndarray:
    """log P of rows with independent bits, each with one pseudo-example of both values."""
    share = (train.sum(axis=0) + 1) / (len(train) + 2)
    return part @ np.log(share) + (1 - part) @ np.log1p(-share)
