"""One shape for every step of `auto`.

A step is one file in this folder and one line in `ladder.py`. It says which sampler draws
the parts that it takes, and `applies(part, budget, policy)` answers with a `StepVerdict` (the step
takes the part, with this guarantee) or a `Reason` (why not; it is shown under "not taken").

Most steps need no more. A step that looks at several parts at once, or at another form of the
formula, has its own `take`. A step that can tell before preprocessing has `whole`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from nelson.budget import Budget
from nelson.chains.block import Block
from nelson.chains.diagnosis.verdict import StepVerdict
from nelson.chains.request import Request
from nelson.exact.routes import Reason
from nelson.policy import Policy
from nelson.sampling.auto.decision import ComponentGroup, FormulaPart
from nelson.sampling.sampler import Sampler

if TYPE_CHECKING:
    from nelson.sampling.auto.search import StepSearch


class Step:
    """A way to draw a component."""

    #: In `AutoPolicy.without`, and under "not taken".
    name: str
    #: Draws the parts that the step takes.
    sampler: Sampler
    #: Groups are drawn in this order, so that a deadline cuts the slowest and no other. It is part
    #: of what a seed means: the random numbers of a group depend on its place.
    turn: int = 0
    #: Are all parts that the step takes drawn as one problem? Else each by itself.
    together: bool = True
    #: May it draw the formula as given, where it takes all of it?
    draws_whole: bool = True
    #: Does it look at every form of the formula (with gates, and without) before all later steps?
    early: bool = False

    def whole(self, part: FormulaPart, budget: Budget, policy: Policy) -> StepVerdict | None:
        """A verdict on the formula as given, before it is preprocessed; None: look at its parts."""
        return None

    def applies(self, part: FormulaPart, budget: Budget, policy: Policy) -> StepVerdict | Reason:
        """May the step draw this part? By default: does its sampler take it, and exactly?"""
        if self.sampler.refuses is None:
            raise NotImplementedError
        if why := self.sampler.refuses(part.problem):
            return Reason(why)
        return StepVerdict(0, self.sampler.guarantee(part.problem, 0), self.sampler.summary)

    def take(self, search: StepSearch) -> None:
        """Take the parts of `search.form` that the step applies to."""
        form = search.form
        for part in list(form.left):
            answer = self.applies(part, form.budget, form.policy)
            if isinstance(answer, StepVerdict):
                form.take(self, part, answer)
            else:
                part.pass_by(self.name, answer)

    def blocks(self, group: ComponentGroup, request: Request) -> Iterator[Block]:
        """The samples of a group that the step draws."""
        return self.sampler.blocks(group.problem, request)

    def expect(self, part: FormulaPart, verdicts: Sequence[StepVerdict]) -> None:
        """A group of these verdicts will be drawn: tell the sampler what the trials measured."""
