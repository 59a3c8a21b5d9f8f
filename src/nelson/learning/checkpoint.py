"""Checkpoints: arrays as safetensors, other values as JSON. Nothing is pickled.

    state-000120.safetensors    written and synced first, under a new name
    checkpoint.json             names it; written and synced under another name, then renamed

A run that is killed at any moment leaves the last complete pair.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nelson.errors import FormulaError, NelsonError
from nelson.io import atomic
from nelson.learning.group import State

_JSON = "checkpoint.json"
_VERSION = 1


def save_checkpoint(folder: Path, arrays: Mapping[str, np.ndarray], rest: dict[str, Any]) -> None:
    """Replace the checkpoint in `folder`; `rest` holds at least "iteration"."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"state-{int(rest['iteration']):06d}.safetensors"
    atomic.write(folder / name, pack_tensors(arrays))
    text = json.dumps({"version": _VERSION, "state": name, **rest})
    atomic.write(folder / _JSON, text.encode())
    for old in folder.glob("state-*.safetensors"):
        if old.name != name:
            with contextlib.suppress(OSError):
                old.unlink()
    atomic.tidy(folder)  # a run that was killed may have left a file of another iteration


def load_checkpoint(folder: Path) -> State | None:
    """The last complete checkpoint, or None if there is none."""
    path = folder / _JSON
    if not path.exists():
        return None
    try:
        rest = json.loads(path.read_text())
        arrays = unpack_tensors((folder / Path(rest["state"]).name).read_bytes())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NelsonError(f"{path}: not a checkpoint of nelson ({error})") from None
    if rest.get("version") != _VERSION:
        raise NelsonError(f"{path}: version {rest.get('version')}, expected {_VERSION}")
    return arrays, rest


def same_run(folder: Path, saved: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise a FormulaError that names the differences between a checkpoint's run and this one."""
    differ = [key for key in now if saved.get(key) != now[key]]
    if differ:
        raise FormulaError(
            f"the checkpoint belongs to another run: {', '.join(differ)} differ",
            expected="the same formula, data and settings, or resume=False",
            source=str(folder),
        )


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError as error:
        raise NelsonError(
            "models and checkpoints need safetensors, which is not installed: "
            "pip install safetensors"
        ) from error
    return safetensors.numpy


def pack_tensors(arrays: Mapping[str, np.ndarray]) -> bytes:
    contiguous = {name: np.array(array, order="C") for name, array in arrays.items()}
    packed: bytes = _safetensors().save(contiguous)
    return packed


def unpack_tensors(data: bytes) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file; ValueError if the bytes are something else."""
    try:
        arrays: dict[str, np.ndarray] = _safetensors().load(data)
    except NelsonError:
        raise
    except Exception as error:  # the error type of safetensors is no ValueError
        raise ValueError(f"not safetensors: {error}") from None
    return arrays
