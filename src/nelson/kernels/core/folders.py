"""The user's cache folder, where compiled kernels and circuits are kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """The cache folder of this system, e.g. ~/.cache/nelson on Linux. It need not exist."""
    try:
        import platformdirs
    except ImportError:  # a machine with only what the kernels need: as on Linux
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nelson"
    return platformdirs.user_cache_path("nelson", appauthor=False)
