"""The user's words: named fields and rules, turned into a formula, and samples back into tables.

Declaring a space loads no sampler: what needs one is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nelson.space.language.expressions import if_else
from nelson.space.language.functions import (
    at_least,
    at_most,
    count,
    distinct,
    element,
    exactly,
    forbidden,
    maximum,
    minimum,
    table,
)
from nelson.space.language.vectors import (
    concat,
    popcount,
    sign_extend,
    signed,
    unsigned,
    zero_extend,
)
from nelson.space.rows import Rows
from nelson.space.space import Space

if TYPE_CHECKING:
    from nelson.space.coverage.coverage import Coverage
    from nelson.space.law import ValueShares
    from nelson.space.tables.model import TableModel

_HOME = {
    "Coverage": "nelson.space.coverage.coverage",
    "TableModel": "nelson.space.tables.model",
    "ValueShares": "nelson.space.law",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'nelson.space' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


__all__ = [
    "Coverage",
    "Rows",
    "Space",
    "TableModel",
    "ValueShares",
    "at_least",
    "at_most",
    "concat",
    "count",
    "distinct",
    "element",
    "exactly",
    "forbidden",
    "if_else",
    "maximum",
    "minimum",
    "popcount",
    "sign_extend",
    "signed",
    "table",
    "unsigned",
    "zero_extend",
]
