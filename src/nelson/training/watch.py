"""A run, for people: a progress bar on a terminal, TensorBoard if asked for."""

from __future__ import annotations

import math
import os
import sys
from types import TracebackType
from typing import Any

from nelson.errors import NelsonError
from nelson.progress import Bar


class Watcher:
    """`row(...)` after every iteration. progress None: if stderr is a terminal."""

    def __init__(
        self, total: int, progress: bool | None, tensorboard: str | os.PathLike[str] | None
    ) -> None:
        self._bar = Bar("learning", total, sys.stderr.isatty() if progress is None else progress)
        self._samples = 0
        self._board = _board(tensorboard) if tensorboard is not None else None

    def __enter__(self) -> Watcher:
        return self

    def row(self, row: dict[str, Any]) -> None:
        self._samples += row["m"]
        if self._board is not None:
            for name, value in row.items():
                if isinstance(value, (int, float)) and math.isfinite(value):
                    self._board.add_scalar(f"learn/{name}", value, row["iteration"])
        text = f"gap {row['gap_l1']:.3g} · {row['rounds']} rounds · "
        self._bar.update(row["iteration"], text, self._samples)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.__exit__(kind, error, trace)
        if self._board is not None:
            self._board.close()


def _board(folder: str | os.PathLike[str]) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise NelsonError(
            "TensorBoard logs need torch and tensorboard: pip install tensorboard"
        ) from error
    return SummaryWriter(os.fspath(folder))
