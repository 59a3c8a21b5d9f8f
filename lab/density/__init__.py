"""Density estimation: public data with published figures. `nelson bench density --data FOLDER`

For each data set in the folder, rules are found in the training rows (`fields`), models are fitted
and scored on rows that were held out (`models`), and the table sets the scores beside published
ones. The set connect4 also has the rules of the game (`connect4`), and sushi.soc rankings
(`rankings`).

| cell           | rows                                                                            |
|----------------|---------------------------------------------------------------------------------|
| `fields` ...   | one model of `models.MODELS`                                                    |
| `game`         | connect-4 by its rules: uniform, with weights on cells, with weights on pairs   |
| `rankings`     | Plackett-Luce, Mallows, weights of item and position, and of items above others |

All log-likelihoods are in nats for one row. What depends on a seed (a search for pairs, chains, the
split of the rankings) is run with three seeds; `--only seed=0` runs one.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lab.density import connect4
from lab.density.data import load, sets_in
from lab.density.fields import find
from lab.density.listed import Listed
from lab.density.models import ALL_PAIRS, MODELS, scored
from lab.density.ranking_models import Mallows, PlackettLuce
from lab.density.rankings import Rankings, read_soc, split
from lab.density.tables import plots, tables
from nelson.errors import FormulaError
from nelson_paper.experiments.base import Cell, Experiment, Row

#: Seconds that one search for pairs may take, and with --full.
QUICK_SECONDS, FULL_SECONDS = 30, 1200
#: Sets whose score still rises after that: seconds of a quick search.
LONGER = {"mushrooms": 60, "dna": 45}
#: Seeds of what depends on a seed. A set without a test part has the first one only: its score is
#: not comparable with published ones in any case.
SEEDS = 3
#: Models that depend on a seed.
SEEDED = ("pairs", ALL_PAIRS, "rankings")
#: One seed, to save time: the other models of the set are better.
CUT = {("dna", "pairs")}
#: Seconds of a cell beyond that: to fit the models that stand beside it, and to compile.
ALLOWANCE = 600.0
#: Rules of a set that the table shows.
SHOWN = 5
SUSHI = "sushi"
#: Status of a model that is not tried.
FROZEN = "not run: chains freeze under rules between fields"
#: Weights of rankings: a normal prior of variance 1 / this.
_RANKING_PENALTY = 5.0


def cells(full: bool, data: str) -> list[Cell]:
    """A cell for each model of each set in the folder `data`."""
    folder = os.path.abspath(data)
    keys: list[dict[str, Any]] = []
    tested = {SUSHI, *sets_in(folder, ("train", "valid", "test"))}
    for name in sets_in(folder):
        keys += [{"set": name, "model": model} for model in MODELS]
        keys += [{"set": name, "model": "game"}] * (name == "connect4")
    if _soc(folder) is not None:
        keys.append({"set": SUSHI, "model": "rankings"})
    if not keys:
        raise FormulaError(
            f"no data set in the folder {folder}", expected="NAME.train.data and NAME.valid.data"
        )
    planned = []
    for key in keys:
        seconds = FULL_SECONDS if full else LONGER.get(key["set"], QUICK_SECONDS)
        again = key["model"] in SEEDED and key["set"] in tested
        again = again and (key["set"], key["model"]) not in CUT
        for seed in range(SEEDS if again else 1):
            whole = {**key, "seconds": seconds, "seed": seed, "data": folder}
            planned.append(Cell(whole, seconds + ALLOWANCE))
    return planned


def _soc(folder: str) -> Path | None:
    found = sorted(Path(folder).glob(f"{SUSHI}.soc*"))
    return found[0] if found else None


def run(cell: Cell) -> list[Row]:
    key = dict(cell.key)
    return _SPECIAL.get(str(key["model"]), _model)(key)


def _model(key: dict[str, Any]) -> list[Row]:
    data = load(key["data"], key["set"])
    found = find(data)
    if key["model"] == ALL_PAIRS and found.rules:
        return [{"row": "model", "status": FROZEN, "part": data.scored[0]}]
    told = scored(data, found, key["model"], seed=key["seed"], seconds=key["seconds"])
    part, rows = data.scored
    many = sum(len(group.columns) > 1 for group in found.groups)
    result: Row = {
        "row": "model",
        "columns": data.train.shape[1],
        "train": len(data.train),
        "part": part,
        "rows": len(rows),
        "fields": len(found.groups),
        "groups": many,
        "exactly": sum(group.exactly for group in found.groups),
        "rules": len(found.rules),
        "dropped": len(found.dropped),
        "pairs": told.pairs,
        "numbers": told.numbers,
        "score": told.mean,
        "error": told.error,
        "log_z_error": told.log_z_error,
        "guarantee": told.guarantee,
        "broken": told.broken,
        "slack": told.slack,
        "valid": told.valid,
        "seconds_taken": told.seconds,
        "why": told.why,
    }
    shown = found.words[:SHOWN] if key["model"] == "fields" else []
    if key["model"] == "rules":
        shown = [str(rule) for rule in found.rules[:SHOWN]]
    return [result, *({"row": "rule", "rule": text} for text in shown)]


def _game(key: dict[str, Any]) -> list[Row]:
    """Connect-4: uniform over the positions that the rules allow, then with weights on them."""
    data = load(key["data"], key["set"])
    started = time.monotonic()
    space = connect4.board()
    all_positions = connect4.positions(connect4.in_turns(space))
    counted = time.monotonic() - started
    some = all_positions[:: max(1, len(all_positions) // 10_000)]
    valid = float(space.satisfied(connect4.columns_of(some)).mean())
    part, rows = data.scored
    known = {row.tobytes() for row in np.packbits(all_positions, axis=1)}
    broken = sum(row.tobytes() not in known for row in np.packbits(rows, axis=1))
    stones = np.array([k for k in range(rows.shape[1]) if connect4.BITS[k % 3] != connect4.EMPTY])
    found: list[Row] = []
    for name in ("game", "game + cells", "game + pairs"):
        began = time.monotonic()
        if name == "game":
            scores = np.full(len(rows), -math.log(len(all_positions)))
            numbers = pairs = 0
        else:
            law = Listed.fit(all_positions, data.train, stones, pairs=name == "game + pairs")
            scores, numbers, pairs = law.log_prob(rows), len(law.weights), len(law.pairs)
        if broken:
            scores = np.full(len(rows), -np.inf)
        found.append(
            {
                "row": "model",
                "model": name,
                "columns": rows.shape[1],
                "train": len(data.train),
                "part": part,
                "rows": len(rows),
                "positions": len(all_positions),
                "pairs": pairs,
                "numbers": numbers,
                **_mean(scores),
                "log_z_error": 0.0,
                "guarantee": "exact",
                "broken": broken,
                "slack": 0.0,
                "valid": valid,
                "seconds_taken": counted + time.monotonic() - began,
            }
        )
    return found


def _rankings(key: dict[str, Any]) -> list[Row]:
    path = _soc(key["data"])
    if path is None:
        raise FormulaError(f"no {SUSHI}.soc in {key['data']}", expected="a file of rankings")
    names, every = read_soc(path)
    train, _, test = split(every, key["seed"])
    found: list[Row] = []

    def add(model: str, scores: np.ndarray, best: np.ndarray, numbers: int, began: float) -> None:
        found.append(
            {
                "row": "model",
                "model": model,
                "columns": len(names),
                "train": len(train),
                "part": "test",
                "rows": len(test),
                "numbers": numbers,
                **_mean(scores),
                "log_z_error": 0.0,
                "guarantee": "exact",
                "broken": 0,
                "slack": 0.0,
                "valid": 1.0,
                "seconds_taken": time.monotonic() - began,
                "best": " > ".join(names[item] for item in best),
            }
        )

    began = time.monotonic()
    luce = PlackettLuce.fit(train)
    add("Plackett-Luce", luce.log_prob(test), luce.best, len(names) - 1, began)
    began = time.monotonic()
    mallows = Mallows.fit(train)
    add("Mallows", mallows.log_prob(test), mallows.best, 1, began)
    for model in ("item x position", "item x position + pairs"):
        began = time.monotonic()
        law = Rankings.of(len(names), above="pairs" in model)
        weights = law.fit(train, _RANKING_PENALTY)
        add(model, law.log_prob(weights, test), law.best(weights), law.size, began)
    return found


def _mean(scores: np.ndarray) -> Row:
    if not np.isfinite(scores).all():
        return {"score": -math.inf, "error": math.nan}
    return {"score": float(scores.mean()), "error": float(scores.std(ddof=1)) / len(scores) ** 0.5}


def save_rules(data: str, folder: str | Path, names: list[str] | None = None) -> list[Path]:
    """Find the rules of each set and write them as spaces: FOLDER/NAME.toml."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    written = []
    for name in names or sets_in(data):
        path = Path(folder) / f"{name}.toml"
        find(load(data, name)).space.save(path)
        written.append(path)
    return written


_SPECIAL: dict[str, Callable[[dict[str, Any]], list[Row]]] = {
    "game": _game,
    "rankings": _rankings,
}


EXPERIMENT = Experiment(
    name="density",
    title="Density of public data",
    reproduces="ours: log-likelihoods of public data sets beside published ones (--data FOLDER)",
    cells=cells,
    run=run,
    tables=tables,
    plots=plots,
    from_data=True,
)
