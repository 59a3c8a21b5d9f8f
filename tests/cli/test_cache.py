"""`nelson cache --warm` names its steps, runs them as machine code, says where the kernels are."""

from __future__ import annotations

from typer.testing import CliRunner

from nelson.cli import app, cache
from nelson.kernels.core import interpret


def test_steps_are_named_and_run_as_machine_code(monkeypatch):
    ran = []
    monkeypatch.setattr(interpret._Steps, "mode", "auto")
    monkeypatch.setattr(
        cache, "_steps", lambda: [(k, lambda: ran.append(interpret._Steps.mode)) for k in "ab"]
    )
    done = CliRunner().invoke(app, ["cache", "--warm"])
    assert done.exit_code == 0 and " bytes in " in done.stdout
    assert ran == ["compiled"] * 2 and interpret._Steps.mode == "auto"
    assert "1 of 2: a ..." in done.stderr and "2 of 2: b: 0.0 s" in done.stderr
    assert not CliRunner().invoke(app, ["cache", "--warm", "--quiet"]).stderr


def test_the_common_methods_are_among_the_steps():
    names = [name for name, _ in cache._steps()]
    assert {"preprocessing", "lovasz", "gibbs", "cftp", "joint moves", "auto"} <= set(names)
