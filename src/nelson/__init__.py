"""Learn from examples of valid structures; generate new ones that are always valid.

    f = nelson.Formula([[1, 2], [-1, 3]])
    s = nelson.sample(f, theta, 1000, seed=0)     # P_theta(x | C) = exp(sum_i theta_i x_i) C(x) / Z

Names are loaded when first used, so that `import nelson` is fast and asks for no optional package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nelson._version import __version__

if TYPE_CHECKING:
    from nelson import samplers
    from nelson.errors import BudgetExceeded, FormulaError, NelsonError, Unsatisfiable
    from nelson.formula import Formula
    from nelson.lemma import report
    from nelson.samplers.api import sample, stream
    from nelson.samples import Samples

_HOME = {
    "BudgetExceeded": "nelson.errors",
    "Formula": "nelson.formula",
    "FormulaError": "nelson.errors",
    "NelsonError": "nelson.errors",
    "Samples": "nelson.samples",
    "Unsatisfiable": "nelson.errors",
    "report": "nelson.lemma",
    "sample": "nelson.samplers.api",
    "stream": "nelson.samplers.api",
}


def __getattr__(name: str) -> Any:
    if name == "samplers":
        return import_module("nelson.samplers")
    if name not in _HOME:
        raise AttributeError(f"module 'nelson' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "BudgetExceeded",
    "Formula",
    "FormulaError",
    "NelsonError",
    "Samples",
    "Unsatisfiable",
    "__version__",
    "report",
    "sample",
    "samplers",
    "stream",
]
