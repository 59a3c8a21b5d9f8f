"""The protocol of Verilator's runtime: commands in, replies out, one randomize() after the other.

Commands that only state something are kept as text. A question is answered from that text: a known
text costs one look-up. What is asked behind the first values, to spread them, is recognised
(`texts.py`) and not obeyed: each (get-value ...) is a fresh draw of the user's own constraints, and
the random bits of these queries are its seed. Anything else is answered truthfully by a session.

The seed: a digest that takes in every diversity query of the process. So the same simulation gives
the same values, and another seed of the simulator gives others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

from nelson.errors import FormulaError
from nelson.space.smt.session import Session
from nelson.verilator import texts
from nelson.verilator.problems import Instance, Problems


@dataclass
class Level:
    """What (push) opens: text that states something, and what spreads the rows."""

    text: list[bytes] = field(default_factory=list)
    bits: int = 0  # equations over random bits
    given: set[bytes] = field(default_factory=set)  # rows that are excluded, as parts of replies


class Conversation:
    """Replies to what Verilator writes."""

    def __init__(self) -> None:
        self.is_over = False
        self._problems = Problems()
        self._buffer = b""
        self._digest = b"nelson"
        self._counts: dict[str, int] = {}
        self._begin()

    def _begin(self) -> None:
        self._levels = [Level()]
        self._instance: Instance | None = None  # of the text so far; None: not looked up yet
        self._has_values = False  # were values of this instance asked for?
        self._pinned = False
        self._used: dict[str, set[int]] = {}  # values that cyclic variables have had
        self._cyclic: list[str] = []
        self._last = b""
        self._exact = False  # are the rows those of an exact law?
        self._session: Session | None = None

    # --- text -------------------------------------------------------------------------------------

    def reply(self, piece: bytes) -> bytes:
        """The replies that this piece of text makes possible."""
        text = self._buffer + piece if self._buffer else piece
        out: list[bytes] = []
        at = 0
        while not self.is_over and (question := texts.QUESTION.search(text, at)):
            self._state(text[at : question.start()])
            out.append(self._answer(question[0]))
            at = question.end()
        self._buffer = text[at:] if not text[at:].isspace() else b""
        if self._buffer and self._buffer.lstrip()[:1] not in (b"(", b";"):
            out.append(self._truthful(self._buffer))
            self._buffer = b""
        return b"".join(out)

    def finish(self) -> bytes:
        """The replies at the end of the text."""
        if not self._buffer.strip():
            return b""
        session = self._replayed()
        return (session.reply(self._buffer.decode(errors="replace")) + session.finish()).encode()

    def summary(self) -> str:
        """One line: how many rows were drawn, by guarantee."""
        if not self._counts:
            return ""
        shown = ", ".join(f"{n:,} {name}" for name, n in sorted(self._counts.items()))
        return f"nelson smt2: values given to Verilator, by guarantee: {shown}\n"

    # --- statements -------------------------------------------------------------------------------

    def _state(self, text: bytes) -> None:
        if not text or text.isspace():
            return
        if self._has_values and texts.PINS.fullmatch(text):
            self._pinned = True
            self._mix(text)
            return
        if self._has_values and self._last and self._excludes_last(text):
            return
        begin = 0
        for level in texts.LEVELS.finditer(text):
            self._stated(text[begin : level.start()])
            begin = level.end()
            for _ in range(int(level[2] or 1)):
                if level[1] == b"push":
                    self._levels.append(Level())
                elif len(self._levels) > 1 and self._levels.pop().text:
                    self._instance = self._session = None
        self._stated(text[begin:])

    def _stated(self, text: bytes) -> None:
        if text and not text.isspace():
            if self._has_values and texts.PARITIES.fullmatch(text):
                self._levels[-1].bits += texts.hash_bits(text)
                self._mix(text)
                return
            self._levels[-1].text.append(text.strip())
            self._instance = self._session = None

    def _excludes_last(self, text: bytes) -> bool:
        """Is this (assert (not (and (= x value) ...))) of the values that were given last?"""
        pairs = set(texts.pairs(text))
        if not pairs or not self._exact or pairs != set(texts.pairs_of_reply(self._last)):
            return False
        self._levels[-1].given.add(self._last)
        return True

    @property
    def _given(self) -> set[bytes]:
        """The rows that are excluded now."""
        return set().union(*(level.given for level in self._levels))

    def _mix(self, text: bytes) -> None:
        self._digest = blake2b(text.strip(), key=self._digest, digest_size=16).digest()

    # --- questions --------------------------------------------------------------------------------

    def _answer(self, question: bytes) -> bytes:
        if question == b"(reset)":
            self._begin()
            return b""
        if question == b"(check-sat)":
            return self._check_sat()
        if question.startswith(b"(get-value") and self._instance is not None:
            if self._instance.satisfiable:
                try:
                    return self._values(question)
                except FormulaError:
                    return self._truthful(question)
        elif self._pinned and texts.ASSUMED.fullmatch(question):
            return b"sat\n"  # pins are not obeyed, so all of them hold
        elif question == b"(exit)":
            self.is_over = True
            return b""
        return self._truthful(question)

    def _check_sat(self) -> bytes:
        if self._instance is None:
            text = b"\n".join(part for level in self._levels for part in level.text)
            self._used = texts.exclusions(text)
            if self._used:
                text = texts.EXCLUSION.sub(b"", text).strip()
            template, self._instance = self._problems.find(text, texts.divided)
            fields = self._instance.constraints.space.fields
            for name in self._used:
                if name not in template.cyclic and name in fields:
                    template.cyclic.append(name)
            self._cyclic = template.cyclic
            self._has_values = False
            if errors := self._instance.constraints.errors:
                return errors.encode() + self._sat()
        return self._sat()

    def _sat(self) -> bytes:
        assert self._instance is not None
        if given := self._given:
            # A cell that m random equations cut out holds one of 2^m rows, rounded.
            cell = round(self._instance.count / 2 ** sum(level.bits for level in self._levels))
            return b"sat\n" if len(given) < cell else b"unsat\n"
        possible = self._instance.satisfiable
        if possible and self._used:
            possible = self._instance.cycle(self._cyclic, self._used, 0) is not None
        return b"sat\n" if possible else b"unsat\n"

    def _values(self, question: bytes) -> bytes:
        assert self._instance is not None
        given = self._given
        while True:
            self._mix(b"row")
            seed = int.from_bytes(self._digest[:7], "little")
            fixed = self._instance.cycle(self._cyclic, self._used, seed) if self._cyclic else ()
            asked = self._instance.question(question, fixed or ())
            self._last = asked.draw(seed)
            if not given or self._last not in given:
                break
        self._has_values, self._exact = True, asked.exact
        self._counts[asked.guarantee] = self._counts.get(asked.guarantee, 0) + 1
        return self._last

    # --- the truth --------------------------------------------------------------------------------

    def _replayed(self) -> Session:
        """A session that has heard what was stated, and is ready to be asked."""
        if self._session is None:
            self._session = Session()
            for k, level in enumerate(self._levels):
                opened = b"(push 1)" if k else b""
                self._session.reply((opened + b"\n".join(level.text)).decode(errors="replace"))
            if self._instance is not None:
                self._session.reply("(check-sat)")
        return self._session

    def _truthful(self, question: bytes) -> bytes:
        return self._replayed().reply(question.decode(errors="replace") + "\n").encode()
