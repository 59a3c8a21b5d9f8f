"""Checkpoints: arrays as safetensors, other values as JSON. Nothing is pickled.

    state-000120.safetensors    written and synced first, under a new name
    checkpoint.json             names it; written and synced under another name, then renamed

A run that is killed at any moment leaves the last complete pair.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nelson.chains.guarantee import GUARANTEES
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
    with refused(folder):
        rest = json.loads(path.read_bytes())
        if not isinstance(rest, dict):
            raise ValueError(f"it holds {type(rest).__name__}, not an object")
        if rest.get("version") != _VERSION:
            raise NelsonError(f"{path}: version {rest.get('version')}, expected {_VERSION}")
        _check(rest)
        arrays = unpack_tensors((folder / Path(rest["state"]).name).read_bytes())
    return arrays, rest


@contextlib.contextmanager
def refused(folder: Path | None) -> Iterator[None]:
    """An error that the content of a checkpoint causes becomes a NelsonError."""
    try:
        yield
    except NelsonError:
        raise
    except Exception as error:  # JSON, safetensors and torch document no list of their errors
        reason = str(error) or type(error).__name__
        raise NelsonError(f"{folder}/{_JSON}: not a checkpoint of nelson ({reason})") from None


def _check(rest: dict[str, Any]) -> None:
    """Compare the types of what the loop reads. A learner checks what it reads itself."""

    def need(good: bool, name: str) -> None:
        if not good:
            raise ValueError(f"{name} is missing, or not what nelson writes")

    history, run, drawer = rest.get("history"), rest.get("run"), rest.get("drawer")
    need(isinstance(history, list), "history")
    need(all(isinstance(row, dict) for row in history or ()), "history")
    need(_whole(rest.get("iteration")) and rest["iteration"] == len(history or ()), "iteration")
    need(isinstance(run, dict) and _whole(run.get("seed")), "run")
    need(isinstance(drawer, dict) and isinstance(drawer.get("method"), str), "drawer")
    drawer = drawer or {}
    need(drawer.get("sweeps", "") is None or _whole(drawer.get("sweeps")), "sweeps of the drawer")
    need(isinstance(drawer.get("why"), str), "reason of the drawer")
    need(drawer.get("guarantee") in (None, *GUARANTEES), "guarantee of the drawer")
    need(rest.get("guarantee") in GUARANTEES, "guarantee")
    chosen = rest.get("chosen_at", [0, 0])
    need(isinstance(chosen, list) and len(chosen) == 2 and all(map(_whole, chosen)), "chosen_at")


def _whole(value: Any) -> bool:
    return type(value) is int


def same_run(folder: Path, saved: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise a FormulaError that names the differences between a checkpoint's run and this one."""
    # A setting that an older checkpoint lacks had the value that is the default today.
    older = {key for key in now if key.startswith("setting ") and key not in saved}
    differ = [key for key in now if key not in older and saved.get(key) != now[key]]
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
