"""The back end of PyVSC: rows against enumeration, seeds, contradictions, what is handed back.

False alarms: each chi-square at 1e-4. Seeds are fixed.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from collections import Counter
from enum import IntEnum, auto

import psutil
import pytest

from lab.verilator.tasks import p_of
from nelson.pyvsc import drawn, install
from nelson.pyvsc.translation import Translation
from nelson.verilator.problems import Problems
from nelson.verilator.texts import divided

try:
    import vsc
except ImportError:
    pytest.skip("NO PYVSC: pip install pyvsc; its back end is not tested", allow_module_level=True)

import vsc.dc as vdc
from vsc.model import bin_expr_type, unary_expr_type
from vsc.model.expr_bin_model import ExprBinModel
from vsc.model.expr_cond_model import ExprCondModel
from vsc.model.expr_fieldref_model import ExprFieldRefModel
from vsc.model.expr_literal_model import ExprLiteralModel
from vsc.model.expr_partselect_model import ExprPartselectModel
from vsc.model.expr_unary_model import ExprUnaryModel
from vsc.model.field_scalar_model import FieldScalarModel
from vsc.model.rand_state import RandState
from vsc.model.solve_failure import SolveFailure
from vsc.model.solver.backend import SolverUnsupported

ALARM = 1e-4


@pytest.fixture(autouse=True)
def _installed():
    install()
    yield
    vsc.set_solver_backend(None)


def seeded(item, seed: int):
    item.set_randstate(RandState.mkFromSeed(seed))
    return item


def rows_of(item, n: int, seed: int, read) -> Counter:
    before = drawn()
    seeded(item, seed)
    found: Counter = Counter()
    for _ in range(n):
        item.randomize()
        found[read(item)] += 1
    assert set(drawn() - before) <= {"exact"}
    return found


def uniform(rows) -> dict:
    shares = Counter(list(rows))
    return {row: n / shares.total() for row, n in shares.items()}


# --- laws ---------------------------------------------------------------------------------------


class Kind(IntEnum):
    READ = auto()
    WRITE = auto()
    FENCE = 9


@vsc.randobj
class Transfer:
    def __init__(self):
        self.kind = vsc.rand_enum_t(Kind)
        self.a, self.b = vsc.rand_bit_t(4), vsc.rand_bit_t(4)
        self.t = vsc.rand_int_t(4)
        self.limit = vsc.bit_t(4)

    @vsc.constraint
    def legal(self):
        self.a < self.limit
        with vsc.implies(self.kind == Kind.WRITE):
            self.a + self.b <= 9
        with vsc.if_then(self.kind == Kind.FENCE):
            self.a == 0
            self.t > -2
        with vsc.else_then:
            self.t.inside(vsc.rangelist(-7, vsc.rng(-3, 2)))
        self.b.not_inside(vsc.rangelist(3, 4))


def transfers(limit: int):
    for kind, a, b, t in itertools.product(Kind, range(limit), range(16), range(-8, 8)):
        sum_fits = kind != Kind.WRITE or a + b <= 9  # no wrap: 9 has 32 bits
        rest = (a == 0 and t > -2) if kind == Kind.FENCE else t == -7 or -3 <= t <= 2
        if sum_fits and rest and b not in (3, 4):
            yield kind, a, b, t


def test_rows_are_uniform_and_state_is_an_input():
    item = Transfer()
    for limit in (5, 11, 2):
        item.limit = limit
        found = rows_of(item, 400, limit, lambda x: (x.kind, x.a, x.b, x.t))
        assert p_of(found, uniform(transfers(limit)), 400) > ALARM


@vsc.randobj
class Guarded:
    def __init__(self):
        self.s, self.d = vsc.rand_bit_t(1), vsc.rand_bit_t(6)

    @vsc.constraint
    def legal(self):
        with vsc.implies(self.s == 1):
            self.d == 0


GUARDED = uniform([(1, 0), *((0, d) for d in range(64))])


def test_the_implication_of_the_standard():
    found = rows_of(Guarded(), 400, 3, lambda x: (x.s, x.d))
    assert p_of(found, GUARDED, 400) > ALARM


def test_the_default_solver_of_pyvsc_would_be_rejected():
    """The twin: the same rows from Boolector, PyVSC's default."""
    vsc.set_solver_backend("boolector")
    item, found = seeded(Guarded(), 3), Counter()
    for _ in range(400):
        item.randomize()
        found[item.s, item.d] += 1
    assert p_of(found, GUARDED, 400) < ALARM


@vsc.randobj
class Arrays:
    def __init__(self):
        self.x = vsc.rand_list_t(vsc.bit_t(3), 4)
        self.k = vsc.rand_bit_t(2)

    @vsc.constraint
    def legal(self):
        vsc.unique(self.x[0], self.x[1], self.x[2])
        with vsc.foreach(self.x, idx=True, it=False) as i:
            with vsc.if_then(i > 0):
                self.x[i] >= self.x[i - 1]
        self.x.sum <= 13
        self.x[self.k] == 5


def test_arrays_are_expanded():
    def legal():
        for x in itertools.product(range(8), repeat=4):
            rising = all(a <= b for a, b in itertools.pairwise(x)) and len(set(x[:3])) == 3
            for k in range(4):
                if rising and sum(x) <= 13 and x[k] == 5:
                    yield (*x, k)

    found = rows_of(Arrays(), 400, 1, lambda x: (*x.x, x.k))
    assert p_of(found, uniform(legal()), 400) > ALARM


@vsc.randobj
class Ordered:
    def __init__(self):
        self.s, self.d = vsc.rand_bit_t(1), vsc.rand_bit_t(4)

    @vsc.constraint
    def legal(self):
        with vsc.implies(self.s == 1):
            self.d < 2
        vsc.solve_order(self.s, self.d)


def test_solve_order():
    shares = {(0, d): 1 / 32 for d in range(16)} | {(1, d): 1 / 4 for d in range(2)}
    found = rows_of(Ordered(), 400, 5, lambda x: (x.s, x.d))
    assert p_of(found, shares, 400) > ALARM
    assert p_of(found, uniform(shares), 400) < ALARM  # the twin: without the order


@vsc.randobj
class Chain:
    def __init__(self):
        self.a, self.b, self.c = (vsc.rand_bit_t(2) for _ in range(3))

    @vsc.constraint
    def legal(self):
        self.a <= self.b
        self.b <= self.c
        vsc.solve_order(self.a, self.b)
        vsc.solve_order(self.b, self.c)


def test_three_layers():
    shares = {
        (a, b, c): 1 / 4 / (4 - a) / (4 - b)
        for a in range(4)
        for b in range(a, 4)
        for c in range(b, 4)
    }
    found = rows_of(Chain(), 200, 5, lambda x: (x.a, x.b, x.c))
    assert p_of(found, shares, 200) > ALARM


@vsc.randobj
class Weighted:
    def __init__(self):
        self.x, self.y = vsc.rand_bit_t(4), vsc.rand_bit_t(3)
        self.most = vsc.bit_t(4)
        self.many = vsc.bit_t(4)

    @vsc.constraint
    def legal(self):
        vsc.dist(
            self.x,
            [vsc.weight(1, self.many), vsc.weight((2, 5), 8), vsc.weight(9, 0), vsc.weight(12, 3)],
        )
        self.x <= self.most
        self.y < self.x


@pytest.mark.parametrize("most", [15, 3])
def test_weights_are_relative_to_what_other_constraints_leave(most):
    weights = {1: 4, 12: 3} | dict.fromkeys(range(2, 6), 8 / 4)
    left = {x: w for x, w in weights.items() if x <= most}
    shares = {
        (x, y): w / sum(left.values()) / min(x, 8)
        for x, w in left.items()
        for y in range(min(x, 8))
    }
    item = Weighted()
    item.most, item.many = most, 4
    found = rows_of(item, 400, most, lambda x: (x.x, x.y))
    assert p_of(found, shares, 400) > ALARM
    assert p_of(found, uniform(shares), 400) < ALARM  # the twin: without weights


def test_weights_within_an_order():
    @vsc.randobj
    class Both:
        def __init__(self):
            self.s, self.d = vsc.rand_bit_t(1), vsc.rand_bit_t(4)

        @vsc.constraint
        def legal(self):
            vsc.dist(self.s, [vsc.weight(0, 1), vsc.weight(1, 3)])
            vsc.dist(self.d, [vsc.weight((0, 3), 4), vsc.weight((4, 15), 1)])
            with vsc.implies(self.s == 1):
                self.d < 2
            vsc.solve_order(self.s, self.d)

    shares = {(0, d): (4 / 5 / 4 if d < 4 else 1 / 5 / 12) / 4 for d in range(16)}
    shares |= {(1, d): 3 / 8 for d in range(2)}
    found = rows_of(Both(), 400, 2, lambda x: (x.s, x.d))
    assert p_of(found, shares, 400) > ALARM


def soft_class(order):
    @vsc.randobj
    class Soft:
        def __init__(self):
            self.v = vsc.rand_bit_t(4)
            self.limit = vsc.bit_t(4)

        @vsc.constraint
        def legal(self):
            self.v < self.limit
            for k in order:
                if k == 0:
                    vsc.soft(self.v > 9)
                elif k == 1:
                    vsc.soft(self.v < 11)
                else:
                    vsc.soft(self.v == 11)

    return Soft()


RULES = (lambda v: v > 9, lambda v: v < 11, lambda v: v == 11)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_soft_constraints_keep_the_largest_set_in_order(order):
    item = soft_class(order)
    for limit in (12, 5):
        item.limit = limit
        left = set(range(limit))
        for k in reversed(order):  # a later one has the higher priority
            left = {v for v in left if RULES[k](v)} or left
        found = rows_of(item, 40, 1, lambda x: x.v)
        assert set(found) == left
        assert len(left) == 1 or p_of(found, uniform(left), 40) > ALARM


def test_inline_constraints_and_random_modes():
    item = Guarded()
    seeded(item, 1)
    for _ in range(20):
        with item.randomize_with() as it:
            it.d > 60
        assert item.s == 0 and item.d > 60
    with vsc.raw_mode():
        item.s.rand_mode = False
    item.s = 1
    for _ in range(5):
        item.randomize()
        assert (item.s, item.d) == (1, 0)


def test_changes_between_calls_are_seen():
    """PyVSC keeps what it has prepared, and so do we: weights, ranges, modes and lengths change."""

    @vsc.randobj
    class Changing:
        def __init__(self):
            self.x, self.y, self.z = vsc.rand_bit_t(4), vsc.rand_bit_t(3), vsc.rand_bit_t(4)
            self.many, self.bit = vsc.bit_t(4), vsc.bit_t(2)
            self.ranges = vsc.rangelist(1, 2)
            self.list = vsc.rand_list_t(vsc.bit_t(3), 2)

        @vsc.constraint
        def legal(self):
            vsc.dist(self.x, [vsc.weight(1, self.many), vsc.weight(2, 8)])
            self.y < self.x
            self.z.inside(self.ranges)
            self.z > self.y
            self.y[self.bit] == 0
            with vsc.foreach(self.list, idx=True, it=False) as i:
                self.list[i] < self.x + i

        @vsc.constraint
        def positive(self):
            self.y > 0

    item = seeded(Changing(), 1)

    def found():
        rows = rows_of(item, 30, 1, lambda i: (i.x, i.y, i.z, len(i.list)))
        assert all(v < item.x + k for k, v in enumerate(item.list))
        return set(rows)

    item.many, item.bit = 4, 1
    assert found() == {(2, 1, 2, 2)}
    item.positive.constraint_mode(False)
    assert found() == {(1, 0, 1, 2), (1, 0, 2, 2), (2, 0, 1, 2), (2, 0, 2, 2), (2, 1, 2, 2)}
    item.many = 0
    assert found() == {(2, 0, 1, 2), (2, 0, 2, 2), (2, 1, 2, 2)}
    item.ranges.clear()
    item.ranges.extend([9])
    assert found() == {(2, 0, 9, 2), (2, 1, 9, 2)}
    item.bit = 0
    item.list.append(0)
    assert found() == {(2, 0, 9, 3)}


def test_cyclic_fields_of_the_dataclasses():
    """PyVSC excludes the values of a cycle; the rest is ours: each cycle has all legal values."""

    @vdc.dataclass
    class Cyclic(vdc.RandClass):
        c: vdc.u3 = vdc.randc()
        x: vdc.u3 = vdc.rand()

        @vdc.constraint
        def legal(self):
            self.c < self.x

    item, before, found = Cyclic(), drawn(), []
    for _ in range(21):
        item.randomize()
        found.append(int(item.c))
        assert item.c < item.x
    assert all(sorted(found[k : k + 7]) == list(range(7)) for k in (0, 7, 14))
    assert set(drawn() - before) == {"exact"}


# --- meaning ------------------------------------------------------------------------------------


def random_expression(chosen: random.Random, fields, depth: int):
    """A term of PyVSC's model."""
    if depth == 0:
        if chosen.random() < 0.7:
            return ExprFieldRefModel(chosen.choice(fields))
        is_signed = chosen.random() < 0.5
        width = chosen.randint(2, 5)
        low = -(1 << width - 1) if is_signed else 0
        value = chosen.randint(low, (1 << width - is_signed) - 1)
        return ExprLiteralModel(value, is_signed, width)
    part = lambda: random_expression(chosen, fields, depth - 1)  # noqa: E731
    kind = chosen.random()
    if kind < 0.1:
        return ExprUnaryModel(unary_expr_type.UnaryExprType.Not, part())
    if kind < 0.2:
        return ExprCondModel(part(), part(), part())
    if kind < 0.3:
        whole = ExprFieldRefModel(chosen.choice(fields))
        low = chosen.randrange(whole.width())
        high = chosen.randrange(low, whole.width())
        return ExprPartselectModel(
            whole, ExprLiteralModel(high, False, 8), ExprLiteralModel(low, False, 8)
        )
    every = [op for op in bin_expr_type.BinExprType if op.name != "Not"]
    return ExprBinModel(part(), chosen.choice(every), part())


def test_expressions_mean_what_boolector_says():
    """80 random expressions over two fields of 3 bits, one with sign, on all 64 rows."""
    boolector = pytest.importorskip("pyboolector")
    from vsc.model.constraint_expr_model import ConstraintExprModel

    chosen, differing = random.Random(7), set()
    for case in range(80):
        fields = [FieldScalarModel("u", 3, False, True), FieldScalarModel("s", 3, True, True)]
        rule = ConstraintExprModel(random_expression(chosen, fields, 1 + case % 3))
        for field in fields:
            field.is_used_rand = True
        translation = Translation(fields)
        text = "".join(translation.declared(lambda f: [[-4, 3] if f.is_signed else [0, 7]]))
        text += f"(assert {translation.rule(rule)})"
        _, instance = Problems().find(text.encode(), divided)
        assert not instance.constraints.errors, text
        truth = set()
        for values in itertools.product(range(8), repeat=2):
            solver = boolector.Boolector()
            for field, value in zip(fields, values, strict=True):
                field.var = None
                field.is_used_rand = False
                field.set_val(value)
                field.build(solver)
            solver.Assert(rule.build(solver))
            holds = solver.Sat() == solver.SAT
            assert holds == instance.constraints.holds(dict(zip(("f0", "f1"), values, strict=True)))
            truth.add(holds)
        differing.add(len(truth))
    assert differing == {1, 2}


# --- seeds, contradictions, what is handed back -------------------------------------------------


def test_the_random_state_decides():
    def rows(seed, n=20):
        item = seeded(Guarded(), seed)
        return [(item.randomize(), item.s, item.d)[1:] for _ in range(n)]

    assert rows(1) == rows(1) != rows(2)
    item = seeded(Guarded(), 4)
    item.randomize()
    state = item.get_randstate()
    first = [(item.randomize(), item.d)[1] for _ in range(9)]
    Guarded().randomize()  # what others draw in between does not matter
    item.set_randstate(state)
    assert first == [(item.randomize(), item.d)[1] for _ in range(9)]


def test_a_contradiction_is_a_failure_as_pyvsc_has_it():
    item = seeded(Transfer(), 1)
    for limit in (0, 5, 0, 7):
        item.limit = limit
        if limit:
            item.randomize()
        else:
            with pytest.raises(SolveFailure):
                item.randomize()


@vsc.randobj
class DistUnderRandom:
    def __init__(self):
        self.s, self.x = vsc.rand_bit_t(1), vsc.rand_bit_t(4)

    @vsc.constraint
    def legal(self):
        with vsc.if_then(self.s == 1):
            vsc.dist(self.x, [vsc.weight(1, 1), vsc.weight(2, 3)])


def test_what_is_not_supported_goes_to_a_solver_of_pyvsc():
    item, before = seeded(DistUnderRandom(), 1), drawn()
    with pytest.warns(RuntimeWarning, match="dist under a condition"):
        item.randomize()
    for _ in range(20):
        item.randomize()
        assert item.s == 0 or item.x in (1, 2)
    assert drawn() - before == {"dv-solve (dist-guard)": 21}


def test_a_set_is_handed_back_with_its_reason():
    install(otherwise=None)
    with pytest.raises(SolverUnsupported, match="dist under a condition") as error:
        DistUnderRandom().randomize()
    assert error.value.reason_code == "dist-guard"


@pytest.mark.slow
def test_memory_stays_flat():
    """New state in each call, and caches are bounded: 4 MB in 1,500 calls would be a leak.

    NELSON_CALLS=100000: that many calls, a minute.
    """
    calls = int(os.environ.get("NELSON_CALLS", "3000"))

    @vsc.randobj
    class Stateful:
        def __init__(self):
            self.p, self.s = vsc.rand_uint16_t(), vsc.rand_uint8_t()
            self.limit = vsc.uint16_t()

        @vsc.constraint
        def legal(self):
            self.p < self.limit
            self.p >= self.s

    item, sizes = seeded(Stateful(), 1), []
    for k in range(calls):
        item.limit = (k * 7919) % 65535 + 1
        item.randomize()
        assert item.s <= item.p < item.limit
        if k in (1500, calls - 1):
            sizes.append(psutil.Process().memory_info().rss)
    assert sizes[1] - sizes[0] < 4_000_000


@pytest.mark.slow
@pytest.mark.process
def test_the_environment_chooses():
    code = (
        "import nelson.pyvsc, sys; assert 'vsc' not in sys.modules\n"
        "nelson.pyvsc.install(select=False)\n"
        "import vsc\n"
        "from vsc.impl.ctor import get_solver_backend\n"
        "from vsc.model.solver import select_backend\n"
        "print(type(select_backend(get_solver_backend())).__name__)"
    )
    for name, expected in (("nelson", "NelsonBackend"), ("dv-solve", "DvSolveBackend")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"VSC_SOLVER": name},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        assert done.stdout.strip() == expected
