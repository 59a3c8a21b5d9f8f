"""Solutions of a CDCL solver for a call that would end with nothing.

With `seconds=`, `auto` tries exact methods and chains, and on a large formula the time may be up
before one of them has a sample, though a solver has a solution in an instant. So a solver starts
beside them once a share of the time has passed, and its solutions are what is returned if there is
nothing else: valid, of no known law.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.chains.chain import tiled
from nelson.errors import Unsatisfiable
from nelson.formula import Formula
from nelson.io.progress import phase
from nelson.kernels.core.bits import tail_mask, words_for
from nelson.kernels.core.deadline import without_deadline
from nelson.kernels.cpu.packed_samples import holds
from nelson.policy import DEFAULT, ReservePolicy
from nelson.process.child import Cancelled, cancelled_by
from nelson.sampling.foreign import ask, flat
from nelson.sampling.samples import Samples

_SCRIPT = Path(__file__).parent / "methods" / "scripts" / "phases.py"
#: The name of the sampler in `Samples.info`.
NAME = "cdcl"


def installed() -> bool:
    return find_spec("pysat") is not None


@dataclass(frozen=True)
class Wanted:
    """What the samples of the reserve must be."""

    formula: Formula
    evidence: Sequence[tuple[int, ...]]  # of each context
    columns: np.ndarray  # those that are returned
    single: bool  # one vector theta
    n: int
    unique: bool
    seed: int | None


class Reserve:
    """A solver in a child process, watched by a thread. Whoever starts it must stop it."""

    def __init__(self, wanted: Wanted, budget: Budget, rules: ReservePolicy = DEFAULT.reserve):
        """budget: with a deadline."""
        self.wanted, self.budget, self.rules = wanted, budget, rules
        self._rows: dict[tuple[int, ...], np.ndarray] = {}  # solutions by evidence
        self._error: Exception | None = None
        self._stop = threading.Event()
        self._wait = min(rules.share * budget.left, rules.seconds)
        self._thread = threading.Thread(target=self._run, name="reserve", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        if self._stop.wait(self._wait):
            return
        try:
            with cancelled_by(self._stop):
                self._find(1, self.budget)
                self._find(self.rules.solutions, self.budget.share(self.rules.more_share))
        except Cancelled:
            pass
        except Exception as error:  # Unsatisfiable, for example: raised where it is waited for
            self._error = error

    def _find(self, count: int, budget: Budget) -> None:
        """Solutions for each evidence, unless there are as many."""
        every = list(dict.fromkeys(self.wanted.evidence))
        for k, evidence in enumerate(every):
            rows = self._solutions(evidence, count, budget.share(1 / (len(every) - k)))
            if len(rows):
                self._rows[evidence] = rows

    def _solutions(self, evidence: tuple[int, ...], count: int, budget: Budget) -> np.ndarray:
        formula = self.wanted.formula
        task = {
            "n": formula.n_total,
            "clauses": flat(formula.literals, formula.offsets, np.array(evidence, np.int32)),
            "p": None,
            "count": count,
            "seed": (self.wanted.seed or 0) % 2**31,
        }
        return ask(_SCRIPT, "CaDiCaL", task, budget)[0].reshape(-1, formula.n_total)

    def samples(self, started: float, why: str) -> Samples | None:
        """What there is when the call must end; waits for it until then. None: nothing.

        why: what the time was up for. Raises Unsatisfiable if the solver proved it.
        """
        wanted = self.wanted
        with phase("a CDCL solver looks for a solution", self.budget.seconds_left):
            while self._thread.is_alive() and len(self._rows) < len(set(wanted.evidence)):
                if self.budget.spent:
                    break
                self._thread.join(0.01)
        self.stop()
        if isinstance(self._error, Unsatisfiable):
            raise self._error
        rows_by_evidence = dict(self._rows)
        if len(rows_by_evidence) < len(set(wanted.evidence)):
            return None
        with without_deadline():
            return self._samples(rows_by_evidence, started, why)

    def _samples(
        self, rows_by_evidence: dict[tuple[int, ...], np.ndarray], started: float, why: str
    ) -> Samples:
        wanted = self.wanted
        if wanted.unique:
            for evidence, rows in rows_by_evidence.items():
                first: dict[bytes, int] = {}
                for k, packed in enumerate(np.packbits(rows[:, wanted.columns], axis=1)):
                    first.setdefault(packed.tobytes(), k)
                rows_by_evidence[evidence] = rows[list(first.values())]
        fewest = min(map(len, rows_by_evidence.values()))
        # A row of a million variables is repeated no more often than memory allows.
        count = min(wanted.n, fewest if wanted.unique else wanted.n)
        count = min(count, max(fewest, self.rules.cells // max(1, len(wanted.columns))))
        packed = [
            self._packed(evidence, rows_by_evidence[evidence], count)
            for evidence in wanted.evidence
        ]
        info: dict[str, Any] = {
            "method": NAME,
            "why": f"{fewest} solutions of a CDCL solver in turns, whose distribution is unknown, "
            f"because all other methods failed ({why})",
            "seed": wanted.seed,
            "requested": wanted.n,
            "starts": fewest,
            "seconds": time.monotonic() - started,
        }
        if not wanted.single:
            info["guarantees"] = ["heuristic"] * len(wanted.evidence)
        if count < wanted.n:
            info["reason"] = f"the time was up; a solver found {fewest} solutions"
        status = "ok" if count == wanted.n else "budget"
        array = packed[0] if wanted.single else np.stack(packed)
        variables = tuple((wanted.columns + 1).tolist())
        return Samples(array, count, variables, "heuristic", status, info)

    def _packed(self, evidence: tuple[int, ...], rows: np.ndarray, count: int) -> np.ndarray:
        """`count` rows, the solutions in turns, checked against the clauses as given."""
        formula = self.wanted.formula
        lanes = tail_mask(64 * words_for(len(rows)))
        states = tiled(rows, 0, words_for(len(rows)))
        good = holds(formula.literals, formula.offsets, states, lanes)
        right = all((rows[:, abs(x) - 1] == (x > 0)).all() for x in evidence)
        assert right and np.array_equal(good, lanes), "a solver's solution violates the formula"
        packed = tiled(rows[:, self.wanted.columns], 0, words_for(count))
        if count % 64:
            packed[-1] &= tail_mask(count % 64)
        return packed

    def stop(self) -> None:
        """End the child. To wait until a large one has given its memory back would be late."""
        self._stop.set()
        self._thread.join(0.1)
