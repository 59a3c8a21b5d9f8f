"""Rows from packed samples: few rows are decoded at once, many field by field; both ways agree."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson.space.clauses import decode


def space_of_all_kinds() -> nelson.Space:
    space = nelson.Space()
    space.flag("on")
    space.integer("wide", -(2**70), 2**70)
    space.integer("signed", -1000, 2000)
    space.integer("large", 2**40, 2**40 + 10**6)
    space.integer("few", -3, 5)
    space.integer("one", 7, 7)
    space.choice("color", ["red", "green", "blue"])
    space.choice("country", [f"c{k}" for k in range(100)])
    return space


@pytest.mark.parametrize("n", [1, 63, 64, 200])
def test_few_rows_are_decoded_as_many(monkeypatch, n):
    space = space_of_all_kinds()
    few = space.sample(n, seed=4)
    monkeypatch.setattr(decode, "_FEW_CELLS", 0)
    many = space.sample(n, seed=4)
    for name, column in few.codes.items():
        assert column.dtype == many.codes[name].dtype, name
        assert np.array_equal(column, many.codes[name]), name
    assert list(few) == list(many)


def test_the_lowest_and_highest_values_are_decoded():
    for low, high in [
        (-1000, 2000),
        (-(2**62), 2**62),
        (2**40, 2**40 + 999),
        (-(2**63), 2**63 - 1),
    ]:
        space = nelson.Space()
        x = space.integer("x", low, high)
        for value in (low, high):
            assert space.sample(1, given=x == value, seed=0)[0]["x"] == value


def test_samples_of_some_fields_are_decoded(monkeypatch):
    """Samples that are projected on some fields have no variables of the others."""
    space = space_of_all_kinds()
    names = ["signed", "color", "one"]
    variables = [v for name in names for v in space.encoding.of_field[name]]
    samples = nelson.sample(space.formula, None, 50, seed=2, project=variables)
    few = decode.columns(space, samples, names)
    monkeypatch.setattr(decode, "_FEW_CELLS", 0)
    many = decode.columns(space, samples, names)
    assert all(np.array_equal(few[name], many[name]) for name in names)
    with pytest.raises(KeyError):
        decode.columns(space, samples, ["on"])
