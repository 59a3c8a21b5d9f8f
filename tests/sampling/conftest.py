"""What the tests of all samplers share: a fixture over the registry, and the plain checks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from nelson.sampling import foreign, registry
from nelson.sampling.registry import get, missing_modules
from tests.sampling.contract import NAMES, STARTS_A_CHILD


@pytest.fixture(
    params=[
        pytest.param(name, marks=[pytest.mark.process] * (name in STARTS_A_CHILD)) for name in NAMES
    ]
)
def name(request):
    """Every registered sampler; those whose package is not installed are skipped."""
    missing = missing_modules(get(request.param))
    if missing:
        pytest.skip(f"{request.param} needs {', '.join(missing)}")
    return request.param


@pytest.fixture
def fake(monkeypatch):
    """Registers a sampler for one test: fake(draw, ...) -> its name."""

    def register(draw, **changes):
        known = {"name": "fake", "blocks": partial(foreign.blocks, draw)}
        sampler = replace(get("enumerate"), **known | changes)
        module = type("Module", (), {"SAMPLER": sampler})
        monkeypatch.setitem(registry._REGISTRY, "fake", "fake")
        real = registry.import_module
        monkeypatch.setattr(
            registry, "import_module", lambda key: module if key == "fake" else real(key)
        )
        return "fake"

    return register
