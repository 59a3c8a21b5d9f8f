"""One circuit for all components that may have one, in one child process.

Within a limit in seconds, a compiler that is not done after its share goes on in the background:
other steps are tried meanwhile, on another core if there is one. If they end heuristic, `auto`
takes the circuit after all, or waits for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext

from nelson.exact.circuit import effort
from nelson.exact.circuit.build import missing
from nelson.exact.compiled import (
    Compiled,
    compiled,
    kept_on_disk,
    not_worth_a_try,
    was_cut,
    why_not,
)
from nelson.formula import Formula
from nelson.io.progress import phase
from nelson.process.child import Cancelled, cancelled_by
from nelson.sampling.auto.decision import SAFETY, Part, joined
from nelson.sampling.chain import share
from nelson.sampling.diagnosis.verdict import Verdict

#: The share of the time left in which nothing but the compiler runs; and in which it may go on
#: while other steps are tried. The rest is for drawing.
SHARE, LATE_SHARE = 0.3, 0.75
#: Its effort without such a limit.
EFFORT = effort.EFFORT


def installed() -> bool:
    return missing("d4") is None


def kept_verdict(formula: Formula) -> Verdict | None:
    """The verdict on the circuit that the user had compiled (`nelson compile`), if there is one."""
    if (circuit := kept_on_disk(formula)) is None:
        return None
    told = f"a d-DNNF of {circuit.circuit.decisions:,} decisions, kept by `nelson compile`"
    return Verdict(0, "exact", told)


def promising(parts: Sequence[Part]) -> list[Part]:
    """The parts worth a try; the others get the reason in `passed`."""
    worth_a_try = []
    for part in parts:
        if reason := not_worth_a_try(part.formula):
            part.passed["circuit"] = reason
        else:
            worth_a_try.append(part)
    return worth_a_try


class Running:
    """A compiler in a thread of its own. Whoever starts it must stop it."""

    def __init__(self, formula: Formula, until: float) -> None:
        """until: time.monotonic() at which it gives up."""
        self.formula, self.until = formula, until
        self._circuit: Compiled | None = None
        self._error: Exception | None = None
        self._cancel = threading.Event()
        self.found = threading.Event()  # a circuit is there
        self._thread = threading.Thread(target=self._run, name="compiler")
        self._thread.start()

    def _run(self) -> None:
        try:
            with cancelled_by(self._cancel):
                seconds = max(0.0, self.until - time.monotonic())
                self._circuit = compiled(self.formula, seconds, effort=EFFORT)
            if self._circuit is not None:
                self.found.set()
        except Cancelled:
            pass
        except Exception as error:  # Unsatisfiable, for example: raised where it is waited for
            self._error = error

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def wait(self, until: float) -> Compiled | None:
        """The circuit, if there is one by then."""
        left = max(0.0, until - time.monotonic())
        with phase("compiling a circuit", left) if left else nullcontext():
            self._thread.join(left)
        if self._error is not None:
            raise self._error
        return self._circuit

    @property
    def why_not(self) -> str:
        late = "the compiler was not done when the time for it was up"
        return why_not(self.formula) if self.ended else late

    def stop(self) -> None:
        self._cancel.set()
        self._thread.join()


def compile_parts(
    owner: Formula, parts: Sequence[Part], whole: Part | None, deadline: float | None, go_on: bool
) -> tuple[list[Part], Compiled | None, Running | None]:
    """The parts that compiled, and their circuit: of all parts, else of all but the largest. And
    the compiler of all parts if it goes on.

    deadline: time.monotonic(); None: effort is counted. go_on: may it go on after its share?
    whole: the formula as given, if it consists of these parts alone. Its circuit is then compiled
    for the formula itself, where `method="circuit"` and others find it again.
    """
    until, late = share(deadline, SHARE), share(deadline, LATE_SHARE)
    running: Running | None = None
    for k, chosen in enumerate((list(parts), list(parts[1:]))):
        if not chosen:
            continue
        formula = (whole if whole and not k else joined(owner, chosen)).formula
        if go_on and not k and until is not None and late is not None:
            running = Running(formula, late)
            try:
                circuit = running.wait(until)
            except BaseException:
                running.stop()
                raise
            running = None if running.ended else running
        else:
            seconds = None if until is None else max(0.0, until - time.monotonic(), 0.5 * k)
            circuit = compiled(formula, seconds, effort=EFFORT)
        if circuit is not None:
            return chosen, circuit, running
        why = f"{SHARE:.0%} of the time was not enough for the compiler"
        why = why if running and not k else why_not(formula)
        for part in chosen:
            part.passed.setdefault("circuit", why)
            if until is None and was_cut(formula):
                part.passed.setdefault(SAFETY, why_not(formula))
    return [], None, running
