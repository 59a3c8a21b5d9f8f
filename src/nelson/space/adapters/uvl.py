"""UVL: feature models (Universal Variability Language). A flag for each feature, names kept.

    parent and child      a selected child needs its parent; the root is selected
    mandatory             a selected parent needs the child
    or, alternative       a selected parent needs at least one child, exactly one child
    [a..b]                a selected parent needs a to b children
    constraints           ! & | => <=>, and comparisons of sums of numbers

An Integer feature `Port` is the flag `Port` and the integer `Port.value`, which has its lowest
value while the feature is not selected. In a constraint, a number of a feature that is not selected
(its value or an attribute) counts 0, as in the language server of UVL.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from nelson.errors import FormulaError, shortened
from nelson.io.streams import decompressed, load
from nelson.space.adapters.uvl_reader import Constraint, Feature, FeatureGroup, FeatureModel, read
from nelson.space.language.expressions import Number, Rule, number, rule
from nelson.space.language.fields import Flag, unknown
from nelson.space.language.functions import all_of, any_of, count
from nelson.space.language.text import COMPARISONS

if TYPE_CHECKING:
    from nelson.space.space import Space

Bounds = Mapping[str, tuple[int, int] | None]


def fill(space: Space, path: str | os.PathLike[str], bounds: Bounds) -> None:
    """Add the features and constraints of a file, and of the files that it imports."""
    tree = _Tree(space, bounds)
    tree.add_file(Path(path), "", None, ())
    for name in bounds:
        if name not in tree.features:
            raise unknown(f"bounds of {name!r}, which is no feature", name, tree.features)
    for file in tree.files:
        for constraint in file.model.constraints:
            translator = _Translator(tree, file, constraint)
            try:
                made = translator.rule(constraint.tree)
            except RecursionError:
                translator.fail("too many levels", "several smaller constraints")
            except FormulaError as error:
                if error.source is not None:
                    raise
                translator.fail(error.what, error.expected or "another constraint")
            space.require(made, source=file.model.source, line=constraint.line)


@dataclass(frozen=True)
class _File:
    """A file and where it stands. path: its own, behind those of the files that import it."""

    model: FeatureModel
    prefix: str  # of the names of its features
    path: tuple[Path, ...]

    @property
    def root(self) -> Feature:
        assert self.model.root is not None
        return self.model.root

    def refuse(self, what: str, expected: str, line: int) -> NoReturn:
        raise FormulaError(
            shortened(what, 800), expected=expected, source=self.model.source, line=line
        )


class _Tree:
    """The features of all files."""

    def __init__(self, space: Space, bounds: Bounds) -> None:
        self.space, self.bounds = space, bounds
        self.features: dict[str, Feature] = {}
        self.flags: dict[str, Flag] = {}
        self.below: dict[str, list[str]] = {}  # the children of each feature
        self.files: list[_File] = []

    def add_file(
        self, path: Path, prefix: str, parent: str | None, above: tuple[Path, ...]
    ) -> Feature:
        """Add a file whose root lies below `parent`, and return this root."""
        name, data = load(path)
        try:
            text = decompressed(data, name).decode()
        except UnicodeDecodeError:
            raise FormulaError("no UTF-8 text", expected="a UVL file", source=name) from None
        file = _File(read(text, name), prefix, (*above, path.resolve()))
        self.files.append(file)
        root = file.root
        self._add(root, parent, file)
        if parent is None:
            flag = self.flags[prefix + root.name]
            self.space.require(flag, name="the root is selected", source=name, line=root.line)
        return root

    def _add(self, feature: Feature, parent: str | None, file: _File) -> str:
        """Add a feature and all below it; returns its full name."""
        alias, _, local = feature.name.rpartition(".")
        if alias:
            return self._imported(feature, alias, local, parent, file)
        name = file.prefix + feature.name
        if name in self.features:
            file.refuse(
                f"a second feature {name!r}; the first is in line {self.features[name].line}",
                "another name",
                feature.line,
            )
        self.features[name], self.below[name] = feature, []
        self.flags[name] = self.space.flag(name)
        if parent is not None:
            self.below[parent].append(name)
        if feature.type != "Boolean":
            self._typed(name, feature, file)
        for group in feature.groups:
            members = [self._add(member, name, file) for member in group.features]
            self._group(name, members, group, file.model.source)
        return name

    def _imported(
        self, feature: Feature, alias: str, local: str, parent: str | None, file: _File
    ) -> str:
        """The root of an imported file, in the place where the tree names it."""
        imports = [(name, line) for name, known, line in file.model.imports if known == alias]
        if not imports:
            what = f"the feature {feature.name!r}, but no file is imported as {alias!r}"
            file.refuse(what, "imports", feature.line)
        name, line = imports[-1]
        if "/" in name or "\\" in name:
            what = f"the import of {name}"
            file.refuse(what, "folders and a file with dots between them", line)
        path = file.path[-1].parent.joinpath(*name.split(".")).with_suffix(".uvl")
        if path.resolve() in file.path:
            file.refuse(f"the import of {name}, which imports this file", "no cycle", line)
        if not os.path.isfile(path):  # False for impossible names too
            file.refuse(f"the import of {name}", f"a file {path}", line)
        below = f"{file.prefix}{alias}."
        root = self.add_file(path, below, parent, file.path)
        if root.name != local:
            expected = f"{alias}.{root.name}, the root of the imported file"
            file.refuse(f"the feature {feature.name!r}", expected, feature.line)
        if feature.groups or feature.attributes:
            what = f"groups or attributes of the imported feature {feature.name!r}"
            file.refuse(what, "them in the imported file", feature.line)
        return below + local

    def _typed(self, name: str, feature: Feature, file: _File) -> None:
        only_selected = "None: only whether it is selected counts"
        if name not in self.bounds:
            hint = "(low, high)" if feature.type == "Integer" else "None"
            what = f"the {feature.type} feature {name!r}, which has no range of values"
            file.refuse(what, f"bounds={{{name!r}: {hint}}}; {only_selected}", feature.line)
        ends = self.bounds[name]
        if ends is None:
            return
        if feature.type != "Integer":
            what = f"bounds {ends!r} of the {feature.type} feature {name!r}"
            file.refuse(what, only_selected, feature.line)
        value = self.space.integer(f"{name}.value", *ends)
        self.space.require(
            self.flags[name] | (value == value.low),
            name=f"{name}.value is {value.low} while {name} is not selected",
        )

    def _group(self, parent: str, members: list[str], group: FeatureGroup, source: str) -> None:
        above, flags = self.flags[parent], [self.flags[name] for name in members]
        for name, flag in zip(members, flags, strict=True):
            made = above.iff(flag) if group.kind == "mandatory" else flag.implies(above)
            self.space.require(made, source=source, line=self.features[name].line)
        if group.kind in ("mandatory", "optional"):
            return
        low, high = group.low, len(flags) if group.high is None else min(group.high, len(flags))
        if (low, high) == (1, len(flags)):
            made = above.implies(any_of(flags))
        elif low == high:
            made = above.implies(count(flags) == low)
        else:
            made = above.implies((count(flags) >= low) & (count(flags) <= high))
        self.space.require(made, source=source, line=group.line)


class _Translator:
    """One constraint as a rule."""

    def __init__(self, tree: _Tree, file: _File, constraint: Constraint) -> None:
        self.tree, self.file, self.constraint = tree, file, constraint
        self.prefix = file.prefix

    def fail(self, what: str, expected: str) -> NoReturn:
        what = f"{shortened(what, 500)} in the constraint `{shortened(self.constraint.text, 200)}`"
        self.file.refuse(what, expected, self.constraint.line)

    def rule(self, node: tuple[Any, ...]) -> Rule:
        op, args = node
        if op == "ref":
            return self._selected(args)
        if op == "truth":
            return rule(args)
        if op == "!":
            return ~self.rule(args[0])
        if op in ("&", "|"):
            return (all_of if op == "&" else any_of)(self.rule(arg) for arg in args)
        if op in ("=>", "<=>"):
            left, right = map(self.rule, args)
            return left.implies(right) if op == "=>" else left.iff(right)
        if op in COMPARISONS:
            (a, p), (b, q) = map(self.number, args)
            return COMPARISONS[op](a * q, b * p)
        return self.fail(
            "a number where a feature should be", "features, ! & | => <=>, comparisons"
        )

    def number(self, node: tuple[Any, ...]) -> tuple[Number, int]:
        """(a, p): the number a / p."""
        op, args = node
        if op == "number":
            return number(args.numerator), args.denominator
        if op == "ref":
            return self._value(args)
        if op in ("+", "-"):
            return self._total(node)
        if op == "*":
            (a, p), (b, q) = map(self.number, args)
            return a * b, p * q
        if op == "/":
            (a, p), (b, q) = map(self.number, args)
            if b.low != b.high or b.low == 0:
                self.fail("a division by something else than a constant", "a constant, not 0")
            return (a * q if b.low > 0 else -(a * q)), p * abs(b.low)
        if op == "sum":
            return self._sum(args)
        if op in ("floor", "ceil"):
            a, p = self._value(args[0])
            return (a // p if op == "floor" else -(-a // p)), 1
        if op in ("string", "avg", "len"):
            what = "a text" if op == "string" else f"{op}()"
            self.fail(what, "whole or decimal numbers, + - * /, sum, floor, ceil")
        return self.fail(f"`{op}` where a number should be", "a number")

    def _total(self, node: tuple[Any, ...]) -> tuple[Number, int]:
        """a + b - c + ..., of any length: the tree leans to the left."""
        terms = []
        while node[0] in ("+", "-"):
            sign, (node, right) = node
            terms.append((1 if sign == "+" else -1, *self.number(right)))
        terms.append((1, *self.number(node)))
        common = math.lcm(*(p for _, _, p in terms))
        return number(sum(s * (common // p) * a for s, a, p in reversed(terms))), common

    def _find(self, text: str) -> tuple[str, str | None]:
        """(feature, None), or (feature, attribute)."""
        full = self.prefix + text
        if full in self.tree.features:
            return full, None
        parts = full.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            feature, attribute = ".".join(parts[:cut]), ".".join(parts[cut:])
            if attribute in getattr(self.tree.features.get(feature), "attributes", ()):
                return feature, attribute
        error = unknown(f"no feature is called {full!r}", full, self.tree.features)
        return self.fail(error.what, error.expected or "")

    def _selected(self, text: str) -> Rule:
        feature, attribute = self._find(text)
        flag = self.tree.flags[feature]
        if attribute is None:
            return flag
        value = self.tree.features[feature].attributes[attribute]
        if not isinstance(value, bool):
            self.fail(f"the attribute {text!r} as true or false", "true or false")
        return flag if value else rule(False)

    def _value(self, text: str) -> tuple[Number, int]:
        feature, attribute = self._find(text)
        flag, of = self.tree.flags[feature], self.tree.features[feature]
        if attribute is not None:
            value = of.attributes[attribute]
            if not isinstance(value, (bool, Fraction)):
                self.fail(f"the attribute {text!r} as a number", "a number")
            value = Fraction(value)
            return number(flag) * value.numerator, value.denominator
        if of.type == "Boolean":
            return number(flag), 1
        if f"{feature}.value" not in self.tree.space.fields:
            self.fail(f"the value of the {of.type} feature {feature!r}", "bounds of this feature")
        # The value times the flag, as a sum: the value is `low` while the feature is not selected.
        value = self.tree.space[f"{feature}.value"]
        return value - value.low * (1 - number(flag)), 1

    def _sum(self, names: list[str]) -> tuple[Number, int]:
        """Of an attribute over all selected features, or over a feature and those below it."""
        roots = [name for name in names if self.prefix + name in self.tree.features]
        if len(names) > 2 or len(roots) != len(names) - 1:
            self.fail("the arguments of sum()", "an attribute, or a feature and an attribute")
        attribute = next(name for name in names if name not in roots)
        within = self._below(self.prefix + roots[0]) if roots else list(self.tree.features)
        terms = [
            (name, Fraction(value))
            for name in within
            if isinstance(
                value := self.tree.features[name].attributes.get(attribute), (bool, Fraction)
            )
        ]
        if not terms:
            self.fail(f"no feature has a number {attribute!r}", "an attribute that is a number")
        common = math.lcm(*(value.denominator for _, value in terms))
        total = sum(number(self.tree.flags[name]) * int(value * common) for name, value in terms)
        return number(total), common

    def _below(self, name: str) -> list[str]:
        names = [name]
        for each in names:  # grows
            names += self.tree.below[each]
        return names
