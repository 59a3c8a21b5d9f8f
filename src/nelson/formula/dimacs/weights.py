"""Weights of literals, in every dialect of DIMACS that is in use, as log-odds.

    theta_v = log w(v) - log w(-v),      w(v) = 0 -> -inf,   w(-v) = 0 -> +inf (hard evidence)

| dialect   | lines                                             | who writes them                  |
|-----------|---------------------------------------------------|----------------------------------|
| `mcc`     | `c p weight L W 0`                                | model counting competition 2021- |
| `literal` | `w L W` or `w L W 0`, `p wcnf` or `p cnf`         | MCC 2020, WAPS, WeightGen, CMSGen|
| `cachet`  | `w V P`: w(V) = P, w(-V) = 1 - P; P = -1: both 1  | Cachet                           |
| `minic2d` | `c weights w(1) w(-1) w(2) w(-2) ...`             | miniC2D                          |

A variable without a weight has w(v) = w(-v) = 1. In `mcc` and `literal`, if only one literal of a
variable has a weight W, the other gets 1 - W if W <= 1 (as in Ganak, WAPS and CMSGen), else 1. By
this rule `w 3 0.4` means the same in `cachet` and in `literal`; only -1 makes a difference. W is a
decimal or a fraction like 1/3.
"""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

import numpy as np

from nelson.errors import FormulaError

DIALECTS = ("auto", "mcc", "literal", "cachet", "minic2d", "none")

_NUMBER = re.compile(r"\+?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,16})?")
_UNWEIGHTED = re.compile(r"-1(\.0*)?")  # in Cachet's form: both literals have weight 1
_FLOAT_DIGITS = 17  # significant digits that identify a float64
_MAX_LOG_ODDS = 1e15  # larger values are taken for mistakes; a weight of 0 states evidence

Number = float | decimal.Decimal


class Fail(Protocol):
    """Raises FormulaError for a line of the file being read."""

    def __call__(self, what: str, *, expected: str, line: int) -> NoReturn: ...


@dataclass
class WeightLines:
    """The weight lines of a file, before the dialect is chosen."""

    mcc: list[tuple[int, int, str]] = field(default_factory=list)  # line, literal, weight
    w: list[tuple[int, int, str]] = field(default_factory=list)
    minic2d: list[tuple[int, list[str]]] = field(default_factory=list)
    wcnf: bool = False  # the header says `p wcnf`
    closed: bool = False  # some `w` line ends in 0
    asked: bool = False  # `c t wmc`: weighted even if no weight is given

    def largest(self) -> int:
        """Largest variable that a weight names."""
        named = [abs(literal) for _, literal, _ in self.mcc + self.w]
        return max([0, *named, *(len(tokens) // 2 for _, tokens in self.minic2d)])


def choose(lines: WeightLines, dialect: str) -> tuple[str | None, list[str]]:
    """The dialect to read, with notes if another one would have been possible.

    The newer form wins: `c p weight` over `w`, and `w` over `c weights`.
    `w` lines are Cachet's if all are `w V P` with V > 0, once each, P in [0, 1] or -1, and neither
    `p wcnf` nor a closing 0 says otherwise; a -1 makes them Cachet's in any case.
    """
    counts = {"mcc": len(lines.mcc), "w": len(lines.w), "minic2d": len(lines.minic2d)}
    if dialect == "auto":
        form = next((name for name, count in counts.items() if count), None)
        taken = _form_of_w(lines) if form == "w" else form
    else:
        form = {"literal": "w", "cachet": "w", "none": None}.get(dialect, dialect)
        taken = dialect if form and counts[form] else None
    shown = {"mcc": "`c p weight`", "w": "`w`", "minic2d": "`c weights`"}
    notes = [
        f"{count} {shown[name]} line{'s'[: count > 1]} ignored"
        + (f": weights are read as dialect {taken!r}" if taken else f": dialect is {dialect!r}")
        for name, count in counts.items()
        if count and name != form
    ]
    if form == "w" and taken and dialect == "auto":
        notes.append(f"`w` lines read as dialect {taken!r}")
    return taken, notes


def _form_of_w(lines: WeightLines) -> str:
    if any(_UNWEIGHTED.fullmatch(token) for _, _, token in lines.w):
        return "cachet"
    once = len({literal for _, literal, _ in lines.w}) == len(lines.w)
    plain = all(literal > 0 and _at_most_one(token) for _, literal, token in lines.w)
    return "cachet" if once and plain and not lines.wcnf and not lines.closed else "literal"


def _at_most_one(token: str) -> bool:
    number = parse_number(token)
    return number is not None and number <= 1


def to_theta(
    lines: WeightLines, dialect: str | None, n_vars: int, fail: Fail
) -> tuple[np.ndarray | None, list[str]]:
    """Log-odds (n_vars,), or None if the file is unweighted; and notes."""
    if dialect is None:
        return (np.zeros(n_vars) if lines.asked else None), []
    weights: dict[int, tuple[int, Number]] = {}  # literal -> line, weight
    for line, literal, token in _literal_weights(lines, dialect, fail):
        number = parse_number(token)
        if number is None:
            fail(
                f"weight {token[:40]!r} of literal {literal}",
                expected="a non-negative number or fraction",
                line=line,
            )
        if literal in weights and weights[literal][1] != number:
            fail(f"second weight for literal {literal}", expected="only one", line=line)
        weights[literal] = line, number
    theta = np.zeros(n_vars)
    lone = 0
    for literal, (line, weight) in weights.items():
        v = abs(literal)
        if literal < 0 and v in weights:
            continue  # the positive literal handles both
        if -literal in weights:
            line, other = max(line, weights[-literal][0]), weights[-literal][1]
        else:
            lone += 1
            other = complement(weight) if weight <= 1 else 1.0
        if weight == 0 and other == 0:
            fail(f"both weights of variable {v} are 0", expected="one above 0", line=line)
        odds = log_ratio(weight, other) if literal > 0 else log_ratio(other, weight)
        if _MAX_LOG_ODDS < abs(odds) < math.inf:
            fail(f"weights of variable {v} too far apart", expected="0 for evidence", line=line)
        theta[v - 1] = odds
    if not lone or dialect == "cachet":
        return theta, []
    what = "1 variable has" if lone == 1 else f"{lone} variables have"
    return theta, [f"{what} a weight w for one literal only: the other gets 1 - w (1 if w > 1)"]


def _literal_weights(
    lines: WeightLines, dialect: str, fail: Fail
) -> Iterator[tuple[int, int, str]]:
    if dialect == "mcc":
        yield from lines.mcc
    elif dialect == "literal":
        yield from lines.w
    elif dialect == "cachet":
        for line, literal, token in lines.w:
            if literal < 0:
                fail(f"weight of literal {literal} in Cachet's form", expected="`w V P`", line=line)
            if _UNWEIGHTED.fullmatch(token):
                yield line, literal, "1"
                yield line, -literal, "1"
            elif not _at_most_one(token):
                fail(f"probability {token[:40]!r}", expected="a number in 0..1, or -1", line=line)
            else:
                yield line, literal, token
    else:
        for line, tokens in lines.minic2d:
            if len(tokens) % 2:
                fail(f"{len(tokens)} weights", expected="two for each variable", line=line)
            for i, token in enumerate(tokens):
                yield line, (i // 2 + 1) * (-1 if i % 2 else 1), token


# --- numbers --------------------------------------------------------------------------------------


def parse_number(token: str) -> Number | None:
    """A non-negative decimal or fraction; None if the token is neither.

    A float if float64 is enough, else (more than 17 digits, or out of range) a Decimal.
    """
    max_characters = 1000  # of one weight
    if len(token) > max_characters:
        return None
    above, slash, below = token.partition("/")
    numerator = _decimal(above)
    if not slash or numerator is None:
        return numerator
    denominator = _decimal(below)
    if not denominator:  # no number, or zero
        return None
    if isinstance(numerator, float) and isinstance(denominator, float):
        ratio = numerator / denominator
        if 0 < ratio < math.inf or numerator == 0:
            return ratio
    return _context(len(token)).divide(decimal.Decimal(numerator), decimal.Decimal(denominator))


def _decimal(token: str) -> Number | None:
    match = _NUMBER.fullmatch(token)
    if match is None:
        return None
    digits = match[1].replace(".", "").lstrip("0")
    value = float(token)
    if len(digits) <= _FLOAT_DIGITS and (0 < value < math.inf or not digits):
        return value
    return _context(len(token)).create_decimal(token) if digits else 0.0


def _context(digits: int) -> decimal.Context:
    """Arithmetic with this many digits, and never fewer than a float64 has."""
    return decimal.Context(
        prec=max(digits, _FLOAT_DIGITS) + 5, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX, traps=[]
    )


def complement(weight: Number) -> Number:
    """1 - weight."""
    if isinstance(weight, float):
        return 1.0 - weight
    return _context(_digits(weight)).subtract(decimal.Decimal(1), weight)


def _digits(number: decimal.Decimal) -> int:
    return len(number.as_tuple().digits)


def log_ratio(above: Number, below: Number) -> float:
    """log above - log below; not both zero."""
    if above < below:
        return -log_ratio(below, above)
    if below == 0:
        return math.inf
    if isinstance(above, float) and isinstance(below, float):
        if above <= 2 * below:  # here above - below is exact, and nothing cancels
            return math.log1p((above - below) / below)
        return math.log(above) - math.log(below)
    a, b = decimal.Decimal(above), decimal.Decimal(below)
    context = _context(max(_digits(a), _digits(b)))
    return float(context.ln(context.divide(a, b)))


def to_weights(theta: float) -> tuple[str, str]:
    """Decimal strings (w(v), w(-v)) that `log_ratio` reads back as exactly this theta."""
    if _MAX_LOG_ODDS < abs(theta) < math.inf:
        raise FormulaError(f"theta {theta!r} has no weight", expected="at most 1e15, or inf")
    larger, smaller = _pair(abs(theta))
    return (larger, smaller) if theta >= 0 else (smaller, larger)


def _pair(t: float) -> tuple[str, str]:
    """(larger, smaller) with log larger - log smaller = t >= 0.

    The larger is 1 or a float slightly below 1. Ratios of floats lie more densely than floats, so
    after about 1/t attempts one of them gives t exactly. If that takes too long (t near 0), or a
    float is too coarse (t above 700), the smaller gets as many digits as needed.
    """
    max_attempts = 50  # pairs of floats that are tried before more digits are written
    if t == 0 or t == math.inf:
        return "1", "0" if t else "1"
    ratio = math.exp(-t)
    larger = 1.0
    for _ in range(max_attempts if ratio > 1e-300 else 0):
        smaller = larger * ratio
        if smaller < larger and log_ratio(larger, smaller) == t:
            return f"{larger:.17g}", f"{smaller:.17g}"
        larger = math.nextafter(larger, 0.0)
    exact = decimal.Decimal(t)
    return "1", str(_context(_FLOAT_DIGITS + max(0, -exact.adjusted())).exp(-exact))
