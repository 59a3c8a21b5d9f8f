"""Constraints of one `randomize()`: their truth, and rows of their exact law.

A *template* is the text of the constraints without its literals. At first all literals are
constants. As soon as a literal has had two values it becomes an input, a field of its own, and the
template one circuit with inputs: another value is another condition on it, and needs no compiler.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import NelsonError, Unsatisfiable
from nelson.formula.memo import Recent
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan
from nelson.space.clauses.decode import columns
from nelson.space.language.evaluate import evaluate
from nelson.space.language.vectors import Bits
from nelson.space.law import chosen_method
from nelson.space.smt.reader import read, written
from nelson.space.smt.session import Session
from nelson.verilator.texts import width_and_value

#: Effort of compiling one template, in units of a call's (`Budget.effort`): about two seconds.
EFFORT = 0.2
#: Templates of one text with other inputs, and conditions of one template, that are kept.
KEPT = 256


class Constraints:
    """The assertions of one text, in which some literals are inputs."""

    def __init__(self, text: str, inputs: dict[str, int]) -> None:
        """inputs: name -> width."""
        self.session = Session()
        declared = "".join(f"(declare-const {n} (_ BitVec {w}))" for n, w in inputs.items())
        self.errors = self.session.reply(declared + text)
        self.inputs = list(inputs)
        self._stated = False
        self._compiled: bool | None = None

    @property
    def space(self) -> Any:
        return self.session.script.space

    def term(self, given: Any) -> Any:
        """A term that values are asked of. An element of an array may be new."""
        script = self.session.script
        before = len(script.space.fields)
        found = script.reader.read(given)
        if len(script.space.fields) > before:
            self._compiled = None
        return found

    def is_exact(self) -> bool:
        """Have rows an exact law: one circuit, whose solutions are the rows?"""
        if self._compiled is None:
            self._compiled = self._compile()
        return self._compiled

    def _compile(self) -> bool:
        script, space = self.session.script, self.space
        if script.hidden:
            return False
        if not self._stated:
            self._stated = True
            for rule, _ in script.asserted:
                space.encoding.prepare(rule)
                space.require(rule)
        formula = space.formula
        try:
            return chosen_method(formula, Budget(effort=EFFORT)) != "auto" or _small(formula)
        except Unsatisfiable:
            return True

    def evidence(self, values: dict[str, int]) -> list[int]:
        """Literals of the formula that say which values the inputs have."""
        space = self.space
        return [
            x
            for name, value in values.items()
            for x in space.encoding.code_literals(space.fields[name], value)
        ]

    def holds(self, values: dict[str, int]) -> bool:
        """Is there a row with these inputs?"""
        shown = "".join(
            f"(= {n} (_ bv{v} {self.space.fields[n].width}))" for n, v in values.items()
        )
        return self.session.reply(f"(check-sat-assuming ({shown}))") == "sat\n"


def _small(formula: Any) -> bool:
    return formula.n_vars <= 16


class Instance:
    """Constraints with given inputs."""

    def __init__(self, constraints: Constraints, values: dict[str, int]) -> None:
        self.constraints, self.values = constraints, values
        self.errors = constraints.errors
        self.satisfiable = constraints.holds(values)
        self._questions: dict[bytes, Question] = {}

    def question(self, asked: bytes) -> Question:
        """A list of terms, as in (get-value (x y))."""
        if (known := self._questions.get(asked)) is None:
            if len(self._questions) >= 16:
                self._questions.clear()
            known = self._questions[asked] = Question(self, asked)
        return known


class Question:
    """Replies to one get-value of one instance: rows in blocks, drawn ahead.

    All terms of the problem asked: rows of the uniform law. Only some of the declared variables
    asked, as in a phase of `solve ... before`: uniform over the values that these can have.
    """

    def __init__(self, instance: Instance, asked: bytes) -> None:
        self._constraints = constraints = instance.constraints
        (command,) = read(asked.decode())
        shown = [written(each) for each in command[1]]
        self.terms = [constraints.term(each) for each in command[1]]
        self.parts = [f"({each} " for each in shown]
        self.instance = instance
        self.exact = constraints.is_exact()
        script = constraints.session.script
        fields = [name for name in constraints.space.fields if name not in constraints.inputs]
        self.fields = [t.name for t in self.terms if isinstance(t, Bits) and t.op == "bits"]
        self.fields += [t.name for t in self.terms if t.op == "field"]
        self.is_partial = len(set(self.fields)) == len(self.terms) < len(fields)
        self.waiting: list[bytes] = []  # replies that were drawn and not given yet
        self._size = 16
        self._plan: Plan | None = None
        self._script = script

    @property
    def guarantee(self) -> str:
        return "exact" if self.exact else "heuristic"

    def draw(self, seed: int) -> bytes:
        """One reply. Rows are drawn in blocks; `seed` chooses among those that wait.

        The rows of a block are independent, and the choice does not look at them, so each reply
        has the law, however few seeds there are.
        """
        if not self.waiting:
            self.waiting = self._block(seed)
        rows = self.waiting
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
        space = self._constraints.space
        if self._plan is None:
            self._plan = self._planned()
        samples = self._plan.sample(self._size, seed=seed)
        self._size = min(4 * self._size, 4096)
        names = self.fields if self.is_partial else list(space.fields)
        return self._replies(columns(space, samples, names), len(samples))

    def _planned(self) -> Plan:
        space = self._constraints.space
        formula = space.formula
        given = self._constraints.evidence(self.instance.values)
        if self.is_partial:
            project = [v for name in self.fields for v in space.encoding.of_field[name]]
            options = Options(given=given or None, project=project, project_law="solutions")
        else:
            method = chosen_method(formula, Budget(effort=EFFORT))
            options = Options(
                given=given or None, project=formula.projection, determined=True, method=method
            )
        plan = Plan(formula, None, options)
        if plan.guarantee != "exact":
            raise NelsonError(f"no exact law: {plan.why}")
        return plan

    def _replies(self, codes: dict[str, np.ndarray], n: int) -> list[bytes]:
        """The texts of the replies."""
        shown = []
        for part, term in zip(self.parts, self.terms, strict=True):
            values = np.broadcast_to(evaluate(term, codes), n).tolist()
            shown.append([part + each + ")" for each in map(_printer(term), values)])
        return [f"({' '.join(row)})\n".encode() for row in zip(*shown, strict=True)]

    def _solved(self, seed: int) -> bytes:
        """A solver's solution, from a random start: nothing is known of its law."""
        session = self._constraints.session
        chosen = random.Random(seed)
        session.prefer(lambda: chosen.random() < 0.5)
        self._constraints.holds(self.instance.values)
        asked = " ".join(part[1:] for part in self.parts)
        return session.reply(f"(get-value ({asked}))").encode()


def _printer(term: Any) -> Callable[[Any], str]:
    if not isinstance(term, Bits):
        return lambda value: "true" if value else "false"
    if term.width % 4 == 0:
        return f"#x{{:0{term.width // 4}x}}".format
    return f"#b{{:0{term.width}b}}".format


class Template:
    """One skeleton: pieces of text with places for literals."""

    def __init__(self, pieces: tuple[bytes, ...], literals: tuple[bytes, ...]) -> None:
        self._pieces, self._first = pieces, literals
        self._inputs: frozenset[int] = frozenset()  # places of literals that have varied
        self._constraints: dict[tuple[Any, ...], Constraints] = {}
        self._instances: Recent[tuple[bytes, ...], Instance] = Recent(KEPT)

    def instance(self, literals: tuple[bytes, ...]) -> Instance:
        return self._instances.once(literals, lambda: self._made(literals))

    def _made(self, literals: tuple[bytes, ...]) -> Instance:
        varied = {k for k, (a, b) in enumerate(zip(self._first, literals, strict=True)) if a != b}
        if not varied <= self._inputs:
            self._inputs |= varied
        key = (self._inputs,)
        if key not in self._constraints:
            self._constraints.clear()
            self._constraints[key] = self._with_inputs(literals)
        values = {f"!{k}": width_and_value(literals[k])[1] for k in sorted(self._inputs)}
        constraints = self._constraints[key]
        if self._inputs and not constraints.is_exact():
            alone = Constraints(self._text(literals, frozenset()), {})
            return Instance(alone, {})
        return Instance(constraints, values)

    def _with_inputs(self, literals: tuple[bytes, ...]) -> Constraints:
        inputs = {f"!{k}": width_and_value(literals[k])[0] for k in sorted(self._inputs)}
        return Constraints(self._text(literals, self._inputs), inputs)

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
        self._known: Recent[bytes, Instance] = Recent(4 * KEPT)

    def instance(self, text: bytes, divided: Callable[[bytes], Any]) -> Instance:
        """The problem that a text states."""
        return self._known.once(text, lambda: self._made(*divided(text)))

    def _made(self, pieces: tuple[bytes, ...], literals: tuple[bytes, ...]) -> Instance:
        widths = tuple(width_and_value(each)[0] for each in literals)
        template = self._templates.once((pieces, widths), lambda: Template(pieces, literals))
        return template.instance(literals)
