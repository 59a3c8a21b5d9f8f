"""Groups of literals of which at most one is true: cliques of the graph of excluding literals.

Literals a and b exclude each other if there is a clause (-a or -b). The graph is in CSR form by
literal code: code c excludes near[at[c]:at[c + 1]], ascending.
"""

from nelson.kernels.core.compile import helper, kernel
from nelson.kernels.reduce.literal import code_of


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
def exactly_one(literals, offsets, at, near, limit, found):
    """found[j] = 1 if the literals of clause j exclude each other, so that exactly one is true.

    Ends after `limit` steps; clauses that were not looked at count as not found.
    """
    steps = 0
    for j in range(offsets.size - 1):
        found[j] = 0
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
            found[j] = 1


@kernel
def cliques(order, at, near, used, limit, some, out, ends):
    """Greedy cliques of the literals whose variables are not used. -> number of cliques

    order: codes, each the seed of a clique in its turn. A clique grows by the literal that excludes
    the most others. used (n,) uint8: variables that are in a group already, updated. some int32
    (most neighbours,): scratch. out int32 (n,): the codes of all cliques; ends (n,): where they end.
    Ends after `limit` steps.
    """
    count, filled, steps = 0, 0, 0
    for k in range(order.size):
        seed = order[k]
        if used[seed >> 1] or steps > limit:
            continue
        many = 0
        for t in range(at[seed], at[seed + 1]):
            if not used[near[t] >> 1] and near[t] >> 1 != seed >> 1:
                some[many] = near[t]
                many += 1
        if many == 0:
            continue
        out[filled] = seed
        used[seed >> 1] = 1
        size = 1
        while many > 0:
            # The literal with the most excluded ones is the likeliest to be in a large clique.
            best = 0
            for t in range(many):
                a, b = some[t], some[best]
                if at[a + 1] - at[a] > at[b + 1] - at[b]:
                    best = t
            taken = some[best]
            out[filled + size] = taken
            used[taken >> 1] = 1
            size += 1
            left = 0
            for t in range(many):
                steps += 1
                other = some[t]
                if other >> 1 != taken >> 1 and _excludes(at, near, taken, other):
                    some[left] = other
                    left += 1
            many = left
        filled += size
        ends[count] = filled
        count += 1
    return count
