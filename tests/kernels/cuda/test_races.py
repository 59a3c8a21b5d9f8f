"""Threads of the GPU kernel never touch what another thread writes, unless a barrier is between."""

from __future__ import annotations

import threading
from importlib import import_module

import numpy as np
import pytest

from nelson.kernels.core.reference import LOVASZ, PRS
from tests.kernels.cuda.compare import MARKS, SIMULATED, check, check_coupled
from tests.problems import random_ksat, weights

pytestmark = [
    *MARKS,
    pytest.mark.skipif(not SIMULATED, reason="threads are watched in the simulator"),
]


class Accesses:
    """Records what each thread reads and writes, and which barriers lie between, in the simulator.

    A race is an address that one thread writes and another one reads or writes, with no common
    barrier in between, unless both accesses are atomic or both write the same value. Every thread
    has a clock that ticks at its barriers, and knows for each other thread the latest tick that it
    has waited for.
    """

    MODULES = ("draw", "clauses", "sparse_rounds", "passes", "prs", "team", "bounds", "cftp")
    ATOMIC = ("atomic_add", "atomic_or", "atomic_and", "atomic_max")

    def __init__(self, monkeypatch):
        self.now, self.known, self.log = {}, {}, []
        self.met, self.visits, self.lock = {}, {}, threading.Lock()
        plain = import_module("nelson.kernels.cuda.setup")
        watched = {name: getattr(self, name) for name in ("peek", "peek2", "load2")}
        watched |= {name: getattr(self, name) for name in ("poke", "poke2", "sync", "sync_block")}
        watched |= {name: self.atomic(getattr(plain, name)) for name in self.ATOMIC}
        self.plain = {name: getattr(plain, name) for name in watched}
        for module in map(import_module, (f"nelson.kernels.cuda.{name}" for name in self.MODULES)):
            for name in watched.keys() & vars(module).keys():
                monkeypatch.setattr(module, name, watched[name])

    def note(self, array, first, count, kind, value=None):
        array = getattr(array, "_ary", array)
        if array.dtype == np.uint8:  # `moved`, which any team may set at any time
            return
        at = array.__array_interface__["data"][0] + int(first) * array.itemsize
        me = threading.get_ident()
        access = me, self.now.get(me, 0), self.known.get(me, {}), kind, value
        self.log.append((at, count * array.itemsize, access))

    def races(self):
        """Pairs of kinds of access that race."""
        changed = {at + k for at, size, access in self.log if access[3] != "read"
                   for k in range(0, size, 4)}  # fmt: skip
        seen, racing = {}, set()
        for at, size, (me, now, known, kind, value) in self.log:
            for byte in set(range(at, at + size, 4)) & changed:
                others = seen.setdefault(byte, {})
                for (who, what), (then, held) in others.items():
                    same = value is not None and held == value
                    apart = who != me and then > known.get(who, -1)
                    if apart and {kind, what} not in ({"read"}, {"atomic"}) and not same:
                        racing.add(frozenset((what, kind)))
                others[me, kind] = now, value
        return racing

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
        """Wait; afterwards each thread knows what all threads at this barrier knew."""
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


@pytest.mark.slow
@pytest.mark.parametrize("name", RACY)
def test_no_thread_touches_what_another_writes(name, monkeypatch):
    f, method, cut = RACY[name]
    accesses = Accesses(monkeypatch)
    check(f, weights(f), 128 * cut.get("teams", 1), method, sweeps=1, **{"team": 3, **cut})
    assert accesses.races() == set()


@pytest.mark.slow
@pytest.mark.parametrize("cut", [{"team": 3}, {"team": 2, "teams": 2}], ids=str)
def test_no_thread_of_coupled_chains_touches_what_another_writes(cut, monkeypatch):
    accesses, f = Accesses(monkeypatch), random_ksat(8, 4, 3, seed=3)
    assert check_coupled(f, np.zeros(8), 192, log_copies=0, **cut)
    assert accesses.races() == set()


@pytest.mark.slow
@pytest.mark.parametrize("module", ["bounds", "cftp"])
def test_races_of_coupled_chains_would_be_seen(module, monkeypatch):
    accesses, f = Accesses(monkeypatch), random_ksat(8, 4, 3, seed=3)
    monkeypatch.setattr(f"nelson.kernels.cuda.{module}.sync", accesses.plain["sync"])
    assert check_coupled(f, np.zeros(8), 192, log_copies=0, team=3)
    assert accesses.races()


@pytest.mark.slow
@pytest.mark.parametrize("module", ["draw", "sparse_rounds"])
def test_races_would_be_seen(module, monkeypatch):
    """If the barriers of a module are not recorded, races are reported."""
    accesses = Accesses(monkeypatch)
    monkeypatch.setattr(f"nelson.kernels.cuda.{module}.sync", accesses.plain["sync"])
    f = mixed()
    check(f, weights(f), 128, LOVASZ, sweeps=1, team=3, log_copies=0)
    assert accesses.races()
