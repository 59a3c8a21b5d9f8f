"""How large would a circuit get? Two estimates; the caller sets how much work they may take.

*Dives* of a backtracking search: a dive that takes a random branch at each of d binary decisions
estimates the number of leaves by 2^d, without bias (Knuth: Estimating the efficiency of backtrack
programs, 1975).

The *width* of a minimum-degree elimination order, on cliques instead of edges (`core/cliques.py`).
"""

from typing import NamedTuple

import numpy as np

from nelson.kernels.core.cliques import insert, join, neighbours, remove
from nelson.kernels.core.compile import inline, kernel
from nelson.kernels.core.rng import GOLDEN, scramble

#: How `eliminate` ended: all variables eliminated, every degree above the bound, out of steps.
DONE, WIDE, TIRED = range(3)
_ZERO, _ONE = np.uint64(0), np.uint64(1)


class DiveState(NamedTuple):
    """A formula of n variables and m clauses, and the state of a dive."""

    literals: np.ndarray  # codes 2 v + sign
    offsets: np.ndarray
    first: np.ndarray  # (2 n + 1,): literal c is in clauses[first[c]:first[c + 1]]
    clauses: np.ndarray
    order: np.ndarray  # variables in the order of decisions
    value: np.ndarray  # (n,) int8, -1: open
    left: np.ndarray  # (m,) int32: literals that are not false
    by: np.ndarray  # (m,) int32: place in the trail of the literal that satisfied it, -1: none
    trail: np.ndarray  # (n,) int32: literals made true


@inline
def _assign(s, code, height, head):
    """Make a literal true and propagate. -> (length of the trail, propagated part of it, steps,
    conflict)
    """
    s.trail[height] = code
    s.value[code >> 1] = code & 1
    height += 1
    steps, conflict = 0, False
    while head < height and not conflict:
        lit = s.trail[head]
        for k in range(s.first[lit], s.first[lit + 1]):
            if s.by[s.clauses[k]] < 0:
                s.by[s.clauses[k]] = head
        steps += s.first[lit + 1] - s.first[lit] + 4
        head += 1
        for k in range(s.first[lit ^ 1], s.first[(lit ^ 1) + 1]):
            c = s.clauses[k]
            s.left[c] -= 1
            steps += 1
            if s.by[c] >= 0 or s.left[c] > 1 or conflict:
                continue
            if s.left[c] == 0:
                conflict = True
                continue
            for z in range(s.offsets[c], s.offsets[c + 1]):
                other = s.literals[z]
                held = s.value[other >> 1]
                if held < 0:
                    s.trail[height] = other
                    s.value[other >> 1] = other & 1
                    height += 1
                    break
                if held == other & 1:  # true, but not propagated yet
                    break
            steps += s.offsets[c + 1] - s.offsets[c]
    return height, head, steps, conflict


@inline
def _undo(s, height, head):
    """Take back the whole trail, of which the first `head` literals were propagated."""
    for back in range(height):
        lit = s.trail[height - 1 - back]
        s.value[lit >> 1] = -1
        if height - 1 - back >= head:  # never propagated
            continue
        for k in range(s.first[lit], s.first[lit + 1]):
            if s.by[s.clauses[k]] == height - 1 - back:
                s.by[s.clauses[k]] = -1
        for k in range(s.first[lit ^ 1], s.first[(lit ^ 1) + 1]):
            s.left[s.clauses[k]] += 1


@kernel
def dives(s, most, work, depth):
    """Fill depth with the number of decisions of each dive, at most `most`. -> steps

    Dives that start after `work` steps are not made, and get depth -1.
    """
    steps = 0
    for d in range(depth.size):
        depth[d] = -1
        if steps > work:
            continue
        key = scramble(np.uint64(d + 1) * GOLDEN, _ZERO)
        height, head, decided, conflict = 0, 0, 0, False
        for q in range(s.order.size):
            v = s.order[q]
            if s.value[v] >= 0:
                continue
            wanted = False
            for k in range(s.first[2 * v], s.first[2 * v + 2]):
                steps += 1
                if s.by[s.clauses[k]] < 0:
                    wanted = True
                    break
            if not wanted:
                continue
            sign = np.int64(scramble(key + np.uint64(decided) * GOLDEN, _ONE) & _ONE)
            decided += 1
            height, head, more, conflict = _assign(s, 2 * v + sign, height, head)
            steps += more
            if conflict or decided >= most or steps > work:
                break
        _undo(s, height, head)
        depth[d] = decided
    return steps


@kernel
def eliminate(g, m, bound, work, out):
    """Eliminate variables until every degree is above `bound`, or for `work` steps.

    m: number of cliques at first. out: width so far, variables eliminated, steps.
    -> DONE | WIDE | TIRED
    """
    n = g.below.size
    stamp, least, steps, cliques = 0, 0, 0, m
    end = g.start[m - 1] + g.length[m - 1] if m else 0
    done, width = 0, 0
    while done < n:
        while g.head[least] < 0:
            least += 1
        v = g.head[least]
        remove(g, v)
        stamp += 1
        end, to, took = neighbours(g, v, cliques, end, stamp)
        steps += took
        degree = to - end
        if degree > least:
            insert(g, v, degree)
            if steps > work:
                break
            continue
        if degree > bound:
            insert(g, v, degree)
            out[0], out[1], out[2] = max(width, degree), done, steps
            return WIDE
        if steps > work:
            insert(g, v, degree)
            break
        width = max(width, degree)
        done += 1
        g.below[v] = -1
        for k in range(g.n_cliques[v]):
            g.length[g.cliques[g.first[v] + k]] = 0
        if degree:
            steps += join(g, cliques, end, to)
            for z in range(end, to):
                u = g.members[z]
                remove(g, u)
                insert(g, u, max(degree - 1, g.below[u] - 1))
            least = max(0, min(least, degree) - 1)
            cliques += 1
            end = to
        else:
            least = 0
    out[0], out[1], out[2] = width, done, steps
    return DONE if done == n else TIRED
