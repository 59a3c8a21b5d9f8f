"""Random scripts of SMT-LIB2, and what z3 and cvc5 answer to them."""

from __future__ import annotations

from typing import Any

from tests.space.random_vectors import RandomVectors


class RandomScripts(RandomVectors):
    """Scripts with several check-sat, levels, names, definitions, arrays and assumptions."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, most_bits=24)
        self.lines: list[str] = []

    def fact(self, depth: int) -> str:
        """A Bool term, sometimes with a `let`, a defined function or an array in it."""
        shown = self.rule(depth).smt
        kind = self.small(0, 9)
        if kind == 0:
            name = self.pick(list(self.widths))
            w = self.widths[name]
            other = self.vector(w, 1).smt
            return f"(let ((q {other}) ({name} {name})) (or (bvult q {name}) {shown}))"
        if kind == 1:
            return f"(= #b1 (toBit {shown}))"
        if kind == 2:
            at, value = self.vector(4, 1).smt, self.vector(3, 1).smt
            read = f"(select (store arr {at} {value}) {self.vector(4, 1).smt})"
            return f"(=> (distinct {read} (select arr #x3)) {shown})"
        if kind == 3:
            wide = f"((_ zero_extend 4) {self.vector(4, 1).smt})"
            return f"(bvule (select big {wide}) (bvadd (select big #x05) {self.vector(3, 1).smt}))"
        return shown

    def script(self) -> str:
        out = ["(set-option :produce-unsat-cores true)"]
        out += ["(set-option :produce-unsat-assumptions true)", "(set-logic QF_ABV)"]
        out.append(self.declarations.strip())
        out.append("(define-fun toBit ((b Bool)) (_ BitVec 1) (ite b #b1 #b0))")
        out.append("(declare-const arr (Array (_ BitVec 4) (_ BitVec 3)))")
        out.append("(declare-const big (Array (_ BitVec 8) (_ BitVec 3)))")
        levels = 0
        for k in range(self.small(3, 9)):
            kind = self.small(0, 5)
            if kind == 0 and levels:
                out.append("(pop 1)")
                levels -= 1
            elif kind == 1:
                out.append("(push 1)")
                levels += 1
            elif kind == 2:
                out.append("(check-sat)")
            elif kind == 3:
                out.append(f"(check-sat-assuming ((! {self.fact(1)} :named p{k})))")
                out[-1] = f"(define-fun p{k} () Bool {self.fact(1)})\n(check-sat-assuming (p{k}))"
            elif kind == 4:
                out.append(f"(assert (! {self.fact(2)} :named n{k}))")
            else:
                out.append(f"(assert {self.fact(3)})")
        out.append("(check-sat)")
        return "\n".join(out) + "\n"


def answers(text: str) -> list[str]:
    """The lines that say sat or unsat, or show an error."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line in ("sat", "unsat", "unknown") or "error" in line]


def z3_answers(script: str) -> list[str]:
    import z3

    context = z3.Context()
    return answers(z3.Z3_eval_smtlib2_string(context.ref(), script))


def cvc5_answers(script: str) -> list[str]:
    import cvc5

    manager = cvc5.TermManager()
    solver: Any = cvc5.Solver(manager)
    solver.setOption("incremental", "true")
    parser: Any = cvc5.InputParser(solver, cvc5.SymbolManager(manager))
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, script, "script")
    out = []
    while not (command := parser.nextCommand()).isNull():
        out.append(command.invoke(solver, parser.getSymbolManager()))
    return answers("\n".join(out))
