"""An external model counter: ganak, in a child process under limits.

It counts solutions and adds up weights. It knows neither means nor samples. Without a deadline each
question has some seconds of CPU time, so that other programs on the machine do not matter.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nelson.budget import Budget
from nelson.errors import BudgetExceeded, Unsatisfiable
from nelson.exact.enumerated import evidence_in, finite
from nelson.formula import Formula
from nelson.formula.flat import lists
from nelson.io.progress import phase
from nelson.policy import DEFAULT, Policy
from nelson.process.child import run_child

#: The module of ganak, and the script that calls it.
GANAK = "pyganak"
SCRIPT = Path(__file__).with_name("ganak_child.py")
UNSATISFIABLE = "a CDCL solver proved that the formula has no solution"


def missing() -> str | None:
    """None, or what has to be installed first."""
    if importlib.util.find_spec(GANAK) is None:
        return 'ganak is not installed: pip install "nelson-mrf[samplers]"'
    return None


@dataclass
class GanakCounter:
    """Counts and log Z of a formula by ganak. Every question raises BudgetExceeded if the counter
    did not answer in time.
    """

    formula: Formula
    budget: Budget
    policy: Policy = DEFAULT
    route: str = "counter"
    why: str = "exact: counted by ganak"

    def count(self, evidence: Sequence[int] = ()) -> int:
        """The number of solutions in which all literals of the evidence hold."""
        answer = self._ask(self._clauses(evidence))
        return 0 if answer is None else int(answer["count"], 16)

    def log_z(self, theta: np.ndarray) -> np.ndarray:
        """(b, n) -> (b,); +-inf is hard evidence, and weighs 1."""
        return np.array([self._log_z(row) for row in theta])

    def _log_z(self, theta: np.ndarray) -> float:
        row = np.zeros(self.formula.n_total)
        row[: len(theta)] = finite(theta)
        if (largest := np.abs(row).max(initial=0.0)) > (most := self.policy.exact.counter_theta):
            raise BudgetExceeded(f"ganak: |theta| = {largest:g} is above {most:g}")
        log_p = np.stack([-np.logaddexp(0, row), -np.logaddexp(0, -row)], axis=1)
        evidence = evidence_in(theta)
        task = self._clauses(evidence) | {"weights": np.exp(log_p).tolist()}
        answer = self._ask(task)
        if answer is None:
            raise Unsatisfiable(UNSATISFIABLE)
        # A variable with evidence has probability 1/2 in the sum, and weight 1 in Z.
        return answer["log"] + float(np.logaddexp(0, row).sum())

    def _clauses(self, evidence: Sequence[int]) -> dict[str, Any]:
        clauses = lists(self.formula.literals, self.formula.offsets)
        return {"n": self.formula.n_total, "clauses": [*clauses, *([a] for a in evidence)]}

    def _ask(self, task: dict[str, Any]) -> dict[str, Any] | None:
        """ganak's answer; None: there is no solution."""
        if lacking := missing():
            raise BudgetExceeded(lacking)
        counted = self.budget.counted
        seconds = self.policy.exact.counter_seconds if counted else self.budget.left
        with phase("ganak counts the solutions"):
            answers, ended = run_child(SCRIPT, [task], seconds, self.budget.memory, cpu=counted)
        answer = answers[0] if answers else {"error": ended}
        if answer.get("unsatisfiable"):
            return None
        if "error" in answer:
            raise BudgetExceeded(f"ganak: {answer['error']}")
        return answer
