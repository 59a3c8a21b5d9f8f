"""A knowledge compiler in the background, while other steps of `auto` are tried."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from contextlib import nullcontext

from nelson.budget import Budget, TimeUp
from nelson.exact.circuit.build import missing
from nelson.exact.compiled import Compiled, compiled, why_not
from nelson.formula import Formula
from nelson.io.progress import phase
from nelson.process.child import Cancelled, cancelled_by
from nelson.sampling.auto.decision import Decision


def installed() -> bool:
    return missing("d4") is None


class BackgroundCompiler:
    """A compiler in a thread of its own. Whoever starts it must stop it."""

    def __init__(self, formula: Formula, budget: Budget, effort: float) -> None:
        """budget: it gives up at its deadline."""
        assert budget.deadline is not None
        self.formula, self.budget, self.effort = formula, budget, effort
        self.finish: Callable[[], Decision | None] | None = None  # the decision by its circuit
        self._circuit: Compiled | None = None
        self._error: Exception | None = None
        self._cancel = threading.Event()
        self.found = threading.Event()  # a circuit is there
        # With the deadline of the call, so that a long search for an order ends, too.
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run,), name="compiler")
        self._thread.start()

    def _run(self) -> None:
        try:
            with cancelled_by(self._cancel):
                self._circuit = compiled(self.formula, self.budget, effort=self.effort)
            if self._circuit is not None:
                self.found.set()
        except (Cancelled, TimeUp):
            pass
        except Exception as error:  # Unsatisfiable, for example: raised where it is waited for
            self._error = error

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def wait(self, left: float) -> Compiled | None:
        """The circuit, if the compiler ends within these seconds."""
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
