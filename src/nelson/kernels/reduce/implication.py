"""Equivalent literals: strong components of the binary implication graph.

A clause (a or b) means not-a -> b and not-b -> a. Literals that imply each other in a cycle are
equal in every solution. Literals are given by their codes (`literal.py`).
"""

from nelson.kernels.core.compile import kernel
from nelson.kernels.reduce.literal import code_of


@kernel
def implications(literals, offsets, fill, to):
    """Fill `to`: the literals that code c implies are to[start[c]:start[c + 1]].

    fill int64 (codes,): a copy of start[:-1], overwritten. Each binary clause gives two edges.
    """
    for j in range(offsets.size - 1):
        if offsets[j + 1] - offsets[j] != 2:
            continue
        a, b = code_of(literals[offsets[j]]), code_of(literals[offsets[j] + 1])
        to[fill[a ^ 1]] = b
        fill[a ^ 1] += 1
        to[fill[b ^ 1]] = a
        fill[b ^ 1] += 1


@kernel
def strong_components(start, to, index, low, edge, stack, path, root):
    """root[c] = the lowest code in the strong component of c (Tarjan 1972, without recursion).

    start int64, to int32: the graph. index, low int32 (codes,): zero on entry. edge int64 (codes,),
    stack, path int32 (codes,): scratch. The negated literals of a component form a component too,
    and its lowest code is the negation of this one's lowest code: both have the same variable.
    """
    counter, height = 0, 0
    for first in range(root.size):
        if index[first] != 0:
            continue
        depth = 0
        path[0] = first
        counter += 1
        index[first] = counter
        low[first] = counter
        edge[first] = start[first]
        stack[height] = first
        height += 1
        root[first] = -1  # on the stack
        while depth >= 0:
            c = path[depth]
            if edge[c] < start[c + 1]:
                d = to[edge[c]]
                edge[c] += 1
                if index[d] == 0:
                    counter += 1
                    index[d] = counter
                    low[d] = counter
                    edge[d] = start[d]
                    stack[height] = d
                    height += 1
                    root[d] = -1
                    depth += 1
                    path[depth] = d
                elif root[d] == -1:
                    low[c] = min(low[c], index[d])
                continue
            depth -= 1
            if depth >= 0:
                low[path[depth]] = min(low[path[depth]], low[c])
            if low[c] == index[c]:
                bottom = height - 1
                lowest = stack[bottom]
                while stack[bottom] != c:
                    bottom -= 1
                    lowest = min(lowest, stack[bottom])
                for k in range(bottom, height):
                    root[stack[k]] = lowest
                height = bottom
