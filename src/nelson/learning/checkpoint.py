"""Checkpoints: arrays as safetensors, the rest as JSON, and one rename that makes them count.

    state-000120.safetensors    written and synced first, under a name of its own
    checkpoint.json             names it; written beside, synced, then renamed over the last one

A run that is killed at any moment leaves the last whole pair. Nothing is pickled.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nelson.errors import FormulaError, NelsonError

_JSON = "checkpoint.json"
_VERSION = 1


def save_checkpoint(folder: Path, arrays: Mapping[str, np.ndarray], rest: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"state-{int(rest['iteration']):06d}.safetensors"
    write_atomically(folder / name, pack_tensors(arrays))
    text = json.dumps({"version": _VERSION, "state": name, **rest})
    write_atomically(folder / _JSON, text.encode())
    for old in folder.glob("state-*.safetensors"):
        if old.name != name:
            with contextlib.suppress(OSError):
                old.unlink()


def load_checkpoint(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
    """The last whole checkpoint, or None if there is none."""
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


def same_run(folder: Path, found: dict[str, Any], now: dict[str, Any]) -> None:
    """Raises FormulaError that names what differs between a checkpoint's run and this one."""
    differ = [key for key in now if found.get(key) != now[key]]
    if differ:
        raise FormulaError(
            f"the checkpoint is of another run: {', '.join(differ)} differ",
            expected="the same formula, data and settings, or resume=False",
            source=str(folder),
        )


def safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError as error:
        raise NelsonError(
            "models and checkpoints need safetensors, which is not installed: "
            "pip install safetensors"
        ) from error
    return safetensors.numpy


def pack_tensors(arrays: Mapping[str, np.ndarray], meta: dict[str, str] | None = None) -> bytes:
    whole = {name: np.array(array, order="C") for name, array in arrays.items()}
    packed: bytes = safetensors().save(whole, metadata=meta)
    return packed


def unpack_tensors(data: bytes) -> dict[str, np.ndarray]:
    """Arrays of a safetensors file; ValueError if it is none."""
    try:
        arrays: dict[str, np.ndarray] = safetensors().load(data)
    except NelsonError:
        raise
    except Exception as error:  # its own error type is no ValueError
        raise ValueError(f"not safetensors: {error}") from None
    return arrays


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside, sync, rename, sync the folder: after this the file is there, or the old one."""
    handle, scratch = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(scratch, 0o666 & ~umask)
        os.replace(scratch, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(scratch)
        raise
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
