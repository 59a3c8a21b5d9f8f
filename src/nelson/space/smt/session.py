"""A session of SMT-LIB2: commands in, replies out, as the standard (version 2.6) has them.

    session = Session()
    session.reply("(declare-const x (_ BitVec 8)) (assert (bvult x #x03)) (check-sat)")   # "sat\\n"

What is wrong, or unknown here, gets `(error "...")` or `unsupported`, and the session goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nelson._version import __version__
from nelson.errors import NelsonError
from nelson.space.language.evaluate import evaluate
from nelson.space.language.expressions import Rule
from nelson.space.smt.reader import CommandReader, Misread, Quoted, written
from nelson.space.smt.script import Script, index_text
from nelson.space.smt.solver import IncrementalSolver
from nelson.space.smt.terms import ArrayTerm, Macro, numeral, refuse, sort_of, unsupported

_LOGICS = {"QF_BV", "QF_ABV", "QF_UF", "QF_UFBV", "QF_AUFBV", "ALL"}
#: Options with their values at the start.
_OPTIONS = {
    **dict.fromkeys((":print-success", ":produce-assertions", ":global-declarations"), "false"),
    **dict.fromkeys((":produce-unsat-cores", ":produce-unsat-assumptions"), "false"),
    **dict.fromkeys((":produce-models", ":produce-assignments", ":interactive-mode"), "true"),
    ":produce-proofs": "false",
    ":random-seed": "0",
    ":verbosity": "0",
    ":reproducible-resource-limit": "0",
    ":regular-output-channel": "stdout",
    ":diagnostic-output-channel": "stderr",
}
_INFO = {
    ":name": '"nelson"',
    ":version": f'"{__version__}"',
    ":authors": '"the nelson authors"',
    ":error-behavior": "continued-execution",
}


class Session:
    """The state of one conversation. `reply` takes text in pieces; `is_over` after (exit)."""

    def __init__(self) -> None:
        self.is_over = False
        self._reader = CommandReader()
        self._options = dict(_OPTIONS)
        self._begin()

    def _begin(self) -> None:
        self.script = Script()
        self._solver: IncrementalSolver | None = None
        self._status = ""  # of the last check-sat; "" after any change
        self._core: list[str] = []  # names of assertions
        self._failed: list[Any] = []  # assumptions

    # --- text -------------------------------------------------------------------------------------

    def reply(self, piece: str) -> str:
        """The replies to the commands that this piece of text completes."""
        try:
            return "".join(map(self._line, self._reader.feed(piece)))
        except MemoryError as error:
            return self._error(str(error))

    def finish(self) -> str:
        """The replies at the end of the text."""
        return "".join(map(self._line, self._reader.finish()))

    def _line(self, command: Any) -> str:
        if self.is_over:
            return ""
        reply = self.execute(command)
        return "" if reply is None else reply + "\n"

    def execute(self, command: Any) -> str | None:
        """The reply to one command; None if it has none."""
        if isinstance(command, Misread):
            return self._error(command)
        try:
            if not command or not isinstance(command[0], str):
                refuse(f"{written(command)[:80]} is no command")
            name, arguments = command[0], command[1:]
            if name not in _COMMANDS:
                return "unsupported"
            least, most, run = _COMMANDS[name]
            if not least <= len(arguments) <= most:
                refuse(f"({name}) with {len(arguments)} arguments")
            reply = run(self, *arguments)
        except NelsonError as error:
            return self._error(str(error))
        except RecursionError:
            return self._error("a term that is nested too deeply")
        if name in _CHANGES:
            self._status = ""
        if reply is None and self._options[":print-success"] == "true":
            return "success"
        return reply or None

    @staticmethod
    def _error(why: str) -> str:
        return written(["error", Quoted(" ".join(why.split()))])

    # --- options ----------------------------------------------------------------------------------

    def _set_logic(self, logic: Any) -> None:
        if logic not in _LOGICS and not (isinstance(logic, str) and "BV" in logic):
            unsupported(f"the logic {written(logic)}")

    def _set_option(self, name: Any, value: Any = "true") -> str | None:
        if name not in self._options:
            return "unsupported"
        self._options[name] = written(value)
        return None

    def _get_info(self, name: Any) -> str:
        if name == ":assertion-stack-levels":
            return f"(:assertion-stack-levels {len(self.script.levels) - 1})"
        if name == ":reason-unknown":
            return "(:reason-unknown incomplete)"
        return f"({name} {_INFO[name]})" if name in _INFO else "unsupported"

    # --- the state --------------------------------------------------------------------------------

    def _reset(self) -> None:
        self.close()
        self._options = dict(_OPTIONS)
        self._begin()

    def _reset_assertions(self) -> None:
        self.close()
        self._begin()

    def prefer(self, coin: Callable[[], bool]) -> None:
        """The next search tries the values that a coin gives to the fields first."""
        if self._solver is not None:
            self._solver.prefer(coin)

    def close(self) -> None:
        """Free the solver."""
        if self._solver is not None:
            self._solver.close()
            self._solver = None

    def _exit(self) -> None:
        self.is_over = True
        self.close()

    # --- questions --------------------------------------------------------------------------------

    def _check(self, assumed: Any) -> str:
        """Are all assertions, and these assumptions, satisfiable together?"""
        if not isinstance(assumed, list):
            refuse("(check-sat-assuming (literal ...))")
        assumptions = [(each, self.script.reader.rule(each)) for each in assumed]
        if self._solver is None:
            self._solver = IncrementalSolver(self.script.space.encoding)
        solver = self._solver
        named = [(solver.literal(rule), name) for rule, name in self.script.asserted]
        tested = [(solver.literal(rule), each) for each, rule in assumptions]
        ties = [solver.literal(rule) for rule in self.script.ties]
        holds, core = solver.solve([*(x for x, _ in named), *(x for x, _ in tested), *ties])
        self._status = "sat" if holds else "unsat"
        self._core = [name for x, name in named if name is not None and x in core]
        self._failed = [each for x, each in tested if x in core]
        return self._status

    def _get_value(self, terms: Any) -> str:
        self._need("sat", "a model")
        if not isinstance(terms, list) or not terms:
            refuse("(get-value (term ...))")
        pairs = [
            f"({written(term)} {self._value(self.script.reader.read(term))})" for term in terms
        ]
        return f"({' '.join(pairs)})"

    def _get_model(self) -> str:
        self._need("sat", "a model")
        lines = []
        for name, meaning in self.script.names.items():
            if isinstance(meaning, Macro):
                continue
            value = self._value(meaning)
            lines.append(f"  (define-fun {written(name)} () {sort_of(meaning)} {value})")
        return "\n".join(["(", *lines, ")"])

    def _get_assignment(self) -> str:
        self._need("sat", "an assignment")
        pairs = [
            f"({written(name)} {self._value(rule)})"
            for rule, name in self.script.asserted
            if name is not None
        ]
        return f"({' '.join(pairs)})"

    def _get_unsat_core(self) -> str:
        self._need("unsat", "an unsatisfiable core")
        return f"({' '.join(written(name) for name in self._core)})"

    def _get_unsat_assumptions(self) -> str:
        self._need("unsat", "unsatisfiable assumptions")
        return f"({' '.join(written(each) for each in self._failed)})"

    def _need(self, status: str, what: str) -> None:
        if self._status != status:
            refuse(f"{what} is there only after (check-sat) answered {status}")

    def _value(self, term: Any) -> str:
        """The value of a term in the last solution."""
        if isinstance(term, ArrayTerm):
            return self._array_value(term)
        return value_text(term, evaluate(term, _Solution(self)))

    def _array_value(self, array: ArrayTerm) -> str:
        if array.op != "declared":
            unsupported("the value of an array that is not declared")
        known = self.script.elements[array]
        zero, width = index_text(0, array.sort.width), array.sort.index
        shown = f"((as const {array.sort}) {zero})"
        pairs = {at: self._value(value) for at, value in known.by_number.items()}
        for index, value in known.by_term:
            place = np.asarray(evaluate(index, _Solution(self))).reshape(-1)[0]
            pairs[int(place)] = self._value(value)
        for at, text in sorted(pairs.items()):
            shown = f"(store {shown} {index_text(at, width)} {text})"
        return shown

    def code(self, name: str) -> int:
        """The code of a field in the last solution."""
        space = self.script.space
        if self._solver is None:
            return 0
        bits = map(self._solver.value, space.encoding.of_field[name])
        return sum(int(bit) << k for k, bit in enumerate(bits))


class _Solution(dict[str, Any]):
    """Fields as columns of one row, looked up when they are needed."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def __missing__(self, name: str) -> Any:
        return np.array([self._session.code(name)], object)


def value_text(term: Any, values: Any) -> str:
    """The first value of a column of a term."""
    value = np.asarray(values).reshape(-1)[0]
    if isinstance(term, Rule):
        return "true" if bool(value) else "false"
    return index_text(int(value), term.width)


#: Commands after which the answer of the last (check-sat) is no longer known.
_CHANGES = {"declare-fun", "declare-const", "define-fun", "define-const", "assert", "push", "pop"}
#: Name -> (fewest and most arguments, what it does).
_COMMANDS: dict[str, tuple[int, int, Callable[..., str | None]]] = {
    "set-logic": (1, 1, Session._set_logic),
    "set-info": (1, 2, lambda s, *info: None),
    "set-option": (1, 2, Session._set_option),
    "get-option": (1, 1, lambda s, name: s._options.get(name, "unsupported")),
    "get-info": (1, 1, Session._get_info),
    "declare-fun": (3, 3, lambda s, *function: s.script.declare(*function)),
    "declare-const": (2, 2, lambda s, name, sort: s.script.declare(name, [], sort)),
    "define-fun": (4, 4, lambda s, *function: s.script.define(*function)),
    "define-const": (3, 3, lambda s, name, sort, body: s.script.define(name, [], sort, body)),
    "define-sort": (3, 3, lambda s, *sort: s.script.define_sort(*sort)),
    "assert": (1, 1, lambda s, term: s.script.require(term)),
    "push": (0, 1, lambda s, levels="1": s.script.push(numeral(levels))),
    "pop": (0, 1, lambda s, levels="1": s.script.pop(numeral(levels))),
    "reset": (0, 0, Session._reset),
    "reset-assertions": (0, 0, Session._reset_assertions),
    "check-sat": (0, 0, lambda s: s._check([])),
    "check-sat-assuming": (1, 1, lambda s, literals: s._check(literals)),
    "get-value": (1, 1, Session._get_value),
    "get-model": (0, 0, Session._get_model),
    "get-assignment": (0, 0, Session._get_assignment),
    "get-unsat-core": (0, 0, Session._get_unsat_core),
    "get-unsat-assumptions": (0, 0, Session._get_unsat_assumptions),
    "echo": (1, 1, lambda s, text: written(text)),
    "exit": (0, 0, Session._exit),
}
