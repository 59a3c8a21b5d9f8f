"""`python tools/check_imports.py [FOLDER ...]`: what import-linter does not check.

Exit code 1: broken.

1. An import inside a function is allowed at named boundaries only: optional or heavy packages, and
   compiled kernels, which load Numba. Anywhere else it would hide a cycle. The command line is the
   top layer, where no cycle can hide: there a command may load what it runs.
2. No module imports a private name (`_name`) of another module.

Layers and cycles are contracts of import-linter, in pyproject.toml.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

#: What may be imported inside a function, with all that lies below it.
BOUNDARIES = (
    # optional packages, or slow to load
    "ConfigSpace", "cpmpy", "cycler", "hypothesis", "matplotlib", "networkx", "numba", "pandas",
    "platformdirs", "polars", "psutil", "fsspec", "pyarrow", "ray", "rich", "safetensors", "scipy",
    "sklearn", "tensorboard", "threadpoolctl", "torch",
    # other people's samplers, solvers and compilers
    "py_d4", "pycmsgen", "pycryptosat", "pyganak", "pysat", "pyunigen", "vsc",
    # modules of the standard library that some systems do not have
    "fcntl", "resource",
    # 13 of 150 milliseconds of `import nelson; nelson.Space()`, which needs neither
    "concurrent.futures", "nelson.formula.dimacs",
    # 2 of 20 milliseconds that this import takes beyond NumPy's
    "decimal", "difflib",
    # compiled kernels, which load Numba, and the distribution, which loads torch
    "nelson.kernels", "nelson.distribution.mrf",
    # the strategy, which loads Hypothesis, and what it draws from, which loads kernels and samplers
    "nelson.strategies.legal", "nelson.space.walk",
    # Verilator is answered before anything heavy is loaded
    "nelson.verilator.conversation",
    # a back end of PyVSC derives from a class of PyVSC
    "nelson.pyvsc.backend",
)  # fmt: skip
#: Folders and files, below the package, in which any import may stand inside a function: the
#: command lines, and the face of `Space`, whose methods load what does the work.
FREE = ("cli", "commands", "space/space.py")


def problems(package: Path) -> Iterator[str]:
    """One line for each import that breaks a rule."""
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package)
        tree = ast.parse(path.read_text(), str(path))
        for node, module, name, inside in imports(tree):
            where = f"{path}:{node.lineno}"
            free = place.parts[0] in FREE or place.as_posix() in FREE
            if inside and not free and not _at_boundary(module, name):
                yield f"{where}: import of {module} inside a function"
            own = module.split(".")[0] == package.name
            private = name.startswith("_") and not name.startswith("__")
            if own and private and module != package.name:
                yield f"{where}: import of the private name {name} of {module}"


def imports(tree: ast.AST, inside: bool = False) -> Iterator[tuple[ast.stmt, str, str, bool]]:
    """(statement, module, imported name or "", is it inside a function) of every import."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name, "", inside
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node, node.module or "", alias.name, inside
        function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        yield from imports(node, inside or function)


def _at_boundary(module: str, name: str) -> bool:
    dotted = f"{module}.{name}."
    return any(dotted.startswith(f"{boundary}.") for boundary in BOUNDARIES)


def main() -> int:
    packages = [Path(name) for name in sys.argv[1:] or ("src/nelson", "paper/src/nelson_paper")]
    broken = [problem for package in packages for problem in problems(package)]
    told = ", ".join(map(str, packages))
    print("\n".join(broken) or f"{told}: imports inside functions only at named boundaries")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
