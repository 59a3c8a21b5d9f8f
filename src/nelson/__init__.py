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
    from nelson import cluster, learning
    from nelson.cluster.read import read
    from nelson.distribution.circuit_layer import CircuitLayer
    from nelson.distribution.contrastive import ContrastiveLoss
    from nelson.distribution.layer import LovaszLayer
    from nelson.distribution.mrf import ConstrainedMRF
    from nelson.errors import (
        BudgetExceeded,
        FormulaError,
        ImpossibleShares,
        NelsonError,
        Unsatisfiable,
    )
    from nelson.exact.queries import count, mode
    from nelson.formula import Formula
    from nelson.formula.polynomial import Polynomial
    from nelson.formula.random_ksat import random_ksat
    from nelson.judging import judge
    from nelson.learning import metrics
    from nelson.learning.learn import learn
    from nelson.learning.model import Model
    from nelson.log_z.compute import log_z
    from nelson.policy import Policy
    from nelson.sampling.marginals import marginals
    from nelson.sampling.plan import Plan
    from nelson.sampling.registry import names as samplers
    from nelson.sampling.report import report
    from nelson.sampling.sample_stream import plan, sample, stream
    from nelson.sampling.samples import Samples
    from nelson.space.estimator import TableEstimator
    from nelson.space.load import load
    from nelson.space.space import Space

#: Where each public name lives: "module" for a module, "module:attribute" for anything else.
_HOME = {
    "BudgetExceeded": "nelson.errors:BudgetExceeded",
    "CircuitLayer": "nelson.distribution.circuit_layer:CircuitLayer",
    "ConstrainedMRF": "nelson.distribution.mrf:ConstrainedMRF",
    "ContrastiveLoss": "nelson.distribution.contrastive:ContrastiveLoss",
    "Formula": "nelson.formula:Formula",
    "FormulaError": "nelson.errors:FormulaError",
    "ImpossibleShares": "nelson.errors:ImpossibleShares",
    "LovaszLayer": "nelson.distribution.layer:LovaszLayer",
    "Model": "nelson.learning.model:Model",
    "NelsonError": "nelson.errors:NelsonError",
    "Plan": "nelson.sampling.plan:Plan",
    "Policy": "nelson.policy:Policy",
    "Polynomial": "nelson.formula.polynomial:Polynomial",
    "Samples": "nelson.sampling.samples:Samples",
    "Space": "nelson.space.space:Space",
    "TableEstimator": "nelson.space.estimator:TableEstimator",
    "Unsatisfiable": "nelson.errors:Unsatisfiable",
    "cluster": "nelson.cluster",
    "count": "nelson.exact.queries:count",
    "judge": "nelson.judging:judge",
    "learn": "nelson.learning.learn:learn",
    "learning": "nelson.learning",
    "load": "nelson.space.load:load",
    "log_z": "nelson.log_z",
    "marginals": "nelson.sampling.marginals:marginals",
    "metrics": "nelson.learning.metrics",
    "mode": "nelson.exact.queries:mode",
    "plan": "nelson.sampling.sample_stream:plan",
    "random_ksat": "nelson.formula.random_ksat:random_ksat",
    "read": "nelson.cluster.read:read",
    "report": "nelson.sampling.report:report",
    "sample": "nelson.sampling.sample_stream:sample",
    "samplers": "nelson.sampling.registry:names",
    "stream": "nelson.sampling.sample_stream:stream",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'nelson' has no attribute {name!r}")
    module, _, attribute = _HOME[name].partition(":")
    value: Any = import_module(module)
    if attribute:
        value = getattr(value, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "BudgetExceeded",
    "CircuitLayer",
    "ConstrainedMRF",
    "ContrastiveLoss",
    "Formula",
    "FormulaError",
    "ImpossibleShares",
    "LovaszLayer",
    "Model",
    "NelsonError",
    "Plan",
    "Policy",
    "Polynomial",
    "Samples",
    "Space",
    "TableEstimator",
    "Unsatisfiable",
    "__version__",
    "cluster",
    "count",
    "judge",
    "learn",
    "learning",
    "load",
    "log_z",
    "marginals",
    "metrics",
    "mode",
    "plan",
    "random_ksat",
    "read",
    "report",
    "sample",
    "samplers",
    "stream",
]
