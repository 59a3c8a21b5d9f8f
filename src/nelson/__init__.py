"""Learn from examples of valid structures; generate new ones that are always valid.

    f = nelson.Formula([[1, 2], [-1, 3]])
    s = nelson.sample(f, theta, 1000, seed=0)     # P_theta(x | C) = exp(sum_i theta_i x_i) C(x) / Z
    fit = nelson.learn(f, s.to_numpy())           # theta back from examples

Names are loaded when first used, so that `import nelson` is fast and asks for no optional package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nelson._version import __version__

if TYPE_CHECKING:
    from nelson import cluster, experiments, judge, learn, metrics, partition, samplers, tasks
    from nelson.cluster.read import read
    from nelson.conditionals import heat_bath
    from nelson.errors import BudgetExceeded, FormulaError, NelsonError, Unsatisfiable
    from nelson.formula import Formula
    from nelson.layer import LovaszLayer
    from nelson.lemma import report
    from nelson.lift import Polynomial
    from nelson.model import Model, load
    from nelson.mrf import ConstrainedMRF
    from nelson.samplers.api import sample, stream
    from nelson.samples import Samples

_HOME = {
    "BudgetExceeded": "nelson.errors",
    "ConstrainedMRF": "nelson.mrf",
    "Formula": "nelson.formula",
    "FormulaError": "nelson.errors",
    "LovaszLayer": "nelson.layer",
    "Model": "nelson.model",
    "NelsonError": "nelson.errors",
    "Polynomial": "nelson.lift",
    "Samples": "nelson.samples",
    "Unsatisfiable": "nelson.errors",
    "heat_bath": "nelson.conditionals",
    "load": "nelson.model",
    "read": "nelson.cluster.read",
    "report": "nelson.lemma",
    "sample": "nelson.samplers.api",
    "stream": "nelson.samplers.api",
}
# Modules; `nelson.judge(...)`, `nelson.learn(...)` and `nelson.samplers()` can also be called.
_MODULES = (
    "cluster",
    "experiments",
    "judge",
    "learn",
    "metrics",
    "partition",
    "samplers",
    "tasks",
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"nelson.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'nelson' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "BudgetExceeded",
    "ConstrainedMRF",
    "Formula",
    "FormulaError",
    "LovaszLayer",
    "Model",
    "NelsonError",
    "Polynomial",
    "Samples",
    "Unsatisfiable",
    "__version__",
    "cluster",
    "experiments",
    "heat_bath",
    "judge",
    "learn",
    "load",
    "metrics",
    "partition",
    "read",
    "report",
    "sample",
    "samplers",
    "stream",
    "tasks",
]
