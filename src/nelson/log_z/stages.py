"""One ratio of the telescope: what is sampled, how, and which samples satisfy the group."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from nelson.exact.reduce import Part
from nelson.formula import Formula
from nelson.kernels.core.bits import tail_mask

#: `prs` is exact: it is taken while so many samples all converge within so many rounds. (It gets
#: dear abruptly: random 5-SAT, n = 1000: 29 rounds for 150 clauses, 513 for 200.)
TRIAL, TRIAL_ROUNDS = 1024, 32
#: Seconds for a trial without that limit, where chains do not mix.
RESCUE = 2.0
#: One sweep costs this much of drawing anew (measured, n = 1000).
SWEEP = 0.4
#: A measured correlation below this is not told from noise.
LEAST_RHO = 0.1


@dataclass(frozen=True)
class How:
    """A sampler and what its samples are worth. lag 0: exact, nothing to allow for."""

    method: str
    sweeps: int
    guarantee: str
    lag: int = 0
    rho: float = 0.0

    def cost(self, formula: Formula) -> float:
        """Of one sample, in units that are the same for all stages."""
        return (formula.n_vars + formula.literals.size) * (1 + SWEEP * self.sweeps)


@dataclass(frozen=True)
class Conditional:
    """The law given the clauses before `first`, restricted to components that the group touches.

    columns: variables of the group, from 1; literals, offsets: its clauses over those columns.
    """

    formula: Formula
    theta: np.ndarray
    columns: np.ndarray
    literals: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, part: Part, first: int, last: int) -> Conditional:
        """Condition on clauses [0, first); the group is [first, last). O(total literals)."""
        from nelson.formula.components import components

        offsets = part.offsets
        before, group = (
            part.literals[: offsets[first]],
            part.literals[offsets[first] : offsets[last]],
        )
        label = components(Formula.from_arrays(before, offsets[: first + 1], n_vars=part.n))
        wanted = np.zeros(part.n, bool)
        wanted[label[np.abs(group) - 1]] = True
        inside = wanted[label]  # variables kept
        lengths = np.diff(offsets[: first + 1])
        kept = inside[np.abs(before[offsets[:first]]) - 1]
        name = np.cumsum(inside)  # from 1
        clauses = before[np.repeat(kept, lengths)]
        formula = Formula.from_arrays(
            np.sign(clauses) * name[np.abs(clauses) - 1],
            np.concatenate([[0], np.cumsum(lengths[kept])]),
            n_vars=int(inside.sum()),
        )
        columns, place = np.unique(np.abs(group), return_inverse=True)
        return cls(
            formula,
            part.theta[inside],
            name[columns - 1],
            np.sign(group) * (place + 1),
            offsets[first : last + 1] - offsets[first],
        )


@dataclass(frozen=True)
class Drawn:
    rows: np.ndarray  # (columns, words) uint64
    count: int
    late: bool  # fewer than asked for, and the time is up
    guarantee: str
    reason: str


def draw(
    given: Conditional,
    how: How,
    count: int,
    seed: int,
    threads: int | None,
    seconds: float,
    max_rounds: int = 1000,
    device: Any = None,
) -> Drawn:
    """`count` samples of the group's variables, packed; bits behind the last are 0."""
    from nelson.sampling.device.samples import DeviceSamples
    from nelson.sampling.sample_stream import sample

    deadline = time.monotonic() + seconds
    samples = sample(
        given.formula,
        given.theta,
        count,
        method=how.method,
        sweeps=how.sweeps,
        project=given.columns.tolist(),
        seed=seed,
        threads=threads,
        max_rounds=max_rounds,
        seconds=max(seconds, 0.0),
        device=device,
    )
    if isinstance(samples, DeviceSamples):
        samples = samples.host()
    late = samples.status != "ok" and time.monotonic() >= deadline
    rows = np.ascontiguousarray(samples.packed.T)
    return Drawn(rows, samples.count, late, samples.guarantee, samples.info.get("reason", ""))


def surviving(given: Conditional, drawn: Drawn, least: float = 0.0) -> np.ndarray:
    """How many samples satisfy the first 1, 2, .. clauses of the group, int64 (clauses,).

    One AND a literal checks a clause for 64 samples. Ends early, with zeros, once less than
    `least` of the samples are left.
    """
    alive, out = tail_mask(drawn.count), np.zeros(len(given.offsets) - 1, np.int64)
    for j in range(len(out)):
        holds = np.zeros_like(alive)
        for literal in given.literals[given.offsets[j] : given.offsets[j + 1]].tolist():
            row = drawn.rows[abs(literal) - 1]
            holds |= row if literal > 0 else ~row
        alive &= holds
        out[j] = np.bitwise_count(alive).sum(dtype=np.int64)
        if out[j] < least * drawn.count:
            break
    return out


def choose(
    given: Conditional, threads: int | None, seconds: float, seed: int, try_prs: bool
) -> How:
    """The sampler for a stage. It depends on the seed, not on the clock."""
    from nelson.sampling.mixing import mixing
    from nelson.sampling.problem import prepare

    deadline = time.monotonic() + seconds
    problem = prepare(given.formula)
    if problem.extremal:
        return How("lovasz", 0, "exact")
    exact = How("prs", 0, "exact")
    if try_prs and draw(given, exact, TRIAL, seed, threads, seconds, TRIAL_ROUNDS).count == TRIAL:
        return exact
    found = mixing(problem, given.theta[None], threads or 1, deadline)
    if not found.mixed:  # exact at any price is better than a chain that does not move
        left = min(max(deadline - time.monotonic(), 0.0), RESCUE)
        if draw(given, exact, TRIAL, seed, threads, left).count >= TRIAL // 2:
            return exact
    rho = min(max(found.rho, LEAST_RHO), 0.99)
    return How("lovasz", found.sweeps, "asymptotic" if found.mixed else "heuristic", found.lag, rho)
