"""The tables of the benchmark: half of the rows to learn from, half to judge."""

from __future__ import annotations

import hashlib
import lzma
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lab.density.column_groups import groups

#: Rows to learn from, at most.
ROWS = 1500


@dataclass
class Data:
    """dates, choices: names of columns; rules: what holds; target: what a model predicts.

    after: {later column: earlier one}, combinations: columns of which only combinations of the
    table occur: what peers can be told of the rules.
    """

    name: str
    origin: str
    train: pd.DataFrame
    test: pd.DataFrame
    target: str
    rules: list[str] = field(default_factory=list)
    dates: list[str] = field(default_factory=list)
    after: dict[str, str] = field(default_factory=dict)
    combinations: list[list[str]] = field(default_factory=list)

    @property
    def choices(self) -> list[str]:
        texts = [n for n in self.train if self.train[n].dtype.kind not in "iufM"]
        whole = [n for n in self.train if self.train[n].dtype.kind in "iu"]
        few = [n for n in whole if self.train[n].nunique() <= 10]
        return [n for n in self.train if n in texts or n in few or n == "zip"]


def _split(
    name: str, origin: str, frame: pd.DataFrame, target: str, seed: int, **more: Any
) -> Data:
    order = np.random.default_rng(seed).permutation(len(frame))
    half = min(ROWS, len(frame) // 2)
    parts = [frame.iloc[order[k : k + half]].reset_index(drop=True) for k in (0, half)]
    return Data(name, origin, *parts, target, **more)


def people(seed: int = 0) -> Data:
    """The generated table of the tests, whose law is known; the id is left out."""
    from tests.space.tables.people import people as made

    rules = ["end - start <= 90", "end >= start"]
    frame = made(2 * ROWS).drop(columns="id")
    return _split("people", "generated (tests/space/tables/people.py)", frame, "income",
                  seed, rules=rules, dates=["start", "end"], after={"end": "start"},
                  combinations=[["state", "zip"]])  # fmt: skip


def diabetes(seed: int = 0) -> Data:
    from sklearn.datasets import load_diabetes

    frame = load_diabetes(as_frame=True, scaled=False).frame
    return _split("diabetes", "scikit-learn, load_diabetes(scaled=False)", frame, "target", seed)


def breast(seed: int = 0) -> Data:
    from sklearn.datasets import load_breast_cancer

    frame = load_breast_cancer(as_frame=True).frame
    return _split("breast cancer", "scikit-learn, load_breast_cancer", frame, "target", seed)


def fair(wheel: Path, seed: int = 0) -> Data:
    with zipfile.ZipFile(wheel) as files, files.open("statsmodels/datasets/fair/fair.csv") as file:
        content = file.read()
    frame = pd.read_csv(pd.io.common.BytesIO(content))
    origin = (
        f"{wheel.name}, datasets/fair/fair.csv, SHA-256 {hashlib.sha256(content).hexdigest()[:12]}"
    )
    frame["affairs"] = frame["affairs"].round(3)
    return _split("fair", origin, frame, "rate_marriage", seed)


def bits(name: str, folder: Path, seed: int = 0) -> Data:
    """Rows of 0/1 as fields: groups of columns of which exactly one is set."""
    parts, sums = [], []
    for part in ("train", "valid"):
        content = (folder / f"{name}.{part}.data.xz").read_bytes()
        sums.append(hashlib.sha256(content).hexdigest()[:12])
        text = lzma.decompress(content).decode()
        parts.append(np.array([line.split(",") for line in text.split()], np.uint8))
    found = groups(parts[0])
    frames = []
    for x in parts:
        columns = {}
        for k, group in enumerate(found):
            members = x[:, list(group.columns)]
            value = np.where(members.any(axis=1), members.argmax(axis=1), members.shape[1])
            columns[f"f{k}"] = [f"v{v}" for v in value]
        frames.append(pd.DataFrame(columns))
    origin = f"{name}.train/valid.data, 0/1 columns as fields, SHA-256 {sums[0]}, {sums[1]}"
    train = frames[0].sample(ROWS, random_state=seed).reset_index(drop=True)
    return Data(name, origin, train, frames[1], str(train.columns[-1]))
