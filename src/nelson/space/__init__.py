"""The user's words: named fields and rules, turned into a formula, and samples back into tables.

Names are loaded when first used: declaring a space loads no sampler.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nelson.space.coverage.coverage import Coverage
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
    from nelson.space.law import ValueShares
    from nelson.space.rows import Rows
    from nelson.space.space import Space
    from nelson.space.tables.model import TableModel

#: The module of each public name; the others are functions of the language.
_HOME = {
    "Coverage": "nelson.space.coverage.coverage",
    "Rows": "nelson.space.rows",
    "Space": "nelson.space.space",
    "TableModel": "nelson.space.tables.model",
    "ValueShares": "nelson.space.law",
    "if_else": "nelson.space.language.expressions",
    **dict.fromkeys(
        ("concat", "popcount", "sign_extend", "signed", "unsigned", "zero_extend"),
        "nelson.space.language.vectors",
    ),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'nelson.space' has no attribute {name!r}")
    home = _HOME.get(name, "nelson.space.language.functions")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


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
