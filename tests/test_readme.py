"""README's Python runs, and prints what README says it prints.

A ```python block is executed, all of them in one namespace; the ```text block that follows it is
its output. `python -m tests.test_readme` writes the real output into README.md.
"""

from __future__ import annotations

import contextlib
import io
import re

import pytest

from tests import ROOT

README = ROOT / "README.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n\n^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def outputs(text: str) -> list[tuple[str, str]]:
    """For each example what README says and what running it prints."""
    names: dict[str, object] = {}
    pairs = []
    for code, said in EXAMPLE.findall(text):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(README), "exec"), names)
        pairs.append((said, printed.getvalue()))
    return pairs


def with_outputs(text: str) -> str:
    """The text with the real output of each example."""
    real = iter(outputs(text))
    return EXAMPLE.sub(lambda m: f"```python\n{m[1]}```\n\n```text\n{next(real)[1]}```", text)


@pytest.mark.slow
def test_examples_print_what_they_say():
    text = README.read_text()
    pairs = outputs(text)
    assert len(pairs) == text.count("```python") >= 2  # none is left out
    for said, printed in pairs:
        assert printed == said


def test_the_test_would_notice():
    """A README that lies, or an example that fails, is caught."""
    [(said, printed)] = outputs("```python\nprint(6 * 7)\n```\n\n```text\n41\n```\n")
    assert said != printed == "42\n"
    with pytest.raises(ZeroDivisionError):
        outputs("```python\n1 / 0\n```\n\n```text\n```\n")


def test_first_example_is_short():
    code, _ = EXAMPLE.findall(README.read_text())[0]
    assert len(code.strip().splitlines()) <= 15


def test_commands_and_files_named_exist():
    text = README.read_text()
    makefile = (README.parent / "Makefile").read_text()
    for target in re.findall(r"make ([a-z]+)", text):
        if target != "install":
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for link in re.findall(r"\]\(([\w./]+\.md)\)", text):
        assert (README.parent / link).exists(), link


if __name__ == "__main__":
    README.write_text(with_outputs(README.read_text()))
