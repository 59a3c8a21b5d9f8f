"""`nelson.load`: the model in a folder, of a table or of a formula."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from nelson.errors import NelsonError
from nelson.learning.checkpoint import unpack_tensors
from nelson.learning.model import Model
from nelson.learning.model import load as load_model
from nelson.log_z.result import LogPartition
from nelson.space.space import Space
from nelson.space.tables.model import FORMAT, KIND, Facts, TableModel
from nelson.space.tables.potential import MAX_CHOICE, FieldLevels, Potential
from nelson.space.tables.saved import restored


def load(path: str | os.PathLike[str], net: Any = None) -> Model | TableModel:
    """Read a model folder: of `nelson.learn`, or of `Space.learn`.

    net: for a conditional model, the module to load the weights into.

    >>> formula = nelson.Formula([[1, 2], [-1, 3]])
    >>> nelson.Model(formula, np.zeros(3)).save("model")
    >>> nelson.load("model").formula == formula
    True
    """
    folder = Path(path)
    meta = _json(folder / "model.json")
    if not isinstance(meta, dict) or meta.get("kind") != KIND:
        return load_model(path, net)
    try:
        return _table_model(folder, meta)
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise NelsonError(f"{folder}: not a complete model ({error})") from None
    except RecursionError:
        raise NelsonError(f"{folder}: not a complete model (a rule nested too deeply)") from None


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None  # `load_model` says what is wrong


def _table_model(folder: Path, meta: dict[str, Any]) -> TableModel:
    if meta.get("format") != FORMAT:
        raise ValueError("a format that this version does not know: learn the model again")
    space = Space.from_toml(meta["space"])
    potential = _potential(space, meta)
    arrays = unpack_tensors((folder / "theta.safetensors").read_bytes())
    size = len(potential.features)
    for name in ("theta", "shares"):
        array = arrays[name]
        if array.shape != (size,) or array.dtype != np.float64 or not np.isfinite(array).all():
            raise ValueError(f"{name} of shape {array.shape}, expected {size} finite numbers")
    if np.abs(arrays["theta"]).max(initial=0.0) > 700:
        raise ValueError("a theta beyond 700")
    columns = None if meta["columns"] is None else restored(space, meta["columns"], arrays)
    space.columns = columns
    return TableModel(
        space,
        potential,
        arrays["theta"],
        arrays["shares"],
        columns,
        _facts(meta["facts"]),
        log_z=_log_z(meta["log_z"]),
    )


def _list(values: Any) -> list[Any]:
    if not isinstance(values, list):
        raise ValueError("values that are not a list")
    return values


def _potential(space: Space, meta: dict[str, Any]) -> Potential:
    levels, reference = {}, {}
    for name, field in space.fields.items():
        starts = meta["levels"][name]
        if starts is None:
            if field.size > MAX_CHOICE:
                raise ValueError(f"a theta for each of {field.size} values of {name}")
        else:
            whole = all(type(k) is int and 0 <= k < field.size for k in _list(starts))
            if not whole or starts != sorted(set(starts)) or starts[:1] != [0]:
                raise ValueError(f"ranges of {name} that are not in order")
        levels[name] = FieldLevels(field, None if starts is None else tuple(starts))
        reference[name] = meta["reference"][name]
        if type(reference[name]) is not int or not 0 <= reference[name] < levels[name].count:
            raise ValueError(f"the reference {reference[name]!r} of {name}")
    pairs = [(str(a), str(b)) for a, b in _list(meta["pairs"])]
    for a, b in pairs:
        if a == b or a not in levels or b not in levels or pairs.count((a, b)) > 1:
            raise ValueError(f"the pair {a} x {b}")
    return Potential(levels, reference, tuple(pairs))


def _facts(content: dict[str, Any]) -> Facts:
    for name, kind in get_type_hints(Facts).items():
        allowed: Any = {str: str, bool: bool, int: int, float: (int, float)}.get(kind, object)
        if not isinstance(content[name], allowed):
            raise ValueError(f"{name} = {content[name]!r}")
    held_out = content["held_out"]
    if held_out is not None:
        mean, error = held_out
        held_out = float(mean), float(error)
    lines = {name: tuple(map(str, _list(content[name]))) for name in ("steps", "notes")}
    return Facts(**(content | lines | {"held_out": held_out}))


def _log_z(content: dict[str, Any] | None) -> LogPartition | None:
    if content is None:
        return None
    kind = content["guarantee"]
    return LogPartition(
        float(content["value"]),
        float(content["half_width"]),
        str(content["method"]),
        str(content["why"]),
        0.0,
        bool(content["exact"]),
        {} if kind is None else {"guarantee": str(kind)},
    )
