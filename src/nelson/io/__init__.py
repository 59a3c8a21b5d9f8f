"""Files and the terminal: compressed streams, atomic writing, tables of examples, sample files.

`read` reads back what `nelson sample` wrote. Import everything else from the modules: `tables`
reads examples and samples in any format, `sample_files` writes samples, `atomic` replaces files.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nelson.io.sample_files import read

__all__ = ["read"]


def __getattr__(name: str) -> Any:
    """Load `read` when it is first used: the command line starts without NumPy."""
    if name == "read":
        return import_module("nelson.io.sample_files").read
    raise AttributeError(f"module 'nelson.io' has no attribute {name!r}")
