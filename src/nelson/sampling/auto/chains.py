"""Steps 5 and 6 of the ladder: chains in the valid space, and the verdict on them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from nelson.formula.memo import Recent, Slot
from nelson.io.progress import phase
from nelson.kernels.core.bits import compact
from nelson.sampling.auto import starts
from nelson.sampling.auto.decision import SAFETY, Limits, Part
from nelson.sampling.chain import Chains, share
from nelson.sampling.diagnosis.diagnose import (
    SEED,
    beyond_resolution,
    diagnose,
    diagnose_chains,
    for_rows,
    pilot_request,
    pilots,
)
from nelson.sampling.diagnosis.verdict import Verdict
from nelson.sampling.hubs import Hubs
from nelson.sampling.joint import joint_moves
from nelson.sampling.jumps import LANES, Jumps, learned
from nelson.sampling.sampler import Moves, Request
from nelson.sampling.units import unit_moves

#: The last verdict on a component and its step, by evidence.
_LATEST: Slot[Recent[tuple[int, ...], tuple[str, Verdict]]] = Slot("latest verdict on chains")
#: The hubs of a component, by evidence.
_HUBS: Slot[Recent[tuple[int, ...], Hubs | str]] = Slot("hubs")
#: Starts that a solver is asked for.
_STARTS = 256
#: Chains that run from these starts; fewer, if they have more variables than this together.
_LANES, _LANE_VARIABLES = 1024, 1 << 26
#: Joint moves that hold a larger share of the variables, or more variables, are not tried: in no
#: formula that we tried did they mix.
_MOST_HELD, _MANY_HELD = 0.6, 512
#: Shares of the time left for the diagnosis of sweeps of fields, and of joint moves.
_FIELDS_SHARE, _JOINT_SHARE = 0.3, 0.8
#: Share of the time left for learning jumps; and for single sweeps, if there may be jumps.
_LEARN_SHARE, _SHORT = 0.5, 0.1
#: Sweeps of fields are tried if at least this share of the variables is in a group.
_GROUPED = 0.1
#: Fields and joint moves are not tried for more contexts than this: each is diagnosed.
_JOINT_CONTEXTS = 8
#: Most work of the joint moves of a sample, in entries of tables: about 0.1 s of one core.
_MOST_WORK = 1 << 28
#: Above this many literals 64 samples are tried before the pilot run, which takes its time.
_LARGE = 20_000
#: Above this many literals a pilot run takes about _PILOT_TRIALS times as long as these 64 samples
#: (random 4-SAT, a million clauses: chains forget within 16 sweeps; 300 times 1.4 s of one core).
#: With a deadline there is none if that is more than the share that it would get.
_HUGE, _PILOT_TRIALS, _PILOT_SHARE = 2_000_000, 300, 0.3


def by_resampling(part: Part, limits: Limits) -> Verdict | None:
    """Step 5; None if resampling does not converge: the reason is in `part.passed`."""
    if limits.reuse and (latest := _latest(part)) is not None:
        part.passed["resampling"] = "it did not converge when it was last tried"
        return replace(latest[1], rows=()) if latest[0] == "resampling" else None
    size, began = len(part.formula.literals), time.monotonic()
    large = size > _LARGE
    if large and not _converges(part, limits):
        part.passed["resampling"] = "it did not converge in a trial of 64 samples"
        return None
    if size > _HUGE and limits.deadline is not None:
        now = time.monotonic()
        wanted, left = _PILOT_TRIALS * (now - began), _PILOT_SHARE * (limits.deadline - now)
        if wanted > left:
            told = f"a pilot run would take about {wanted:.2g} s: more than {_PILOT_SHARE:.0%} of "
            told += "the time left"
            return Verdict(3, "heuristic", f"3 sweeps of the valid space follow ({told})")
    verdict = diagnose(part.problem, part.theta, limits.threads, limits.deadline)
    if not verdict.converged and not (large and not verdict.complete):
        part.passed["resampling"] = verdict.why
        return None
    moved = _moved(
        part, limits, verdict, lambda asked, row: Chains.resampled(part.problem, asked, row[None])
    )
    if moved is not None:
        why = f"not extremal: {moved.sweeps} {_name(moved)} follow ({moved.why})"
        return _keep(part, "resampling", replace(moved, why=why))
    swept = len(part.problem.program.order)
    begin = f"not extremal: {verdict.sweeps} sweeps of the valid space over {swept} variables"
    return _keep(part, "resampling", replace(verdict, why=f"{begin} follow ({verdict.why})"))


def _latest(part: Part) -> tuple[str, Verdict] | None:
    return part.formula.memo.once(_LATEST, lambda: Recent(4)).get(part.evidence)


def _keep(part: Part, step: str, verdict: Verdict) -> Verdict:
    part.formula.memo.once(_LATEST, lambda: Recent(4)).put(part.evidence, (step, verdict))
    return verdict


def _converges(part: Part, limits: Limits) -> bool:
    """Does resampling converge in a trial of one word of samples?"""
    rows = part.theta[pilots(part.theta)]
    request = pilot_request(rows, 64, limits.threads, share(limits.deadline, 0.2))
    return 2 * Chains.resampled(part.problem, request, rows).lanes() >= 64 * len(rows)


def _moved(
    part: Part,
    limits: Limits,
    single: Verdict,
    start: Callable[[Request, np.ndarray], Chains],
) -> Verdict | None:
    """The verdict on chains of jumps, of fields, or of joint moves, if they are asymptotic and
    chains of single moves are not.

    start: chains for a request and a theta (n,). The reasons why not are in `part.passed`.
    """
    if single.guarantee != "heuristic" or beyond_resolution(part.theta):
        return None
    return (
        _by_jumps(part, limits, start)
        or _by_fields(part, limits, start)
        or _jointly(part, limits, start)
    )


def _name(verdict: Verdict) -> str:
    return {"fields": "sweeps of fields", "joint": "joint moves", "jumps": "jumps"}.get(
        str(verdict.more.get("moves")), "sweeps"
    )


def _by_fields(
    part: Part, limits: Limits, start: Callable[[Request, np.ndarray], Chains]
) -> Verdict | None:
    """The verdict on chains that redraw groups of which at most one is true; None if heuristic."""
    if why := _no_fields(part, limits):
        part.passed["fields"] = why
        return None
    moves = unit_moves(part.problem)
    assert moves is not None
    verdict = _verdict_on(part, limits, moves, start, _FIELDS_SHARE)
    if verdict.guarantee == "heuristic":
        part.passed["fields"] = verdict.why
        return None
    return replace(verdict, moves=moves, more=verdict.more | moves.info)


def _no_fields(part: Part, limits: Limits) -> str:
    """Why sweeps of fields are not tried; "" if they are."""
    if "fields" in limits.skip:
        return "left out"
    if len(pilots(part.theta)) > _JOINT_CONTEXTS:
        return f"more than {_JOINT_CONTEXTS} different contexts would have to be diagnosed"
    moves = unit_moves(part.problem)
    if moves is None or moves.grouped < _GROUPED * part.formula.n_total:
        return "few variables are in groups of which at most one is true"
    return ""


def _jointly(
    part: Part, limits: Limits, start: Callable[[Request, np.ndarray], Chains]
) -> Verdict | None:
    """The verdict on chains of joint moves; None if heuristic."""
    if why := no_joint_moves(part, limits):
        part.passed["joint moves"] = why
        return None
    if why := _too_wide(part):
        part.passed["joint moves"] = why
        return None
    moves = joint_moves(part.problem)
    assert moves is not None
    verdict = _verdict_on(part, limits, moves, start)
    if verdict.guarantee != "heuristic":
        return replace(verdict, moves=moves, more=verdict.more | moves.info)
    part.passed["joint moves"] = verdict.why
    return None


def _hubs(part: Part) -> Hubs | str:
    """The hubs of a part, or why it has no jumps. Kept with the formula."""
    known = part.formula.memo.once(_HUBS, lambda: Recent(4))
    return known.once(part.evidence, lambda: Hubs.of(part.problem))


def _by_jumps(
    part: Part, limits: Limits, start: Callable[[Request, np.ndarray], Chains]
) -> Verdict | None:
    """The verdict on chains of jumps; None if heuristic."""
    why, hubs = no_joint_moves(part, limits), _hubs(part)
    if why or isinstance(hubs, str):
        part.passed["jumps"] = why or str(hubs)
        return None
    if not len(hubs.variable):  # a joint move draws exactly
        return _jointly(part, limits, start)
    row = part.theta[pilots(part.theta)[0]]
    until = share(limits.deadline, _LEARN_SHARE)
    asked = pilot_request(row[None], LANES, limits.threads, until, seed=SEED - 1)
    chains = start(asked, row)
    words, count = compact(chains.words[0], chains.valid[0])
    moves: Jumps | str = "too few starts were found"
    if 2 * count >= LANES:
        with phase("learning jumps"):
            moves = learned(hubs, asked, words[None, : count // 64])
    if isinstance(moves, str):
        part.passed["jumps"] = moves
        return None
    verdict = _verdict_on(part, limits, moves, start)
    if verdict.guarantee == "heuristic":
        part.passed["jumps"] = verdict.why
        return None
    return replace(verdict, moves=moves, more=verdict.more | moves.info)


def no_joint_moves(part: Part, limits: Limits) -> str:
    """Why joint moves of a part are not tried; "" if they are."""
    if "joint" in limits.skip:
        return "left out"
    if len(pilots(part.theta)) > _JOINT_CONTEXTS:
        return f"more than {_JOINT_CONTEXTS} different contexts would have to be diagnosed"
    return "" if isinstance(_hubs(part), Hubs) else _too_wide(part)


def _too_wide(part: Part) -> str:
    """Why joint moves alone are not tried; "" if they are."""
    moves = joint_moves(part.problem)
    if moves is None:
        return "the formula stays too wide unless most of its variables are held"
    if moves.held > _MOST_HELD or moves.number_held > _MANY_HELD:
        return f"the formula stays too wide unless {moves.number_held:,} variables are held"
    return ""


def _verdict_on(
    part: Part,
    limits: Limits,
    moves: Moves,
    start: Callable[[Request, np.ndarray], Chains],
    budget: float = _JOINT_SHARE,
) -> Verdict:
    """The verdict on chains of these moves, within that share of the time."""
    if not moves.held:
        width = moves.info.get("width")
        why = f"a joint move holds no variable (width {width}): it draws from P exactly"
        return Verdict(1, "exact", why)

    def one(row: np.ndarray) -> Verdict:
        asked = pilot_request(row[None], _LANES, limits.threads, share(limits.deadline, budget))
        return diagnose_chains(start(replace(asked, moves=moves), row))

    verdict = for_rows(part.theta, one)
    work = verdict.sweeps * moves.work
    if work > _MOST_WORK:
        told = f"; but a sample would cost {work:.2g} steps, more than {_MOST_WORK:.2g}"
        return replace(verdict, guarantee="heuristic", why=verdict.why + told, rows=())
    return verdict


def from_solver(part: Part, limits: Limits) -> Verdict:
    """Step 6. Raises Unsatisfiable if the solver proved that."""
    if limits.reuse and (latest := _latest(part)) is not None and latest[0] == "solver":
        return replace(latest[1], rows=())
    until = share(limits.deadline, 0.4)
    states: list[np.ndarray] = []
    solver = ""
    chosen = pilots(part.theta)
    for k, row in enumerate(part.theta[chosen]):
        mine, solver, cut = starts.find(
            part.problem,
            row,
            _STARTS,
            SEED + k,
            None if until is None else share(until, 1 / (len(chosen) - k)),
            starts.CONFLICTS // len(chosen),
        )
        if cut:
            part.passed[SAFETY] = cut
        if not len(mine):
            return Verdict(0, "heuristic", "no solver found a solution within its limits")
        states.append(mine)
    lanes = int(np.clip(_LANE_VARIABLES // part.formula.n_total // 64 * 64, 128, _LANES))
    known = {part.theta[k].tobytes(): mine for k, mine in zip(chosen, states, strict=True)}

    def one(row: np.ndarray) -> Verdict:
        if "single" in limits.skip:
            return Verdict(0, "heuristic", "left out")
        until = share(limits.deadline, _SHORT if isinstance(_hubs(part), Hubs) else 0.3)
        request = pilot_request(row[None], lanes, limits.threads, until)
        return diagnose_chains(Chains.given(part.problem, request, [known[row.tobytes()]]))

    def given(asked: Request, row: np.ndarray) -> Chains:
        return Chains.given(part.problem, asked, [known[row.tobytes()]])

    verdict = for_rows(part.theta, one)
    verdict = _moved(part, limits, verdict, given) or verdict
    if len(part.problem.program.order) < part.formula.n_total:
        # Sweeps skip extremal components. That is right after resampling, but not after a solver.
        why = f"{verdict.why}; some variables keep the value that the solver gave them"
        verdict = replace(verdict, guarantee="heuristic", why=why, rows=())
    why = f"{verdict.sweeps} {_name(verdict)} from solutions of {solver} ({verdict.why})"
    more = verdict.more | {"starts": min(len(mine) for mine in states)}
    return _keep(part, "solver", replace(verdict, why=why, more=more, starts=states))
