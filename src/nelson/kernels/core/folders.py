"""The user's cache folder: compiled kernels and circuits are kept there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """$NELSON_CACHE_DIR, else the user's cache folder of this system (~/.cache/nelson on Linux).

    It need not exist. Without platformdirs, on machines where only the kernels are used, it lies
    in the folder for temporary files.
    """
    if given := os.environ.get("NELSON_CACHE_DIR"):
        return Path(given)
    try:
        import platformdirs
    except ImportError:
        owner = os.getuid() if hasattr(os, "getuid") else "user"
        return Path(tempfile.gettempdir()) / f"nelson-{owner}"
    return platformdirs.user_cache_path("nelson", appauthor=False)
