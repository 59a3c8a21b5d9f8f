"""Sphinx builds the site from the pages, the notebooks and the docstrings (`make docs`)."""

import os
import re
from itertools import zip_longest
from typing import Any

import nelson

project = "nelson"
author = "the authors of nelson"
release = nelson.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton", "sphinx_design"]
exclude_patterns = ["_build"]
html_theme = "pydata_sphinx_theme"
html_title = "nelson"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": [],
}
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_sidebars = {"start": [], "search": []}  # pages without neighbours: no empty column
html_show_sourcelink = False
smartquotes = False  # "auto" is a value: its quotes stay as they are
html_copy_source = False
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
#: Notebooks run while the site is built; an exception in one of them is an error of the build.
nb_execution_mode = os.environ.get("NELSON_DOCS_RUN", "force")
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_output_stderr = "remove"  # progress, which a notebook shows in one line that changes
nb_execution_in_temp = True  # files that a notebook writes do not lie in docs
copybutton_prompt_text = r">>> |\.\.\. "  # the button copies code without prompts
copybutton_prompt_is_regexp = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"exclude-members": "__new__"}
autodoc_inherit_docstrings = False
maximum_signature_line_length = 88

#: A line of a list of arguments in our docstrings: names, then what they mean in a column.
_ARGUMENT = re.compile(r"^(\s*)((?:[\w*]+, )*[\w*]+)( +|: )(\S.*)$")
#: The same if the names are longer than the column.
_WIDE = re.compile(r"^(\s*)(\S+(?: \S+)*)( {2,})(\S.*)$")

#: A value in quotes and what it means, within the meaning of an argument.
_CHOICE = re.compile(r'^( *)("[\w-]+"):? +(\S.*)$')


def _rst(text: str) -> str:
    """Plain text as reStructuredText: `code` is code, and nothing else is markup."""
    parts = re.split(r"`([^`]+)`", text)
    plain = (re.sub(r"([*|\\]|_(?=\W|$))", r"\\\1", part) for part in parts[::2])
    code = (f"``{part}``" for part in parts[1::2])
    return "".join(x for pair in zip_longest(plain, code, fillvalue="") for x in pair)


def _blocks(lines: list[str]) -> list[list[str]]:
    """Paragraphs: lines between empty lines."""
    blocks: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            blocks[-1].append(line)
        elif blocks[-1]:
            blocks.append([])
    return [block for block in blocks if block]


def _choices(lines: list[str]) -> list[str]:
    """The meaning of an argument; a list, if several of its lines start with a value in quotes."""
    if sum(bool(_CHOICE.match(line)) for line in lines) < 2:
        return [_rst(line.strip()) for line in lines]
    found: list[str] = []
    for line in lines:
        if choice := _CHOICE.match(line):
            found += ["", f"- ``{choice[2]}``: {_rst(choice[3])}"]
        elif found and line.startswith(" "):
            found.append(f"  {_rst(line.strip())}")
        else:
            found += ["", _rst(line.strip())]
    return found[1:]  # without the empty line before the first


def _arguments(block: list[str]) -> list[str] | None:
    """A block in columns as a list of definitions; None if it is none."""
    first = _ARGUMENT.match(block[0])
    if not first or len(first[3]) < 2:
        return None
    column = first.start(4)
    meanings: list[tuple[str, list[str]]] = []
    for line in block:
        match = _ARGUMENT.match(line) or _WIDE.match(line)
        fits = match and (match.start(4) == column or match[3] == ": " or len(match[3]) > 1)
        if match and fits and match[1] == first[1]:
            meanings.append((match[2], [match[4]]))
        elif line.startswith(" " * column):
            meanings[-1][1].append(line[column:])
        else:
            return None
    found: list[str] = []
    for name, lines in meanings:
        found += [f"``{name}``", *(f"    {line}" for line in _choices(lines)), ""]
    return found


def _table(block: list[str]) -> list[str] | None:
    """A Markdown table as reStructuredText; None if the block is none."""
    if len(block) < 3 or not all(line.lstrip().startswith("|") for line in block):
        return None
    rows = [re.split(r" +\| +", line.strip().strip("|").strip()) for line in block]
    found = [".. list-table::", "   :header-rows: 1", ""]
    for row in (rows[0], *rows[2:]):
        marks = ["   * - ", *["     - "] * (len(row) - 1)]
        found += [mark + _rst(cell) for mark, cell in zip(marks, row, strict=True)]
    return found


def docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Our docstrings are plain text: columns of arguments become lists, indented blocks code."""
    margin = 0
    result: list[str] = []
    for block in _blocks(lines):
        indent = min(len(line) - len(line.lstrip()) for line in block)
        columns = _arguments(block)
        if columns is not None:
            result += [*columns, ""]
        elif (table := _table(block)) is not None:
            result += [*table, ""]
        elif indent > margin or block[0].lstrip().startswith(">>>"):
            result += ["::", "", *(f"    {line[indent:]}" for line in block), ""]
        else:
            result += [*(_rst(line.strip()) for line in block), ""]
    lines[:] = result


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", docstring)
