"""Formulas in conjunctive normal form, as two flat arrays.

    C(x) = AND_j OR_{l in clause j} l(x),     l(x) = x_v for l = v,  1 - x_v for l = -v

`literals` holds the DIMACS literals of all clauses end to end, and clause j is
`literals[offsets[j]:offsets[j + 1]]` (compressed sparse rows). Memory is O(total literals), and
every layer above turns the arrays into its own flat program once.

Variables 1..n_vars are *visible*: structures are assignments to them. The next n_aux variables are
*auxiliary*: an encoder introduced them (`nelson.formula.encode`). Each is a function of the visible
variables, so a visible solution has exactly one completion, and a uniform draw over the encoded
clauses is a uniform draw over the visible solutions.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from nelson.errors import FormulaError
from nelson.formula.canonical import normalise
from nelson.formula.checks import (
    MAX_VARIABLE,
    checked_arrays,
    checked_projection,
    checked_theta,
    count,
    flatten,
    largest_variable,
)
from nelson.formula.encode import Constraint, Linear, Xor, extend
from nelson.formula.evaluate import satisfied
from nelson.formula.extremal import condition1
from nelson.formula.memo import Memo, Slot
from nelson.formula.propagate import propagated
from nelson.kernels.core.deadline import check_time

_EXTREMAL: Slot[bool] = Slot("Condition 1 holds")
_HASH: Slot[int] = Slot("hash of the content")


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Formula:
    """A CNF formula C over x in {0,1}^n; immutable, equal by content, hashable.

    `clauses` is any iterable of iterables of DIMACS literals, or a 2-D integer array. Odd input is
    read as SAT users expect: a repeated literal counts once, a tautology is dropped, of repeated
    clauses the first is kept, and an empty clause makes the formula unsatisfiable. Variables up to
    `n_vars` (default: the largest in a clause) exist even if no clause mentions them.

    theta       log-odds log w(x_i) - log w(not x_i), float64 (n_vars,), or None for an unweighted
                file; +-inf is hard evidence. The formula only carries theta: `nelson.sample` takes
                its own.
    projection  the variables of projected samples and counts, or None for all.

    >>> f = nelson.Formula([[1, 2], [-1, 3]])  # (x1 or x2) and (not x1 or x3)
    >>> f.satisfied([[True, False, True], [True, False, False]])
    array([ True, False])
    >>> f.given([1]).clauses()  # x1 is true, so x3 is
    [[1], [3]]
    >>> f.exactly([1, 2, 3], 2).satisfied([[True, True, True], [False, True, True]])
    array([False,  True])
    """

    literals: np.ndarray  # int32, read-only
    offsets: np.ndarray  # int64, n_clauses + 1, read-only
    n_vars: int
    n_aux: int
    theta: np.ndarray | None
    projection: tuple[int, ...] | None
    constraints: tuple[Constraint, ...]  # the constraints that auxiliary variables encode
    n_clauses: int
    n_total: int  # visible and auxiliary variables
    has_empty_clause: bool
    source: str | None  # the file that the formula was read from
    dialect: str | None  # how the weights of that file were read; None if it had none
    notes: tuple[str, ...]  # irregularities and decisions of the reader, in words for the user
    memo: Memo  # results of other modules about this formula; never part of the content

    def __init__(
        self,
        clauses: Iterable[Iterable[int]] | np.ndarray = (),
        n_vars: int | None = None,
        *,
        theta: Any = None,
        projection: Iterable[int] | None = None,
        n_aux: int = 0,
    ) -> None:
        options = {"theta": theta, "projection": projection, "n_aux": n_aux}
        vars(self).update(vars(Formula.from_arrays(*flatten(clauses), n_vars, **options)))

    @classmethod
    def from_arrays(
        cls,
        literals: Any,
        offsets: Any,
        n_vars: int | None = None,
        *,
        theta: Any = None,
        projection: Iterable[int] | None = None,
        n_aux: int = 0,
        constraints: Sequence[Constraint] = (),
        source: str | None = None,
        dialect: str | None = None,
        notes: Sequence[str] = (),
    ) -> Formula:
        """From flat arrays as above. `constraints` are encoded by the auxiliary variables."""
        literals, offsets = checked_arrays(literals, offsets)
        largest = largest_variable(literals)
        n_aux = count(n_aux, "n_aux")
        n_vars = max(largest - n_aux, 0) if n_vars is None else count(n_vars, "n_vars")
        if largest > n_vars + n_aux:
            known = f"{n_vars} variables" + (f" and {n_aux} auxiliary ones" if n_aux else "")
            raise FormulaError(f"literal of variable {largest}", expected=known)
        if n_vars + n_aux > MAX_VARIABLE:
            raise FormulaError(
                f"{n_vars + n_aux} variables", expected=f"at most {MAX_VARIABLE} variables"
            )
        literals, offsets = normalise(literals, offsets)
        literals.setflags(write=False)
        offsets.setflags(write=False)
        f = cls.__new__(cls)
        vars(f).update(
            literals=literals,
            offsets=offsets,
            n_vars=n_vars,
            n_aux=n_aux,
            theta=checked_theta(theta, n_vars),
            projection=checked_projection(projection, n_vars),
            constraints=tuple(constraints),
            n_clauses=len(offsets) - 1,
            n_total=n_vars + n_aux,
            has_empty_clause=bool((offsets[1:] == offsets[:-1]).any()),
            source=source,
            dialect=dialect,
            notes=tuple(notes),
            memo=Memo(),
        )
        return f

    @classmethod
    def from_dimacs(
        cls, source: str | os.PathLike[str] | IO[Any] | bytes, *, dialect: str = "auto"
    ) -> Formula:
        """Read a DIMACS file: a path, "-" for stdin, an open file, or bytes; plain, gzip or xz.

        `dialect` says how weights are written; "auto" decides and leaves a note. docs/formats.md
        lists every form that is understood.
        """
        return cls._read(source, dialect)

    @classmethod
    def from_string(cls, text: str, *, dialect: str = "auto") -> Formula:
        """Read DIMACS text."""
        return cls._read(text.encode("utf-8", "backslashreplace"), dialect, name="<string>")

    @classmethod
    def _read(cls, source: Any, dialect: str, **name: str) -> Formula:
        from nelson.formula.dimacs.read import read  # 10 ms that a space does not need

        arguments = dict(vars(read(source, dialect=dialect, **name)))
        xors = arguments.pop("xors")
        f = cls.from_arrays(**arguments)
        return extend(f, xors) if xors else f

    @classmethod
    def from_pysat(cls, cnf: Any) -> Formula:
        """From a `pysat.formula.CNF` (or anything with `.clauses` and `.nv`)."""
        return cls(cnf.clauses, n_vars=cnf.nv)

    def to_dimacs(self, target: str | os.PathLike[str] | IO[Any] | None = None) -> str | None:
        """Write the MCC form to a path or file (.gz and .xz compress); None returns the text."""
        from nelson.formula.dimacs.write import write

        return write(self, target)

    # --- a value, not an object ------------------------------------------------------------------

    def replace(self, **changes: Any) -> Formula:
        """A copy with other values for some arguments of `from_arrays`."""
        return Formula.from_arrays(**(self._arguments() | changes))

    def _arguments(self) -> dict[str, Any]:
        """The arguments with which `from_arrays` gives an equal formula."""
        derived = {"n_clauses", "n_total", "has_empty_clause", "memo"}
        return {name: value for name, value in vars(self).items() if name not in derived}

    def __copy__(self) -> Formula:
        return self  # immutable, so it can stand for its own copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Formula:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the content only: worker processes compile their own programs."""
        return _rebuilt, (self._arguments(),)

    # --- properties -----------------------------------------------------------------------------

    @property
    def is_extremal(self) -> bool:
        """Condition 1: clauses that share a variable are never violated together (cached)."""
        return self.memo.once(_EXTREMAL, lambda: condition1(self) is None)

    def clauses(self) -> list[list[int]]:
        return list(self)

    def __iter__(self) -> Iterator[list[int]]:
        for k, (start, stop) in enumerate(itertools.pairwise(self.offsets.tolist())):
            if k % 4096 == 0:  # some milliseconds
                check_time()
            yield self.literals[start:stop].tolist()

    def __len__(self) -> int:
        return self.n_clauses

    def _content(self) -> tuple[Any, ...]:
        theta = None if self.theta is None else self.theta.tobytes()
        arrays = self.literals.tobytes(), self.offsets.tobytes()
        return self.n_vars, self.n_aux, *arrays, theta, self.projection, self.constraints

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Formula):
            return NotImplemented
        return self is other or self._content() == other._content()

    def __hash__(self) -> int:
        return self.memo.once(_HASH, lambda: hash(self._content()))

    def __repr__(self) -> str:
        parts = [f"{self.n_vars} variables", f"{self.n_clauses} clauses"]
        if self.n_aux:
            parts.insert(1, f"{self.n_aux} auxiliary")
        if self.theta is not None:
            parts.append("weighted")
        if self.projection is not None:
            parts.append(f"projected on {len(self.projection)}")
        return f"<Formula: {', '.join(parts)}>"

    # --- evaluating, conditioning, adding constraints -------------------------------------------

    def satisfied(self, x: Any) -> np.ndarray:
        """C(x) for each assignment: (..., n_vars) bool -> (...) bool.

        Visible assignments are checked against the clauses over visible variables and against the
        XOR and linear constraints themselves, not against their encoding. With x of shape
        (..., n_total) all clauses are checked as they stand. O(total literals) bit operations for
        8 assignments.
        """
        return satisfied(self, x)

    def given(self, evidence: Mapping[int, bool] | Iterable[int]) -> Formula:
        """C conditioned on a partial assignment, {3: True, 5: False} or [3, -5].

        Unit propagation to its fixpoint: satisfied clauses and false literals are removed, and
        every variable that is now fixed appears as a unit clause. Numbering, theta, projection and
        constraints stay. Raises Unsatisfiable on a contradiction. O(total literals).

        An extremal formula stays extremal: two clauses that share a variable hold some v and -v;
        if v had been fixed, one of the two clauses would be satisfied.
        """
        literals, offsets = propagated(self, evidence).with_units()
        return self.replace(literals=literals, offsets=offsets)

    def xor(self, literals: Iterable[int], parity: bool = True) -> Formula:
        """This formula and l_1 + ... + l_k = parity (mod 2)."""
        return extend(self, [Xor.of(literals, parity)])

    def linear(
        self, weights: Iterable[int], literals: Iterable[int], relation: str, bound: int
    ) -> Formula:
        """This formula and sum_k weights_k l_k <relation> bound, relation one of <=, >=, ==."""
        return extend(self, [Linear.of(weights, literals, relation, bound)])

    def at_most(self, literals: Iterable[int], k: int) -> Formula:
        """This formula and: at most k of the literals are true."""
        literals = list(literals)
        return self.linear([1] * len(literals), literals, "<=", k)

    def at_least(self, literals: Iterable[int], k: int) -> Formula:
        """This formula and: at least k of the literals are true."""
        literals = list(literals)
        return self.linear([1] * len(literals), literals, ">=", k)

    def exactly(self, literals: Iterable[int], k: int) -> Formula:
        """This formula and: exactly k of the literals are true."""
        literals = list(literals)
        return self.linear([1] * len(literals), literals, "==", k)


def _rebuilt(arguments: dict[str, Any]) -> Formula:
    return Formula.from_arrays(**arguments)
