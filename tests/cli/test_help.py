"""Every command's help: one vocabulary of metavars, an example, the width of the terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from nelson.cli import app

#: The words for values. `NAME.VALUE=X`, `[NAME...]` and `none|file|FILE` are made of them.
WORDS = {
    "ADDRESS", "FILE", "FOLDER", "LITERALS", "N", "K", "NAME", "RULE", "SECONDS", "VALUE",
    "VARIABLES", "X",
}  # fmt: skip
ROOT = typer.main.get_command(app)
#: A context of the kind that belongs to this version of Typer.
CONTEXT = ROOT.make_context("nelson", ["samplers"])
COMMANDS = {name: ROOT.get_command(CONTEXT, name) for name in ROOT.list_commands(CONTEXT)}
RUNNER = CliRunner()


def run(*words: str, **environment: str) -> str:
    """What a shell gets."""
    code = "import sys; sys.argv[0] = 'nelson'; from nelson.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.stdout


def values(command) -> list[tuple[str, str]]:
    """(option, metavar) of everything that takes a value."""
    found = []
    for param in command.params:
        if not getattr(param, "is_flag", False) and param.name != "help":
            found.append((param.opts[0], str(param.make_metavar(CONTEXT))))
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_metavars_are_words_of_one_list(name):
    for option, metavar in values(COMMANDS[name]):
        unknown = set(re.findall(r"[A-Za-z]+", metavar)) - WORDS - {"none", "file"}
        assert not unknown and "<" not in metavar, (option, metavar)


@pytest.mark.parametrize("name", COMMANDS)
def test_options_are_in_lower_case_and_have_help(name):
    for param in COMMANDS[name].params:
        assert param.help, param.name
        if param.param_type_name == "option":
            assert all(option == option.lower() for option in param.opts), param.opts


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_an_example_whose_options_exist(name):
    text = RUNNER.invoke(app, [name, "--help"]).output
    lines = re.findall(rf"^ +(?:.*\| )?(nelson {name}\b.*)$", text.partition("Examples:")[2], re.M)
    assert lines, text
    known = {
        option for param in COMMANDS[name].params for option in param.opts + param.secondary_opts
    }
    for line in lines:
        call = re.split(r" {2,}| [|&]", line)[0]  # what follows two blanks is a remark
        assert set(re.findall(r"(?<=\s)-{1,2}[a-z][\w-]*", call)) <= known, line


@pytest.mark.process
def test_help_is_as_wide_as_the_terminal():
    for width in (80, 160):
        options = run("sample", "--help", COLUMNS=str(width)).partition("Examples:")[0]
        assert width - 12 < max(map(len, options.splitlines())) <= width


@pytest.mark.process
def test_a_shell_completes_commands_and_options():
    """What bash runs when the user presses the tabulator after typing the words."""

    def completed(words: str) -> set[str]:
        last = str(len(words.split(" ")) - 1)
        told = {"_NELSON_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": last}
        return set(run(**told).split())

    assert completed("nelson ma") == {"marginals"}
    assert "--project-law" in completed("nelson sample --proj")
    assert "--install-completion" in RUNNER.invoke(app, ["--help"]).output
