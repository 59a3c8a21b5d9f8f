"""Hierarchical multi-label classification: the sets of C-HMCNN (NeurIPS 2020) and SPL (2022).

`hmc.tar.xz` has ARFF files as the Clus collection published them. The last attribute is the class:
paths in a hierarchy, levels joined by `/`, several paths by `@`. The rule: a label implies its
parents; the root does not count. Missing inputs get the mean of the training rows, nominal inputs
a column for each value, and all inputs are standardised.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lab.prediction.tasks import Parts, Task
from nelson.errors import FormulaError
from nelson.formula import Formula

ARCHIVE = "hmc.tar.xz"
_FUN = {
    "cellcycle": 500, "derisi": 500, "eisen": 500, "gasch1": 1000, "gasch2": 500, "seq": 2000,
    "spo": 250,
}  # fmt: skip
_OTHERS = {
    "diatoms": (2000, "Diatoms_train", "Diatoms_test"),
    "enron": (1000, "Enron_corr_trainvalid", "Enron_corr_test"),
    "imclef07a": (1000, "ImCLEF07A_Train", "ImCLEF07A_Test"),
    "imclef07d": (1000, "ImCLEF07D_Train", "ImCLEF07D_Test"),
}
NAMES = (*_FUN, *_OTHERS)
DROPOUT = 0.7
#: Share of the training rows that validate, where there is no such part.
VALID = 0.3


class Arff(NamedTuple):
    """The attributes but the class: its kind, None for a number or the values of a nominal one."""

    kinds: list[list[str] | None]
    labels: list[str]  # with their ancestors, by level and name
    rows: list[list[str]]
    classes: list[list[str]]  # of each row


def read_arff(lines: Iterable[str]) -> Arff:
    kinds: list[list[str] | None] = []
    labels: set[str] = set()
    rows, classes, in_data = [], [], False
    for raw in lines:
        line = raw.strip()
        if not line or line.startswith("%"):
            continue
        if in_data:
            *values, paths = line.split(",")
            rows.append(values)
            classes.append(paths.split("%")[0].strip().split("@"))
        elif line.lower().startswith("@data"):
            in_data = True
        elif line.lower().startswith("@attribute"):
            _, name, kind = line.split(None, 2)
            if name == "class":
                for path in kind.split("hierarchical", 1)[1].strip().split(","):
                    labels.update(_with_ancestors(path.strip()))
            else:
                kinds.append(_values(kind))
    order = sorted(labels, key=lambda label: (label.count("/"), label))
    return Arff(kinds, order, rows, classes)


def _values(kind: str) -> list[str] | None:
    if kind.strip().startswith("{"):
        return [value.strip() for value in kind.strip(" {}").split(",")]
    return None


def _with_ancestors(path: str) -> list[str]:
    levels = path.split("/")
    return ["/".join(levels[: k + 1]) for k in range(len(levels))]


def inputs_of(arff: Arff) -> np.ndarray:
    """(rows, columns) float64, NaN where a number is missing."""
    columns = []
    for k, kind in enumerate(arff.kinds):
        values = [row[k].strip() for row in arff.rows]
        if kind is None:
            columns.append([np.nan if v == "?" else float(v) for v in values])
        else:
            columns += [[float(v == one) for v in values] for one in kind]
    return np.array(columns).T


def targets_of(arff: Arff, labels: list[str]) -> np.ndarray:
    place = {label: k for k, label in enumerate(labels)}
    y = np.zeros((len(arff.rows), len(labels)), bool)
    for row, paths in zip(y, arff.classes, strict=True):
        row[[place[label] for path in paths for label in _with_ancestors(path)]] = True
    return y


def load(folder: str, name: str) -> Task:
    """One set. Where no validation part is published, it is a share of the training rows."""
    if name in _FUN:
        hidden, files = _FUN[name], [f"{name}_FUN.{part}" for part in ("train", "valid", "test")]
    else:
        hidden, *files = _OTHERS[name]
    arffs = [read_arff(lines) for lines in _members(Path(folder) / ARCHIVE, files)]
    labels = arffs[0].labels
    x = np.concatenate([inputs_of(one) for one in arffs])
    y = np.concatenate([targets_of(one, labels) for one in arffs])
    ends = np.cumsum([len(one.rows) for one in arffs])
    learned = x[: ends[-2]]  # all rows but the test rows
    mean = np.nan_to_num(np.nanmean(learned, axis=0))
    spread = np.where(np.isnan(learned), mean, learned).std(axis=0)
    x = (np.where(np.isnan(x), mean, x) - mean) / np.where(spread > 0, spread, 1)

    def parts(seed: int) -> Parts:
        test = np.arange(ends[-2], ends[-1])
        if len(ends) == 3:
            return Parts(np.arange(ends[0]), np.arange(ends[0], ends[1]), test)
        order = np.random.default_rng(seed).permutation(ends[0])
        held = int(VALID * len(order))
        return Parts(order[held:], order[:held], test)

    formula, ancestors = rules(labels)
    x = x.astype(np.float32)
    return Task(name, formula, len(labels), x, y, parts, hidden, DROPOUT, ancestors=ancestors)


def rules(labels: list[str]) -> tuple[Formula, np.ndarray]:
    """Each label implies its parent; (a, b): b is a or an ancestor of a."""
    place = {label: k for k, label in enumerate(labels)}
    clauses, ancestors = [], np.eye(len(labels), dtype=bool)
    for label, k in place.items():
        above = [place[one] for one in _with_ancestors(label)[:-1]]
        ancestors[k, above] = True
        if above:
            clauses.append([-(k + 1), above[-1] + 1])
    return Formula(clauses, n_vars=len(labels)), ancestors


def _members(archive: Path, files: list[str]) -> list[list[str]]:
    wanted = {f"{name}.arff": None for name in files}
    texts: dict[str, list[str]] = {}
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                name = Path(member.name).name
                if name in wanted and (stream := tar.extractfile(member)) is not None:
                    texts[name] = stream.read().decode("latin-1").splitlines()
    except OSError as error:
        raise FormulaError(f"{archive}: {error}", expected="the archive of the sets") from None
    if missing := set(wanted) - set(texts):
        raise FormulaError(f"{archive} without {sorted(missing)[0]}", expected="all parts of a set")
    return [texts[name] for name in wanted]
