"""log Z: exact if that is possible within a budget, else an estimate with a confidence interval.

    Z_C(theta) = sum over x in {0,1}^n of exp(sum_i theta_i x_i) C(x)
    log Z      = sum_i log(1 + e^theta_i) + log P(C),     P the product law of theta

Every method computes log P(C), the probability that independent draws are valid: it neither
overflows nor underflows, and a variable that no clause mentions contributes a factor of 1.

`nelson.log_z(formula, theta)` is `compute.log_z`. Python binds the name of a package to the package
as soon as any of its modules is imported, so the package itself is what is called: the name means
the same in every order of imports. `moments` has means and covariances, `result` has `LogPartition`
and `Z95` and loads no kernel.

>>> result = nelson.log_z(nelson.Formula([[1, 2], [-1, 3]]))
>>> round(float(np.exp(result.value))), result.exact  # of the 8 assignments 4 are valid
(4, True)
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nelson.log_z.compute import log_z
    from nelson.log_z.methods import METHODS
    from nelson.log_z.result import LogPartition

_HOME = {"METHODS": "methods", "log_z": "compute", "LogPartition": "result"}


class _CallablePackage(ModuleType):
    """A package that is called as its function `log_z`."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.log_z(*args, **options)

    @property
    def __signature__(self) -> Any:
        """For `inspect.signature` and interactive help."""
        return import_module("inspect").signature(self.log_z)


sys.modules[__name__].__class__ = _CallablePackage


def __getattr__(name: str) -> Any:
    """Loaded when first used: callers that need only `result` start without Numba."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


__all__ = ["METHODS", "LogPartition", "log_z"]
