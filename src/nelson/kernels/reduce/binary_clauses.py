"""Two graphs of the clauses with two literals; literals are given by their codes (`graph.py`).

*Exclusion*: literals a and b exclude each other if there is a clause (-a or -b). The graph is in
CSR form: code c excludes near[at[c]:at[c + 1]], ascending. Of the literals of a clique at most one
is true.

*Implication*: a clause (a or b) means not-a -> b and not-b -> a. Literals that imply each other in
a cycle are equal in every solution: they are the strong components.
"""

from nelson.kernels.core.compile import helper, kernel
from nelson.kernels.reduce.graph import code_of


@helper
def _excludes(at, near, a, b):
    """Do the literals with codes a and b exclude each other?"""
    low, high = at[a], at[a + 1]
    while low < high:
        middle = (low + high) // 2
        if near[middle] < b:
            low = middle + 1
        else:
            high = middle
    return low < at[a + 1] and near[low] == b


@kernel
def exactly_one(literals, offsets, at, near, limit, is_exactly_one):
    """found[j] = 1 if the literals of clause j exclude each other, so that exactly one is true.

    Ends after `limit` steps; clauses that were not looked at count as not found.
    """
    steps = 0
    for j in range(offsets.size - 1):
        is_exactly_one[j] = 0
        size = offsets[j + 1] - offsets[j]
        if size < 2 or steps > limit:
            continue
        good = True
        for t in range(offsets[j], offsets[j + 1]):
            code = code_of(literals[t])
            if at[code + 1] - at[code] < size - 1:
                good = False
                break
        if not good:
            continue
        for s in range(offsets[j], offsets[j + 1]):
            for t in range(s + 1, offsets[j + 1]):
                steps += 1
                if not _excludes(at, near, code_of(literals[s]), code_of(literals[t])):
                    good = False
                    break
            if not good:
                break
        if good:
            is_exactly_one[j] = 1


@kernel
def cliques(order, at, near, used, limit, some, out, ends):
    """Greedy cliques of the literals whose variables are not used. -> number of cliques

    order: codes, each the seed of a clique in its turn. A clique grows by the literal that excludes
    the most others. used (n,) uint8: variables that are in a group already, updated. some int32
    (most neighbours,): scratch. out int32 (n,): the codes of all cliques; ends (n,): their ends.
    Stops after `limit` steps.
    """
    count, filled, steps = 0, 0, 0
    for k in range(order.size):
        seed = order[k]
        if used[seed >> 1] or steps > limit:
            continue
        n_left = 0
        for t in range(at[seed], at[seed + 1]):
            if not used[near[t] >> 1] and near[t] >> 1 != seed >> 1:
                some[n_left] = near[t]
                n_left += 1
        if n_left == 0:
            continue
        out[filled] = seed
        used[seed >> 1] = 1
        size = 1
        while n_left > 0:
            # The literal with the most excluded ones is the likeliest to be in a large clique.
            best = 0
            for t in range(n_left):
                a, b = some[t], some[best]
                if at[a + 1] - at[a] > at[b + 1] - at[b]:
                    best = t
            taken = some[best]
            out[filled + size] = taken
            used[taken >> 1] = 1
            size += 1
            left = 0
            for t in range(n_left):
                steps += 1
                other = some[t]
                if other >> 1 != taken >> 1 and _excludes(at, near, taken, other):
                    some[left] = other
                    left += 1
            n_left = left
        filled += size
        ends[count] = filled
        count += 1
    return count


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
