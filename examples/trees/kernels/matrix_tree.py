"""det(I - P) and (I - P)^-1 for the walk of a graph that ends at its root, without a subtraction.

    P (n, n + 1): row v holds the probabilities to go from v to each vertex; the last column is the
    root.    log det(I - P),      G = (I - P)^-1 over the n other vertices

If the root is hardly ever reached, Gaussian elimination loses all digits: 1 - p cancels. Here a
pivot is the *sum* of the probabilities to leave the vertex (Grassmann, Taksar, Heyman, Oper. Res.
1985):

    s_k = sum_(j > k) P_kj,       P_ij += P_ik P_kj / s_k       (i, j > k, i != j)

and the triangular factors are solved by adding and multiplying positive numbers. So det(I - P) and
each entry of G keep about 15 digits for any weights, as long as they are above 1e-308.

O(n^3) time, O(n^2) memory.
"""

import math

import numpy as np

from nelson.kernels.core.compile import kernel


@kernel
def eliminate(p, pivot):
    """P -> factors in place: above the diagonal P_kj, below it P_ik / s_k. -> log det(I - P),
    -inf if a pivot is 0.
    """
    n = p.shape[0]
    total = 0.0
    for k in range(n):
        s = 0.0
        for j in range(k + 1, n + 1):
            s += p[k, j]
        pivot[k] = s
        if s <= 0.0:
            return -np.inf
        total += math.log(s)
        for i in range(k + 1, n):
            if p[i, k] == 0.0:
                continue
            share = p[i, k] / s
            for j in range(k + 1, n + 1):
                p[i, j] += share * p[k, j]
            p[i, i] = 0.0  # a walk from i back to i is left out, not subtracted
            p[i, k] = share
    return total


@kernel
def inverse(p, pivot, g):
    """G = U^-1 L^-1 from the factors, row by row."""
    n = p.shape[0]
    for i in range(n):
        g[i, :] = 0.0
        g[i, i] = 1.0
        for k in range(i):
            f = p[i, k]
            if f != 0.0:
                for c in range(k + 1):
                    g[i, c] += f * g[k, c]
    for k in range(n - 1, -1, -1):
        for j in range(k + 1, n):
            f = p[k, j]
            if f != 0.0:
                for c in range(n):
                    g[k, c] += f * g[j, c]
        for c in range(n):
            g[k, c] /= pivot[k]
