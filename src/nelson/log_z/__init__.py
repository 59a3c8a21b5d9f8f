"""log Z: exact if that is possible within a budget, else an estimate with a confidence interval.

    Z_C(theta) = sum over x in {0,1}^n of exp(sum_i theta_i x_i) C(x)
    log Z      = sum_i log(1 + e^theta_i) + log P(C),     P the product law of theta

Every method computes log P(C), the probability that independent draws are valid: it neither
overflows nor underflows, and a variable that no clause mentions contributes a factor of 1.

Import `log_partition`, `LogPartition` and `METHODS` from here; `moments` has means and covariances,
`result` has `Z95` and loads no kernel.

>>> result = nelson.log_z.log_partition(nelson.Formula([[1, 2], [-1, 3]]))
>>> round(float(np.exp(result.value))), result.exact  # of the 8 assignments 4 are valid
(4, True)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nelson.log_z.compute import log_partition
    from nelson.log_z.plain import METHODS
    from nelson.log_z.result import LogPartition

_HOME = {"METHODS": "plain", "log_partition": "compute", "LogPartition": "result"}


def __getattr__(name: str) -> Any:
    """Loaded when first used: tasks that need only `result` start without Numba."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


__all__ = ["METHODS", "LogPartition", "log_partition"]
