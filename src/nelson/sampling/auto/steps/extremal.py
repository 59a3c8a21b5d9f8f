"""Condition 1 holds: resampling alone is exact, if it converges.

Of a whole formula nothing is tried beforehand: the first tile of the draw is the trial
(`Decision.on_trial`). Extremal components of another formula are tried together, in one tile.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nelson.budget import Budget
from nelson.chains.chain import Chains
from nelson.chains.diagnosis.diagnose import pilot_request, pilots
from nelson.chains.diagnosis.verdict import StepVerdict
from nelson.chains.problem import beyond_resolution
from nelson.exact.routes import Reason
from nelson.formula.memo import Recent, Slot
from nelson.io.progress import phase
from nelson.policy import Policy
from nelson.sampling import total_variation
from nelson.sampling.auto.decision import FormulaPart, joined
from nelson.sampling.auto.steps.step import Step
from nelson.sampling.methods import lovasz

if TYPE_CHECKING:
    from nelson.sampling.auto.search import StepSearch

#: Does a trial of resampling converge? By evidence, theta, lanes and rounds.
_CONVERGES: Slot[Recent[tuple[Any, ...], bool]] = Slot("trials of resampling")

EXTREMAL = StepVerdict(0, "exact", "extremal (Condition 1 holds): resampling alone is exact")
SLOW = "extremal, but some samples of a trial did not become valid within {} rounds"
COARSE = "extremal, but resampling rounds probabilities: a small part has exact ways that do not"


def coarse(part: FormulaPart, policy: Policy) -> bool:
    """Is a part small, and would the rounding of its probabilities cost the word exact?"""
    if len(part.variables) > policy.enumeration.up_to:
        return False
    return bool((total_variation.of_bits(part.problem, part.theta) > total_variation.MOST).any())


def converges(part: FormulaPart, budget: Budget, policy: Policy) -> bool:
    """Does resampling converge in a trial? True if there is no time to tell."""
    if not part.problem.rest.n_clauses:
        return True
    lanes, rounds = policy.auto.trial_lanes, policy.auto.max_rounds
    rows = part.theta[pilots(part.theta)]
    known = part.formula.memo.recent(_CONVERGES, 64)
    key = (part.evidence, rows.tobytes(), lanes, rounds)
    if (answer := known.get(key)) is not None:
        return answer
    request = pilot_request(rows, lanes, budget.share(policy.auto.trial_share))
    with phase("trying to resample"):
        chains = Chains.resampled(part.problem, replace(request, max_rounds=rounds), rows)
    if not chains.complete:
        return True
    return known.put(key, chains.lanes() >= policy.auto.converged * lanes * len(rows))


class Extremal(Step):
    name = "extremal"
    sampler = lovasz.SAMPLER
    turn = 3
    early = True

    def whole(self, part: FormulaPart, budget: Budget, policy: Policy) -> StepVerdict | None:
        if not part.problem.extremal or beyond_resolution(part.theta) or coarse(part, policy):
            return None
        return EXTREMAL

    def applies(self, part: FormulaPart, budget: Budget, policy: Policy) -> StepVerdict | Reason:
        if not part.problem.extremal:
            return Reason("Condition 1 does not hold")
        return EXTREMAL

    def take(self, search: StepSearch) -> None:
        form = search.form
        # The only component of a formula that is not extremal is not extremal.
        known = len(form.left) == 1 and not form.reduced.changed and not search.problem.extremal
        extremal = [] if known else [part for part in form.left if part.problem.extremal]
        # An extremal formula as a whole comes here if its trial has failed, or if it is coarse.
        form.slow = bool(search.problem.extremal or form.beyond) or (
            bool(extremal) and not converges(joined(form.owner, extremal), form.budget, form.policy)
        )
        for part in list(form.left):
            if not any(part is other for other in extremal):
                part.pass_by(self.name, "Condition 1 does not hold")
            elif coarse(part, form.policy):
                part.pass_by(self.name, COARSE)
            elif form.slow:
                part.pass_by(self.name, form.beyond or SLOW.format(form.policy.auto.max_rounds))
            else:
                form.take(self, part, EXTREMAL)


class SlowExtremal(Extremal):
    """Extremal parts that are coarse, or whose trial failed, and that no other exact step took."""

    name = "slow extremal"
    early = False

    def whole(self, part: FormulaPart, budget: Budget, policy: Policy) -> StepVerdict | None:
        return None

    def take(self, search: StepSearch) -> None:
        form = search.form
        for part in list(form.left):
            if part.problem.extremal:
                why = part.passed.get(Extremal.name, "extremal")
                guarantee = "heuristic" if form.beyond else "exact"
                form.take(self, part, replace(EXTREMAL, why=why, guarantee=guarantee))
