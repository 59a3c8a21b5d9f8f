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
import operator
import os
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from nelson.errors import FormulaError
from nelson.io.streams import load
from nelson.space.adapters.uvl_reader import Constraint, Feature, Group, Model, read
from nelson.space.language.expressions import Number, Rule, number, rule
from nelson.space.language.fields import Flag, unknown
from nelson.space.language.functions import all_of, any_of, count

if TYPE_CHECKING:
    from nelson.space.space import Space

Bounds = Mapping[str, tuple[int, int] | None]

_COMPARE: dict[str, Callable[[Any, Any], Rule]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def fill(space: Space, path: str | os.PathLike[str], bounds: Bounds) -> None:
    """Add the features and constraints of a file, and of the files that it imports."""
    tree = _Tree(space, bounds)
    tree.add_model(Path(path), "", None, ())
    for name in bounds:
        if name not in tree.features:
            raise unknown(f"bounds of {name!r}, which is no feature", name, tree.features)
    for model, prefix in tree.models:
        for constraint in model.constraints:
            translator = _Translator(tree, model, prefix, constraint)
            try:
                made = translator.rule(constraint.tree)
            except RecursionError:
                translator.fail("too many levels", "several smaller constraints")
            space.require(made, source=model.source, line=constraint.line)


class _Tree:
    """The features of all files."""

    def __init__(self, space: Space, bounds: Bounds) -> None:
        self.space, self.bounds = space, bounds
        self.features: dict[str, Feature] = {}
        self.flags: dict[str, Flag] = {}
        self.below: dict[str, list[str]] = {}  # the children of each feature
        self.models: list[tuple[Model, str]] = []  # and the prefix of their names

    def add_model(
        self, path: Path, prefix: str, parent: str | None, above: tuple[Path, ...]
    ) -> Model:
        """Add a file whose root lies below `parent`. above: the files that import it."""
        name, data = load(path)
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise FormulaError("no UTF-8 text", expected="a UVL file", source=name) from None
        model = read(text, name)
        self.models.append((model, prefix))
        assert model.root is not None
        files = {alias: (file, line) for file, alias, line in model.imports}
        self._add(model.root, parent, model, prefix, files, (*above, path.resolve()))
        if parent is None:
            root = self.flags[prefix + model.root.name]
            self.space.require(root, name="the root is selected", source=name, line=model.root.line)
        return model

    def _add(
        self,
        feature: Feature,
        parent: str | None,
        model: Model,
        prefix: str,
        files: Mapping[str, tuple[str, int]],
        above: tuple[Path, ...],
    ) -> str:
        """Add a feature and all below it; returns its full name."""
        alias, _, local = feature.name.rpartition(".")
        if alias:
            return self._imported(feature, alias, local, parent, model, prefix, files, above)
        name = prefix + feature.name
        if name in self.features:
            raise FormulaError(
                f"a second feature {name!r}; the first is in line {self.features[name].line}",
                expected="another name",
                source=model.source,
                line=feature.line,
            )
        self.features[name], self.below[name] = feature, []
        self.flags[name] = self.space.flag(name)
        if parent is not None:
            self.below[parent].append(name)
        if feature.type != "Boolean":
            self._typed(name, feature, model)
        for group in feature.groups:
            members = [self._add(f, name, model, prefix, files, above) for f in group.features]
            self._group(name, members, group, model)
        return name

    def _imported(
        self,
        feature: Feature,
        alias: str,
        local: str,
        parent: str | None,
        model: Model,
        prefix: str,
        files: Mapping[str, tuple[str, int]],
        above: tuple[Path, ...],
    ) -> str:
        """The root of an imported file, in the place where the tree names it."""
        where: dict[str, Any] = {"source": model.source, "line": feature.line}
        if alias not in files:
            raise FormulaError(
                f"the feature {feature.name!r}, but no file is imported as {alias!r}",
                expected="imports",
                **where,
            )
        file, line = files[alias]
        if "/" in file or "\\" in file:
            raise FormulaError(
                f"the import of {file}",
                expected="folders and a file with dots between them",
                source=model.source,
                line=line,
            )
        path = above[-1].parent.joinpath(*file.split(".")).with_suffix(".uvl")
        if path.resolve() in above:
            raise FormulaError(
                f"the import of {file}, which imports this file",
                expected="no cycle",
                source=model.source,
                line=line,
            )
        if not os.path.isfile(path):  # False for impossible names too
            raise FormulaError(
                f"the import of {file}", expected=f"a file {path}", source=model.source, line=line
            )
        below = f"{prefix}{alias}."
        found = self.add_model(path, below, parent, above).root
        assert found is not None
        if found.name != local:
            raise FormulaError(
                f"the feature {feature.name!r}",
                expected=f"{alias}.{found.name}, the root of the imported file",
                **where,
            )
        if feature.groups or feature.attributes:
            raise FormulaError(
                f"groups or attributes of the imported feature {feature.name!r}",
                expected="them in the imported file",
                **where,
            )
        return below + local

    def _typed(self, name: str, feature: Feature, model: Model) -> None:
        where: dict[str, Any] = {"source": model.source, "line": feature.line}
        if name not in self.bounds:
            hint = "(low, high)" if feature.type == "Integer" else "None"
            raise FormulaError(
                f"the {feature.type} feature {name!r}, which has no range of values",
                expected=f"bounds={{{name!r}: {hint}}}; None: only whether it is selected counts",
                **where,
            )
        ends = self.bounds[name]
        if ends is None:
            return
        if feature.type != "Integer":
            raise FormulaError(
                f"bounds {ends!r} of the {feature.type} feature {name!r}",
                expected="None: only whether it is selected counts",
                **where,
            )
        value = self.space.integer(f"{name}.value", *ends)
        self.space.require(
            self.flags[name] | (value == value.low),
            name=f"{name}.value is {value.low} while {name} is not selected",
        )

    def _group(self, parent: str, members: list[str], group: Group, model: Model) -> None:
        above, flags = self.flags[parent], [self.flags[name] for name in members]
        where: dict[str, Any] = {"source": model.source}
        for name, flag in zip(members, flags, strict=True):
            line = self.features[name].line
            same = group.kind == "mandatory"
            self.space.require(above.iff(flag) if same else flag.implies(above), line=line, **where)
        if group.kind in ("mandatory", "optional"):
            return
        low, high = group.low, len(flags) if group.high is None else min(group.high, len(flags))
        if (low, high) == (1, len(flags)):
            made = above.implies(any_of(flags))
        elif low == high:
            made = above.implies(count(flags) == low)
        else:
            made = above.implies((count(flags) >= low) & (count(flags) <= high))
        self.space.require(made, line=group.line, **where)


class _Translator:
    """One constraint as a rule."""

    def __init__(self, tree: _Tree, model: Model, prefix: str, constraint: Constraint) -> None:
        self.tree, self.model, self.prefix, self.constraint = tree, model, prefix, constraint

    def fail(self, what: str, expected: str) -> NoReturn:
        raise FormulaError(
            f"{what} in the constraint `{self.constraint.text}`",
            expected=expected,
            source=self.model.source,
            line=self.constraint.line,
        )

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
        if op in _COMPARE:
            (a, p), (b, q) = map(self.number, args)
            return _COMPARE[op](a * q, b * p)
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
        found = [name]
        for each in found:  # grows
            found += self.tree.below[each]
        return found
