"""A conditional test of a sampler, for formulas whose structures cannot be counted.

    repeat t times:  s ~ sampler,  r ~ reference,  alpha = w(s) / w(r)
                     K = formula whose solutions extend s or r (`pair_design.py`)
                     reject if the share of s among N of the sampler's draws from K is above T,
                     where alpha / (1 + alpha) is the right share

A sampler that gives some structures too much weight returns them as s, and against an r of the
right law they win more often than they should. This is Barbarik2 (Meel, Pote, Chakraborty, "On
Testing of Samplers", NeurIPS 2020); with alpha = 1 it tests uniform samplers, as Barbarik did
(Chakraborty and Meel, "On Testing of Uniform Samplers", AAAI 2019). With the t, N, T of
`pair_design.py` it

    accepts with probability >= 1 - delta if (1 - epsilon) P <= law <= (1 + epsilon) P everywhere
    rejects with probability >= 1 - delta if the L1 distance of the laws is at least eta (of 2)

for 0 <= epsilon < 1/3 and 6 epsilon < eta <= 2, *provided that the sampler on K follows its law on
the formula, conditioned* ("subquery consistent"): the test sees the sampler on K only. `auto` would
choose its method anew for K; there the method that it took for the formula is held fixed. If the
sampler itself claims less on K than on the formula, the test is undecided.

Departures from the paper: N is smaller for the same errors, K is built differently (both in
`pair_design.py`), and pairs that need more than `policy.judging.pair_draws` draws are skipped; then
the test does not accept.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from nelson.budget import Budget
from nelson.chains.guarantee import weakest
from nelson.errors import NelsonError, Unsatisfiable
from nelson.exact.law import Law
from nelson.exact.routes import Reason
from nelson.formula import Formula
from nelson.judging.case import Case
from nelson.judging.pair_design import Design, pair_formula
from nelson.judging.source import Draw
from nelson.judging.tails import binomial_tails
from nelson.judging.verdict import Finding, probability
from nelson.sampling.registry import names
from nelson.sampling.sample_stream import sample

#: How often a sampler is called for one pair; some samplers return fewer draws than asked for.
_CALLS = 8

Pair = tuple[np.ndarray, np.ndarray]


class Tally(NamedTuple):
    """A sampler's draws from the formula of a pair."""

    first: int = 0  # draws of the structure that the sampler had drawn before
    drawn: int = 0
    invalid: int = 0  # draws of neither structure
    unusable: str = ""  # why the draws say nothing about the sampler's law on the formula


def barbarik(case: Case, design: Design) -> Finding:
    assert case.source.draw is not None
    t, seed = design.pairs, case.seed + 1
    evidence: dict[str, Any] = {"epsilon": design.epsilon, "eta": design.eta, "delta": design.delta}
    evidence |= {"pairs": t, "tested": 0, "samples": 0}
    case.say(f"drawing {t} pairs")
    assert case.given is not None  # else the caller does not come here
    right, how = reference_samples(
        case.exact, case.given, case.weights, t, seed + 1_000_003, case.budget
    )
    evidence["reference"] = how
    if right is None:
        return Finding(None, f"no reference sampler: {how}", evidence)
    first = case.source.draw(case.formula, case.sampler_theta, t, seed, case.share(0.5).left)
    if len(first) < t:
        why = first.info.get("reason", "in time")
        return Finding(
            None, f"{case.source.name} gave {len(first)} of {t} samples: {why}", evidence
        )
    skipped, worst = 0, -math.inf
    for k, (s, r) in enumerate(zip(first.x[:t], right, strict=True)):
        if (s == r).all():
            continue
        log_alpha = float(case.weights @ s - case.weights @ r)
        plan = design.plan(log_alpha)
        if plan.draws > case.rules.pair_draws:
            skipped += 1
            continue
        case.say(f"pair {k + 1} of {t}: {plan.draws:,.0f} draws, {evidence['samples']:,} so far")
        tally = _draw_from_pair(case, (s, r), int(plan.draws), seed, k, first.info)
        if tally.invalid:
            what = f"{tally.invalid} draws from a conditioned formula violate it"
            return Finding(False, f"pair {k + 1}: {what}", evidence)
        if tally.unusable:
            return Finding(None, f"pair {k + 1} of {t}: {tally.unusable}", evidence)
        evidence["tested"] += 1
        evidence["samples"] += tally.drawn
        share, right_share = tally.first / tally.drawn, float(expit(log_alpha))
        seen = (
            f"pair {k + 1}: {share:.4f} of {tally.drawn:,} draws are the sampler's own structure, "
            f"{right_share:.4f} ideal, {plan.threshold:.4f} allowed"
        )
        z = (share - right_share) * math.sqrt(tally.drawn / (right_share * (1 - right_share)))
        if z > worst:
            worst, evidence["worst"] = z, seen
        if share > plan.threshold:
            p = float(binomial_tails(tally.first, tally.drawn, plan.low)[1])
            return Finding(False, f"{seen}; {probability(p)} if epsilon-close", evidence)
    return _none_rejected(case, t, skipped, evidence)


def _none_rejected(case: Case, t: int, skipped: int, evidence: dict[str, Any]) -> Finding:
    if skipped:
        limit = f"more than {case.rules.pair_draws:,} draws each"
        reason = f"{skipped} of {t} pairs differ too much in weight: {limit}"
        return Finding(None, reason, evidence)
    if not evidence["tested"]:
        return Finding(True, f"all {t} pairs were of two equal structures", evidence)
    reason = f"in none of {t} pairs the sampler's own structure won too often"
    return Finding(True, reason, evidence)


def _draw_from_pair(
    case: Case, pair: Pair, n: int, seed: int, k: int, before: dict[str, Any]
) -> Tally:
    """n draws from the formula of pair number k.

    before: what the sampler reported with its samples of the whole formula.
    """
    draw = _same_method(case, before)
    joined = pair_formula(case.formula, *pair, n, seed + k)
    theta = case.sampler_theta
    if theta is not None:
        theta = np.concatenate([theta, np.zeros(joined.new)])
    first_seed = (seed + 1) * 1_000_003 + _CALLS * k
    first = drawn = 0
    now: dict[str, Any] = {}
    for call in range(_CALLS):
        if drawn >= n or case.budget.spent:
            break
        # If a sampler gives up on some of its draws, the next call asks for proportionally more.
        more = n - drawn if not drawn else math.ceil(1.1 * (n - drawn) * call * n / drawn)
        wanted = min(more, case.rules.pair_draws)
        try:
            got = draw(joined.formula, theta, wanted, first_seed + call, case.share().left)
        except Unsatisfiable:
            return Tally(unusable="the sampler says that the conditioned formula has no solution")
        except NelsonError as error:
            return Tally(unusable=f"the sampler failed on the conditioned formula: {error}")
        now = got.info
        x = got.x[: n - drawn, : len(pair[0])]
        mine, other = (int((x == structure).all(axis=1).sum()) for structure in pair)
        if mine + other < len(x):
            return Tally(invalid=len(x) - mine - other)
        first, drawn = first + mine, drawn + len(x)
        if not len(x):
            break
    if drawn < n:
        few = f"{drawn:,} of {n:,} samples of the conditioned formula in time"
        return Tally(unusable=f"{case.source.name} gave {few}")
    return Tally(first, drawn, unusable=_another_sampler(case.source.name, before, now))


def reference_samples(
    law: Law | Reason, formula: Formula, theta: np.ndarray, count: int, seed: int, budget: Budget
) -> tuple[np.ndarray | None, str]:
    """((count, n) bool samples of P_theta(x | C), how they were drawn), or (None, why not).

    The first of these that works: the exact law of the formula, partial rejection sampling (these
    are exact), the method that `auto` chooses if it guarantees at least "diagnosed". theta (n,)
    finite.
    """
    if isinstance(law, Law):
        return law.draw(theta[None], count, seed)[0], law.why
    failed = f"no exact distribution ({law})"
    for method in ("prs", "auto"):
        if budget.spent:
            return None, f"{failed}; the time was up"
        how: dict[str, Any] = {"method": method, "seed": seed, "seconds": budget.share(0.25).left}
        try:
            drawn = sample(formula, theta, count, project="all", **how)
        except NelsonError as error:
            failed += f"; {method}: {error}"
            continue
        if len(drawn) == count and drawn.guarantee in ("exact", "diagnosed"):
            sweeps = f" + {drawn.info['sweeps']} sweeps" if drawn.info.get("sweeps") else ""
            return drawn.to_numpy(), f"{drawn.info['method']}{sweeps} ({drawn.guarantee})"
        failed += f"; {method}: {len(drawn)} of {count} samples, {drawn.guarantee}"
    return None, failed


def _same_method(case: Case, before: dict[str, Any]) -> Draw:
    """The sampler's `draw`; for `auto`, the draw of the method that it took for the formula.

    `auto` may take several methods for the parts of one formula; that mixture is no registered
    sampler, so `auto` chooses again and `_another_sampler` compares.
    """
    assert case.source.draw is not None
    method = str(before.get("method"))
    if case.source.held is None or method not in names():
        return case.source.draw
    return case.source.held(method)


def _another_sampler(name: str, before: dict[str, Any], now: dict[str, Any]) -> str:
    """How the sampler says that it takes another method, or guarantees less, on a pair's formula;
    "" if it does not.
    """
    if now.get("sweeps") and now.get("method") != "gibbs":
        return f"{name} makes sweeps of single variables, which cannot lead from x to y"
    for key in ("method", "guarantee"):
        was, is_now = before.get(key), now.get(key)
        if was is None or is_now is None or was == is_now:
            continue
        if key == "method" or weakest((was, is_now)) == is_now:
            said = f"its {key} is {is_now!r} on the conditioned formula, {was!r} on the formula"
            return f"{name} is not the same sampler there: {said}"
    return ""
