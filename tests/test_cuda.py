"""The GPU kernels, bit for bit: on the card where there is one, in Numba's simulator elsewhere.

Every choice that must not change a sample (threads a team, teams a block, copies of a small
formula, random rows at once, where state and formula lie, length of the lists) is varied against
the NumPy reference, over methods, tails, contexts, clause lengths and evidence.
`test_cuda_card.py` adds what only a card can show.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

import nelson
from nelson.formula import Formula
from nelson.kernels.core import rng
from nelson.kernels.core.bits import pack, tail_mask, words_for
from nelson.kernels.core.reference import LOVASZ, PRS, Reference, threshold
from nelson.kernels.cuda import draw as kernels
from nelson.sampling.device import draw
from nelson.sampling.device.gpu import Gpu
from nelson.sampling.problem import prepare
from nelson.sampling.sampler import Request
from tests.problems import example1, extremal, non_extremal, pigeonhole, random_ksat, weights

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
pytestmark = [pytest.mark.filterwarnings("ignore:overflow encountered")]
if not SIMULATED:  # on a card
    pytestmark.append(pytest.mark.gpu)
WARP = 1 if SIMULATED else 32


def by_reference(f, theta, count, method, seed, sweeps, max_rounds, evidence, context):
    problem = prepare(f, evidence)
    thr = np.full(f.n_total, 1 << 31, np.uint32)
    thr[: f.n_vars] = threshold(theta)
    thr[np.abs(problem.fixed) - 1] = 0
    return Reference(problem.program, thr).draw(method, seed, count, max_rounds, sweeps, context)


def check(
    f, theta, count, method, *, seed=3, sweeps=0, max_rounds=1000, evidence=(), context=0, **cut
):
    """Kernel and reference agree: samples, valid lanes, rounds, constraints resampled."""
    problem = prepare(f, evidence)
    request = Request(
        theta=np.asarray(theta, float)[None],
        contexts=np.array([context]),
        count=count,
        block=count,
        seed=seed,
        columns=np.arange(f.n_vars),
        sweeps=sweeps,
        max_rounds=max_rounds,
        threads=1,
    )
    card = Gpu(0)
    drawn = draw.draw(method, card, problem, request, 0, count, **cut)
    x, valid, rounds, resampled = by_reference(
        f, theta, count, method, seed, sweeps, max_rounds, evidence, context
    )
    words = words_for(count)
    packed = card.get(drawn.packed)[: words * f.n_vars].reshape(words, f.n_vars)
    assert np.array_equal(packed & tail_mask(count)[:, None], pack(x[:, : f.n_vars]))
    assert np.array_equal(card.get(drawn.valid)[:words], pack(valid[:, None])[:, 0])
    assert (drawn.block.rounds, drawn.block.resampled) == (rounds, resampled)
    assert drawn.invalid == int((~valid).sum())


FORMULAS = {
    **{name: f for name, f in (extremal() | non_extremal()).items() if f.n_vars <= 12},
    "no clause": Formula([], n_vars=5),
    "mixed lengths": Formula([[1, 2], [-2, 3, -4, 5, 6, 7], [-1, -7], [4, -5, 6]], n_vars=8),
    "hub": Formula([[1, 2, 3], [1, -4, 5], [1, 6, -7], [-1, 8, 9], [1, -2, 9]], n_vars=9),
}


@pytest.mark.parametrize("method", [LOVASZ, PRS], ids=["lovasz", "prs"])
@pytest.mark.parametrize("name", FORMULAS)
def test_equals_the_reference(name, method):
    f = FORMULAS[name]
    check(f, weights(f), 70, method, sweeps=1, max_rounds=5)


CUTS = [
    {"team": 2 * WARP},
    {"team": 3 * WARP, "near": 0},
    {"team": 2 * WARP, "near": 1},
    {"team": 2 * WARP, "shared": False},
    {"team": WARP, "teams": 2},
    {"few": 0},
    {"few": 1000},
    {"few": 1000, "capacity": 3},
    {"few": 1000, "capacity": 0, "team": 2 * WARP},
    {"few": 1000, "capacity": 3, "team": 3 * WARP, "log_copies": 1},
    {"rows": 3},
    {"rows": 2},
    {"log_copies": 1},
    {"log_copies": 3, "team": 2 * WARP},
]


@pytest.mark.parametrize("method", [LOVASZ, PRS], ids=["lovasz", "prs"])
@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_how_work_is_cut_never_shows(cut, method):
    f = random_ksat(20, 20, 4, seed=1)
    if method == PRS and "capacity" in cut:
        pytest.skip("prs has no lists")
    check(f, weights(f), 70, method, sweeps=1, max_rounds=4, **{"log_copies": 0, **cut})


@pytest.mark.parametrize("cut", [{}, {"few": 1000}, {"team": 2 * WARP, "shared": False}], ids=str)
@pytest.mark.parametrize("method", [LOVASZ, PRS], ids=["lovasz", "prs"])
@pytest.mark.parametrize("kind", ["one length", "mixed"])
def test_entries_of_32_bits(kind, method, cut, monkeypatch):
    """As formulas of over 4095 variables or clauses have them."""
    monkeypatch.setattr("nelson.kernels.cuda.program.NARROW", 1)
    f = random_ksat(12, 10, 3, seed=5)  # not one whose layout is kept
    if kind == "mixed":
        f = Formula([[1, 2], [-3, 4, 5, 6, 7], [3, 8, -9], [-1, 10, 11, -12]], n_vars=12)
    check(f, weights(f), 70, method, sweeps=2, max_rounds=5, **{"log_copies": 0, **cut})


LISTED = {
    "one length": random_ksat(24, 24, 4, seed=7),
    "odd length": random_ksat(24, 20, 3, seed=7),
    "mixed": Formula([[v, -v - 1, v + 2, *([v + 3] * (v % 2))] for v in range(1, 20)], n_vars=22),
}


@pytest.mark.parametrize("cut", [{}, {"team": 3 * WARP}, {"log_copies": 1}, {"rows": 2}], ids=str)
@pytest.mark.parametrize("name", LISTED)
@pytest.mark.parametrize("uniform", [False, True])
def test_rounds_of_listed_clauses(uniform, name, cut, monkeypatch):
    """Without the last rounds, those before them go on to the end."""
    passes, f = listed_passes(monkeypatch), LISTED[name]
    theta = np.zeros(f.n_vars) if uniform else weights(f)
    check(f, theta, 130, LOVASZ, **{"log_copies": 0, "team": 2 * WARP, "few": 0, **cut})
    assert len(passes) > 2 or not SIMULATED


@pytest.mark.skipif(not SIMULATED, reason="a pass is replaced in the simulator")
def test_a_clause_that_is_not_drawn_would_be_seen(monkeypatch):
    listed_passes(monkeypatch, fewer=1)
    f = LISTED["one length"]
    with pytest.raises(AssertionError):
        check(f, weights(f), 130, LOVASZ, log_copies=0, few=0, max_rounds=40)


def listed_passes(monkeypatch, fewer=0):
    """How many clauses each pass from a list draws, in the simulator; `fewer` are left out."""
    passes, plain = [], kernels.draw_listed

    def counted(p, w, round, count, h):
        passes.append(count)
        plain(p, w, round, count - fewer, h)

    if SIMULATED:
        monkeypatch.setattr(kernels, "draw_listed", counted)
    return passes


@pytest.mark.parametrize("few", [0, 1000])
def test_teams_of_a_block(few):
    """Each with its own barrier; 300 samples are three tiles."""
    f = random_ksat(20, 20, 4, seed=1)
    cut = {"team": 2 * WARP, "teams": 2, "log_copies": 0, "few": few}
    check(f, weights(f), 300, LOVASZ, sweeps=1, max_rounds=4, **cut)


@pytest.mark.skipif(not SIMULATED, reason="torch is replaced")
def test_work_goes_to_the_stream_that_is_current():
    """Also that of samples which were drawn on another one."""
    from types import SimpleNamespace

    card, current = Gpu(0), SimpleNamespace(cuda_stream=7)
    card.torch = SimpleNamespace(cuda=SimpleNamespace(current_stream=lambda index: current))
    card.cuda = SimpleNamespace(external_stream=lambda handle: f"stream {handle}")
    assert card.stream == "stream 7"
    current.cuda_stream = 8
    assert card.stream == "stream 8"
    current.cuda_stream = 0  # the default stream
    assert card.stream == 0


@pytest.mark.parametrize("count", [1, 63, 64, 65, 129, 200])
def test_tails(count):
    f = FORMULAS["hub"]
    check(f, weights(f), count, LOVASZ, sweeps=1)


@pytest.mark.parametrize("context", [1, 7])
def test_contexts_have_streams_of_their_own(context):
    f = FORMULAS["hub"]
    check(f, weights(f), 70, LOVASZ, context=context)


def test_uniform_takes_one_random_row():
    f = random_ksat(15, 12, 3, seed=2)
    check(f, np.zeros(15), 100, LOVASZ, sweeps=1)


def test_evidence_and_fixed_variables():
    f = random_ksat(15, 12, 4, seed=3)
    check(f, weights(f), 70, LOVASZ, sweeps=1, evidence=(1, -5))


def test_another_seed_would_be_seen(monkeypatch):
    """The twin: the comparison fails if a single word of the seed differs."""
    f = FORMULAS["hub"]
    theta = weights(f)
    right = by_reference(f, theta, 70, LOVASZ, 3, 0, 1000, (), 0)
    wrong = by_reference(f, theta, 70, LOVASZ, 4, 0, 1000, (), 0)
    assert not np.array_equal(right[0], wrong[0])
    other = SimpleNamespace(spread_seed=lambda seed: rng.spread_seed(seed + 1))
    monkeypatch.setattr(draw, "rng", other)
    with pytest.raises(AssertionError):
        check(f, theta, 70, LOVASZ)


# --- the interface --------------------------------------------------------------------------------


OPTIONS = [
    {"method": "prs"},
    {"method": "lovasz", "sweeps": 2},
    {"method": "lovasz", "given": [1, -3]},
    {"method": "lovasz", "project": [3, 1]},
    {"method": "lovasz", "sweeps": 0, "max_rounds": 1},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_device_gives_the_same_samples(options):
    f = random_ksat(12, 10, 3, seed=1)
    theta = weights(f)
    host = nelson.sample(f, theta, 100, seed=4, **options)
    card = nelson.sample(f, theta, 100, seed=4, device="cuda", **options)
    assert np.array_equal(card.to_numpy(), host.to_numpy())
    assert np.array_equal(card.host().packed, host.packed)
    assert np.allclose(card.mean(), host.mean())
    assert (card.guarantee, card.status, len(card)) == (host.guarantee, host.status, len(host))
    assert card.info["rounds"] == host.info["rounds"]
    assert card.info["device"] == "cuda:0"


def test_auto_resamples_on_the_card():
    f = random_ksat(12, 10, 3, seed=1)
    s = nelson.sample(f, weights(f), 100, seed=4, device="cuda")
    assert s.info["method"] == "lovasz"
    assert s.guarantee in ("asymptotic", "heuristic")
    assert f.satisfied(s.to_numpy()).all()
    extremal = nelson.sample(example1(), None, 100, seed=4, device="cuda")
    assert extremal.guarantee == "exact"


def test_one_theta_row_a_context():
    f = example1()
    theta = np.array([[0.3, -1.0, 2.0], [0.0, 0.0, 0.0], [-2.0, 1.0, 0.5]])
    host = nelson.sample(f, theta, 70, seed=4)
    card = nelson.sample(f, theta, 70, seed=4, device="cuda")
    assert card.contexts == 3
    assert np.array_equal(card.to_numpy(), host.to_numpy())
    assert np.allclose(card.mean(), host.mean())


def test_a_stream_is_the_same_samples_in_blocks():
    f = example1()
    blocks = list(nelson.stream(f, None, 300, block=128, seed=1, device="cuda"))
    assert [len(block) for block in blocks] == [128, 128, 44]
    x = np.concatenate([block.to_numpy() for block in blocks])
    assert np.array_equal(x, nelson.sample(f, None, 300, seed=1).to_numpy())


def test_nothing_asked_for():
    assert len(nelson.sample(example1(), None, 0, device="cuda")) == 0


def test_a_deadline_leaves_whole_samples():
    f = random_ksat(12, 10, 3, seed=1)
    s = nelson.sample(f, None, 2_000, seconds=0.2, seed=4, device="cuda", method="lovasz", sweeps=0)
    assert f.satisfied(s.to_numpy()).all()
    assert (s.status == "ok") == (len(s) == 2_000)
    first = nelson.sample(f, None, 64, seed=4, method="lovasz", sweeps=0).to_numpy()
    assert np.array_equal(s.to_numpy()[:64], first[: len(s)])


def test_unsatisfiable_is_proved():
    pytest.importorskip("pysat")
    with pytest.raises(nelson.Unsatisfiable):
        nelson.sample(pigeonhole(3), None, 10, device="cuda", max_rounds=20)


def test_learning_is_the_same_on_the_card():
    f = example1()
    data = nelson.sample(f, [1.0, 0.5, -0.5], 256, seed=1).to_numpy()
    options = {"seed": 2, "m": 128, "iterations": 2, "stop": False}
    one = nelson.learn(f, data, **options).theta
    two = nelson.learn(f, data, device="cuda", **options).theta
    assert np.array_equal(one, two)


def test_log_z_is_the_same_on_the_card():
    from nelson.log_z import log_partition

    f = example1()
    options = {"method": "telescope", "seed": 1, "half_width": 0.5, "seconds": 60.0}
    assert float(log_partition(f, **options)) == float(log_partition(f, device="cuda", **options))


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"device": "gpu"}, "cuda"),
        ({"device": "cuda:x"}, "cuda"),
        ({"device": "cuda", "unique": True}, "unique"),
        ({"device": "cuda", "method": "moser-tardos"}, "moser-tardos"),
    ],
)
def test_what_cannot_be_done_is_said(options, said):
    with pytest.raises(nelson.FormulaError, match=said):
        nelson.sample(example1(), None, 10, **options)


def _python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    plain = {key: value for key, value in os.environ.items() if key != "NUMBA_ENABLE_CUDASIM"}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=plain | environment
    )


def test_without_a_gpu_the_error_says_what_to_do():
    code = "import nelson; nelson.sample(nelson.Formula([[1, 2]]), None, 4, device='cuda')"
    done = _python(code, CUDA_VISIBLE_DEVICES="")
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert "NelsonError" in last
    assert 'device="cpu"' in last or "nelson[cuda]" in last


def test_import_never_touches_cuda():
    code = (
        "import sys, nelson, nelson.sampling.sample_stream; nelson.sample(nelson.Formula([[1, 2]]), None, 4);"
        "assert not [m for m in sys.modules if m.startswith(('nelson.kernels.cuda.draw', 'cuda.'))]"
    )
    done = _python(code)
    assert done.returncode == 0, done.stderr


def test_banks_and_slots():
    """Reordering keeps every list, and leaves fewer threads waiting for a bank."""
    from nelson.kernels.cuda.banks import GROUP, balance, spread

    random = np.random.default_rng(1)
    n, rows, k = 200, 320, 5
    variables = np.array([random.choice(n, k, replace=False) for _ in range(rows)])
    lines = np.zeros((6 * rows // 32, 32), np.int64)
    cubes = lines.reshape(-1, 6, 32)

    def waits(lines):
        groups = (lines >> 4).reshape(-1, 32 // GROUP, GROUP)
        return sum(np.bincount(np.unique(g) % GROUP).max() for line in groups for g in line)

    def fill(order):
        for s in range(rows // 32):
            cubes[s, :k] = 16 * variables[order[32 * s : 32 * s + 32]].T
            cubes[s, k:] = cubes[s, :1]
        return lines.copy()

    order = balance(variables.reshape(-1), np.arange(0, k * rows + 1, k), n, 1)
    assert np.array_equal(np.sort(order), np.arange(rows))
    before, after = fill(np.arange(rows)), fill(order)
    kept = [set(after[6 * (j // 32) :, j % 32][:6].tolist()) for j in range(rows)]
    spread(after, np.arange(0, len(lines) + 1, 6), np.full(rows, k), True)
    assert kept == [set(after[6 * (j // 32) :, j % 32][:6].tolist()) for j in range(rows)]
    assert waits(after) < 0.75 * waits(before)


# ------------------------------------------------------------------------------- races


class Accesses:
    """What each thread reads and writes, and in which order barriers put that, in the simulator.

    A race is an address that one thread writes and another one touches, with no barrier of both in
    between, unless both do it atomically, or both write the same value. Every thread has a clock
    that ticks at its barriers, and knows up to when it has waited for each of the others.
    """

    MODULES = ("cuda", "cuda_clauses", "cuda_late", "cuda_pass", "cuda_prs", "cuda_team")
    ATOMIC = ("atomic_add", "atomic_or", "atomic_and", "atomic_max")

    def __init__(self, monkeypatch):
        self.now, self.known, self.log = {}, {}, []
        self.met, self.visits, self.lock = {}, {}, threading.Lock()
        plain = import_module("nelson.kernels.cuda.setup")
        watched = {name: getattr(self, name) for name in ("peek", "peek2", "load2")}
        watched |= {name: getattr(self, name) for name in ("poke", "poke2", "sync", "sync_block")}
        watched |= {name: self.atomic(getattr(plain, name)) for name in self.ATOMIC}
        self.plain = {name: getattr(plain, name) for name in watched}
        for module in map(import_module, (f"nelson.kernels.{name}" for name in self.MODULES)):
            for name in watched.keys() & vars(module).keys():
                monkeypatch.setattr(module, name, watched[name])

    def note(self, array, first, count, kind, value=None):
        array = getattr(array, "_ary", array)
        if array.dtype == np.uint8:  # marks of variables that moved: any team sets them at any time
            return
        at = array.__array_interface__["data"][0] + int(first) * array.itemsize
        me = threading.get_ident()
        access = me, self.now.get(me, 0), self.known.get(me, {}), kind, value
        self.log.append((at, count * array.itemsize, access))

    def races(self):
        """Pairs of kinds of access."""
        changed = {at + k for at, size, access in self.log if access[3] != "read"
                   for k in range(0, size, 4)}  # fmt: skip
        seen, found = {}, set()
        for at, size, (me, now, known, kind, value) in self.log:
            for byte in set(range(at, at + size, 4)) & changed:
                others = seen.setdefault(byte, {})
                for (who, what), (then, held) in others.items():
                    same = value is not None and held == value
                    apart = who != me and then > known.get(who, -1)
                    if apart and {kind, what} not in ({"read"}, {"atomic"}) and not same:
                        found.add(frozenset((what, kind)))
                others[me, kind] = now, value
        return found

    def peek(self, array, i):
        self.note(array, i, 1, "read")
        return self.plain["peek"](array, i)

    def peek2(self, array, i):
        self.note(array, 2 * i, 2, "read")
        return self.plain["peek2"](array, i)

    def load2(self, array, code):
        self.note(array, 2 * (code >> 4), 2, "read")
        return self.plain["load2"](array, code)

    def poke(self, array, i, value):
        self.note(array, i, 1, "write", int(value))
        self.plain["poke"](array, i, value)

    def poke2(self, array, i, first, second):
        self.note(array, 2 * i, 2, "write", (int(first), int(second)))
        self.plain["poke2"](array, i, first, second)

    def atomic(self, function):
        def watched(array, i, value):
            self.note(array, i, 1, "atomic")
            return function(array, i, value)

        return watched

    def sync(self, team, which):
        self.meet((team, which) if team > 1 else threading.get_ident(), "sync", team, which)

    def sync_block(self):
        self.meet("block", "sync_block")

    def meet(self, place, barrier, *arguments):
        """Wait, and then know what all others that came knew."""
        me = threading.get_ident()
        now = self.now.get(me, 0)
        with self.lock:
            visit = self.visits[me, place] = self.visits.get((me, place), 0) + 1
            here = self.met.setdefault((place, visit), [])
            here.append({**self.known.get(me, {}), me: now})
        self.plain[barrier](*arguments)
        met = {}
        for known in here:
            met = {who: max(met.get(who, -1), known.get(who, -1)) for who in met | known}
        self.now[me], self.known[me] = now + 1, met


def mixed():
    """Every variable is swept, with lists of many lengths."""
    return random_ksat(20, 20, 5, seed=0)


RACY = {
    "late": (mixed(), LOVASZ, {"log_copies": 0}),
    "listed": (mixed(), LOVASZ, {"log_copies": 0, "few": 0}),
    "copies": (random_ksat(8, 8, 3, seed=3), LOVASZ, {"log_copies": 1}),
    "full lists": (random_ksat(12, 12, 4, seed=2), LOVASZ, {"log_copies": 0, "capacity": 4}),
    "prs": (random_ksat(12, 5, 3, seed=4), PRS, {"log_copies": 0}),
    "teams": (random_ksat(12, 12, 4, seed=2), LOVASZ, {"log_copies": 0, "team": 2, "teams": 2}),
}


@pytest.mark.skipif(not SIMULATED, reason="threads are watched in the simulator")
@pytest.mark.parametrize("name", RACY)
def test_no_thread_touches_what_another_writes(name, monkeypatch):
    f, method, cut = RACY[name]
    accesses = Accesses(monkeypatch)
    check(f, weights(f), 128 * cut.get("teams", 1), method, sweeps=1, **{"team": 3, **cut})
    assert accesses.races() == set()


@pytest.mark.skipif(not SIMULATED, reason="threads are watched in the simulator")
@pytest.mark.parametrize("module", ["cuda", "cuda_late"])
def test_races_would_be_seen(module, monkeypatch):
    """A barrier that is none: it is not counted as one."""
    accesses = Accesses(monkeypatch)
    monkeypatch.setattr(f"nelson.kernels.{module}.sync", accesses.plain["sync"])
    f = mixed()
    check(f, weights(f), 128, LOVASZ, sweeps=1, team=3, log_copies=0)
    assert accesses.races()
