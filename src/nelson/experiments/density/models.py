"""Models of the rows of a data set, each with an exact log Z, and the share of rule-free rows.

    fields   a theta for each value of a field; groups of columns are the only rules
    rules    the same, over the rows that obey all rules
    tree     besides, the pairs of a Chow-Liu tree of the fields
    pairs    besides, pairs of fields chosen by the likelihood of the validation rows

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

from nelson.experiments.density.data import DataSet
from nelson.experiments.density.fields import Found
from nelson.space import Rows, Space, TableModel

MODELS = ("fields", "rules", "tree", "pairs")
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

    model: TableModel
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
    model = fitted(found, data, kind, seed, seconds, tell or (lambda line: None))
    took = time.monotonic() - started
    part = data.scored[1]
    scores = model.log_prob(found.rows(part, model.space))
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
    drawn = model.rows(_DRAWN, seed=seed + 1)
    valid = float(model.space.satisfied(drawn).mean())
    broken = int((~found.space.satisfied(found.rows(part))).sum())
    return Scored(model, share, scores, model.log_z.half_width, broken, valid, took)


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
