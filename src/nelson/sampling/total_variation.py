"""How far the law Q of samples that are called exact may be from P: a bound on total variation.

    TV(Q, P) = max over events A of |Q(A) - P(A)| <= rounding + doubles + coupling

`Samples.tv_bound` is the sum. Above `MOST` the word is not exact (`judged`). u = 2^-53.

*rounding.* Kernels of single bits draw P(x_i = 1) as a multiple of 2^-32, so Q has other log-odds,
theta + delta, and the same valid space. Let R_c be the sum of |delta_i| over a component c, which
shares no clause with others. Then delta . x ranges over an interval of length R_c there, and the
cumulant function A has the second derivative Var(delta . x) <= R_c^2 / 4 (Popoviciu), so

    KL(P, Q) = A(theta + delta) - A(theta) - delta . A'(theta) <= sum_c R_c^2 / 8
    TV <= sqrt(KL / 2) = sqrt(sum_c R_c^2) / 4           (Pinsker; one component: R / 4)

A variable in no clause has KL(Q, P) <= chi^2 = (q - p)^2 / (p (1 - p)) with q drawn instead of p,
which is smaller, since p is the probability of the variable, and not only that of a proposal. (The
first bound holds for KL(Q, P) as well.) A difference of log-odds is not small
if theta is far from 0: the rare value of a proposal may be the usual one of P, if clauses ask for
it. theta = 0 costs nothing. The weights of a field in a joint move, and the coins of the gates of
`rejection`, are rounded too: there delta is the error of the logarithm of each weight, and R adds
up the width of the interval of each unit. Q / P lies between e^-R and e^R: if the bound is above
`MOST`, that is what the guarantee `approximate` says.

*doubles.* A circuit draws branch b of decision i with probability t_b / v_i, where t_b is a product
of values and v_i = t_0 + t_1. Over the decisions that a sample passes the computed values cancel:

    Q(x) = (product of literal weights) / v_root * product over these decisions of (1 + error)

so errors do not pile up from level to level. With n literals and V decisions on the way the errors
are at most (5 n + 6 V) u in plain numbers. In log space a sum is rounded relative to its size, at
most S = sum_i max_x |log w_i(x)|: (4 + S) n + (6 + 2 S) V times u. Thresholds have 64 bits:
2^-63 for each decision and 2^-64 for each free variable. An enumeration adds up m weights, each
rounded relative to the total, and its uniform number has 53 bits: m 2^-52, and |theta|_1 (k + 2) u
for the exponents over k variables. The tables of a joint move are circuits with a decision for each
unit, drawn with 53 bits.

*coupling.* `cftp` returns a block only if all lanes met within the longest run, T sweeps, so each
lane is drawn on the condition that it met. If it does not meet within t sweeps with probability r,
then it does not within j t with probability r^j at most: coins of different sweeps are independent,
and bounds on all states only shrink. m lanes that all met within t sweeps show r <= log(1 / a) / m,
except with probability a; also if t is the latest of their times, since r falls as t grows. So the
law of a sample has TV <= r^floor(T / t) + a, with a = 1e-9. The coins of lanes are independent, but
all lanes of a call visit the variables in one order, which the seed decides. What a trial of `auto`
has shown, it has shown for the order of its own seed: we take it for other orders as well, which is
the one step here that is not proved (`tests/sampling/test_total_variation.py` compares orders). A
draw of many lanes does not need it.

*Not conditions.* `lovasz` on extremal formulas, `prs` and `rejection` drop lanes that did not end
within their rounds, and lose nothing by it: the number of rounds says nothing about the last state.
Let R_t be the clauses that round t resamples, y_t the values that their variables have before, and
D_t the clauses that share no variable with R_t. Given R_0, y_0, .., R_t, y_t,

    the state after round t has the law of independent variables, given that all of D_t hold.

By induction: at first nothing is given. Each clause that shares variables with R_t without being in
it is satisfied by y_t (for `lovasz`, since it is extremal: two clauses that share a variable are
never violated together; for `prs`, since R_t grows until this is so). And R_t is found by looking
at y_t alone. So to know R_t and y_t is to know y_t and that all of D_t hold; then the variables of
R_t are drawn anew. The last R_t is empty, so D_t is the whole formula, and the law is P, whatever
came before. This is the argument of Guo, Jerrum and Liu (J. ACM 66, 2019). A proposal of
`rejection` is valid or not independently of those before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nelson.chains.moves.joint import Joint
from nelson.chains.problem import Problem, change
from nelson.exact.compiled import known_circuits
from nelson.formula.components import split
from nelson.kernels.core.bits import words_for
from nelson.kernels.core.reference import threshold
from nelson.kernels.cpu.cftp import longest

if TYPE_CHECKING:
    from nelson.chains.block import Block
    from nelson.chains.request import Request
    from nelson.exact.law import Law
    from nelson.formula import Formula
    from nelson.sampling.auto.decision import ComponentGroup
    from nelson.sampling.drawing import Drawing
    from nelson.sampling.sampler import Sampler

#: Beyond this distance from P samples are not called exact.
MOST = 1e-6
#: The rounding of a double, and the probability that a bound from meeting lanes is wrong.
_ULP, _WRONG = 2.0**-53, 1e-9
#: For each coupled group: (lanes that all met, sweeps) of its trial, if there was one.
Trials = list[list[tuple[int, int]]]
#: Of a problem and rows of theta: (contexts,) the bound.
Variation = Callable[[Problem, np.ndarray], np.ndarray]


# --- rounding -------------------------------------------------------------------------------------


def of_bits(problem: Problem, theta: np.ndarray) -> np.ndarray:
    """Of kernels that draw each variable with a probability that is a multiple of 2^-32."""
    return _tilted(problem, theta, np.abs(change(theta)))


def of_gates(problem: Problem, theta: np.ndarray, gates: np.ndarray) -> np.ndarray:
    """Of `rejection`: inputs are drawn, and the weight of a gate is met by a coin."""
    delta, gates = np.abs(change(theta)), gates[gates < problem.n]
    odds = np.abs(theta[:, gates])
    coin = np.clip(np.round(np.exp(-odds) * 2.0**32), 1, 2**32 - 1) / 2.0**32
    delta[:, gates] = np.where(odds == 0, 0.0, np.abs(np.log(coin) + odds))
    return _tilted(problem, theta, delta)


def _tilted(problem: Problem, theta: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """delta (contexts, n): |change of log-odds|."""
    fixed = np.abs(problem.fixed) - 1
    delta[:, fixed[fixed < problem.n]] = 0.0  # no draw
    least = delta.sum(axis=1) / 4
    if not (least > MOST / 10).any():
        return least
    rest = problem.rest
    square = np.zeros(len(theta))
    bound = np.ones(problem.n, bool)
    for part in split(rest.literals, rest.offsets, rest.n_total):
        members = part.variables[part.variables < problem.n]
        square += delta[:, members].sum(axis=1) ** 2 / 8
        bound[members] = False
    free = np.flatnonzero(bound)
    rare = np.exp(-np.abs(theta[:, free]))
    q = rare / (1 + rare)
    p = threshold(-np.abs(theta[:, free])) / 2.0**32
    spread = q * (1 - q)  # 0 where e^theta underflows: no bound in this way
    free_square = np.divide((p - q) ** 2, spread, np.full(q.shape, math.inf), where=spread > 0)
    free_square[delta[:, free] == 0] = 0.0
    return np.minimum(least, np.sqrt((square + free_square.sum(axis=1)) / 2))


def of_joint(problem: Problem, theta: np.ndarray, moves: Joint) -> np.ndarray:
    """Of a joint move that holds no variable."""
    graph = moves.graph
    at, literal = graph.units
    with np.errstate(divide="ignore"):  # a fixed variable
        used = np.log(graph.unit_weights(problem, theta))
    every = np.zeros((len(theta), graph.n))  # helpers have no weight
    every[:, : theta.shape[1]] = theta
    meant = np.where((literal >= 0) & (literal & 1 == 1), every[:, literal >> 1], 0.0)
    meant -= np.where((literal >= 0) & (literal & 1 == 0), every[:, literal >> 1], 0.0)
    # Of a lone variable value 0 has no literal: the energy is that of "no literal of the unit".
    error = np.where(np.isinf(used), 0.0, used - meant)
    width = np.maximum.reduceat(error, at[:-1], 1) - np.minimum.reduceat(error, at[:-1], 1)
    units = int(graph.moving.sum())
    scale = (5 * graph.n + 6 * units) * _ULP + units * _ULP
    return np.asarray(width[:, graph.moving].sum(axis=1) / 4 + scale)


def epsilon(drawing: Drawing, bound: float) -> float:
    """Q / P lies within a factor 1 + epsilon of 1, if probabilities are rounded. The coin of a gate
    has at most twice the error of its variable; other bounds are at least R / 4.
    """
    groups = [group for d in (drawing.decisions or {}).values() for group in d.groups]
    samplers = [group.step.sampler for group in groups] or [drawing.sampler]
    width = 4 * bound
    for _, request in drawing.parts if any(map(of_bits_too, samplers)) else ():
        size = 2 * np.abs(change(request.theta)).sum(axis=1)
        width = max(width, float(size.max(initial=0.0)))
    return math.expm1(min(width, 700.0))


def of_bits_too(sampler: Sampler) -> bool:
    """Does it draw with probabilities that are multiples of 2^-32?"""
    return sampler.rounds_weights or sampler.name == "rejection"


# --- doubles --------------------------------------------------------------------------------------


def of_circuit(problem: Problem, theta: np.ndarray) -> np.ndarray:
    """Of the circuit that the formula has; of one of 2^24 decisions if none is known."""
    decisions = _decisions(problem.formula) or _decisions(problem.rest) or 1 << 24
    return circuit_error(problem.formula.n_total, decisions, theta)


def _decisions(formula: Formula) -> int:
    """Of the largest circuit that the formula has; 0: it has none."""
    circuits = (built.circuit for built, _ in known_circuits(formula).values())
    return max((circuit.decisions for circuit in circuits if circuit is not None), default=0)


def circuit_error(n: int, decisions: int, theta: np.ndarray) -> np.ndarray:
    """A circuit of that many decisions over n variables. No sample passes more than all of them."""
    size = np.abs(theta)
    most = (size + np.log1p(np.exp(-size))).sum(axis=1)
    most += (n - theta.shape[1]) * math.log(2)
    plain, logs = 5 * n + 6 * decisions, (4 + most) * n + (6 + 2 * most) * decisions
    # Below e^660 the pass in plain numbers never gives up (`kernels/circuit/levels.py`).
    error = np.where(most < 660.0, plain, logs) * _ULP
    return np.expm1(2 * error) / 2 + decisions * 2.0**-63 + n * 2.0**-64


def rows_error(rows: int, theta: np.ndarray) -> np.ndarray:
    """Structures of k variables: (contexts,)."""
    size = np.abs(theta).sum(axis=1)
    return rows * 2 * _ULP + np.expm1(2 * (theta.shape[1] + 2) * _ULP * size) / 2


def of_law(law: Law, theta: np.ndarray) -> float:
    """Of draws of an exact law. theta (b, n) finite."""
    total = 4 * len(law.reduction.free) * _ULP
    rows, _ = law._weights(theta)
    rows = np.where(np.isinf(rows), 0.0, rows)
    for part in law.parts:
        part_theta = rows[:, part.variables]
        if (circuit := getattr(part.source, "circuit", None)) is not None:
            total += circuit_error(circuit.n, circuit.decisions, part_theta).max()
        else:
            total += rows_error(len(part.source.states), part_theta).max()
    return float(total)


# --- coupling -------------------------------------------------------------------------------------


def of_coupling(met: Sequence[tuple[int, int]], max_rounds: int) -> float:
    """met: (lanes that all met, sweeps within which they did), one or more observations.

    >>> of_coupling([(1024, 64)], 1000) < 1e-8
    True
    """
    bounds = [
        min(1.0, math.log(1 / _WRONG) / max(1, lanes)) ** (longest(max_rounds) // max(1, sweeps))
        for lanes, sweeps in met
    ]
    return min(bounds, default=1.0) + _WRONG


# --- a draw ---------------------------------------------------------------------------------------


def of_drawing(drawing: Drawing, total: Block, count: int) -> tuple[float, float]:
    """(the bound for samples of a drawing that is called exact, what is coupling of that), of any
    context. total: its blocks. count: how many samples of each context they hold.
    """
    if not drawing.variation:
        drawing.variation.extend(_of_part(drawing, *part) for part in drawing.parts)
    most, coupled = 0.0, 0.0
    met = 64 * words_for(count), total.rounds  # whole words are drawn
    for (_, request), (fixed, trials) in zip(drawing.parts, drawing.variation, strict=True):
        coupling = float(len(trials))
        if "apart" not in total.info:
            coupling = sum(of_coupling([met, *trial], request.max_rounds) for trial in trials)
        most, coupled = max(most, coupling + float(fixed.max(initial=0.0))), max(coupled, coupling)
    return most, coupled


def _of_part(drawing: Drawing, problem: Problem, request: Request) -> tuple[np.ndarray, Trials]:
    """The bound without coupling, and what trials of coupled groups have shown."""
    if drawing.decisions is None:
        trials: Trials = [[]] * (drawing.sampler.name == "cftp")
        return of_sampler(drawing.sampler, problem, request.theta), trials
    return _of_groups(drawing.decisions[problem.evidence].groups, len(request.theta))


def _of_groups(groups: Sequence[ComponentGroup], contexts: int) -> tuple[np.ndarray, Trials]:
    """As `_of_part`, of what `auto` decided."""
    total, trials = np.zeros(contexts), []
    for group in groups:
        total += group.variation
        trials += [[record["trial"]] for record in group.records if "trial" in record]
    return total, trials


def promised(groups: Sequence[ComponentGroup], contexts: int, max_rounds: int) -> float:
    """The bound that is known before anything is drawn, where `auto` says exact."""
    fixed, trials = _of_groups(groups, contexts)
    return float(fixed.max(initial=0.0)) + sum(of_coupling(t, max_rounds) for t in trials)


def of_sampler(sampler: Sampler, problem: Problem, theta: np.ndarray) -> np.ndarray:
    """inf if the sampler does not say."""
    if sampler.variation is None:
        return np.full(len(theta), np.inf)
    return sampler.variation(problem, theta)


def of_group(group: ComponentGroup) -> np.ndarray:
    """(contexts,): the bound of a group of components, without coupling."""
    if group.sweeps and isinstance(group.moves, Joint):
        return of_joint(group.problem, group.theta, group.moves)
    return of_sampler(group.step.sampler, group.problem, group.theta)


def judged(guarantee: str, bound: float, rounded: bool = False) -> tuple[str, str]:
    """(the guarantee that samples within `bound` of P have, why it is not exact, or "").

    rounded: the bound comes from rounded probabilities alone, so that Q / P is bounded, too.
    """
    if guarantee != "exact" or bound <= MOST:
        return guarantee, ""
    why = f"the distribution may be {bound:.1g} from P in total variation, more than {MOST:g}"
    if rounded:
        return "approximate", f"{why}: probabilities are rounded"
    return "heuristic", why
