"""Commands of other packages: they join by an entry point, and one that is missing is named."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest
import typer
from typer.testing import CliRunner

from nelson.cli import app, commands
from nelson.cli.common import guarded


def add(command_line: typer.Typer) -> None:
    """A command, as another package declares one."""

    def greet(times: int = typer.Option(1, help="How often.")) -> None:
        """Say a word."""
        typer.echo("hello " * times)

    command_line.command("greet")(guarded(greet))


@pytest.fixture
def entries(monkeypatch):
    """The entry points that are installed, as a list to be filled, and how often it was read."""
    found: list[EntryPoint] = []
    reads: list[str] = []
    monkeypatch.setattr(commands, "_entries", lambda: reads.append("read") or found)
    return found, reads


def run(*words: str):
    return CliRunner().invoke(app, list(words))


def test_a_command_joins(entries):
    entries[0].append(EntryPoint("greet", f"{__name__}:add", commands.GROUP))
    assert run("greet", "--times", "2").output == "hello hello \n"
    assert "Usage: nelson greet" in run("greet", "--help").output
    told = run("--help").output
    assert "greet" in told and "Say a word." in told


def test_our_own_commands_do_not_look_for_others(entries):
    assert run("samplers").exit_code == 0 and not entries[1]
    assert run("nothing").exit_code == 2 and entries[1]  # the twin


@pytest.mark.parametrize("name", ["bench", "demo"])
def test_without_the_package_it_is_said_what_to_install(entries, name):
    done = run(name, "--anything")
    assert done.exit_code == 1 and not done.stdout
    assert done.stderr.splitlines() == [
        f"nelson: error: nelson {name} is in another package: pip install nelson-paper"
    ]
    assert name not in run("--help").output.split()


@pytest.mark.parametrize("former", commands.RENAMED)
def test_a_former_name_says_what_to_type(former):
    done = run(former, "FILE")
    assert done.exit_code == 2 and not done.stdout
    assert done.stderr == f"nelson: error: nelson {former} is now {commands.RENAMED[former]}\n"
    command = commands.RENAMED[former].split()[1]
    assert run(command, "--help").exit_code == 0  # the twin
    assert f"\n  {former} " not in run("--help").output


@pytest.mark.slow
def test_the_paper_has_joined():
    told = run("--help").output
    assert "bench" in told.split() and "demo" in told.split()
    assert run("bench", "--list").exit_code == 0
