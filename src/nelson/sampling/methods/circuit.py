"""Exact samples from a circuit: the formula is compiled once, then any theta is a linear pass.

    P(branch | decision) = value(branch) / value(decision)

from the root down, where the value of a branch is the weight of all assignments below it. D4
compiles in a child process, under limits of time and memory; the circuit is kept with the formula
and on disk. One pass up computes the weights of all decisions in log space, and a bit-sliced
descent draws. New theta, evidence and projections need no new compilation: evidence is weight 0. If
the formula does not compile but the formula given the evidence does, that circuit is used.

A formula of n variables may have a circuit of 2^n nodes. Its treewidth bounds the size;
`nelson.exact.compile_guess` estimates the treewidth beforehand. Exact up to rounding: values are
doubles, probabilities multiples of 2^-64.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.chains.block import Block, joined
from nelson.chains.problem import Problem
from nelson.chains.request import Request
from nelson.errors import Unsatisfiable
from nelson.exact.circuit.decisions import joined as joined_circuits
from nelson.exact.circuit.draw import WIDTHS, Draws, clauses_of
from nelson.exact.compiled import Compiled, compiled, why_not
from nelson.exact.routes import CIRCUIT
from nelson.formula import Formula
from nelson.kernels.core.bits import words_for
from nelson.sampling import total_variation
from nelson.sampling.sampler import Sampler


def circuit_of(
    problem: Problem, budget: Budget, effort: float = 320.0, share: float = 0.8
) -> tuple[Compiled | None, str]:
    """The circuit of the formula, or of the formula given the evidence; or None and the reason.

    effort: about a minute, without a deadline; share: of the time left, the rest is for
    drawing.
    """
    part = 0.5 if problem.evidence else 1.0  # of the limit, for each formula
    budget = budget.share(share)
    circuit = compiled(problem.formula, budget.share(part), effort=part * effort)
    reason = why_not(problem.formula)
    if circuit is None and problem.evidence:
        circuit = compiled(problem.rest, budget, effort=part * effort)
        reason += "; given the evidence: " + why_not(problem.rest)
    return circuit, reason


def blocks(problem: Problem, request: Request) -> Iterator[Block]:
    """The samples of a request, `request.block` per context at a time."""
    if request.count == 0:
        return
    source, reason = circuit_of(problem, request.budget)
    if source is None:
        yield Block.empty(request, stopped=True, info={"ended": f"no circuit: {reason}"})
        return
    theta = np.zeros((len(request.contexts), problem.formula.n_total))
    theta[:, : problem.n] = request.theta
    theta[:, np.abs(problem.fixed) - 1] = np.where(problem.fixed > 0, np.inf, -np.inf)
    draws = Draws(
        source.circuit,
        theta,
        request.columns,
        clauses_of(problem.formula, problem.evidence),
        request.seed,
        request.contexts,
        request.budget.threads,
        request.width,
        request.count,
    )
    info: dict[str, Any] = {
        "decisions": source.circuit.decisions,
        "edges": source.circuit.edges,
        "compile_seconds": source.built.seconds,
        "cached": source.built.cached,
    }
    for start, count in request.pieces():
        turns: list[Block] = []
        for first, size in request.in_turns(start, count):
            drawn = draws.block(first // 64, size, request.of_block().deadline)
            if (drawn.log_p == -np.inf).any():
                given = f" given {list(problem.evidence)}" if problem.evidence else ""
                raise Unsatisfiable(
                    f"a solver proved that the formula has no solution{given}: its circuit is false"
                )
            block = Block(drawn.packed, drawn.valid, info=dict(info))
            block.stopped, block.interrupted = drawn.stopped, drawn.interrupted
            turns.append(block)
            if block.last:
                break
        block = joined(turns)
        yield block
        if block.last:
            return


def ready(count: int, width: int | None = None) -> None:
    """Compile the kernels for `count` samples, before a clock starts."""
    _ready(width or WIDTHS[words_for(count) > 1])


@cache
def _ready(width: int) -> None:
    circuit, zero = joined_circuits([], np.zeros(0, np.int32), 1), np.zeros(1, np.int64)
    clauses = clauses_of(Formula([], n_vars=1))
    for plain in (False, True):
        draws = Draws(circuit, np.zeros((1, 1)), zero, clauses, 0, zero, 1, width)
        draws.plain = plain
        draws.block(0, 1)


SAMPLER = Sampler(
    name=CIRCUIT,
    summary="compile to a d-DNNF once; draw branches by their share of the weight",
    citation="Darwiche, Marquis: A knowledge compilation map, JAIR 17 (2002); Lagniez, Marquis: "
    "An improved decision-DNNF compiler, IJCAI 2017 (D4)",
    weighted=True,
    guarantee=lambda problem, sweeps: "exact",
    variation=total_variation.of_circuit,
    keyed=True,
    from_circuit=True,
    blocks=blocks,
    needs="samplers",
    ready=ready,
    promise="exact",
)
