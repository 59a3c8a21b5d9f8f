"""Chains from solutions of a CDCL solver: the reserve, for all that is left.

Sample i begins at start i, modulo their number, and makes the sweeps of the verdict.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.budget import Budget
from nelson.chains.block import Block
from nelson.chains.chain import resumed, tiled
from nelson.chains.diagnosis.verdict import StepVerdict
from nelson.chains.request import Request
from nelson.exact.routes import Reason
from nelson.kernels.core.bits import words_for
from nelson.policy import Policy
from nelson.sampling import foreign
from nelson.sampling.auto import chains, starts
from nelson.sampling.auto.decision import SAFETY, ComponentGroup, FormulaPart
from nelson.sampling.auto.steps.step import Step
from nelson.sampling.sampler import Sampler

if TYPE_CHECKING:
    from nelson.sampling.auto.search import StepSearch

NAME = "cdcl"


def _no_blocks(problem: Any, request: Request) -> Iterator[Block]:
    raise NotImplementedError("its starts are in the group: `Solver.blocks`")


class SolverChains(Step):
    name = NAME
    sampler = Sampler(
        name=NAME,
        summary="sweeps from solutions of a CDCL solver",
        citation="",
        weighted=True,
        guarantee=lambda problem, sweeps: "heuristic",
        blocks=_no_blocks,
        keyed=True,
        sweeps=0,
    )
    turn = 5
    together = False
    draws_whole = False

    def applies(self, part: FormulaPart, budget: Budget, policy: Policy) -> StepVerdict | Reason:
        return chains.from_solver(part, budget, policy)

    def take(self, search: StepSearch) -> None:
        form, policy = search.form, search.chain_policy
        with search.beside_the_compiler():
            parts = form.few()
            for k, part in enumerate(parts):
                budget = search.chain_budget.share(policy.auto.search_share / (len(parts) - k))
                answer = self.applies(part, budget, policy)
                assert isinstance(answer, StepVerdict)
                form.take(self, part, answer)

    def blocks(self, group: ComponentGroup, request: Request) -> Iterator[Block]:
        pool, info = pool_of(group, request)
        for first, count in request.pieces():
            if not pool:
                yield Block.empty(request, stopped=True, info=info)
                return
            word = first // 64
            states = np.stack([tiled(rows, word, words_for(count)) for rows in pool])
            block = resumed(group.problem, request, states, 0, word, count)
            block.info = info | ({} if group.moves.in_tiles else group.moves.info)
            yield block
            if block.stopped:
                return


class JointWithGates(SolverChains):
    """Joint moves on the formula with its gates, where they hold fewer variables: if all other
    steps ended heuristic.
    """

    name = "joint"

    def take(self, search: StepSearch) -> None:
        circuit_is_there = search.compiler is not None and search.compiler.found.is_set()
        if not search.gates or search.form.beyond or circuit_is_there or search.decision is None:
            return
        if any(g.step.name == NAME and not g.starts for g in search.decision.groups):
            return  # a solver found no start, and would find none with the gates
        form, policy = search.gated.copy(), search.policy.without("single")
        why = self._jointly(search.on(form), policy)
        if why:
            search.decision.tell("joint moves", why)
        else:
            search.decision = form.decision()

    def _jointly(self, search: StepSearch, policy: Policy) -> str:
        """Take all that is left; -> why not, "" if all is taken."""
        form, budget = search.form, search.budget
        parts = form.few()
        for part in parts:
            if why := chains.no_joint_moves(part, policy):
                return why
        for part in parts:
            verdict = chains.from_solver(part, budget, policy)
            if verdict.guarantee == "heuristic":
                return part.passed.get("joint moves", verdict.why)
            form.take(_SOLVER, part, verdict)
        return ""


#: Draws what `JointWithGates` takes.
_SOLVER = SolverChains()


def pool_of(group: ComponentGroup, request: Request) -> tuple[list[np.ndarray], dict[str, Any]]:
    """The starts of each context, and info about them."""
    if group.pool:
        return group.pool, {"starts": min(len(rows) for rows in group.pool)}
    pool: list[np.ndarray] = []
    more: dict[str, Any] = {}
    # Without a deadline a solver that found nothing while deciding would find nothing now.
    hopeless = request.budget.counted and not group.starts
    few = 4  # more contexts share the starts that were found while deciding
    if len(request.theta) <= few and not hopeless:
        count = min(request.count or starts.MAX_STARTS, starts.MAX_STARTS)
        for k, (theta, context) in enumerate(zip(request.theta, request.contexts, strict=True)):
            part = (0.5 if group.starts else 0.9) / (len(request.theta) - k)
            seed = foreign.seed_of(request.seed, context, 0)
            rows, _, cut = starts.find(
                group.problem, theta, count, seed, request.budget.share(part)
            )
            more |= {SAFETY: cut} if cut else {}
            if not len(rows):
                break
            pool.append(rows)
    if len(pool) < len(request.theta):
        known = group.starts
        pool = [known[k % len(known)] for k in range(len(request.theta))] if known else []
    if not pool:
        ended = "a CDCL solver found no solution in the time it had"
        return [], {"ended": ended, "solver": "undecided"} | more
    return pool, {"starts": min(len(rows) for rows in pool)} | more
