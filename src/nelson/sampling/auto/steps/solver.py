"""Chains from solutions of a CDCL solver: the reserve, for all that is left.

Sample i begins at start i, modulo their number, and makes the sweeps of the verdict.

CMSGen if it is installed (P(decide x_i = 1) by theta_i, random restarts). If it is missing or finds
nothing, CaDiCaL and Glucose of PySAT with random phases. Their solutions have no known law: they
are starts of chains. The solvers run in a child process under the limits of `nelson.process.child`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.budget import Budget
from nelson.chains.block import Block
from nelson.chains.chain import Chains, resumed, tiled
from nelson.chains.diagnosis.diagnose import SEED, diagnose_chains, for_rows, pilot_request, pilots
from nelson.chains.diagnosis.verdict import StepVerdict
from nelson.chains.moves.hubs import Hubs
from nelson.chains.problem import Problem
from nelson.chains.request import Request
from nelson.kernels.core.bits import words_for
from nelson.policy import DEFAULT, Policy
from nelson.sampling import foreign
from nelson.sampling.auto import chains
from nelson.sampling.auto.decision import SAFETY, ComponentGroup, FormulaPart
from nelson.sampling.auto.steps.step import Step
from nelson.sampling.foreign import TIME_UP, DrawnRows
from nelson.sampling.methods import cmsgen
from nelson.sampling.registry import missing_modules
from nelson.sampling.sampler import Sampler

if TYPE_CHECKING:
    from nelson.sampling.auto.search import StepSearch

NAME = "cdcl"
_SCRIPT = Path(__file__).parents[2] / "methods" / "scripts" / "phases.py"
#: Most distinct starts of a draw; more samples share them in turns.
MAX_STARTS = 1024


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

    def applies(self, part: FormulaPart, budget: Budget, policy: Policy) -> StepVerdict:
        """The verdict on chains from solutions. Raises Unsatisfiable if the solver proved that."""
        latest = chains.latest_verdict(part) if policy.auto.reuse else None
        if latest is not None and latest[0] == NAME:
            return replace(latest[1], rows=())
        search, rules = budget.share(0.4), policy.chains
        states: list[np.ndarray] = []
        solver = ""
        chosen = pilots(part.theta)
        for k, row in enumerate(part.theta[chosen]):
            mine, solver, cut = find(
                part.problem,
                row,
                rules.starts,
                SEED + k,
                search.share(1 / (len(chosen) - k)),
                rules.conflicts // len(chosen),
            )
            if cut:
                part.passed[SAFETY] = cut
            if not len(mine):
                return StepVerdict(0, "heuristic", "no solver found a solution within its limits")
            states.append(mine)
        most = (1 << 26) // part.formula.n_total  # 64 million variables of all chains together
        lanes = int(np.clip(most // 64 * 64, 128, rules.lanes))
        rows = part.theta + 0.0  # as in `for_rows`: -0.0 and 0.0 are the same theta
        known = {rows[k].tobytes(): mine for k, mine in zip(chosen, states, strict=True)}

        def verdict_of_row(row: np.ndarray) -> StepVerdict:
            if policy.auto.skips("single"):
                return StepVerdict(0, "heuristic", "left out")
            jumps = isinstance(chains.hubs_of(part, policy.moves), Hubs)
            diagnosis = budget.share(rules.short_share if jumps else rules.share)
            request = pilot_request(row[None], lanes, diagnosis)
            walk = Chains.given(part.problem, request, [known[row.tobytes()]])
            return diagnose_chains(walk, limits=policy.diagnosis)

        def given(asked: Request, row: np.ndarray) -> Chains:
            return Chains.given(part.problem, asked, [known[(row + 0.0).tobytes()]])

        verdict = for_rows(part.theta, verdict_of_row)
        verdict = chains.better_moves(part, budget, policy, verdict, given) or verdict
        if len(part.problem.program.order) < part.formula.n_total:
            # Sweeps skip extremal components. That is right after resampling only.
            why = f"{verdict.why}; some variables keep the value that the solver gave them"
            verdict = replace(verdict, guarantee="heuristic", why=why, rows=())
        sweeps = f"{verdict.sweeps} {chains.name_of_moves(verdict)}"
        why = f"{sweeps} from solutions of {solver} ({verdict.why})"
        more = verdict.more | {"starts": min(len(mine) for mine in states)}
        return chains.keep_verdict(part, NAME, replace(verdict, why=why, more=more, starts=states))

    def take(self, search: StepSearch) -> None:
        form, policy = search.form, search.chain_policy
        with search.beside_the_compiler():
            parts = form.few()
            for k, part in enumerate(parts):
                budget = search.chain_budget.share(policy.auto.search_share / (len(parts) - k))
                form.take(self, part, self.applies(part, budget, policy))

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
            verdict = _SOLVER.applies(part, budget, policy)
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
        count = min(request.count or MAX_STARTS, MAX_STARTS)
        for k, (theta, context) in enumerate(zip(request.theta, request.contexts, strict=True)):
            part = (0.5 if group.starts else 0.9) / (len(request.theta) - k)
            seed = foreign.seed_of(request.seed, context, 0)
            rows, _, cut = find(group.problem, theta, count, seed, request.budget.share(part))
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


def find(
    problem: Problem,
    theta: np.ndarray,
    count: int,
    seed: int,
    budget: Budget,
    conflicts: int = DEFAULT.chains.conflicts,
    literals: int = 200_000_000,
    few: int = 64,
) -> tuple[np.ndarray, str, str]:
    """Up to `count` solutions (m, n_total) bool, and the name of the solver that found them, or "";
    and which limit in seconds ended the search, if the caller had set none.

    theta (n,): preferences. budget: without a deadline conflicts are counted, so that the
    same call has the same starts on any machine, and literals times starts are at most `literals`,
    some seconds; but `few` starts are allowed in any case. Raises Unsatisfiable if a solver proved
    it.
    """
    limit, rules = None, DEFAULT.chains
    safety = rules.solver_seconds + rules.seconds_per_literal * len(problem.formula.literals)
    if budget.counted:
        size = max(1, len(problem.formula.literals))
        count, limit = min(count, max(few, literals // size)), conflicts
    how = problem, theta, count, seed
    if not missing_modules(cmsgen.SAMPLER):
        drawn = cmsgen.solutions(cmsgen.SCRIPT, "CMSGen", *how, budget.share(0.6), limit, safety)
        if len(drawn.rows):
            return np.asarray(drawn.rows, bool), "CMSGen", _cut(drawn, budget, safety)
    drawn = cmsgen.solutions(_SCRIPT, "PySAT", *how, budget, limit, safety)
    solver = "PySAT" if len(drawn.rows) else ""
    return np.asarray(drawn.rows, bool), solver, _cut(drawn, budget, safety)


def _cut(drawn: DrawnRows, budget: Budget, safety: float) -> str:
    if not budget.counted or drawn.ended != TIME_UP:
        return ""
    return f"the search for starts was ended by the safety limit of {safety:.3g} s"
