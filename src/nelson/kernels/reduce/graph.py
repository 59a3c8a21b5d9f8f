"""Graph kernels on a formula in CSR form: occurrences, components, degrees, Condition 1.

A formula is two arrays: `literals` (int32, DIMACS numbers, clauses one after the other) and
`offsets` (int64, clause j is literals[offsets[j]:offsets[j+1]]). The transposed form is CSR again,
by *literal code*: literal +v has code 2(v-1), -v has code 2(v-1)+1, and `code ^ 1` negates. Both
signs of a variable are neighbours, so the clauses of variable v are one slice too: start[2(v-1)] :
start[2v].

Kernels allocate nothing: the caller passes outputs and scratch arrays.
"""

from nelson.kernels.core.compile import inline, kernel

#: Up to this many clauses, comparing all pairs is faster than searching for a variable to split.
PAIRWISE = 32


@inline
def code_of(literal):
    return 2 * (abs(literal) - 1) + (1 if literal < 0 else 0)


@inline
def sign_of(literal):
    return 1 if literal > 0 else -1


@kernel
def occurrences(literals, offsets, fill, clause):
    """Transpose the formula: clause[start[c]:start[c+1]] are the clauses that hold literal c.

    fill int64 (codes,): a copy of start[:-1], overwritten. clause int32 (total literals): out.
    """
    for j in range(offsets.size - 1):
        for t in range(offsets[j], offsets[j + 1]):
            code = code_of(literals[t])
            clause[fill[code]] = j
            fill[code] += 1


@kernel
def components(literals, offsets, parent):
    """Connected components of the variables. -> number of components

    parent int32 (n,): 0, 1, 2, ... on entry, labels on return, in the order of the first variable
    of each component. Union-find with path halving; the smaller root wins.
    """
    for j in range(offsets.size - 1):
        if offsets[j + 1] - offsets[j] < 2:
            continue
        a = abs(literals[offsets[j]]) - 1
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        for t in range(offsets[j] + 1, offsets[j + 1]):
            b = abs(literals[t]) - 1
            while parent[b] != b:
                parent[b] = parent[parent[b]]
                b = parent[b]
            if a < b:
                parent[b] = a
            elif b < a:
                parent[a] = b
                a = b
    # A parent is never larger than its child, so one pass in order sees only finished labels.
    count = 0
    for v in range(parent.size):
        if parent[v] == v:
            parent[v] = count
            count += 1
        else:
            parent[v] = parent[parent[v]]
    return count


@kernel
def neighbours(literals, offsets, start, clause, stamp, degrees, store):
    """Dependency graph: clauses are adjacent when they share a variable.

    degrees int32 (L,): out. store int32 (sum(degrees),): out, the neighbours clause by clause; an
    empty store only counts. stamp int32 (L,): scratch, -1 on entry. O(sum_v occ(v)^2).
    """
    filled = 0
    for j in range(offsets.size - 1):
        stamp[j] = j
        count = 0
        for t in range(offsets[j], offsets[j + 1]):
            v = abs(literals[t]) - 1
            for s in range(start[2 * v], start[2 * v + 2]):
                i = clause[s]
                if stamp[i] != j:
                    stamp[i] = j
                    if store.size > 0:
                        store[filled] = i
                        filled += 1
                    count += 1
        degrees[j] = count


@kernel
def compatible_pair(literals, offsets, members, first, last, mark):
    """First pair of members[first:last] without a complementary literal; (-1, -1) if none.

    Compares all pairs. mark int8 (n,): scratch, zero on entry and on return.
    """
    for a in range(first, last - 1):
        i = members[a]
        for t in range(offsets[i], offsets[i + 1]):
            mark[abs(literals[t]) - 1] = sign_of(literals[t])
        free = -1
        for b in range(a + 1, last):
            j = members[b]
            clash = False
            for t in range(offsets[j], offsets[j + 1]):
                if mark[abs(literals[t]) - 1] == -sign_of(literals[t]):
                    clash = True
                    break
            if not clash:
                free = j
                break
        for t in range(offsets[i], offsets[i + 1]):
            mark[abs(literals[t]) - 1] = 0
        if free >= 0:
            return i, free
    return -1, -1


@kernel
def condition1(literals, offsets, start, clause, mark, hubs):
    """A pair of clauses that share a variable and can be violated together; (-1, -1) if none.

    Such a pair shares a literal (sharing a variable with opposite signs only, it clashes), so only
    clauses that hold the same literal are compared. If the m clauses that hold a literal clash
    pairwise, their violating assignments are disjoint, hence sum_j 2^(1 - |c_j|) <= 1 (Kraft). The
    first clauses that break this bound must contain a witness, and no others are compared: with at
    most k literals per clause, no list is longer than 2^(k-1) + 1, and the work is linear in the
    formula. Lists that stay long (a hub among long clauses) are left to `search_hub`: hubs[c] is
    set to the number of clauses of literal c to compare there (int32, zero on entry).
    """
    for code in range(start.size - 1):
        first, last = start[code], start[code + 1]
        if last - first < 2:
            continue
        kraft = 0.0
        for s in range(first, last):
            kraft += 2.0 ** (1.0 - (offsets[clause[s] + 1] - offsets[clause[s]]))
            if kraft > 1.0 + 1e-9:  # more than rounding can add up to
                last = s + 1
                break
        if last - first > PAIRWISE:
            hubs[code] = last - first
            continue
        i, j = compatible_pair(literals, offsets, clause, first, last, mark)
        if i >= 0:
            return i, j
    return -1, -1


@kernel
def best_split(literals, offsets, start, literal, group, size, held):
    """The variable whose split leaves the fewest pairs. -> (variable, pairs saved, larger side)

    A variable with P positive, N negative and F other members settles P*N pairs and makes the pairs
    among the F others appear twice. Variable -2: all members hold one literal that comes before
    `literal` (longer list first, then lower code), so that the list of that literal settles all
    pairs. held int32 (2, n): scratch, the number of members with v and with not-v, zero on entry
    and on return.
    """
    best, most, larger = -1, 0, 1
    length = start[literal + 1] - start[literal]
    for a in range(size):
        for t in range(offsets[group[a]], offsets[group[a] + 1]):
            held[1 if literals[t] < 0 else 0, abs(literals[t]) - 1] += 1
    for a in range(size):
        for t in range(offsets[group[a]], offsets[group[a] + 1]):
            v = abs(literals[t]) - 1
            p, n = held[0, v] + 0, held[1, v] + 0  # + 0: to 64 bits, for the product
            rest = size - p - n
            saved = p * n - rest * (rest - 1) // 2
            if p > 0 and n > 0 and saved > most and best != -2:
                best, most, larger = v, saved, 1 if p >= n else -1
            if p == size or n == size:
                code = 2 * v + (n == size)
                other = start[code + 1] - start[code]
                if other > length or (other == length and code < literal):
                    best = -2
            held[0, v] = 0  # each variable is considered once; this also clears the scratch
            held[1, v] = 0
    return best, most, larger


@kernel
def search_hub(literals, offsets, start, clause, literal, count, mark, held, work, group, sizes):
    """As `compatible_pair` for the first `count` clauses of `literal`, by divide and conquer.

    Split the members on a variable v into those with v (P), with not-v (N), and others (F). P and N
    clash on v, so only the pairs inside P+F and inside N+F remain. A split is made only if it
    lowers the number of pairs: never worse than all pairs, n log n on tree-like formulas.

    work int32 (4 count,) is a stack of member lists, sizes int64 (128,) their lengths, group int32
    (count,) the current list. A split has F^2 < 2PN, so F < 0.42 of the list and the smaller part
    is below 0.71 of it; with the smaller one on top the stack holds at most
    1 + 0.71 + 0.71^2 + ... < 3.5 lists.
    """
    for a in range(count):
        work[a] = clause[start[literal] + a]
    sizes[0] = count
    top, depth = count, 1
    while depth > 0:
        depth -= 1
        size = sizes[depth]
        top -= size
        for a in range(size):
            group[a] = work[top + a]
        v, saved, larger = -1, 0, 1
        if size > PAIRWISE:
            v, saved, larger = best_split(literals, offsets, start, literal, group, size, held)
        if v == -2:
            continue
        if saved <= 4 * size:
            i, j = compatible_pair(literals, offsets, group, 0, size, mark)
            if i >= 0:
                return i, j
            continue
        for side in (larger, -larger):  # keep all but the members with literal -side * (v + 1)
            before = top
            for a in range(size):
                keep = True
                for t in range(offsets[group[a]], offsets[group[a] + 1]):
                    if literals[t] == -side * (v + 1):
                        keep = False
                        break
                if keep:
                    work[top] = group[a]
                    top += 1
            sizes[depth] = top - before
            depth += 1
    return -1, -1
