"""The options of a draw: the same names and defaults wherever they are spelled out."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

import nelson
from nelson.sampling.options import Options, gpu_number

#: Options for callers within the package.
INTERNAL = {"verdict", "reuse"}
FIELDS = {field.name: field.default for field in fields(Options) if field.name not in INTERNAL}


@pytest.mark.parametrize(
    ("function", "missing"),
    [(nelson.sample, set()), (nelson.stream, {"unique", "strict"})],
)
def test_signatures_have_the_defaults_of_the_options(function, missing):
    parameters = inspect.signature(function).parameters
    shared = {name: parameters[name].default for name in FIELDS if name in parameters}
    assert set(FIELDS) - set(shared) == missing
    assert shared == {name: FIELDS[name] for name in shared}
    assert set(parameters) - set(FIELDS) <= {"formula", "theta", "n", "block"}


@pytest.mark.parametrize(
    ("device", "number"), [(None, None), ("cpu", None), ("cuda", 0), ("cuda:3", 3)]
)
def test_devices(device, number):
    assert gpu_number(device) == Options(device=device).gpu == number


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "mps"])
def test_unknown_devices_are_named(device):
    with pytest.raises(nelson.FormulaError, match=device):
        Options(device=device)


def test_distinct_samples_are_drawn_on_the_cpu():
    with pytest.raises(nelson.FormulaError, match="unique=True"):
        Options(unique=True, device="cuda")
