"""Which method for which component: the first that applies and fits the budget.

    0  random assignments are often valid        rejection      exact
    1  preprocess, keeping the law; then for each independent component
    2  extremal                                  lovasz         exact
       few structures                            enumerate      exact
    3  a d-DNNF within a share of the budget     circuit        exact
    4  coupled chains of all starts meet         cftp           exact
       gates, and inputs that are often valid    rejection      exact
    5  resampling converges in a pilot run       lovasz, sweeps asymptotic if the diagnostics pass
    6  else starts from a CDCL solver            cdcl, sweeps   asymptotic if the diagnostics pass
    7  else no samples; "unsatisfiable" only if it was proved

A gate that is resolved away leaves longer clauses behind. For sums and comparisons of binary
numbers this makes the formula wider and its circuit larger: four numbers of 16 bits in order, with
gaps of 4 bits, have width 16 with their carries and 29 without; D4 compiles them in 0.4 s with the
carries, and not in 20 s without. So gates stay if the formula is narrower with them and compiles.

An extremal formula pays for the check of Condition 1 and a trial of one tile. Any other formula is
preprocessed, and compiled unless `nelson.exact.compile_guess` calls that hopeless. Each component
keeps the reasons why steps were not taken. Cost where resampling is the right method (random 5-SAT,
n = L = 1000): preprocessing 1 ms, the guess on compiling 1.5 ms, and chains as long as those of
6,000 samples.

Within a limit in seconds, a compiler that needs more than its share goes on while other steps are
tried (`compiling.Running`). A formula that looked hopeless is compiled too: from the beginning if
most clauses are implications of one literal by another, as in models of features and
configurations, of which D4 compiles some that are 90 wide; else after all other steps, which then
have both cores. If all other steps end heuristic, the circuit is taken. Without a limit, formulas
of implications that end heuristic are compiled last, with counted effort.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from nelson.exact.compiled import compiled
from nelson.exact.preprocess import STEPS
from nelson.process.child import Cancelled, cancelled_by
from nelson.sampling.auto import compiling
from nelson.sampling.auto.decision import Decision, Limits, Part
from nelson.sampling.auto.groups import EXTREMAL, group_of
from nelson.sampling.auto.rejecting import by_proposals
from nelson.sampling.auto.steps import Form, converges
from nelson.sampling.chain import share
from nelson.sampling.diagnosis.diagnose import beyond_resolution
from nelson.sampling.problem import Problem

#: A part of more variables is never compiled if that looks hopeless.
_LATE_VARIABLES = 5000
#: The share of clauses of two literals from which on the compiler does not wait for other steps.
_MANY = 0.5
#: Without a limit in seconds, the effort for such a formula if all other steps ended heuristic:
#: about 12 s of one core. A configuration of 2,500 symbols takes 75.
_LATE_EFFORT = 96.0
#: The steps of a preprocessing that keeps the gates.
_KEEPING_GATES = tuple(step for step in STEPS if step != "gates")


def decide(problem: Problem, theta: np.ndarray, limits: Limits) -> Decision:
    """theta (contexts, n) finite. Raises Unsatisfiable if a step proved it."""
    whole = Part(np.arange(problem.formula.n_total), theta, problem.formula, problem.evidence)
    if problem.extremal and not beyond_resolution(theta) and converges(whole, limits):
        return Decision([group_of("lovasz", whole, [(whole, EXTREMAL)])], None)
    if "circuit" not in limits.skip and (kept := compiling.kept_verdict(problem.formula)):
        return Decision([group_of("circuit", whole, [(whole, kept)])], None)
    if verdict := by_proposals(whole, limits):
        return Decision([group_of("rejection", whole, [(whole, verdict)])], None)
    ladder = _Ladder(problem, whole, limits)
    try:
        return ladder.decide()
    finally:
        ladder.stop()


class _Ladder:
    def __init__(self, problem: Problem, whole: Part, limits: Limits) -> None:
        self.problem, self.whole, self.limits = problem, whole, limits
        self.running: compiling.Running | None = None
        self.late: Form | None = None  # the form that it compiles

    @cached_property
    def gated(self) -> Form:
        """The formula with its gates; its steps are taken on copies."""
        return Form(self.problem, self.whole, self.limits, _KEEPING_GATES)

    def decide(self) -> Decision:
        form = Form(self.problem, self.whole, self.limits, STEPS)
        gates = bool(form.reduced.gates)
        if gates and self.narrower_with_gates(form):
            gated = self.gated.copy(self.limits)
            self.compile(gated)
            if not gated.left:
                return gated.decision()
        if self.running is None:
            self.compile(form)
        else:
            for part in form.left:
                part.passed["circuit"] = "the compiler gets the formula with its gates"
        hopeless = form.copy(form.limits)
        if form.implications >= _MANY:
            self.compile_hopeless(hopeless)
        form.couple()
        if form.left and (decision := self.decided_by_rejection(form)) is not None:
            return decision
        if gates:  # joint moves hold fewer variables if the gates are there
            form.leave("joint")
        decision = self.decided_by_chains(form)
        if not decision.better and gates and not self.compiled:
            decision = self.decided_jointly(decision)
        if decision.better:
            return decision
        self.compile_hopeless(hopeless)
        if (late := self.decided_late() or self.decided_patiently(hopeless)) is not None:
            return late
        if self.running is not None:
            _tell(decision, "circuit", self.running.why_not)
        return decision

    # --- the compiler ----------------------------------------------------------------------------

    def narrower_with_gates(self, form: Form) -> bool:
        if not form.left or "circuit" in self.limits.skip or not compiling.installed():
            return False
        return self.gated.width < form.width

    def compile(self, form: Form) -> None:
        before = form.copy(form.limits)
        self.running = form.compile()
        self.late = before if self.running is not None else None

    def compile_hopeless(self, form: Form) -> None:
        """Begin to compile what looked hopeless, if there is a limit in seconds."""
        until = share(self.limits.deadline, compiling.LATE_SHARE)
        if until is not None and self.running is None and self.may_compile(form):
            self.late = form
            self.running = compiling.Running(form.joined().formula, until)

    def may_compile(self, form: Form) -> bool:
        """May a part that looked hopeless be compiled after all?"""
        if not form.hopeless or "circuit" in self.limits.skip or not compiling.installed():
            return False
        return max(len(part.variables) for part in form.left) <= _LATE_VARIABLES

    @property
    def compiled(self) -> bool:
        """Is a circuit there by now?"""
        return self.running is not None and self.running.wait(0.0) is not None

    def decided_by_chains(self, form: Form) -> Decision:
        """The decision for chains of what is left, or for a circuit that is there before them."""
        if self.running is None:
            form.resample()
            form.search()
            return form.decision()
        form.spare_a_core()
        try:
            with cancelled_by(self.running.found):
                form.resample()
                form.search()
                return form.decision()
        except Cancelled:
            late = self.decided_late()
            assert late is not None  # that is why the chains were cancelled
            return late

    def decided_late(self) -> Decision | None:
        """The decision by the circuit that a compiler in the background makes in its time."""
        if self.running is None or self.late is None:
            return None
        # It gives up by itself in time, but may have to read a large circuit then.
        circuit = self.running.wait(share(self.limits.deadline, 0.8) or self.running.until)
        if circuit is None:
            return None
        self.late.take(self.late.left, circuit)
        return self.late.decision()

    def decided_patiently(self, form: Form) -> Decision | None:
        """Without a limit in seconds: the decision by a circuit that takes more effort than other
        formulas are worth.
        """
        timed = self.limits.deadline is not None
        if timed or form.implications < _MANY or not self.may_compile(form):
            return None
        circuit = compiled(form.joined().formula, effort=_LATE_EFFORT)
        if circuit is None:
            return None
        form.take(form.left, circuit)
        return form.decision()

    def stop(self) -> None:
        if self.running is not None:
            self.running.stop()

    # --- rejection -------------------------------------------------------------------------------

    def decided_by_rejection(self, form: Form) -> Decision | None:
        """The decision for the formula with its gates, if proposals of inputs are often valid and
        all other components have an exact method. form: what is left without the gates.
        """
        if self.limits.skip & {"rejection", "gates"} or form.beyond:
            return None
        other = self.gated.copy(self.limits)
        other.reject()
        if other.taken["rejection"]:
            if other.left and (running := other.compile()) is not None:
                running.stop()
            other.couple()
            if not other.left:
                return other.decision()
        told = [part.passed["rejection"] for part in other.left if "rejection" in part.passed]
        for part in form.left if told else ():
            part.passed["rejection"] = told[0]
        return None

    # --- joint moves -----------------------------------------------------------------------------

    def decided_jointly(self, single: Decision) -> Decision:
        """Joint moves on the formula with its gates, if they make the heuristic decision `single`
        asymptotic; else `single`.
        """
        if "joint" in self.limits.skip or beyond_resolution(self.whole.theta):
            return single
        form = self.gated.copy(self.limits)
        form.leave("single")
        if not (why := form.search_jointly()):
            return form.decision()
        _tell(single, "joint moves", why)
        return single


def _tell(decision: Decision, step: str, why: str) -> None:
    """Add why a step was not taken to the parts that are heuristic."""
    for record in (record for group in decision.groups for record in group.records):
        if record["guarantee"] == "heuristic":
            record["not taken"][step] = why
