"""The description of columns in a model folder: JSON, and arrays of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.space.tables.columns import Column, Columns, Look
from nelson.space.tables.inside import Inside
from nelson.space.tables.recognise import KINDS, Taken

if TYPE_CHECKING:
    from nelson.space.declaration import Declaration


def described(columns: Columns) -> dict[str, Any]:
    """What JSON can hold."""
    listed = []
    for column in columns.columns:
        listed.append(
            {
                "name": column.name,
                "taken": asdict(column.taken),
                "look": asdict(column.look),
                "missing": column.missing,
                "step": None if column.inside is None else column.inside.step,
                "facts": dict(column.facts),
                "notes": list(column.notes),
            }
        )
    return {"columns": listed, "together": list(columns.copula[0]), "table": columns.table}


def arrays_of(columns: Columns) -> dict[str, np.ndarray]:
    """Quantile functions by the number of their column, and the correlations."""
    found = {}
    for k, column in enumerate(columns.columns):
        if column.inside is not None:
            found[f"inside.{k}"] = np.stack([column.inside.p, column.inside.v])
    if columns.copula[0]:
        found["together"] = columns.copula[1]
    return found


def restored(space: Declaration, content: Any, arrays: Mapping[str, np.ndarray]) -> Columns:
    """Raises ValueError, KeyError or TypeError if this does not describe columns of the space."""
    found = []
    for k, each in enumerate(content["columns"]):
        taken, look = Taken(**each["taken"]), each["look"]
        kept = look["categories"]
        look = Look(**(look | {"categories": None if kept is None else tuple(_list(kept))}))
        if (
            taken.kind not in KINDS
            or not isinstance(each["name"], str)
            or not isinstance(look.dtype, str)
        ):
            raise ValueError(f"the column {each['name']!r}")
        if each["name"] not in space.fields and taken.kind not in ("id", "text"):
            raise ValueError(f"the column {each['name']!r} without a field")
        inside = None
        if each["step"] is not None:
            p, v = arrays[f"inside.{k}"]
            if not (np.isfinite(p).all() and np.isfinite(v).all() and (np.diff(p) >= 0).all()):
                raise ValueError(f"the numbers of {each['name']!r}")
            inside = Inside(p, v, float(each["step"]))
        facts = dict(each["facts"])
        notes = tuple(map(str, _list(each["notes"])))
        found.append(
            Column(each["name"], taken, look, float(each["missing"]), inside, facts, notes)
        )
    names = tuple(map(str, _list(content["together"])))
    matrix = arrays["together"] if names else np.zeros((0, 0))
    if matrix.shape != (len(names),) * 2 or not np.isfinite(matrix).all():
        raise ValueError(f"correlations of shape {matrix.shape}")
    return Columns(space, tuple(found), (names, matrix), str(content["table"]))


def _list(values: Any) -> list[Any]:
    if not isinstance(values, list):
        raise ValueError("values that are not a list")
    return values
