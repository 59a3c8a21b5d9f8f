"""The search of `auto` for the strongest guarantee: what the steps share.

A form is what preprocessing leaves of a formula: with the gates, or with the gates resolved away. A
part that a step does not take keeps the reason in `FormulaPart.passed`.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property

import numpy as np

from nelson.budget import Budget
from nelson.chains.diagnosis.verdict import StepVerdict
from nelson.chains.problem import Problem, beyond_resolution
from nelson.exact.compile_guess import estimate
from nelson.exact.preprocess import STEPS as PREPROCESSING
from nelson.exact.preprocess import preprocess
from nelson.policy import Policy
from nelson.process.child import Cancelled, cancelled_by
from nelson.sampling.auto.decision import Decision, FormulaPart, joined, part_of
from nelson.sampling.auto.groups import TakenPart, decision_of
from nelson.sampling.auto.steps.circuit import BackgroundCompiler
from nelson.sampling.auto.steps.step import Step

#: The steps of a preprocessing that keeps the gates.
_KEEPING_GATES = tuple(step for step in PREPROCESSING if step != "gates")


class Form:
    """The parts that are left, and those that a step has taken."""

    def __init__(
        self,
        problem: Problem,
        whole: FormulaPart,
        budget: Budget,
        policy: Policy,
        preprocessing: Collection[str],
    ) -> None:
        """preprocessing: the names of its steps."""
        self.whole, self.budget, self.policy = whole, budget, policy
        self.owner = problem.formula
        self.beyond = beyond_resolution(whole.theta)
        self.slow = False  # a trial of the extremal parts did not converge
        self.taken: list[TakenPart] = []
        self.reduced = preprocess(
            self.owner,
            whole.theta,
            problem.evidence,
            budget=budget.share(policy.auto.preprocessing_share),
            steps=preprocessing,
        )
        self.left = [part_of(self.owner, component) for component in self.reduced.components]

    def copy(self) -> Form:
        """The form as it is now, for other steps."""
        other = copy.copy(self)
        other.taken = list(self.taken)
        other.left = list(self.left)
        return other

    @property
    def untouched(self) -> bool:
        """Are the parts that are left the formula as given?"""
        return not self.reduced.changed and not self.taken and not self.whole.evidence

    @property
    def width(self) -> int:
        """The largest width of a part that is left, as far as it is known."""
        return max((estimate(part.formula).width for part in self.left), default=0)

    @property
    def hopeless(self) -> bool:
        """Is it hopeless to compile some part that is left?"""
        return any(estimate(part.formula).hopeless for part in self.left)

    @property
    def implications(self) -> float:
        """The share of clauses of two literals in the parts that are left."""
        lengths = [np.diff(part.formula.offsets) for part in self.left]
        return float(np.mean(np.concatenate(lengths) == 2)) if lengths else 0.0

    def decision(self) -> Decision:
        return decision_of(self.whole, self.taken, self.reduced)

    def joined(self) -> FormulaPart:
        """All parts that are left, as one problem."""
        return joined(self.owner, self.left)

    def take(self, step: Step, part: FormulaPart, verdict: StepVerdict) -> None:
        """Let a step draw this part."""
        self.taken.append(TakenPart(step, part, verdict))
        self.left = [other for other in self.left if other is not part]

    def pass_by(self, step: str, reason: str) -> None:
        """Take note of why a step takes none of the parts that are left."""
        for part in self.left:
            part.pass_by(step, reason)

    def few(self) -> list[FormulaPart]:
        """The parts that are left, the smaller ones joined if there are many."""
        most = self.policy.auto.separate_parts
        if len(self.left) > most:
            self.left = [*self.left[: most - 1], joined(self.owner, self.left[most - 1 :])]
        return list(self.left)


class StepSearch:
    """A formula on its way through the steps. `decision` is set as soon as all of it is taken."""

    def __init__(
        self,
        problem: Problem,
        whole: FormulaPart,
        budget: Budget,
        policy: Policy,
        early: list[Step],
    ) -> None:
        """early: steps that look at every form before all others."""
        self.problem, self.whole, self.budget, self.policy = problem, whole, budget, policy
        self._early = early
        self.decision: Decision | None = None
        self.compiler: BackgroundCompiler | None = None
        self.compiled_form: Form | None = None  # what the compiler in the background compiles
        self.uncompiled: Form | None = None  # the form when the compiler had taken its parts
        self.form = self._form(PREPROCESSING)
        self.gates = bool(self.form.reduced.gates)

    @cached_property
    def gated(self) -> Form:
        """The formula with its gates. Steps are taken on copies."""
        return self._form(_KEEPING_GATES)

    def _form(self, preprocessing: tuple[str, ...]) -> Form:
        form = Form(self.problem, self.whole, self.budget, self.policy, preprocessing)
        for step in self._early:
            self.on(form).attempt(step)
        return form

    def on(self, form: Form) -> StepSearch:
        """The same search with another form."""
        other = copy.copy(self)
        other.form = form
        return other

    def attempt(self, step: Step) -> None:
        """Let a step take what it can, unless it is left out."""
        if self.policy.auto.skips(step.name):
            self.form.pass_by(step.name, "left out")
        else:
            step.take(self)

    @property
    def done(self) -> bool:
        """Is all of the formula taken, with a guarantee better than heuristic?"""
        if self.decision is None and not self.form.left:
            self.decision = self.form.decision()
        return self.decision is not None and self.decision.better

    # --- chains ----------------------------------------------------------------------------------

    @property
    def chain_policy(self) -> Policy:
        """Joint moves hold fewer variables if the gates are there: a later step tries that."""
        return self.policy.without("joint") if self.gates else self.policy

    @property
    def chain_budget(self) -> Budget:
        """Leaves a core to the compiler: it decides how soon there is a circuit."""
        if self.compiler is None:
            return self.budget
        return replace(self.budget, threads=max(1, self.budget.threads - 1))

    @contextmanager
    def beside_the_compiler(self) -> Iterator[None]:
        """Chains that end at once if a compiler in the background has found a circuit."""
        if self.compiler is None:
            yield
            return
        try:
            with cancelled_by(self.compiler.found):
                yield
        except Cancelled:
            assert self.compiler.finish is not None
            self.decision = self.compiler.finish()
            assert self.decision is not None  # that is why the chains were cancelled

    def stop(self) -> None:
        if self.compiler is not None:
            self.compiler.stop()
