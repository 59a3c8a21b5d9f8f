"""Chains in the valid space that the steps `resampling` and `solver` share: which moves, and the
verdict on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.chains.chain import Chains
from nelson.chains.diagnosis.diagnose import (
    SEED,
    diagnose_chains,
    for_rows,
    pilot_request,
    pilots,
)
from nelson.chains.diagnosis.verdict import StepVerdict
from nelson.chains.moves.fields import unit_moves
from nelson.chains.moves.hubs import Hubs
from nelson.chains.moves.joint import LOST, Joint, joint_moves
from nelson.chains.moves.jumps import LANES, learned
from nelson.chains.moves.protocol import Moves
from nelson.chains.problem import beyond_resolution
from nelson.chains.request import Request
from nelson.formula.memo import Recent, Slot
from nelson.io.progress import phase
from nelson.kernels.core.bits import compact
from nelson.policy import MovesPolicy, Policy
from nelson.sampling.auto.decision import FormulaPart

#: Chains for a request and a theta (n,).
Start = Callable[[Request, np.ndarray], Chains]
#: The last verdict on a component and its step, by evidence.
_LATEST: Slot[Recent[tuple[int, ...], tuple[str, StepVerdict]]] = Slot("latest verdict on chains")
#: The hubs of a component, by evidence and policy.
_HUBS: Slot[Recent[Any, Hubs | str]] = Slot("hubs")


def latest_verdict(part: FormulaPart) -> tuple[str, StepVerdict] | None:
    """The last step that took this part, and its verdict, if that may serve another theta."""
    latest = part.formula.memo.recent(_LATEST, 4).get(part.evidence)
    if latest is not None and not latest[1].moves.held and not _holds_tables(part, latest[1].moves):
        return None  # exact for another theta, but not for this one
    return latest


def keep_verdict(part: FormulaPart, step: str, verdict: StepVerdict) -> StepVerdict:
    """Let `latest_verdict` find this one."""
    part.formula.memo.recent(_LATEST, 4).put(part.evidence, (step, verdict))
    return verdict


def better_moves(
    part: FormulaPart, budget: Budget, policy: Policy, single: StepVerdict, start: Start
) -> StepVerdict | None:
    """The verdict on chains of jumps, of fields, or of joint moves, if they are diagnosed and
    chains of single moves are not.

    The reasons why not are in `part.passed`.
    """
    if single.guarantee != "heuristic" or beyond_resolution(part.theta):
        return None
    rules = policy.chains
    kinds: list[tuple[str, Callable[[], Moves | str], float]] = [
        ("jumps", lambda: _jumps(part, budget, policy, start), rules.joint_share),
        ("fields", lambda: _fields(part, policy), rules.fields_share),
        ("joint moves", lambda: _joint(part, policy), rules.joint_share),
    ]
    for name, moves_or_reason, portion in kinds:
        moves = moves_or_reason()
        if isinstance(moves, str):
            part.passed[name] = moves
            continue
        verdict = _verdict_on(part, budget, policy, moves, start, portion)
        if verdict.guarantee != "heuristic":
            return replace(verdict, moves=moves, more=verdict.more | moves.info)
        part.passed[name] = verdict.why
    return None


def name_of_moves(verdict: StepVerdict) -> str:
    return {"fields": "sweeps of fields", "joint": "joint moves", "jumps": "jumps"}.get(
        str(verdict.more.get("moves")), "sweeps"
    )


def _fields(part: FormulaPart, policy: Policy) -> Moves | str:
    """Moves that redraw groups of which at most one is true, or why they are not tried."""
    if policy.auto.skips("fields"):
        return "left out"
    if why := _many_contexts(part, policy):
        return why
    moves = unit_moves(part.problem)
    if moves is None or moves.grouped < policy.chains.grouped * part.formula.n_total:
        return "few variables are in groups of which at most one is true"
    return moves


def _joint(part: FormulaPart, policy: Policy) -> Moves | str:
    """Joint moves, or why they are not tried."""
    return no_joint_moves(part, policy) or _not_too_wide(part, policy)


def _jumps(part: FormulaPart, budget: Budget, policy: Policy, start: Start) -> Moves | str:
    """Jumps learned from the chains that `start` gives, or why they are not tried."""
    why, hubs = no_joint_moves(part, policy), hubs_of(part, policy.moves)
    if why or isinstance(hubs, str):
        return why or str(hubs)
    if not len(hubs.variable):  # a joint move draws exactly
        return _not_too_wide(part, policy)
    row = part.theta[pilots(part.theta)[0]]
    learning = budget.share(policy.chains.learn_share)
    asked = pilot_request(row[None], LANES, learning, seed=SEED - 1)
    chains = start(asked, row)
    words, count = compact(chains.words[0], chains.valid[0])
    if 2 * count < LANES:
        return "too few starts were found"
    with phase("learning jumps"):
        return learned(hubs, asked, words[None, : count // 64], policy.moves)


def hubs_of(part: FormulaPart, limits: MovesPolicy) -> Hubs | str:
    """The hubs of a part, or why it has no jumps. Kept with the formula."""
    known = part.formula.memo.recent(_HUBS, 4)
    return known.once((part.evidence, limits), lambda: Hubs.of(part.problem, limits))


def no_joint_moves(part: FormulaPart, policy: Policy) -> str:
    """Why joint moves of a part are not tried; "" if they are."""
    if policy.auto.skips("joint"):
        return "left out"
    if why := _many_contexts(part, policy):
        return why
    if isinstance(hubs_of(part, policy.moves), Hubs):
        return ""
    moves = _not_too_wide(part, policy)
    return moves if isinstance(moves, str) else ""


def _many_contexts(part: FormulaPart, policy: Policy) -> str:
    most = policy.chains.contexts
    if len(part.theta) <= most or len(np.unique(part.theta, axis=0)) <= most:
        return ""
    return f"more than {most} different contexts would have to be diagnosed"


def _not_too_wide(part: FormulaPart, policy: Policy) -> Moves | str:
    """Joint moves, or why they alone are not tried."""
    moves, rules = joint_moves(part.problem, limits=policy.moves), policy.chains
    if moves is None:
        return "its tables are too large unless most variables are kept fixed"
    if moves.held > rules.held or moves.number_held > rules.most_held:
        return f"its tables are too large unless {moves.number_held:,} variables are kept fixed"
    return moves


def _holds_tables(part: FormulaPart, moves: Moves) -> bool:
    """Do doubles hold the tables of moves that hold no variable? They depend on theta alone."""
    rows = np.unique(part.theta, axis=0)
    states = np.zeros((len(rows), 1, part.formula.n_total), np.uint64)
    request = pilot_request(rows, 64, Budget(threads=1))
    return isinstance(moves, Joint) and not moves.loses(part.problem, request, states)


def _verdict_on(
    part: FormulaPart,
    budget: Budget,
    policy: Policy,
    moves: Moves,
    start: Start,
    portion: float,
) -> StepVerdict:
    """The verdict on chains of these moves, within that share of the time."""
    if not moves.held:
        width = moves.info.get("width")
        if _holds_tables(part, moves):
            why = f"a joint move redraws all variables at once (width {width}), exactly from P"
            return StepVerdict(1, "exact", why)
        return StepVerdict(1, "heuristic", LOST)

    def verdict_of_row(row: np.ndarray) -> StepVerdict:
        asked = pilot_request(row[None], policy.chains.lanes, budget.share(portion))
        chains = start(replace(asked, moves=moves), row)
        if isinstance(moves, Joint) and moves.loses(part.problem, asked, chains.words):
            return StepVerdict(1, "heuristic", LOST)
        return diagnose_chains(chains, limits=policy.diagnosis)

    verdict = for_rows(part.theta, verdict_of_row)
    work = verdict.sweeps * moves.work
    if work > (most := policy.chains.work):
        too_costly = f"; but a sample would cost {work:.2g} steps, more than {most:.2g}"
        return replace(verdict, guarantee="heuristic", why=verdict.why + too_costly, rows=())
    return verdict
