"""Samples in folders, drawn by one process or many; Ray and pyarrow are loaded when needed.

    nelson.cluster.sample(formula, theta, n, out="folder/")    parts of a folder: `job.py`
    nelson.read("folder/")                                     reads that folder: `read.py`

>>> formula = nelson.Formula([[1, 2], [-1, 3]])
>>> folder = nelson.cluster.sample(formula, n=1000, out="samples", seed=0)
>>> len(folder), folder.guarantee
(1000, 'exact')
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nelson.cluster.job import sample
    from nelson.cluster.read import Folder


def __getattr__(name: str) -> Any:
    home = {"Folder": "nelson.cluster.read", "sample": "nelson.cluster.job"}.get(name)
    if home is None:
        raise AttributeError(f"module 'nelson.cluster' has no attribute {name!r}")
    return getattr(import_module(home), name)


__all__ = ["Folder", "sample"]
