"""Feature models in UVL: the README example of its parser, random models, and what is refused.

The truth of a random model is a Python function that the generator writes beside the text.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

import nelson
from nelson.errors import FormulaError, Unsatisfiable
from tests.space.adapters.every_row import distinct_rows, every_row

#: The example in the README of the UVL parser (Universal-Variability-Language/uvl-parser).
SERVER = """\
namespace Server

features
  Server {abstract}
    mandatory
      FileSystem
        or
          NTFS
          APFS
          EXT4
      OperatingSystem {abstract}
        alternative
          Windows
          macOS
          Debian
    optional
      Logging {
        default,
        log_level "warn"
      }

constraints
  Windows => NTFS
  macOS => APFS
"""


def write(folder: Any, text: str, name: str = "model.uvl") -> Any:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def load(folder: Any, text: str, **options: Any) -> nelson.Space:
    return nelson.Space.from_uvl(write(folder, text), **options)


def selections(space: nelson.Space) -> set[frozenset[str]]:
    """The selected features of each legal row."""
    rows = every_row(space)
    found = {frozenset(name for name, value in row.items() if value is True) for row in rows}
    assert len(found) == len(rows)
    return found


def test_the_example_of_the_parser(tmp_path):
    space = load(tmp_path, SERVER)
    assert list(space.fields)[:4] == ["Server", "FileSystem", "NTFS", "APFS"]
    # Of the 7 sets of file systems 4 have NTFS, 4 have APFS; logging doubles.
    assert space.count() == (4 + 4 + 7) * 2
    assert len(selections(space)) == 30
    rows = space.sample(100, seed=0)
    assert rows["Server"].all() and rows["OperatingSystem"].all()
    assert (rows["NTFS"] | ~rows["Windows"]).all()


# --- random models --------------------------------------------------------------------------------

Truth = Callable[[set[str]], bool]
LEVEL = {"<=>": 0, "=>": 1, "|": 2, "&": 3}


class Writer:
    """A random model as text, with the rules that its legal selections obey as functions."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.names = [f"F{k}" if k % 3 else f"f {k}!" for k in range(self.r.randint(3, 8))]
        self.price = {n: self.r.choice([0, 1, 2, -1, 2.5]) for n in self.names}
        self.lines, self.rules = ["features"], [lambda s: self.names[0] in s]
        self.left = self.names[1:]
        self.feature(self.names[0], 1)
        self.used = [n for n in self.names if n not in self.left]
        self.lines.append("constraints")
        for _ in range(self.r.randint(0, 3)):
            text, _, truth = self.logic(3)
            self.lines.append(f"    {text}")
            self.rules.append(truth)

    def shown(self, name: str) -> str:
        return name if name.isalnum() else f'"{name}"'

    def feature(self, name: str, depth: int) -> None:
        self.lines.append("  " * depth + f"{self.shown(name)} {{price {self.price[name]}}}")
        while self.left and (depth == 1 or self.r.random() < 0.5):
            children = [self.left.pop() for _ in range(min(len(self.left), self.r.randint(1, 3)))]
            n = len(children)
            low = self.r.randint(0, n)
            high = self.r.randint(low, n)
            kinds = {
                "mandatory": (n, n),
                "optional": (0, n),
                "or": (1, n),
                "alternative": (1, 1),
                f"[{low}..{high}]": (low, high),
                f"[{low}..*]": (low, n),
                f"[{low}]": (low, low),
            }
            kind = self.r.choice(list(kinds))
            self.lines.append("  " * (depth + 1) + kind)
            self.rules.append(group(name, children, *kinds[kind]))
            for child in children:
                self.feature(child, depth + 2)

    def logic(self, depth: int) -> tuple[str, int, Truth]:
        """(text, how tightly it binds, truth)."""
        kind = self.r.choice(["!", "sum", *LEVEL]) if depth else "ref"
        if kind == "ref":
            name = self.r.choice(self.used)
            return self.shown(name), 5, lambda s: name in s
        if kind == "!":
            text, binds, inner = self.logic(depth - 1)
            return f"!{text if binds >= 4 else f'({text})'}", 4, lambda s: not inner(s)
        if kind == "sum":
            bound, op = self.r.randint(0, 6), self.r.choice(["<", "<=", ">", ">=", "==", "!="])
            name = self.r.choice(self.used)
            compare = COMPARE[op]
            price = self.price
            text = f"sum(price) - 2 * {self.shown(name)}.price {op} {bound}.5 / 0.5"
            return (
                text,
                4,
                lambda s: compare(
                    sum(price[n] for n in s) - 2 * price[name] * (name in s), (bound + 0.5) / 0.5
                ),
            )
        level = LEVEL[kind]
        (left, tight_l, a), (right, tight_r, b) = self.logic(depth - 1), self.logic(depth - 1)
        left = left if tight_l >= level else f"({left})"
        right = right if tight_r > level else f"({right})"
        join: Truth = {
            "<=>": lambda s: a(s) == b(s),
            "=>": lambda s: not a(s) or b(s),
            "|": lambda s: a(s) or b(s),
            "&": lambda s: a(s) and b(s),
        }[kind]
        return f"{left} {kind} {right}", level, join


COMPARE = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def group(parent: str, children: list[str], low: int, high: int) -> Truth:
    def holds(s: set[str]) -> bool:
        n = sum(child in s for child in children)
        return low <= n <= high if parent in s else n == 0

    return holds


@pytest.mark.parametrize("seed", range(150))
def test_random_models(tmp_path, seed):
    made = Writer(seed)
    space = load(tmp_path, "\n".join(made.lines))
    assert set(space.fields) == set(made.used)
    truth = set()
    for bits in itertools.product((False, True), repeat=len(made.used)):
        chosen = {n for n, bit in zip(made.used, bits, strict=True) if bit}
        if all(rule(chosen) for rule in made.rules):
            truth.add(frozenset(chosen))
    assert selections(space) == truth


# --- single words of the language -----------------------------------------------------------------


def rows(folder: Any, features: str, constraints: str = "", **options: Any) -> set[tuple[Any, ...]]:
    body = "\n".join(f"            {line}" for line in features.splitlines())
    below = "constraints\n" + "\n".join(f"    {c}" for c in constraints.splitlines())
    return distinct_rows(
        load(folder, f"features\n    R\n        optional\n{body}\n{below}\n", **options)
    )


def test_implication_associates_to_the_left(tmp_path):
    found = rows(tmp_path, "A\nB\nC", "A => B => C")
    everything = itertools.product((False, True), repeat=3)
    assert {r[1:] for r in found} == {(a, b, c) for a, b, c in everything if not (not a or b) or c}


def test_comments_blank_lines_tabs_and_brackets_over_lines(tmp_path):
    text = "features // one\n\n\tR {\n  abstract,\n\tsize 3 }\n\t\toptional /* two\n\nlines */\n"
    text += "\t\t\t'A b' {x [1, `y`], z {w 2}}\n\t\t\tB\n".replace("'", '"').replace("`", "'")
    text += 'constraints\n\t("A b" |\nB)\n\tR.size > "A b".z.w\n'
    space = load(tmp_path, text)
    assert selections(space) == {
        frozenset(s) for s in (["R", "A b"], ["R", "B"], ["R", "A b", "B"])
    }


def test_constraints_in_attributes(tmp_path):
    found = rows(tmp_path, "A {constraint A => B}\nB\nC {constraints [C => A, !(C & D)]}\nD")
    assert len(found) == sum(
        (not a or b) and (not c or a) and not (c and d)
        for a, b, c, d in itertools.product((False, True), repeat=4)
    )


def test_true_and_false_attributes_and_numbers_of_features(tmp_path):
    found = rows(tmp_path, "A {tested true}\nB {tested false}", "A.tested | B.tested")
    assert {r[1:] for r in found} == {(True, False), (True, True)}
    found = rows(
        tmp_path, "A {p 3}\nB {p 1.25}", "sum(p) >= 1.25\nfloor(B.p) + ceil(A.p) <= 3\nA + B == 1"
    )
    assert {r[1:] for r in found} == {(True, False), (False, True)}


def test_a_sum_within_a_feature(tmp_path):
    tree = "A {p 1}\n    optional\n        B {p 2}\nC {p 4}"
    for arguments in ("A, p", "p, A"):
        found = rows(tmp_path, tree, f"sum({arguments}) == 3")
        assert {r[1:] for r in found} == {(True, True, False), (True, True, True)}


def test_integer_features_have_a_value_with_bounds(tmp_path):
    found = rows(tmp_path, "Integer Port\nA", "Port > 1\nA => Port == 3", bounds={"Port": (1, 4)})
    # Columns: R, Port, Port.value, A. A value of a feature that is not selected counts 0.
    assert found == {
        (True, True, value, a) for value in (2, 3, 4) for a in (False, True) if not a or value == 3
    }
    found = rows(tmp_path, "Integer Port\nA", "A => Port > 2", bounds={"Port": (1, 4)})
    assert found == {
        (True, False, 1, False),
        *((True, True, v, a) for v in range(1, 5) for a in (False, True) if not a or v > 2),
    }


def test_the_value_of_an_integer_feature_that_is_not_selected_counts_0(tmp_path):
    found = rows(tmp_path, "Integer Port", "Port >= 1", bounds={"Port": (1, 4)})
    assert found == {(True, True, value) for value in range(1, 5)}
    found = rows(tmp_path, "Integer Port", "Port < 2", bounds={"Port": (-1, 4)})
    assert found == {(True, False, -1), *((True, True, value) for value in (-1, 0, 1))}


def test_typed_features_may_count_by_their_selection_only(tmp_path):
    found = rows(tmp_path, "String Name\nA", "A => Name", bounds={"Name": None})
    assert len(found) == 3


DISK = """\
imports
    ssd
features
    Disk
        alternative
            ssd.SSD
            HDD
constraints
    ssd.fast | HDD
"""
SSD = """\
features
    SSD {price 5}
        optional
            fast
"""
COMPUTER = """\
imports
    parts.disk as d
features
    PC
        optional
            d.Disk
            Fan
constraints
    d.ssd.fast => Fan
    sum(price) <= 5
"""


def test_imports(tmp_path):
    write(tmp_path, DISK, "parts/disk.uvl")
    write(tmp_path, SSD, "parts/ssd.uvl")
    space = load(tmp_path, COMPUTER)
    assert list(space.fields) == ["PC", "d.Disk", "d.ssd.SSD", "d.ssd.fast", "d.HDD", "Fan"]
    ssd = frozenset(["PC", "d.Disk", "d.ssd.SSD", "d.ssd.fast", "Fan"])
    hdd = frozenset(["PC", "d.Disk", "d.HDD"])
    # The constraint of disk.uvl holds whether or not the disk is selected.
    assert selections(space) == {ssd, hdd, hdd | {"Fan"}}


def test_a_contradiction_names_the_lines(tmp_path):
    space = load(tmp_path, SERVER + "  !NTFS & !APFS\n")
    with pytest.raises(Unsatisfiable) as caught:
        space.sample(1, given={"Windows": True})
    assert "model.uvl:23" in str(caught.value) and "model.uvl:25" in str(caught.value)


TREE = "features\n    R\n        optional\n            A {p 'x'}\n            B\nconstraints\n"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", None, "without features"),
        ("feature\n    A\n", 1, "section 'feature'"),
        ("features\n    A\n    B\n", 1, "2 root features"),
        ("features\n    A\n        maybe\n            B\n", 3, "group 'maybe'"),
        ("features\n    A\n        optional\n", 3, "without features"),
        ("features\n    A\n        optional\n            B\n          C\n", 5, "indentation"),
        ("features\n    A\n        optional\n            A\n", 4, "second feature 'A'.*line 2"),
        ("features\n    A\n        [3..2]\n            B\n", 3, r"\[3..2\]"),
        ("features\n    A cardinality [1..3]\n", 2, "'A' with a cardinality"),
        ("features\n    A {p}\n    constraint\n", 1, "2 root"),
        ("features\n    A {p -}\n", 2, "value '}'"),
        ("features\n    A {p 1\n", 3, "never closed"),
        ("features\n    A$\n", 2, r"unexpected '\$'"),
        ("features\n    Integer A\n", 2, r"Integer feature 'A'.*bounds=.'A': \(low, high\)"),
        ("features\n    Real A\n", 2, "Real feature 'A'.*None"),
        ("features\n    A\n        optional\n            o.B\n", 4, "imported as 'o'"),
        ("imports\n    o\nfeatures\n    o.B\n", 2, "import of o.*o.uvl"),
        ('imports\n    "a/b" as o\nfeatures\n    o.B\n', 2, "import of a/b.*with dots"),
        (TREE + f"    A == {'7' * 5000}\n", 7, "number of 5000 digits"),
        (TREE + "    A" + " => A" * 2000 + "\n", 7, "too many levels in the constraint"),
        (TREE + f"    {' * '.join(['9' * 40] * 200)} > A\n", 7, "14,085 bits in.*at most 14,000"),
        (TREE.replace("A {", f"{'N' * 9000} {{") + "    Z\n", 7, "no feature is called 'Z'"),
        (TREE + f"    sum({'A, ' * 3000}A) > 1\n", 7, "the arguments of sum"),
        (TREE + "    " + "!" * 3000 + "A\n", None, "nested too deeply"),
        (TREE + "    A => C\n", 7, "no feature is called 'C' in the constraint `A => C`"),
        (TREE + "    A +\n", 7, "ends early"),
        (TREE + "    A => => B\n", 7, "'=>'.*a name"),
        (TREE + "    A B\n", 7, "unexpected 'B'"),
        (TREE + "    A\n      B\n", 8, "indented too far"),
        (TREE + "    A + 1\n", 7, "number where a feature should be in the constraint `A . 1`"),
        (TREE + "    A < 1 < 2\n", 7, "chain of comparisons"),
        (TREE + "    A.p == 3\n", 7, "attribute 'A.p' as a number in the constraint `A.p == 3`"),
        (TREE + "    A.p\n", 7, "'A.p' as true or false"),
        (TREE + "    B == 'y'\n", 7, "a text in the constraint `B == 'y'`"),
        (TREE + "    avg(p) > 1\n", 7, r"avg\(\) in the constraint"),
        (TREE + "    sum(q) > 1\n", 7, "no feature has a number 'q'"),
        (TREE + "    1 / A > 1\n", 7, "division"),
        (TREE + "    " + "(" * 300 + "A" + ")" * 300 + "\n", 7, "nested too deeply"),
    ],
)
def test_errors_name_the_file_and_the_line(tmp_path, text, line, said):
    with pytest.raises(FormulaError, match=said) as caught:
        load(tmp_path, text)
    assert (caught.value.source, caught.value.line) == (str(tmp_path / "model.uvl"), line)
    assert len(str(caught.value)) < 3000


def test_products_of_wide_constants(tmp_path):
    wide = "9" * 40
    for sign, selected in ((">", True), ("<", False)):
        found = rows(tmp_path, "A", f"{wide} * {wide} * A - {wide} * {wide} + 1 {sign} 0")
        assert {r[1:] for r in found} == {(selected,)}


def test_bounds_must_fit(tmp_path):
    with pytest.raises(FormulaError, match=r"bounds of 'Prt'.*'Port'"):
        rows(tmp_path, "Integer Port", bounds={"Port": (0, 1), "Prt": (0, 1)})
    with pytest.raises(FormulaError, match=r"bounds .* of the String feature"):
        rows(tmp_path, "String Name", bounds={"Name": (0, 1)})
    with pytest.raises(FormulaError, match=r"value of the Real feature 'X'.*`X > 1`"):
        rows(tmp_path, "Real X", "X > 1", bounds={"X": None})


def test_a_long_sum_is_no_deep_constraint(tmp_path):
    found = rows(tmp_path, "A\nB", " + ".join(["A"] * 800 + ["2 * B"]) + " - 0.5 > 800")
    assert {r[1:] for r in found} == {(True, True)}


def test_imports_that_go_round_or_name_another_feature(tmp_path):
    write(tmp_path, "imports\n    model\nfeatures\n    model.R\n", "o.uvl")
    with pytest.raises(FormulaError, match="import of model, which imports this file") as caught:
        load(tmp_path, "imports\n    o\nfeatures\n    R\n        optional\n            o.B\n")
    assert caught.value.source == str(tmp_path / "o.uvl") and caught.value.line == 2
    write(tmp_path, "features\n    X\n", "o.uvl")
    with pytest.raises(FormulaError, match=r"'o.B'.*o.X, the root") as caught:
        load(tmp_path, "imports\n    o\nfeatures\n    R\n        optional\n            o.B\n")
    assert caught.value.line == 6


def test_a_file_that_is_missing_or_no_text(tmp_path):
    with pytest.raises(FormulaError, match=r"nothing\.uvl"):
        nelson.Space.from_uvl(tmp_path / "nothing.uvl")
    path = tmp_path / "model.uvl"
    path.write_bytes(b"\xff\x00features")
    with pytest.raises(FormulaError, match="no UTF-8 text"):
        nelson.Space.from_uvl(path)
