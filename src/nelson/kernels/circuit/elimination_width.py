"""Width of a minimum-degree elimination order, on cliques instead of edges (`core/cliques.py`).

O(work), where the caller sets `work`.
"""

from nelson.kernels.core.cliques import insert, join, neighbours, remove
from nelson.kernels.core.compile import kernel

#: How `eliminate` ended: all variables eliminated, every degree above the bound, out of steps.
DONE, WIDE, TIRED = 0, 1, 2


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
        for k in range(g.many[v]):
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
