"""The user's words: named fields and rules, turned into a formula, and samples back into tables."""

from nelson.space.coverage import Coverage
from nelson.space.expressions import (
    at_least,
    at_most,
    count,
    distinct,
    element,
    exactly,
    forbidden,
    if_else,
    maximum,
    minimum,
    table,
)
from nelson.space.laws import Marginals
from nelson.space.rows import Rows
from nelson.space.space import Space

__all__ = [
    "Coverage",
    "Marginals",
    "Rows",
    "Space",
    "at_least",
    "at_most",
    "count",
    "distinct",
    "element",
    "exactly",
    "forbidden",
    "if_else",
    "maximum",
    "minimum",
    "table",
]
