"""Kernels behind the local lemma: fixpoints of its criteria, Shearer's bound, enumeration.

All take clause probabilities p_j = P(clause j is violated) under the product distribution of theta,
and the arrays of `kernels/reduce/graph.py`. The caller allocates outputs and scratch arrays.
"""

import math

import numpy as np

from nelson.kernels.core.compile import kernel

#: Verdicts.
HOLDS, FAILS, UNDECIDED = range(1, -2, -1)
#: A mu above this has diverged.
DIVERGED = 1e12
#: A fixpoint is reached when no mu grows by more than this share in a round.
TOLERANCE = 1e-9


@kernel
def erdos_lovasz(p, degrees, neighbour, mu, log1, max_rounds):
    """Least solution of mu_j = p_j prod_(i in N+(j)) (1 + mu_i), N+(j) = j and its neighbours.

    With x_j = mu_j / (1 + mu_j) this is p_j = x_j prod_(i ~ j) (1 - x_i), the general (asymmetric)
    criterion. Gauss-Seidel from mu = 0, solving equation j for mu_j: the iterates only grow, so
    they converge if and only if a solution exists. mu and log1 = log(1 + mu) float64 (L,): zero on
    entry. -> (verdict, rounds)
    """
    for rounds in range(1, max_rounds + 1):
        moved = 0.0
        end = 0
        for j in range(p.size):
            total = 0.0
            for s in range(end, end + degrees[j]):
                total += log1[neighbour[s]]
            end += degrees[j]
            r = p[j] * math.exp(total)
            if not r < 1.0:
                return FAILS, rounds
            new = r / (1.0 - r)
            if new > DIVERGED:
                return FAILS, rounds
            if new > 0.0:
                moved = max(moved, (new - mu[j]) / new)
            mu[j] = new
            log1[j] = math.log1p(new)
        if moved <= TOLERANCE:
            return HOLDS, rounds
    return UNDECIDED, max_rounds


@kernel
def cluster_expansion(p, literals, offsets, mu, total, max_rounds):
    """Least solution of mu_j = p_j (mu_j + prod_(v in c_j) (1 + sum_(i != j, v in c_i) mu_i)).

    The cluster-expansion criterion asks mu_j >= p_j sum_I prod_(i in I) mu_i over the independent
    sets I of N+(j). Clauses that share a variable are not independent, so such an I is {j} or has
    at most one clause per variable of c_j: the product above bounds the sum. This needs no
    dependency graph and O(literals) per round, also with hubs. mu float64 (L,) and total float64
    (n,), the sum of mu over the clauses of a variable: zero on entry. -> (verdict, rounds)
    """
    for rounds in range(1, max_rounds + 1):
        moved = 0.0
        for j in range(p.size):
            if p[j] == 0.0:
                continue
            if p[j] >= 1.0:
                return FAILS, rounds
            product = p[j] / (1.0 - p[j])
            for t in range(offsets[j], offsets[j + 1]):
                product *= 1.0 + max(total[abs(literals[t]) - 1] - mu[j], 0.0)
            new = max(product, mu[j])
            if not new < DIVERGED:
                return FAILS, rounds
            step = new - mu[j]
            for t in range(offsets[j], offsets[j + 1]):
                total[abs(literals[t]) - 1] += step
            if new > 0.0:
                moved = max(moved, step / new)
            mu[j] = new
        if moved <= TOLERANCE:
            return HOLDS, rounds
    return UNDECIDED, max_rounds


@kernel
def shearer(p, closed, value):
    """Independence polynomial I(S) = sum over independent I in S of prod_(i in I) (-p_i), all S.

    closed[j] is the bit mask of j and its neighbours. I(S) = I(S - j) - p_j I(S - N+(j)), with j
    the highest bit of S. value float64 (2^L,): out. -> minimum over S. Shearer: the criterion holds
    iff the minimum is positive, and no weaker condition on (graph, p) suffices. O(2^L).
    """
    value[0] = 1.0
    smallest = 1.0
    for j in range(p.size):
        high = 1 << j
        for s in range(high, 2 * high):
            value[s] = value[s ^ high] - p[j] * value[s & ~closed[j]]
            smallest = min(smallest, value[s])
    return smallest


@kernel
def log_weights(log_p, tables):
    """Fill tables[0] and tables[1]: log P of every pattern of the low and of the high half of x.

    log_p float64 (n, 2): log P(x_i = 0), log P(x_i = 1). The low half has n // 2 bits.
    """
    n = log_p.shape[0]
    half = n // 2
    for part in range(2):
        base = part * half
        bits = n - half if part == 1 else half
        for s in range(1 << bits):
            total = 0.0
            for i in range(bits):
                total += log_p[base + i, s >> i & 1]
            tables[part, s] = total


@kernel
def enumerate_violations(mask, negative, n_clauses, log_p, tables, out):
    """out = (log q_empty, log q_one): P(no clause violated), P(exactly one violated).

    Clauses are bit masks over n = len(log_p) variables: assignment s violates clause j when s &
    mask[j] == negative[j], that is, its negated variables are 1 and its other ones 0. Sums are kept
    relative to their largest term, so that theta of +-50 does not underflow. tables: scratch of
    `log_weights`, (2, 2^(n - n//2)). O(2^n L).
    """
    n = log_p.shape[0]
    half = n // 2
    log_weights(log_p, tables)
    peak0 = peak1 = -np.inf
    total0 = total1 = 0.0
    for s in range(1 << n):
        weight = tables[0, s & ((1 << half) - 1)] + tables[1, s >> half]
        if weight == -np.inf:
            continue
        violated = 0
        for j in range(n_clauses):
            if s & mask[j] == negative[j]:
                violated += 1
                if violated == 2:
                    break
        if violated == 0:
            if weight > peak0:
                total0 *= math.exp(peak0 - weight)
                peak0 = weight
            total0 += math.exp(weight - peak0)
        elif violated == 1:
            if weight > peak1:
                total1 *= math.exp(peak1 - weight)
                peak1 = weight
            total1 += math.exp(weight - peak1)
    out[0] = peak0 + math.log(total0)
    out[1] = peak1 + math.log(total1)


@kernel
def component_masks(literals, offsets, members, place, mask, negative):
    """Fill the bit masks of the clauses `members`; place[v] is the bit of variable v."""
    for k in range(members.size):
        mask[k] = 0
        negative[k] = 0
        for t in range(offsets[members[k]], offsets[members[k] + 1]):
            bit = 1 << place[abs(literals[t]) - 1]
            mask[k] |= bit
            if literals[t] < 0:
                negative[k] |= bit
