"""What the runtime of Verilator writes, recognised by its text.

A *literal* is a value in a constraint: a constant of the source, or the state of a variable that is
not random. Two texts that differ in literals alone have the same *skeleton*.

Diversity queries: Verilator wants a solver's answers spread, and asserts random equations after it
has read the values of a first solution. Three generations of them are known:

    parities    (assert (= #b1 (bvxor ((_ extract 3 3) x) ...)))        Verilator 5.48
    pins        (declare-fun a0 () Bool) (assert (= a0 (= ((_ extract 0 0) x) #b1))) ...
                (check-sat-assuming (a0 a1 ...))                        June to August 2026
    cells       parities within (push), and rows that are excluded      UniGen2, later
"""

from __future__ import annotations

import re

_BIT = rb"\(\(_ extract \d+ \d+\) (?:[^()\s|]+|\|[^|]*\||\(select [^()]+\))\)"
_XOR = rb"(?:\(bvxor(?: " + _BIT + rb")+\)|" + _BIT + rb")"
_PARITY = rb"\(assert \(= #b[01]+ +(?:\(concat(?: +" + _XOR + rb")+\)|" + _XOR + rb")\)\)"
#: One or more parities, and nothing else.
PARITIES = re.compile(rb"\s*(?:" + _PARITY + rb"\s*)+")
_HASH_BITS = re.compile(rb"\(assert \(= #b([01]+)")

_PIN = rb"\(declare-fun (a\d+) \(\) Bool\)\s*\(assert \(= a\d+ \(= *" + _BIT + rb" #b[01]\)\)\)\s*"
#: Assumption literals tied to bits.
PINS = re.compile(rb"\s*(?:" + _PIN + rb")+")
#: The assumptions: these literals and nothing else.
ASSUMED = re.compile(rb"\(check-sat-assuming \((?: *a\d+)*\s*\)\)")

#: What wants a reply, or clears everything.
QUESTION = re.compile(
    rb"\((?:check-sat|reset|exit|get-unsat-core|get-unsat-assumptions|get-model|get-assignment"
    rb"|check-sat-assuming\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
    rb"|(?:get-info|get-option|echo)\s[^()]*"
    rb"|get-value\s*\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\))\s*\)"
)
LEVELS = re.compile(rb"\((push|pop)(?:\s+(\d+))?\s*\)")

# Indices of arrays are no values: they say which element is meant.
_LITERAL = re.compile(
    rb"(\(select (?:[^()\s|]+|\|[^|]*\|) #x[0-9a-fA-F]+\)|#b1 |\(ite b #b1 #b0\))"
    rb"|(#x[0-9a-fA-F]+|#b[01]+|\(_ bv\d+ \d+\))"
)
#: (assert (not (= c (_ bv5 3)))): a value that the cyclic variable c has had.
EXCLUSION = re.compile(rb"\(assert \(not \(= ([^()\s|]+|\|[^|]*\|) \(_ bv(\d+) (\d+)\)\)\)\)\s*")


def hash_bits(parities: bytes) -> int:
    """How many equations over single bits these are."""
    return sum(len(bits) for bits in _HASH_BITS.findall(parities))


def divided(text: bytes) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """(pieces between the literals, literals): one piece more than literals."""
    pieces: list[bytes] = []
    literals: list[bytes] = []
    begin = 0
    for match in _LITERAL.finditer(text):
        if match[2] is not None:
            pieces.append(text[begin : match.start()])
            literals.append(match[2])
            begin = match.end()
    return (*pieces, text[begin:]), tuple(literals)


def width_and_value(literal: bytes) -> tuple[int, int]:
    if literal[:2] == b"#x":
        return 4 * (len(literal) - 2), int(literal[2:], 16)
    if literal[:2] == b"#b":
        return len(literal) - 2, int(literal[2:], 2)
    _, value, width = literal[:-1].split()
    return int(width), int(value[2:])


_PAIR = re.compile(
    rb"\(= (\(select [^()]+\)|[^()\s|]+|\|[^|]*\|) (#x[0-9a-fA-F]+|#b[01]+)\)"
    rb"|\(distinct (\(select [^()]+\)|[^()\s|]+|\|[^|]*\|) (#x[0-9a-fA-F]+|#b[01]+)\)"
)
_BLOCK = re.compile(rb"\s*\(assert \((?:not \(and|or|not)\b")
_REPLY = re.compile(rb"\((\(select [^()]+\)|[^()\s|]+|\|[^|]*\|) (#x[0-9a-f]+|#b[01]+)\)")


def pairs(text: bytes) -> list[tuple[bytes, int]]:
    """(variable, value) of an assertion that these do not hold together; [] if it is another."""
    if not _BLOCK.match(text) or text.count(b"(assert") != 1:
        return []
    return [(a or c, width_and_value(b or d)[1]) for a, b, c, d in _PAIR.findall(text)]


def pairs_of_reply(reply: bytes) -> list[tuple[bytes, int]]:
    """(variable, value) of a reply to get-value."""
    return [(name, width_and_value(value)[1]) for name, value in _REPLY.findall(reply)]


def exclusions(text: bytes) -> dict[str, set[int]]:
    """The values that cyclic variables have had, by name."""
    values: dict[str, set[int]] = {}
    for name, value, _ in EXCLUSION.findall(text):
        values.setdefault(name.decode().strip("|"), set()).add(int(value))
    return values
