"""Chains that flip a few variables at once and keep every constraint.

`nelson.distribution.target_chains` starts them at examples.

A constraint r is low_r <= sum_r <= high_r with sum_r = sum_i w_ri [literal i is true], or, if
odd_r is 0 or 1, sum_r = odd_r (mod 2). A clause is 1 <= sum_r. The chain keeps all sums, so that a
proposal costs the constraints of the variables that it flips.

The set of flipped variables does not depend on the state: a random variable, then steps to a random
variable of a random constraint of the last one. So proposals are symmetric, and a valid one is
accepted with probability min(1, exp(theta . (x' - x))).
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.compile import kernel

#: Variables of one proposal, at most.
FLIPS = 4


class Rows(NamedTuple):
    """Constraints over the visible variables, by constraint and by variable."""

    offsets: np.ndarray  # (rows + 1,) int64: the entries of each constraint
    variable: np.ndarray  # (entries,) int64
    signed: np.ndarray  # (entries,) int64: change of the sum when the variable becomes true
    low: np.ndarray  # (rows,) int64
    high: np.ndarray  # (rows,) int64
    odd: np.ndarray  # (rows,) int64: -1, or the parity of the sum
    at: np.ndarray  # (n + 1,) int64: the constraints of each variable
    row: np.ndarray  # (entries,) int64
    weight: np.ndarray  # (entries,) int64: `signed` in this order


@kernel
def exchange(
    rows: Rows,
    x: np.ndarray,
    sums: np.ndarray,
    theta: np.ndarray,
    random: np.ndarray,
    lasts: np.ndarray,
    chosen: np.ndarray,
) -> int:
    """Proposals of all chains, in place; -> how many were accepted.

    x (chains, n) uint8, sums (chains, rows) int64, theta (chains, n) float64,
    random (chains, proposals, 2 FLIPS) float64 in [0, 1): 0 the first variable, then a constraint
    and a variable for each further one, the last the acceptance. lasts (chains, proposals): the
    number of variables. chosen (FLIPS,) int64: scratch.
    """
    accepted = 0
    n = x.shape[1]
    for c in range(x.shape[0]):
        for t in range(random.shape[1]):
            u = random[c, t]
            size = 0
            i = int(u[0] * n)
            gain = 0.0
            good = True
            while good:
                for k in range(size):
                    if chosen[k] == i:
                        good = False
                if not good:
                    break
                chosen[size] = i
                size += 1
                gain += theta[c, i] if x[c, i] == 0 else -theta[c, i]
                if size == lasts[c, t]:
                    break
                n_rows = rows.at[i + 1] - rows.at[i]
                if n_rows == 0:
                    break
                r = rows.row[rows.at[i] + int(u[2 * size - 1] * n_rows)]
                length = rows.offsets[r + 1] - rows.offsets[r]
                i = rows.variable[rows.offsets[r] + int(u[2 * size] * length)]
            if not good or size < lasts[c, t]:
                continue
            if not (gain >= 0.0 or u[2 * FLIPS - 1] < np.exp(gain)):
                continue
            for k in range(size):
                i = chosen[k]
                sign = 1 - 2 * int(x[c, i])
                for e in range(rows.at[i], rows.at[i + 1]):
                    sums[c, rows.row[e]] += sign * rows.weight[e]
                x[c, i] ^= 1
            for k in range(size):
                i = chosen[k]
                for e in range(rows.at[i], rows.at[i + 1]):
                    r = rows.row[e]
                    s = sums[c, r]
                    if rows.odd[r] >= 0:
                        if s % 2 != rows.odd[r]:
                            good = False
                    elif s < rows.low[r] or s > rows.high[r]:
                        good = False
                    if not good:
                        break
                if not good:
                    break
            if good:
                accepted += 1
                continue
            for k in range(size):
                i = chosen[k]
                x[c, i] ^= 1
                sign = 2 * int(x[c, i]) - 1
                for e in range(rows.at[i], rows.at[i + 1]):
                    sums[c, rows.row[e]] += sign * rows.weight[e]
    return accepted
