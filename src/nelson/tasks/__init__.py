"""Real uses of the library, from data to picture: one folder per task.

>>> town = nelson.tasks.Orientations.small()  # or nelson.tasks.get("orientations").small()
>>> data = town.examples(500, seed=0)  # (500, n_vars) bool, every row valid
>>> fit = town.learn(data)  # fit.theta
>>> new = town.sample(fit.theta, 1000, seed=1)  # new.x, new.guarantee
>>> figures = town.evaluate(fit.theta, town.examples(500, seed=2))  # validity, moment_gap, ...
>>> picture = town.draw(new.x[0], "town.png", theta=fit.theta)

| name           | structures                                      | law of `sample`               |
|----------------|-------------------------------------------------|-------------------------------|
| `ksat`         | assignments that satisfy a random K-SAT formula | as `nelson.sample` says       |
| `orientations` | a direction for each edge, no vertex a sink     | exact: an extremal formula    |
| `routes`       | round trips through all locations               | uniform, or chains if weighted|
| `trees`        | spanning trees directed to a root               | exact: cycle popping          |
| `connected`    | edges kept such that all vertices reach a root  | exact: cluster popping        |

Import from here the classes in `__all__`; each module is loaded when one of its classes is first
used. `nelson.tasks.tour` runs a task from examples to pictures.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nelson.errors import FormulaError

if TYPE_CHECKING:
    from nelson.tasks.base import FormulaTask, Generated, Learned, Task
    from nelson.tasks.connected.task import RootConnected
    from nelson.tasks.ksat.task import KSat
    from nelson.tasks.orientations.task import Orientations
    from nelson.tasks.routes import Routes
    from nelson.tasks.trees.task import SpanningTrees

_REGISTRY = {
    "ksat": ("nelson.tasks.ksat.task", "KSat"),
    "orientations": ("nelson.tasks.orientations.task", "Orientations"),
    "routes": ("nelson.tasks.routes", "Routes"),
    "trees": ("nelson.tasks.trees.task", "SpanningTrees"),
    "connected": ("nelson.tasks.connected.task", "RootConnected"),
}
_BASE = ("FormulaTask", "Generated", "Learned", "Task")


def names() -> list[str]:
    """Names of all tasks, in the order of the table above."""
    return list(_REGISTRY)


def get(name: str) -> type[Task]:
    """The class of a task."""
    if name not in _REGISTRY:
        raise FormulaError(f"no task is called {name!r}", expected=", ".join(_REGISTRY))
    module, attribute = _REGISTRY[name]
    cls: type[Task] = getattr(import_module(module), attribute)
    return cls


def __getattr__(name: str) -> Any:
    if name in _BASE:
        return getattr(import_module("nelson.tasks.base"), name)
    for task, (_, attribute) in _REGISTRY.items():
        if attribute == name:
            return get(task)
    raise AttributeError(f"module 'nelson.tasks' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "FormulaTask",
    "Generated",
    "KSat",
    "Learned",
    "Orientations",
    "RootConnected",
    "Routes",
    "SpanningTrees",
    "Task",
    "get",
    "names",
]
