"""`pyunigen.Sampler`: samples over a sampling set, and their number as cells * 2^hashes.

UniGen's samples are uniform within a factor; here they are uniform over the projected solutions,
exactly where that is possible. Otherwise a warning says what is known. The count is exact unless a
warning says that ApproxMC made it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from nelson.compat.clauses import Clauses, literals, not_negative
from nelson.errors import Unsatisfiable
from nelson.formula import Formula
from nelson.sampling.sample_stream import sample
from nelson.sampling.solution_count import solution_count

__version__ = VERSION = "2.5.8"


class Sampler(Clauses):
    """Clauses in, one call of `sample`."""

    def __init__(
        self,
        verbosity: int = 0,
        seed: int = 1,
        epsilon: float = 0.8,
        delta: float = 0.2,
        kappa: float = 0.638,
        multisample: bool = False,
    ) -> None:
        """The same seed gives the same samples. Other arguments are checked and have no effect."""
        super().__init__()
        not_negative(verbosity, "verbosity")
        for name, value in (("epsilon", epsilon), ("delta", delta), ("kappa", kappa)):
            if not 0 < value < 1:
                raise ValueError(f"{name} must be greater than 0")
        self._seed, self._called = seed, False

    def sample(
        self,
        num: int = 5,
        sampling_set: Iterable[int] | None = None,
        cell_hash_count: tuple[int, int] | None = None,
    ) -> tuple[int, int, list[list[int]]]:
        """(cells, hashes, samples): cells * 2^hashes projected solutions; each sample is a list of
        literals in the order of the sampling set. Without a solution: (0, 0, []); the original
        ends the process then.
        """
        if self._called:
            raise SystemError("You can only call sample() once")
        self._called = True
        shown = (
            list(range(1, self._largest + 1)) if sampling_set is None else literals(sampling_set)
        )
        if min(shown, default=1) < 0:
            raise ValueError("Sampling set must be positive numbers")
        if max(shown, default=0) > self._largest:
            raise ValueError(
                "Sampling set provided is incorrect, it has a variable in it, "
                f"{max(shown)}, that is larger than the total number of variables: {self._largest}"
            )
        shown = list(dict.fromkeys(shown))
        formula = Formula(self._clauses, self._largest)
        law = "solutions" if len(shown) < self._largest else "marginal"
        try:
            drawn = sample(formula, None, num, seed=self._seed, project=shown, project_law=law)
        except Unsatisfiable:
            return 0, 0, []
        self._tell(drawn)
        count = cell_hash_count
        if count is None:
            cells, hashes, why = solution_count(formula, shown, self._seed)
            count = cells, hashes
            if why:
                warnings.warn(f"the count is ApproxMC's: {why}", stacklevel=2)
        rows = drawn.to_numpy().tolist()
        chosen = [[v if x else -v for v, x in zip(shown, row, strict=True)] for row in rows]
        return (*count, chosen)
