"""Constraints of one `randomize()`: their truth, and rows of their exact law.

A *template* is the text of the constraints without its literals. At first all literals are
constants. As soon as a literal has had two values it becomes an input, a field of its own, and the
template one circuit with inputs: another value is another condition on it, and needs no compiler.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import FormulaError, NelsonError, Unsatisfiable
from nelson.exact.compiled import compiled, not_worth_a_try
from nelson.exact.queries import count
from nelson.formula.memo import Recent
from nelson.policy import DEFAULT
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan
from nelson.sampling.samples import Samples
from nelson.space.clauses.decode import columns
from nelson.space.declaration import Declaration
from nelson.space.language.evaluate import evaluate
from nelson.space.language.vectors import Bits
from nelson.space.smt.reader import read, written
from nelson.space.smt.session import Session
from nelson.verilator.draws import BLOCK, CircuitRows
from nelson.verilator.texts import width_and_value

#: Effort for one template, in units of a call's (`Budget.effort`): about two seconds of compiling.
EFFORT = 0.2
#: Templates, and conditions of one template, that are kept.
KEPT = 256
#: Rows of a block for one condition of many, which may not come again.
FEW_ROWS = 8
#: A cyclic variable of more bits than this is drawn as often as other constraints let it.
MOST_CYCLIC_BITS = 10

#: Fields with given values.
Fixed = tuple[tuple[str, int], ...]


class Constraints:
    """The assertions of one text, in which some literals are inputs."""

    def __init__(self, text: str, inputs: dict[str, int]) -> None:
        """inputs: name -> width."""
        self.session = Session()
        declared = "".join(f"(declare-const {n} (_ BitVec {w}))" for n, w in inputs.items())
        self.errors = self.session.reply(declared + text)
        self.inputs = list(inputs)
        self.asked: bytes | None = None  # the last list of terms whose values were asked for
        self._lists: Recent[bytes, tuple[list[Any], list[str]]] = Recent(16)
        self._is_stated = False
        self._rows: CircuitRows | None = None
        self._is_compiled = False

    @property
    def space(self) -> Declaration:
        return self.session.script.space

    def terms(self, asked: bytes) -> tuple[list[Any], list[str]]:
        """The terms of (get-value (x y)), and their texts."""
        self.asked = asked
        return self._lists.once(asked, lambda: self._read(asked))

    def _read(self, asked: bytes) -> tuple[list[Any], list[str]]:
        script = self.session.script
        (command,) = read(asked.decode())
        if not command[1]:
            raise FormulaError("(get-value ()) without a term")
        before = len(script.space.fields)
        terms = [script.reader.read(each) for each in command[1]]
        if len(script.space.fields) > before:  # elements of arrays that no constraint has
            self._is_compiled = False
        return terms, [written(each) for each in command[1]]

    @property
    def rows(self) -> CircuitRows | None:
        """The circuit whose solutions are the rows; None if there is none within the effort."""
        if not self._is_compiled:
            self._is_compiled = True
            self._rows = self._compiled()
        return self._rows

    @property
    def has_law(self) -> bool:
        """Are rows the solutions of a formula? An element read at a hidden place is none."""
        return not self.session.script.hidden

    def _compiled(self) -> CircuitRows | None:
        if not self.has_law:
            return None
        self.state()
        formula = self.space.formula
        try:
            if not_worth_a_try(formula):
                return None
            circuit = compiled(formula, Budget(effort=EFFORT), effort=DEFAULT.space.compile_effort)
        except Unsatisfiable:
            return None
        return None if circuit is None else CircuitRows(formula, circuit, self.variables)

    @property
    def variables(self) -> list[int]:
        """The variables of the formula that are bits of fields, field by field."""
        return [v for name in self.space.fields for v in self.space.encoding.of_field[name]]

    def state(self) -> None:
        """Make the assertions rules of the space."""
        if not self._is_stated:
            self._is_stated = True
            for rule, _ in self.session.script.asserted:
                self.space.encoding.prepare(rule)
                self.space.require(rule)

    def evidence(self, values: dict[str, int]) -> list[int]:
        """Literals of the formula that say which values some fields have."""
        encoding, fields = self.space.encoding, self.space.fields
        return [
            x for name, value in values.items() for x in encoding.code_literals(fields[name], value)
        ]

    def holds(self, values: dict[str, int]) -> bool:
        """Is there a row with these values? A solver says so."""
        fields = self.space.fields
        shown = "".join(
            f"(= {written(n)} (_ bv{v} {max(fields[n].size - 1, 1).bit_length()}))"
            for n, v in values.items()
        )
        return self.session.reply(f"(check-sat-assuming ({shown}))") == "sat\n"


class Instance:
    """Constraints with given values of their inputs."""

    def __init__(self, constraints: Constraints, values: dict[str, int]) -> None:
        self.constraints, self.values = constraints, values
        self._questions: Recent[tuple[bytes, Fixed], Question] = Recent(2 * 2**MOST_CYCLIC_BITS)
        self._legal: Recent[tuple[str, Fixed], list[int]] = Recent(4 * KEPT)

    @cached_property
    def satisfiable(self) -> bool:
        """Is there a row? A row that can be drawn says so; else a solver."""
        asked = self.constraints.asked
        if self.values and asked is not None and self.constraints.rows is not None:
            return self.question(asked).is_possible
        return self.constraints.holds(self.values)

    @cached_property
    def count(self) -> int:
        """How many rows there are."""
        self.constraints.state()
        return count(self.constraints.space.formula, self.constraints.evidence(self.values))

    def question(self, asked: bytes, fixed: Fixed = ()) -> Question:
        """A list of terms, as in (get-value (x y)). fixed: further fields with given values."""
        values = self.values | dict(fixed)
        return self._questions.once(
            (asked, fixed), lambda: Question(self.constraints, values, asked)
        )

    # --- cyclic variables -------------------------------------------------------------------------

    def cycle(
        self,
        names: list[str],
        used: dict[str, set[int]],
        seed: int,
        fixed: Fixed = (),
    ) -> Fixed | None:
        """Values of the cyclic variables, each uniform over those it has not had; None: no more.

        They are chosen before all other variables, one after the other (IEEE 1800, 18.5.10 and
        18.4.2), among values that leave a row.
        """
        if not names:
            return fixed
        chosen = random.Random(seed)
        left = [v for v in self._values_of(names[0], fixed) if v not in used.get(names[0], ())]
        chosen.shuffle(left)
        for value in left:
            values = self.cycle(names[1:], used, seed, (*fixed, (names[0], value)))
            if values is not None:
                return values
        return None

    def _values_of(self, name: str, fixed: Fixed) -> list[int]:
        """The values that a variable has in some row."""
        given, every = self.values | dict(fixed), range(self.constraints.space.fields[name].size)
        return self._legal.once(
            (name, fixed),
            lambda: [v for v in every if self.constraints.holds(given | {name: v})],
        )


class Question:
    """Replies to one get-value under given values: rows in blocks, drawn ahead.

    All variables asked: rows of the uniform law. Only some of the declared variables asked, as in a
    phase of `solve ... before`: uniform over the values that these can have together.
    """

    def __init__(self, constraints: Constraints, values: dict[str, int], asked: bytes) -> None:
        self._constraints, self._values = constraints, values
        self._terms, self._shown = constraints.terms(asked)
        fields = [name for name in constraints.space.fields if name not in constraints.inputs]
        names = [t.name for t in self._terms if getattr(t, "op", "") in ("bits", "field")]
        self._names = list(dict.fromkeys(names))
        self._is_partial = len(self._names) == len(self._terms) < len(fields)
        self._waiting: list[bytes] = []  # replies that were drawn and not given yet
        self._size = FEW_ROWS if values else BLOCK
        self._plan: Plan | None = None
        self.exact = constraints.has_law

    @property
    def guarantee(self) -> str:
        return "exact" if self.exact else "heuristic"

    @property
    def is_possible(self) -> bool:
        """Is there a row?"""
        if not self._waiting:
            self._waiting = self._block(0)
        return bool(self._waiting)

    def draw(self, seed: int) -> bytes:
        """One reply. Rows are drawn in blocks; `seed` chooses among those that wait.

        The rows of a block are independent, and the choice does not look at them, so each reply
        has the law, however few seeds there are.
        """
        if not self._waiting:
            self._waiting = self._block(seed)
        rows = self._waiting
        at = seed % len(rows)
        rows[at], last = rows[-1], rows[at]
        rows.pop()
        return last

    def _block(self, seed: int) -> list[bytes]:
        if self.exact:
            try:
                return self._drawn(seed)
            except NelsonError:
                self.exact = False
        return [self._solved(seed)]

    def _drawn(self, seed: int) -> list[bytes]:
        size, self._size = self._size, BLOCK
        codes = self.codes(size, seed)
        return [] if codes is None else list(self._replies(codes, size))

    def codes(self, n: int, seed: int) -> dict[str, np.ndarray] | None:
        """Columns of n rows of the law; None if there is no row."""
        space, constraints = self._constraints.space, self._constraints
        rows = None if self._is_partial else constraints.rows
        samples: Samples | None
        if rows is not None:
            samples = rows.samples(constraints.evidence(self._values), n, seed)
        else:
            self._plan = self._plan or self._planned()
            samples = self._plan.sample(n, seed=seed)
        names = self._names if self._is_partial else list(space.fields)
        return None if samples is None else columns(space, samples, names)

    def _planned(self) -> Plan:
        constraints, space = self._constraints, self._constraints.space
        constraints.state()
        formula = space.formula
        given = constraints.evidence(self._values) or None
        if self._is_partial:
            project = [v for name in self._names for v in space.encoding.of_field[name]]
            options = Options(given=given, project=project, project_law="solutions")
        else:
            options = Options(given=given, project=formula.projection, determined=True)
        plan = Plan(formula, None, options)
        plan.decide(Budget(effort=EFFORT))
        if plan.guarantee != "exact":
            raise NelsonError(f"no exact law: {plan.why}")
        return plan

    def _replies(self, codes: dict[str, np.ndarray], n: int) -> Iterator[bytes]:
        """The texts of the replies."""
        parts = []
        for shown, term in zip(self._shown, self._terms, strict=True):
            values = np.broadcast_to(evaluate(term, codes), n).tolist()
            if not isinstance(term, Bits):
                values = [str(value).lower() for value in values]
            parts.append(map(f"({shown} {_form(term)})".format, values))
        for row in zip(*parts, strict=True):
            yield f"({' '.join(row)})\n".encode()

    def _solved(self, seed: int) -> bytes:
        """A solver's solution, from a random start: nothing is known of its law."""
        session = self._constraints.session
        chosen = random.Random(seed)
        session.prefer(lambda: chosen.random() < 0.5)
        self._constraints.holds(self._values)
        return session.reply(f"(get-value ({' '.join(self._shown)}))").encode()


def _form(term: Any) -> str:
    """The value of a term, as a field of `str.format`."""
    if not isinstance(term, Bits):
        return "{!s}"
    if term.width % 4 == 0:
        return f"#x{{:0{term.width // 4}x}}"
    return f"#b{{:0{term.width}b}}"


class Template:
    """One skeleton: pieces of text with places for literals."""

    def __init__(self, pieces: tuple[bytes, ...], literals: tuple[bytes, ...]) -> None:
        self._pieces, self._first = pieces, literals
        self._inputs: frozenset[int] = frozenset()  # places of literals that have varied
        self._constraints: Constraints | None = None
        self._instances: Recent[tuple[bytes, ...], Instance] = Recent(KEPT)
        self.cyclic: list[str] = []  # variables whose values were excluded: randc

    def instance(self, literals: tuple[bytes, ...]) -> Instance:
        return self._instances.once(literals, lambda: self._made(literals))

    def _made(self, literals: tuple[bytes, ...]) -> Instance:
        varied = {k for k, (a, b) in enumerate(zip(self._first, literals, strict=True)) if a != b}
        if self._constraints is None or not varied <= self._inputs:
            self._inputs |= varied
            widths = {f"!{k}": width_and_value(literals[k])[0] for k in sorted(self._inputs)}
            self._constraints = Constraints(self._text(literals, self._inputs), widths)
        constraints = self._constraints
        if self._inputs and constraints.rows is None:
            return Instance(Constraints(self._text(literals, frozenset()), {}), {})
        values = {f"!{k}": width_and_value(literals[k])[1] for k in sorted(self._inputs)}
        return Instance(constraints, values)

    def _text(self, literals: tuple[bytes, ...], inputs: frozenset[int]) -> str:
        shown = [f"!{k}" if k in inputs else each.decode() for k, each in enumerate(literals)]
        out = [self._pieces[0].decode()]
        for literal, piece in zip(shown, self._pieces[1:], strict=True):
            out += [literal, piece.decode()]
        return "".join(out)


class Problems:
    """All templates of a process, the most recent ones."""

    def __init__(self) -> None:
        self._templates: Recent[tuple[Any, ...], Template] = Recent(KEPT)
        self._known: Recent[bytes, tuple[Template, Instance]] = Recent(KEPT)

    def find(self, text: bytes, divided: Callable[[bytes], Any]) -> tuple[Template, Instance]:
        """The problem that a text states, and its template."""
        return self._known.once(text, lambda: self._made(*divided(text)))

    def _made(
        self, pieces: tuple[bytes, ...], literals: tuple[bytes, ...]
    ) -> tuple[Template, Instance]:
        widths = tuple(width_and_value(each)[0] for each in literals)
        template = self._templates.once((pieces, widths), lambda: Template(pieces, literals))
        return template, template.instance(literals)
