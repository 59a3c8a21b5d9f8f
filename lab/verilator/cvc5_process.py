"""cvc5 as a process: its wheel has no program. Run by the interpreter of the peers."""

import os
import sys

import cvc5


def main() -> None:
    manager = cvc5.TermManager()

    def fresh():
        solver = cvc5.Solver(manager)
        for option in ("incremental", "produce-models", "produce-unsat-assumptions"):
            solver.setOption(option, "true")
        parser = cvc5.InputParser(solver, cvc5.SymbolManager(manager))
        parser.setIncrementalStringInput(cvc5.InputLanguage.SMT_LIB_2_6, "stdin")
        return solver, parser

    solver, parser = fresh()
    depth, text = 0, ""
    while piece := os.read(0, 1 << 16).decode():
        for letter in piece:
            text += letter
            depth += (letter == "(") - (letter == ")")
            if letter != ")" or depth:
                continue
            command, text = text, ""
            if command.strip() == "(reset)":
                solver, parser = fresh()
                continue
            parser.appendIncrementalStringInput(command + "\n")
            done = parser.nextCommand()
            if reply := str(done.invoke(solver, parser.getSymbolManager())):
                sys.stdout.write(reply)
        sys.stdout.flush()


main()
