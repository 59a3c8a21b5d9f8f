"""The cache of compiled kernels notices every edit, and refuses functions it would not notice."""

from __future__ import annotations

import builtins
import re
from pathlib import Path

import pytest

import nelson
from nelson.kernels.core import compile

PACKAGE = Path(nelson.__file__).parent
DECORATORS = ("kernel", "helper", "inline")


def function_in(path: Path):
    """A function whose file is said to be `path`."""
    scope: dict = {}
    exec(builtins.compile("def double(x):\n    return 2 * x\n", str(path), "exec"), scope)
    return scope["double"]


@pytest.mark.parametrize("decorator", DECORATORS)
@pytest.mark.parametrize("place", ["exact/circuit/nnf.py", "../kernels/outside.py", "kernels.py"])
def test_a_function_in_another_folder_is_refused(decorator, place):
    with pytest.raises(ImportError, match=r"double in .*move the function into such a folder"):
        getattr(compile, decorator)(function_in(PACKAGE / place))


@pytest.mark.parametrize("decorator", ["helper", "inline"])  # not cached, so no such file is needed
@pytest.mark.parametrize("place", ["kernels/core/new.py", "tasks/arcs/kernels/deeper/new.py"])
def test_a_function_in_a_folder_of_kernels_is_compiled(decorator, place):
    assert getattr(compile, decorator)(function_in(PACKAGE / place))(21) == 42


def test_the_digest_changes_with_every_file_of_kernels(tmp_path):
    inside = ["kernels/__init__.py", "kernels/cpu/a.py", "tasks/arcs/kernels/b.py"]
    for name in (*inside, "tasks/arcs/task.py", "kernels.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    digests = [compile.digest(tmp_path)]
    for name in inside:
        (tmp_path / name).write_text("x = 2\n")
        digests.append(compile.digest(tmp_path))
    (tmp_path / "tasks/arcs/kernels/new.py").write_text("x = 1\n")
    digests.append(compile.digest(tmp_path))
    assert len(set(digests)) == len(inside) + 2
    for name in ("tasks/arcs/task.py", "kernels.py"):  # no kernel can lie in these
        (tmp_path / name).write_text("x = 2\n")
    assert compile.digest(tmp_path) == digests[-1]


def test_the_digest_of_the_package_covers_every_compiled_function():
    decorated = re.compile(rf"^@({'|'.join(DECORATORS)})$", re.MULTILINE)
    files = [file for file in PACKAGE.rglob("*.py") if decorated.search(file.read_text())]
    rooms = {file.relative_to(PACKAGE).parts[0] for file in files}
    assert {"kernels", "tasks"} <= rooms
    assert set(files) <= set(compile.sources())
