"""The tag of a wheel that brings machine code: of this Python and this system, not of any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelTag(BuildHookInterface):
    """A wheel without built kernels (`make kernels`) is for every system, where they compile."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if any(Path(self.root, "src/nelson/kernels/built").rglob("*.nbc")):
            build_data.update(pure_python=False, infer_tag=True)
