"""The tag of a wheel that brings machine code: of this system, not of any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags


class WheelTag(BuildHookInterface):
    """A wheel without built kernels (`make kernels`) is for every system, where they compile."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if any(Path(self.root, "src/nelson/kernels/built").rglob("*.so")):
            platform = next(tag for tag in platform_tags() if "many" not in tag)
            build_data.update(pure_python=False, tag=f"py3-none-{platform}")
