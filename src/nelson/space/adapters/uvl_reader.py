"""The text of a UVL file as a tree: features, groups, attributes, constraints. No meaning yet.

UVL (Universal Variability Language) structures a file by indentation:

    features
        Car {abstract}
            mandatory
                Engine
                    alternative
                        Petrol {price 100}
                        Electric {price 200}
    constraints
        Electric => !Petrol
        sum(price) < 250

The readers of UVL on PyPI are under the GPL or LGPL, and they lose the lines of the file. The
grammar is small, so this is a reader of our own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NoReturn

from nelson.errors import FormulaError, shortened

#: Deepest nesting of features, and of parentheses in a constraint.
MAX_DEPTH = 100
#: Characters of the longest number.
MAX_DIGITS = 40

_TOKEN = re.compile(
    r"""(?P<newline>\r\n|\n|\r)
    | (?P<blank>[ \t\f\v\xa0\ufeff]+|//[^\r\n]*|/\*.*?\*/)
    | (?P<number>[0-9]*\.[0-9]+|[0-9]+)
    | (?P<quoted>"[^"\x00-\x1f]+")
    | (?P<string>'[^'\r\n]*')
    | (?P<name>[^\W\d_][\w\#§%?\\';]*)
    | (?P<sign><=>|=>|==|!=|<=|>=|\.\.|[-<>&|!()\[\]{},.+*/])""",
    re.VERBOSE | re.DOTALL,
)
_SECTIONS = ("namespace", "include", "imports", "features", "constraints")
_TYPES = ("Boolean", "Integer", "Real", "String")
_GROUPS = {"or": (1, None), "alternative": (1, 1), "optional": (0, None), "mandatory": (-1, -1)}
_FUNCTIONS = ("sum", "avg", "len", "floor", "ceil")
#: How tightly the operators of constraints bind; `!` lies between & and comparisons.
_NOT, _COMPARISON = 4, 5
_LEVEL = {
    "<=>": 0,
    "=>": 1,
    "|": 2,
    "&": 3,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), _COMPARISON),
    **dict.fromkeys(("+", "-"), 6),
    **dict.fromkeys(("*", "/"), 7),
}


@dataclass(frozen=True, slots=True)
class Token:
    kind: str  # number, quoted, string, name or sign
    text: str
    line: int
    start: int  # place in the file
    end: int


@dataclass(slots=True)
class Constraint:
    """An expression: ("ref", name), ("number", Fraction), ("string", text) or (operator, parts)."""

    tree: tuple[Any, ...]
    line: int
    text: str


@dataclass(slots=True)
class FeatureGroup:
    """Features of which low to high are selected; high None: all. Mandatory: low = high = -1."""

    kind: str
    low: int
    high: int | None
    line: int
    features: list[Feature] = field(default_factory=list)


@dataclass(slots=True)
class Feature:
    name: str
    line: int
    type: str = "Boolean"
    attributes: dict[str, Any] = field(default_factory=dict)
    groups: list[FeatureGroup] = field(default_factory=list)


@dataclass(slots=True)
class FeatureModel:
    source: str
    root: Feature | None = None
    imports: list[tuple[str, str, int]] = field(default_factory=list)  # file, alias, line
    constraints: list[Constraint] = field(default_factory=list)


@dataclass(slots=True)
class _Line:
    tokens: list[Token]
    indent: int
    below: list[_Line] = field(default_factory=list)

    @property
    def number(self) -> int:
        return self.tokens[0].line


def read(text: str, source: str) -> FeatureModel:
    """The tree of a file. Raises FormulaError with the source and the line."""
    try:
        return _model(text, source)
    except RecursionError:
        raise FormulaError(
            "a file that is nested too deeply", expected="a feature model", source=source
        ) from None


def _model(text: str, source: str) -> FeatureModel:
    model = FeatureModel(source)
    seen: set[str] = set()
    for section in _nested(_lines(text, source), source):
        reader = _Words(section.tokens, text, source)
        word = reader.next().text
        if word in seen or word not in _SECTIONS:
            expected = f"{', '.join(_SECTIONS)}, each at most once"
            reader.fail(f"the section {word!r}", expected=expected)
        seen.add(word)
        if word == "namespace":
            reader.reference()
        elif word == "imports":
            model.imports = [_imported(line, text, source) for line in section.below]
        elif word == "features":
            roots = [_feature(line, text, source, model, 0) for line in section.below]
            if len(roots) != 1:
                reader.fail(f"{len(roots)} root features", expected="one")
            model.root = roots[0]
        elif word == "constraints":
            for line in section.below:
                words = _Words(line.tokens, text, source)
                model.constraints.append(words.constraint())
                words.end(line)
        reader.end()
    if model.root is None:
        raise FormulaError("a UVL file without features", expected="features", source=source)
    return model


# --- lines --------------------------------------------------------------------------------------


def _lines(text: str, source: str) -> Iterator[_Line]:
    """Lines with their indentation. A line goes on where a bracket is open."""
    line = 1
    at = begin = depth = indent = 0
    tokens: list[Token] = []
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise FormulaError(
                f"unexpected {text[at]!r}",
                expected='names, numbers and operators; other names in double quotes: "a b"',
                source=source,
                line=line,
            )
        kind, start, at = match.lastgroup or "", at, match.end()
        if kind == "number" and at - start > MAX_DIGITS:
            raise FormulaError(
                f"a number of {at - start} digits",
                expected=f"at most {MAX_DIGITS}",
                source=source,
                line=line,
            )
        if kind == "newline":
            line += 1
            begin = at
            if not depth and tokens:
                yield _Line(tokens, indent)
                tokens = []
        elif kind == "blank":
            line += len(re.findall(r"\r\n|\n|\r", match[0]))
        else:
            if not tokens:
                indent = len(text[begin:start].expandtabs(8))
            depth += (match[0] in "([{") - (match[0] in ")]}") if kind == "sign" else 0
            tokens.append(Token(kind, match[0], line, start, at))
    if depth > 0:
        raise FormulaError(
            "a bracket that is never closed", expected=") ] or }", source=source, line=line
        )
    if tokens:
        yield _Line(tokens, indent)


def _nested(lines: Iterator[_Line], source: str) -> list[_Line]:
    """The outermost lines; each holds the lines that are indented below it."""
    top: list[_Line] = []
    open_: list[_Line] = []
    for line in lines:
        closed = None
        while open_ and open_[-1].indent >= line.indent:
            closed = open_.pop()
        if closed is not None and closed.indent != line.indent:
            raise FormulaError(
                "an indentation that fits no line above it",
                expected="the same indentation within a group",
                source=source,
                line=line.number,
            )
        (open_[-1].below if open_ else top).append(line)
        open_.append(line)
    return top


# --- features -----------------------------------------------------------------------------------


def _imported(line: _Line, text: str, source: str) -> tuple[str, str, int]:
    words = _Words(line.tokens, text, source)
    name = words.reference()
    alias = name
    if words.take("as"):
        alias = words.reference()
    words.end(line)
    return name, alias, line.number


def _feature(line: _Line, text: str, source: str, model: FeatureModel, depth: int) -> Feature:
    words = _Words(line.tokens, text, source)
    if depth > MAX_DEPTH:
        words.fail("features nested too deeply", expected=f"at most {MAX_DEPTH} levels")
    kind = "Boolean"
    if (
        words.peek() in _TYPES
        and len(line.tokens) > 1
        and line.tokens[1].kind in ("name", "quoted")
    ):
        kind = words.next().text
    feature = Feature(words.reference(), line.number, kind)
    if words.take("cardinality"):
        low, high = words.cardinality()
        if (low, high) != (1, 1):
            words.fail(
                f"the feature {feature.name!r} with a cardinality: several copies of a feature",
                expected="no feature cardinality: it is not supported",
            )
    if words.peek() == "{":
        feature.attributes = words.attributes(model.constraints)
    words.end()
    for below in line.below:
        feature.groups.append(_group(below, text, source, model, depth + 1))
    return feature


def _group(line: _Line, text: str, source: str, model: FeatureModel, depth: int) -> FeatureGroup:
    words = _Words(line.tokens, text, source)
    if words.peek() == "[":
        group = FeatureGroup("cardinality", *words.cardinality(), line.number)
    else:
        word = words.next().text
        if word not in _GROUPS:
            words.fail(
                f"the group {word!r}",
                expected="mandatory, optional, or, alternative or [1..2]",
            )
        group = FeatureGroup(word, *_GROUPS[word], line.number)
    words.end()
    group.features = [_feature(below, text, source, model, depth) for below in line.below]
    if not group.features:
        words.fail("a group without features", expected="features, indented below it")
    return group


class _Words:
    """The tokens of a line, read from left to right."""

    def __init__(self, tokens: list[Token], text: str, source: str) -> None:
        self.tokens, self.text, self.source = tokens, text, source
        self.at = self.depth = 0

    def fail(self, what: str, *, expected: str) -> NoReturn:
        token = self.tokens[min(self.at, len(self.tokens) - 1)]
        what = shortened(what, 800)
        raise FormulaError(what, expected=expected, source=self.source, line=token.line)

    def peek(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def next(self) -> Token:
        if self.at == len(self.tokens):
            self.fail("the line ends early", expected="more words")
        self.at += 1
        return self.tokens[self.at - 1]

    def take(self, text: str) -> bool:
        """Skip a word if it comes next."""
        is_next = self.peek() == text
        self.at += is_next
        return is_next

    def want(self, text: str) -> None:
        if not self.take(text):
            self.fail(f"{self.peek() or 'the end of the line'!r}", expected=repr(text))

    def end(self, line: _Line | None = None) -> None:
        if self.at < len(self.tokens):
            self.fail(f"unexpected {self.peek()!r}", expected="the end of the line")
        if line is not None and line.below:
            self.at = 0
            raise FormulaError(
                "a line that is indented too far",
                expected="the indentation of the line above it",
                source=self.source,
                line=line.below[0].number,
            )

    def reference(self) -> str:
        """Names with dots between them; quotes are dropped."""
        parts = []
        while True:
            token = self.next()
            if token.kind not in ("name", "quoted"):
                self.at -= 1
                self.fail(f"{token.text!r}", expected='a name; unusual ones in quotes: "a b"')
            parts.append(token.text.strip('"'))
            if not self.take("."):
                return ".".join(parts)

    def cardinality(self) -> tuple[int, int | None]:
        self.want("[")
        low = self.whole()
        high: int | None = low
        if self.take(".."):
            high = None if self.take("*") else self.whole()
        self.want("]")
        if high is not None and high < low:
            self.fail(f"the cardinality [{low}..{high}]", expected="low <= high")
        return low, high

    def whole(self) -> int:
        token = self.next()
        if not token.text.isdigit():
            self.at -= 1
            self.fail(f"{token.text!r}", expected="a whole number")
        return int(token.text)

    # --- attributes -------------------------------------------------------------------------------

    def attributes(self, constraints: list[Constraint]) -> dict[str, Any]:
        """{price 100, tested true, abstract}; nested ones get names with dots."""
        values: dict[str, Any] = {}
        self.want("{")
        while not self.take("}"):
            if self.peek() in ("constraint", "constraints"):
                is_list = self.next().text == "constraints"
                if is_list:
                    self.want("[")
                while not (is_list and self.take("]")):
                    constraints.append(self.constraint())
                    if not is_list:
                        break
                    if self.peek() != "]":
                        self.want(",")
            else:
                key = self.reference()
                if self.peek() == "{":
                    nested = self.attributes(constraints)
                    values |= {f"{key}.{name}": value for name, value in nested.items()}
                else:
                    values[key] = True if self.peek() in (",", "}") else self.value()
            if self.peek() != "}":
                self.want(",")
        return values

    def value(self) -> Any:
        if self.take("["):
            items = []
            while not self.take("]"):
                items.append(self.value())
                if self.peek() != "]":
                    self.want(",")
            return items
        negative = self.take("-")
        token = self.next()
        if token.kind == "number":
            return Fraction(token.text) * (-1 if negative else 1)
        if not negative and token.text in ("true", "false"):
            return token.text == "true"
        if negative or token.kind not in ("string", "quoted"):
            self.at -= 1
            self.fail(f"the value {token.text!r}", expected="a number, true, false or 'text'")
        return token.text[1:-1]

    # --- constraints ------------------------------------------------------------------------------

    def constraint(self) -> Constraint:
        first = self.at
        line = self.tokens[min(first, len(self.tokens) - 1)].line
        tree = self._expression(0)
        shown = self.text[self.tokens[first].start : self.tokens[self.at - 1].end]
        return Constraint(tree, line, " ".join(shown.split()))

    def _expression(self, least: int) -> tuple[Any, ...]:
        """Operators of the level `least` or tighter; those of one level from left to right."""
        if least <= _NOT and self.take("!"):
            tree: tuple[Any, ...] = "!", [self._expression(_NOT)]
        else:
            tree = self._primary()
        chain = compared = False  # is `tree` a chain of & or |, or a comparison, made here?
        while (level := _LEVEL.get(self.peek(), -1)) >= least:
            sign = self.next().text
            if compared and level == _COMPARISON:
                self.fail("a chain of comparisons", expected="one, or several joined by &")
            right = self._expression(level + 1)
            if chain and tree[0] == sign:
                tree[1].append(right)
            else:
                tree = sign, [tree, right]
            chain, compared = sign in ("&", "|"), level == _COMPARISON
        return tree

    def _primary(self) -> tuple[Any, ...]:
        word = self.peek()
        if self.take("("):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                self.fail("a constraint nested too deeply", expected=f"at most {MAX_DEPTH} levels")
            tree = self._expression(0)
            self.want(")")
            self.depth -= 1
            return tree
        if word == "-" or word[:1].isdigit() or word[:1] == ".":
            negative = self.take("-")
            token = self.next()
            if token.kind != "number":
                self.at -= 1
                self.fail(f"{token.text!r} after -", expected="a number")
            return "number", Fraction(token.text) * (-1 if negative else 1)
        if word[:1] == "'":
            return "string", self.next().text[1:-1]
        if word in ("true", "false"):
            return "truth", self.next().text == "true"
        follows = self.tokens[self.at + 1].text if self.at + 1 < len(self.tokens) else ""
        if word in _FUNCTIONS and follows == "(":
            self.at += 2
            names = [self.reference()]
            while self.take(","):
                names.append(self.reference())
            self.want(")")
            return word, names
        return "ref", self.reference()
