"""Fixtures of the tests of experiments."""

from __future__ import annotations

import pytest

from nelson_paper.experiments import machine


@pytest.fixture(autouse=True)
def log(tmp_path, monkeypatch):
    """Every execution of a toy cell, whatever the process: its lines, when called."""
    path = tmp_path / "log"
    monkeypatch.setenv("TOY_LOG", str(path))
    monkeypatch.setattr(machine, "source", lambda: "source")  # may be edited while tests run

    def lines():
        return path.read_text().splitlines() if path.exists() else []

    return lines
