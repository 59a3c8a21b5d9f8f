"""A d-DNNF within a share of the budget: exact for any theta.

All components that may have a circuit get one, in one child process; if that fails, all but the
largest. Within a limit in seconds, a compiler that is not done after its share goes on in the
background while other steps are tried, on another core if there is one. If they end heuristic,
`LateCompilation` takes the circuit after all, or waits for it.

A formula that looked hopeless is compiled too, within a limit in seconds: at once if most clauses
are implications of one literal by another; else after all other steps, which then have both
cores. Without a limit, formulas of implications that end heuristic are compiled last, with counted
effort.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from nelson.budget import Budget, TimeUp
from nelson.chains.diagnosis.verdict import StepVerdict
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
from nelson.policy import Policy
from nelson.process.child import Cancelled, cancelled_by
from nelson.sampling.auto.decision import SAFETY, Decision, FormulaPart, joined
from nelson.sampling.auto.steps.step import Step
from nelson.sampling.methods import circuit

if TYPE_CHECKING:
    from nelson.sampling.auto.search import Form, StepSearch


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


class Compilation(Step):
    name = circuit.SAMPLER.name
    sampler = circuit.SAMPLER
    turn = 1

    def whole(self, part: FormulaPart, budget: Budget, policy: Policy) -> StepVerdict | None:
        """The circuit that the user had compiled (`nelson compile`), if there is one."""
        if (source := kept_on_disk(part.formula)) is None:
            return None
        why = f"a d-DNNF of {source.circuit.decisions:,} decisions, kept by `nelson compile`"
        return StepVerdict(0, "exact", why)

    def take(self, search: StepSearch) -> None:
        if search.gates and _narrower_with_gates(search):
            gated = search.gated.copy()
            self.compile(search, gated)
            if not gated.left:
                search.form = gated
                return
        if search.compiler is None:
            self.compile(search, search.form)
        else:
            search.form.pass_by(self.name, "the compiler gets the formula with its gates")
        search.uncompiled = search.form.copy()
        if search.form.implications >= search.policy.circuit.implications:
            self.compile_hopeless(search)

    def compile(self, search: StepSearch, form: Form) -> None:
        """Take the parts of a form that compile. With a limit in seconds, a compiler that is not
        done within its share goes on while other steps are tried, if all parts are worth a try.
        """
        parts = self.promising(form.left)
        every = len(parts) == len(form.left)
        before = form.copy()
        rules = form.policy.circuit
        alone, beside = form.budget.share(rules.share), form.budget.share(rules.late_share)
        for attempt, chosen in enumerate((parts, parts[1:])):
            if not chosen:
                continue
            first = attempt == 0
            # The circuit of an untouched formula is compiled for the formula itself, where
            # calls that name the method find it again.
            untouched = first and every and form.untouched
            formula = (form.whole if untouched else joined(form.owner, chosen)).formula
            if first and every and alone.deadline is not None:
                source = self._begun(
                    search, before, BackgroundCompiler(formula, beside, rules.effort)
                )
            else:
                least = 0.0 if first else rules.second_seconds
                budget = alone
                if not alone.counted and alone.left < least:
                    budget = Budget.of(least, alone.threads)
                source = compiled(formula, budget, effort=rules.effort)
            if source is not None:
                self.accept(form, chosen, source)
                return
            running = first and search.compiler is not None
            share = f"{rules.share:.0%} of the time was not enough for the compiler"
            for part in chosen:
                part.passed.setdefault(self.name, share if running else why_not(formula))
                if alone.deadline is None and was_cut(formula):
                    part.passed.setdefault(SAFETY, why_not(formula))

    def _begun(
        self, search: StepSearch, form: Form, compiler: BackgroundCompiler
    ) -> Compiled | None:
        """The circuit, if the compiler is done within its share; else it goes on."""
        try:
            source = compiler.wait(form.budget.share(form.policy.circuit.share).left)
        except BaseException:
            compiler.stop()
            raise
        if not compiler.ended:
            self.go_on(search, form, compiler)
        return source

    def go_on(self, search: StepSearch, form: Form, compiler: BackgroundCompiler) -> None:
        """Let a compiler run in the background; its circuit is for that form."""

        def finish() -> Decision | None:
            source = compiler.wait(form.budget.share(form.policy.circuit.waiting_share).left)
            if source is None:
                return None
            self.accept(form, list(form.left), source)
            return form.decision()

        search.compiler, compiler.finish = compiler, finish

    def promising(self, parts: Sequence[FormulaPart]) -> list[FormulaPart]:
        """The parts that are worth a try; the others get the reason."""
        worth_a_try = []
        for part in parts:
            if reason := not_worth_a_try(part.formula):
                part.pass_by(self.name, reason)
            else:
                worth_a_try.append(part)
        return worth_a_try

    def accept(self, form: Form, parts: Sequence[FormulaPart], source: Compiled) -> None:
        """Draw these parts from their circuit."""
        verdict = StepVerdict(0, "exact", f"a d-DNNF of {source.circuit.decisions:,} decisions")
        for part in parts:
            form.take(self, part, verdict)

    def compile_hopeless(self, search: StepSearch) -> None:
        """Begin to compile what looked hopeless, if there is a limit in seconds."""
        form = search.uncompiled
        if form is None or search.budget.counted or search.compiler is not None:
            return
        if _may_compile(form):
            rules = form.policy.circuit
            budget = form.budget.share(rules.late_share)
            compiler = BackgroundCompiler(form.joined().formula, budget, rules.effort)
            self.go_on(search, form.copy(), compiler)


class LateCompilation(Compilation):
    """What looked hopeless, or took long: if all other steps ended heuristic."""

    def whole(self, part: FormulaPart, budget: Budget, policy: Policy) -> StepVerdict | None:
        return None

    def take(self, search: StepSearch) -> None:
        self.compile_hopeless(search)
        compiler, decision = search.compiler, None
        if compiler is not None and compiler.finish is not None:
            decision = compiler.finish()
        decision = decision or self.patiently(search)
        if decision is not None:
            search.decision = decision
        elif compiler is not None and search.decision is not None:
            search.decision.tell(self.name, compiler.why_not)

    def patiently(self, search: StepSearch) -> Decision | None:
        """Without a limit in seconds: the decision by a circuit that takes more effort than other
        formulas are worth.
        """
        form, rules = search.uncompiled, search.policy.circuit
        if form is None or not search.budget.counted or form.implications < rules.implications:
            return None
        if not _may_compile(form):
            return None
        source = compiled(form.joined().formula, effort=rules.late_effort)
        if source is None:
            return None
        self.accept(form, list(form.left), source)
        return form.decision()


def _narrower_with_gates(search: StepSearch) -> bool:
    if not search.form.left or not installed():
        return False
    return search.gated.width < search.form.width


def _may_compile(form: Form) -> bool:
    """May a part that looked hopeless be compiled after all?"""
    if not form.hopeless or not installed():
        return False
    most = max(len(part.variables) for part in form.left)
    return most <= form.policy.circuit.late_variables
