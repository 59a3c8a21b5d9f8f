"""Real uses of the library, from data to picture: one folder per task.

>>> town = nelson_paper.tasks.Orientations.small()  # or tasks.get("orientations").small()
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

Import from here the classes in `__all__`; each module is loaded when one of its classes is first
used. `nelson_paper.tasks.tour` runs a task from examples to pictures.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nelson.errors import FormulaError

if TYPE_CHECKING:
    from nelson_paper.tasks.base import FormulaTask, Generated, Learned, Task
    from nelson_paper.tasks.ksat.task import KSat
    from nelson_paper.tasks.orientations.task import Orientations
    from nelson_paper.tasks.routes import Routes

_REGISTRY = {
    "ksat": ("nelson_paper.tasks.ksat.task", "KSat"),
    "orientations": ("nelson_paper.tasks.orientations.task", "Orientations"),
    "routes": ("nelson_paper.tasks.routes", "Routes"),
}
_BASE = ("FormulaTask", "Generated", "Learned", "Task")


def names() -> list[str]:
    """Names of all tasks, in the order of the table above."""
    return list(_REGISTRY)


def get(name: str) -> type[Task]:
    """The class of a task, or the one that `module:Class` names."""
    module, _, attribute = name.partition(":")
    if name in _REGISTRY:
        module, attribute = _REGISTRY[name]
    elif not (module and attribute):
        told = f"{', '.join(_REGISTRY)}, or module:Class"
        raise FormulaError(f"no task is called {name!r}", expected=told)
    cls: type[Task] = getattr(import_module(module), attribute)
    return cls


def __getattr__(name: str) -> Any:
    if name in _BASE:
        return getattr(import_module("nelson_paper.tasks.base"), name)
    for task, (_, attribute) in _REGISTRY.items():
        if attribute == name:
            return get(task)
    raise AttributeError(f"module 'nelson_paper.tasks' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "FormulaTask",
    "Generated",
    "KSat",
    "Learned",
    "Orientations",
    "Routes",
    "Task",
    "get",
    "names",
]
