"""The user's words: named fields and rules, turned into a formula, and samples back into tables."""

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
from nelson.space.marginals import Marginals
from nelson.space.rows import Rows
from nelson.space.space import Space
from nelson.space.tables.model import TableModel

__all__ = [
    "Coverage",
    "Marginals",
    "Rows",
    "Space",
    "TableModel",
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
