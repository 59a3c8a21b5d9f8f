"""`python tools/size.py [FOLDER]`: what a reader has to carry: files, lines, tuned numbers, names.

files, lines        of Python; lines of code leave out blank lines, comments and docstrings
constants           numbers assigned to an upper-case name at module level, outside policy.py
doubled classes     class names that are defined in more than one file
steps               for each sampler, the files that hold its name as a string

Of the library, the figures before the rebuilding and its goals stand beside.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

LIBRARY = Path(__file__).resolve().parents[1] / "src" / "nelson"
#: Of the library: what it was before it was rebuilt, and the goal.
BASELINE = {
    "files": (515, 400),
    "lines": (74_383, 54_000),
    "constants": (1_002, 450),
    "doubled classes": (53, 12),
}


def is_number(node: ast.expr) -> bool:
    """Is it arithmetic on literal numbers?"""
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    return isinstance(node, ast.BinOp) and is_number(node.left) and is_number(node.right)


def constants(tree: ast.Module) -> Iterator[str]:
    """The module-level names that hold a number; each name of a tuple counts."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            target, value = node.target, node.value
        else:
            continue
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=True))
        for name, number in pairs:
            if isinstance(name, ast.Name) and name.id.isupper() and is_number(number):
                yield name.id


def lines_of_code(source: str, tree: ast.Module) -> int:
    """Lines that hold code: no blank lines, comments, docstrings."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                skipped |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines = enumerate(source.splitlines(), 1)
    texts = (line.strip() for number, line in lines if number not in skipped)
    return sum(bool(text) and not text.startswith("#") for text in texts)


def main(folder: Path) -> None:
    sources = {path: path.read_text() for path in sorted(folder.rglob("*.py"))}
    trees = {path: ast.parse(source, str(path)) for path, source in sources.items()}
    names: dict[str, set[Path]] = defaultdict(set)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                names[node.name].add(path)
    doubled = {name: len(paths) for name, paths in sorted(names.items()) if len(paths) > 1}
    figures = {
        "files": len(sources),
        "lines": sum(source.count("\n") for source in sources.values()),
        "lines of code": sum(lines_of_code(s, trees[path]) for path, s in sources.items()),
        "constants": sum(
            len(list(constants(tree))) for path, tree in trees.items() if path.stem != "policy"
        ),
        "doubled classes": len(doubled),
    }
    for name, figure in figures.items():
        before, goal = BASELINE.get(name, (0, 0)) if folder == LIBRARY else (0, 0)
        beside = f"   before {before:>6,}, goal {goal:>6,}" if before else ""
        print(f"{name:16} {figure:>8,}{beside}")
    print("  " + ", ".join(f"{name} {count}" for name, count in doubled.items()))
    for name in ("cftp", "circuit", "lovasz", "rejection", "enumerate", "cdcl"):
        holders = [p for p, s in sources.items() if f'"{name}"' in s]
        print(f"  {name:12} in {len(holders):3} files")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else LIBRARY)
