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
from collections.abc import Callable, Iterator
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
        return _FileReader(text, source).read()
    except RecursionError:
        raise FormulaError(
            "a file that is nested too deeply", expected="a feature model", source=source
        ) from None


class _FileReader:
    """One file, section by section."""

    def __init__(self, text: str, source: str) -> None:
        self.text, self.model = text, FeatureModel(source)

    def fail(self, what: str, expected: str, line: int | None) -> NoReturn:
        what = shortened(what, 800)
        raise FormulaError(what, expected=expected, source=self.model.source, line=line)

    def read(self) -> FeatureModel:
        model, seen = self.model, set[str]()
        for section in self._nested():
            words = _Words(section, self)
            word = words.next().text
            if word in seen or word not in _SECTIONS:
                expected = f"{', '.join(_SECTIONS)}, each at most once"
                words.fail(f"the section {word!r}", expected)
            seen.add(word)
            if word == "namespace":
                words.reference()
            elif word == "imports":
                model.imports = [self._imported(line) for line in section.below]
            elif word == "features":
                roots = [self._feature(line, 0) for line in section.below]
                if len(roots) != 1:
                    words.fail(f"{len(roots)} root features", "one")
                model.root = roots[0]
            elif word == "constraints":
                for line in section.below:
                    of_line = _Words(line, self)
                    model.constraints.append(of_line.constraint())
                    of_line.end(alone=True)
            words.end()
        if model.root is None:
            self.fail("a UVL file without features", "features", None)
        return model

    # --- lines ------------------------------------------------------------------------------------

    def _lines(self) -> Iterator[_Line]:
        """Lines with their indentation. A line goes on where a bracket is open."""
        text, line = self.text, 1
        at = begin = depth = indent = 0
        tokens: list[Token] = []
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                expected = 'names, numbers and operators; other names in double quotes: "a b"'
                self.fail(f"unexpected {text[at]!r}", expected, line)
            kind, start, at = match.lastgroup or "", at, match.end()
            if kind == "number" and at - start > MAX_DIGITS:
                self.fail(f"a number of {at - start} digits", f"at most {MAX_DIGITS}", line)
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
            self.fail("a bracket that is never closed", ") ] or }", line)
        if tokens:
            yield _Line(tokens, indent)

    def _nested(self) -> list[_Line]:
        """The outermost lines; each holds the lines that are indented below it."""
        top: list[_Line] = []
        open_: list[_Line] = []
        for line in self._lines():
            closed = None
            while open_ and open_[-1].indent >= line.indent:
                closed = open_.pop()
            if closed is not None and closed.indent != line.indent:
                what = "an indentation that fits no line above it"
                self.fail(what, "the same indentation within a group", line.number)
            (open_[-1].below if open_ else top).append(line)
            open_.append(line)
        return top

    # --- features ---------------------------------------------------------------------------------

    def _imported(self, line: _Line) -> tuple[str, str, int]:
        words = _Words(line, self)
        name = words.reference()
        alias = words.reference() if words.take("as") else name
        words.end(alone=True)
        return name, alias, line.number

    def _feature(self, line: _Line, depth: int) -> Feature:
        words = _Words(line, self)
        if depth > MAX_DEPTH:
            words.fail("features nested too deeply", f"at most {MAX_DEPTH} levels")
        after = line.tokens[1].kind if len(line.tokens) > 1 else ""
        typed = words.peek() in _TYPES and after in ("name", "quoted")
        kind = words.next().text if typed else "Boolean"
        feature = Feature(words.reference(), line.number, kind)
        if words.take("cardinality") and words.cardinality() != (1, 1):
            words.fail(
                f"the feature {feature.name!r} with a cardinality: several copies of a feature",
                "no feature cardinality: it is not supported",
            )
        if words.peek() == "{":
            feature.attributes = words.attributes(self.model.constraints)
        words.end()
        feature.groups = [self._group(below, depth + 1) for below in line.below]
        return feature

    def _group(self, line: _Line, depth: int) -> FeatureGroup:
        words = _Words(line, self)
        if words.peek() == "[":
            group = FeatureGroup("cardinality", *words.cardinality(), line.number)
        else:
            word = words.next().text
            if word not in _GROUPS:
                words.fail(f"the group {word!r}", "mandatory, optional, or, alternative or [1..2]")
            group = FeatureGroup(word, *_GROUPS[word], line.number)
        words.end()
        group.features = [self._feature(below, depth) for below in line.below]
        if not group.features:
            words.fail("a group without features", "features, indented below it")
        return group


class _Words:
    """The tokens of a line, read from left to right."""

    def __init__(self, line: _Line, reader: _FileReader) -> None:
        self.line, self.tokens, self.reader = line, line.tokens, reader
        self.at = self.depth = 0

    def fail(self, what: str, expected: str, back: int = 0) -> NoReturn:
        """back: the wrong word stands this many before the next one."""
        token = self.tokens[min(self.at - back, len(self.tokens) - 1)]
        self.reader.fail(what, expected, token.line)

    def peek(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def next(self) -> Token:
        if self.at == len(self.tokens):
            self.fail("the line ends early", "more words")
        self.at += 1
        return self.tokens[self.at - 1]

    def take(self, text: str) -> bool:
        """Skip a word if it comes next."""
        is_next = self.peek() == text
        self.at += is_next
        return is_next

    def want(self, text: str) -> None:
        if not self.take(text):
            self.fail(f"{self.peek() or 'the end of the line'!r}", repr(text))

    def end(self, alone: bool = False) -> None:
        """alone: and no line stands below this one."""
        if self.at < len(self.tokens):
            self.fail(f"unexpected {self.peek()!r}", "the end of the line")
        if alone and self.line.below:
            what, number = "a line that is indented too far", self.line.below[0].number
            self.reader.fail(what, "the indentation of the line above it", number)

    def reference(self) -> str:
        """Names with dots between them; quotes are dropped."""
        parts = []
        while True:
            token = self.next()
            if token.kind not in ("name", "quoted"):
                self.fail(f"{token.text!r}", 'a name; unusual ones in quotes: "a b"', back=1)
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
            self.fail(f"the cardinality [{low}..{high}]", "low <= high")
        return low, high

    def whole(self) -> int:
        token = self.next()
        if not token.text.isdigit():
            self.fail(f"{token.text!r}", "a whole number", back=1)
        return int(token.text)

    # --- attributes -------------------------------------------------------------------------------

    def attributes(self, constraints: list[Constraint]) -> dict[str, Any]:
        """{price 100, tested true, abstract}; nested ones get names with dots."""
        values: dict[str, Any] = {}
        self.want("{")
        while not self.take("}"):
            if self.peek() in ("constraint", "constraints"):
                if self.next().text == "constraint":
                    constraints.append(self.constraint())
                else:
                    constraints += self._list(self.constraint)
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

    def _list(self, item: Callable[[], Any]) -> list[Any]:
        self.want("[")
        items = []
        while not self.take("]"):
            items.append(item())
            if self.peek() != "]":
                self.want(",")
        return items

    def value(self) -> Any:
        if self.peek() == "[":
            return self._list(self.value)
        negative = self.take("-")
        token = self.next()
        if token.kind == "number":
            return Fraction(token.text) * (-1 if negative else 1)
        if not negative and token.text in ("true", "false"):
            return token.text == "true"
        if negative or token.kind not in ("string", "quoted"):
            self.fail(f"the value {token.text!r}", "a number, true, false or 'text'", back=1)
        return token.text[1:-1]

    # --- constraints ------------------------------------------------------------------------------

    def constraint(self) -> Constraint:
        first = self.at
        line = self.tokens[min(first, len(self.tokens) - 1)].line
        tree = self._expression(0)
        shown = self.reader.text[self.tokens[first].start : self.tokens[self.at - 1].end]
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
                self.fail("a chain of comparisons", "one, or several joined by &")
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
                self.fail("a constraint nested too deeply", f"at most {MAX_DEPTH} levels")
            tree = self._expression(0)
            self.want(")")
            self.depth -= 1
            return tree
        if word == "-" or word[:1].isdigit() or word[:1] == ".":
            negative = self.take("-")
            token = self.next()
            if token.kind != "number":
                self.fail(f"{token.text!r} after -", "a number", back=1)
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
