"""Random small formulas, and slow, plain versions of functions on clauses to compare with."""

from __future__ import annotations

from hypothesis import strategies as st

from nelson.formula import Formula


@st.composite
def formulas(draw, max_vars=8, max_clauses=12, min_length=1):
    n = draw(st.integers(min_length, max_vars))
    literal = st.integers(1, n).flatmap(lambda v: st.sampled_from([v, -v]))
    clause = st.lists(literal, min_size=min_length, max_size=5)
    return Formula(draw(st.lists(clause, max_size=max_clauses)), n_vars=n)


def is_witness(f: Formula, i: int, j: int) -> bool:
    a, b = set(f.clauses()[i]), set(f.clauses()[j])
    shares = bool({abs(x) for x in a} & {abs(x) for x in b})
    return i != j and shares and not any(-x in b for x in a)


def plain_condition1(f: Formula) -> bool:
    m = f.n_clauses
    return not any(is_witness(f, i, j) for i in range(m) for j in range(i + 1, m))


def plain_neighbours(f: Formula) -> list[set[int]]:
    sets = [{abs(x) for x in c} for c in f]
    return [{i for i, b in enumerate(sets) if i != j and a & b} for j, a in enumerate(sets)]


def plain_components(f: Formula) -> int:
    groups = [{v} for v in range(1, f.n_total + 1)]
    for clause in f:
        held = {abs(x) for x in clause}
        joined = [g for g in groups if g & held]
        groups = [g for g in groups if not g & held] + ([set().union(*joined)] if joined else [])
    return len(groups)
