"""`nelson.Space`: a problem in the user's own words. Named fields and rules in, tables out.

    bus = nelson.Space()
    addr = bus.integer("addr", 0, 0xFFFF)
    burst = bus.choice("burst", ["FIXED", "INCR", "WRAP"])
    bus.require(addr % 4 == 0)
    rows = bus.sample(1_000_000, seed=0)      # uniform over legal rows

The class is the public face: each method hands over to the module that does the work.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

import numpy as np

from nelson.errors import BudgetExceeded, FormulaError, Unsatisfiable
from nelson.exact.count import SECONDS as COUNT_SECONDS
from nelson.exact.count import solutions
from nelson.exact.mode import most_likely
from nelson.formula import Formula
from nelson.formula.checks import duration
from nelson.kernels.core.bits import pack
from nelson.sampling.guarantee import weakest
from nelson.sampling.options import Options
from nelson.sampling.sample_stream import draw, draw_blocks
from nelson.sampling.samples import Samples
from nelson.space.adapters import configspace, cpmpy, dimacs, uvl
from nelson.space.clauses.decode import decode
from nelson.space.clauses.gates import TRUE
from nelson.space.coverage.cover import cover
from nelson.space.coverage.coverage import Coverage, coverage
from nelson.space.declaration import Declaration
from nelson.space.files import toml as files
from nelson.space.first import chosen_first
from nelson.space.language.expressions import Rule
from nelson.space.law import Law, chosen_method
from nelson.space.marginals import Marginals, marginals
from nelson.space.rows import Rows, code_type
from nelson.space.shares import with_shares
from nelson.space.tables.frames import declare
from nelson.space.tables.learn import learn
from nelson.space.tables.model import TableModel
from nelson.space.tables.rules import never_together
from nelson.space.terms import terms


class Space(Declaration):
    """Named fields, the rules that legal rows obey, and what can be asked about legal rows.

    >>> bus = nelson.Space()
    >>> length = bus.integer("len", 1, 15)
    >>> burst = bus.choice("burst", ["FIXED", "INCR", "WRAP"])
    >>> bus.require((burst == "WRAP").implies(length.isin([2, 4, 8])))
    >>> bus.count()
    33
    >>> rows = bus.sample(1000, seed=0, given={"burst": "WRAP"})
    >>> sorted(set(rows["len"].tolist()))
    [2, 4, 8]
    """

    # --- files ------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Space:
        """The space in a TOML file (docs/space-files.md); .gz and .xz are decompressed."""
        space = cls()
        files.fill(space, files.read(path), os.fspath(path))
        return space

    @classmethod
    def from_toml(cls, text: str, source: str | None = None) -> Space:
        """The space that a TOML text states. source: what error messages call the text."""
        space = cls()
        files.fill(space, text, source)
        return space

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the space as a TOML file, which `Space.load` reads back."""
        files.save(self, path)

    # --- models of other tools (docs/adapters.md) -------------------------------------------------

    @classmethod
    def from_cpmpy(cls, model: Any) -> Space:
        """The variables and constraints of a CPMpy model; a legal row is a solution.

        What cannot be translated is an error that shows the expression.
        """
        space = cls()
        cpmpy.fill(space, model)
        return space

    @classmethod
    def from_uvl(
        cls,
        path: str | os.PathLike[str],
        *,
        bounds: Mapping[str, tuple[int, int] | None] | None = None,
    ) -> Space:
        """A feature model in UVL: a flag for each feature; a legal row is a configuration.

        bounds: the range of each Integer feature, {"Port": (0, 65535)}; None: only whether it is
        selected counts.
        """
        space = cls()
        uvl.fill(space, path, bounds or {})
        return space

    @classmethod
    def from_configspace(
        cls, configuration_space: Any, *, bins: Mapping[str, Any] | None = None
    ) -> Space:
        """A ConfigurationSpace of ConfigSpace; a legal row is a configuration.

        An inactive hyperparameter is None. An integer that may be inactive and has more than 63
        values stays an integer, with a flag `name.active`; inactive, it has its lowest value.
        bins: the values that stand for a continuous hyperparameter, {"lr": [0.01, 0.1]}, or their
        number, {"lr": 10}.
        """
        space = cls()
        configspace.fill(space, configuration_space, bins or {})
        return space

    @classmethod
    def from_dimacs(
        cls,
        source: str | os.PathLike[str] | IO[Any] | bytes,
        *,
        names: bool = True,
        dialect: str = "auto",
    ) -> Space:
        """A DIMACS file: a flag for each variable, a rule for each clause.

        A comment `c 1 Engine` names variable 1; a variable without a name is `x7`. names=False
        ignores these comments. Weights of the file are kept in `weights`. A projection is ignored:
        all variables are fields.
        """
        space = cls()
        dimacs.fill(space, source, names=names, dialect=dialect)
        return space

    @classmethod
    def from_frame(
        cls, frame: Any, bins: Any = None, name: str | None = None, rules: bool = False
    ) -> Space:
        """A field for each column of a DataFrame; add the rules with `require`.

        bool becomes a flag, categories and texts a choice, whole numbers an integer from the
        smallest to the largest. Other numbers need bins={"age": [0, 18, 65, 120]}, or a number of
        bins with about equal shares, {"age": 8}; bins=8 holds for all columns of such numbers.

        rules=True requires also what holds in the frame: pairs of values of two columns that never
        occur together, if that is not due to chance (1% for all pairs together). Look at
        `space.rules` before you trust them: new rows may break a rule that held so far.
        """
        space = cls(name)
        declare(space, frame, bins)
        if rules:
            for found in never_together(space, space.codes(frame)):
                space.require(found.rule(space), name=str(found))
        return space

    # --- the law ----------------------------------------------------------------------------------

    def law(
        self,
        given: Any = None,
        weights: Any = None,
        shares: Any = None,
        first: Iterable[Any] | None = None,
        seed: int | None = None,
        seconds: float | None = None,
    ) -> Law:
        """The law that `sample` draws from with these arguments.

        seconds: how long the law of `shares` may be searched for.
        """
        law = self._weighted(given, weights)
        if shares is not None and first is not None:
            raise FormulaError("both shares and first", expected="one of them")
        if shares is not None:
            return with_shares(self, law, shares, seed, seconds)
        return law if first is None else chosen_first(self, law, first)

    def _weighted(self, given: Any, weights: Any) -> Law:
        conditions, evidence = self._conditions(given)
        priced = [] if weights is None else terms(weights, self.find, "weights")
        rules = [*conditions, *(r for r, _ in priced)]
        formula, literals = self.extended(rules)
        evidence += [x for x in literals[: len(conditions)] if x != TRUE]
        theta = np.zeros(formula.n_vars)
        for x, (_, factor) in zip(literals[len(conditions) :], priced, strict=True):
            if factor == 0:
                evidence.append(-x)
            elif abs(x) != TRUE:
                theta[abs(x) - 1] += math.log(factor) if x > 0 else -math.log(factor)
        return Law(formula, theta, tuple(evidence), {}, tuple(rules))

    def extended_law(self, law: Law, rules: list[Rule]) -> tuple[Formula, list[int]]:
        """`extended`, where the variables of `law` keep their numbers."""
        formula, literals = self.extended([*law.rules, *rules])
        return formula, literals[len(law.rules) :]

    # --- answers ----------------------------------------------------------------------------------

    def sample(
        self,
        n: int = 1,
        *,
        given: Any = None,
        weights: Any = None,
        shares: Any = None,
        first: Iterable[Any] | None = None,
        unique: bool = False,
        seed: int | None = None,
        method: str = "auto",
        threads: int | None = None,
        seconds: float | None = None,
        strict: bool = False,
    ) -> Rows:
        """Draw n legal rows; without further arguments uniformly.

        given       a condition: {"burst": "WRAP", "write": True}, a rule or its text.
        weights     factors on the likelihood of a row: {burst: {"FIXED": 60, "INCR": 30}}. Values
                    that are not named keep the factor 1; 0 excludes a value; keys of integers may
                    be ranges. The resulting shares depend on how many legal rows each value has.
        shares      the shares themselves: {burst: {"FIXED": .6, "INCR": .3, "WRAP": .1}}. Among all
                    laws with these shares the one of maximum entropy is drawn from: nothing else is
                    assumed. info["shares"] has the achieved shares.
        first       names of fields to choose first: uniform over their legal values (for several
                    fields: over their legal combinations), then the rest given these. As
                    `solve ... before` in SystemVerilog.
        unique      no row twice. With fewer legal rows than n all are returned, in random order.
        method, seed, threads, seconds, strict: as in `nelson.sample`.
        """
        with self._explained(given):
            started = time.monotonic()
            law = self.law(given, weights, shares, first, seed, _half(seconds))
            left = _left(seconds, started)
            options = _options(law, unique, seed, method, threads, left, strict)
            samples = draw(law.formula, law.theta, n, options)
        return self._rows(samples, law.info)

    def stream(
        self,
        n: int | None = None,
        *,
        block: int = 65536,
        given: Any = None,
        weights: Any = None,
        shares: Any = None,
        first: Iterable[Any] | None = None,
        unique: bool = False,
        seed: int | None = None,
        method: str = "auto",
        threads: int | None = None,
        seconds: float | None = None,
    ) -> Iterator[Rows]:
        """The rows of `sample` in blocks, in constant memory; n None: without end.

        With `unique` the stream ends when every legal row has been drawn, and remembers what it
        has drawn.
        """
        with self._explained(given):
            started = time.monotonic()
            law = self.law(given, weights, shares, first, seed, _half(seconds))
            options = _options(law, unique, seed, method, threads, _left(seconds, started))
            for samples in draw_blocks(law.formula, law.theta, n, block, options):
                yield self._rows(samples, law.info)

    def _rows(self, samples: Samples, more: dict[str, Any]) -> Rows:
        codes = decode(samples, self.fields, self._encoder)
        info = samples.info | more
        if "decisions" in info:
            info["why"] = f"the space compiled to a circuit of {info['decisions']:,} decisions"
        # The rows are those of a law that was fitted to the asked shares.
        guarantee = weakest([samples.guarantee, info.get("shares_guarantee", "exact")])
        return Rows(self.fields, codes, samples.count, guarantee, samples.status, info)

    def no_rows(self) -> Rows:
        """Rows without a row, with the columns of this space."""
        codes = {name: np.zeros(0, code_type(f.size)) for name, f in self.fields.items()}
        return Rows(self.fields, codes, 0)

    def count(self, given: Any = None, seconds: float = COUNT_SECONDS) -> int:
        """The number of legal rows, exactly. Raises BudgetExceeded when the time is up."""
        law = self.law(given)
        if -TRUE in law.given:
            return 0
        return solutions(law.formula, law.given, seconds)

    def marginals(self, given: Any = None, weights: Any = None, shares: Any = None) -> Marginals:
        """The share of each value of each field: marginals()["burst"]["WRAP"].

        Exact if the space can be enumerated or compiled, else estimated from samples: see
        `.guarantee` and `.error`. A field of more than 256 values is divided into 16 ranges.
        """
        with self._explained(given):
            return marginals(self, self.law(given, weights, shares))

    def most_likely(self, given: Any = None, weights: Any = None) -> dict[str, Any]:
        """A legal row of greatest weight; without weights just some legal row."""
        with self._explained(given):
            law = self.law(given, weights)
            return self.row(most_likely(law.formula, law.log_odds))

    def row(self, x: np.ndarray) -> dict[str, Any]:
        """The row of an assignment (n_vars,) of the formula."""
        return self.rows(x[None])[0]

    def rows(self, states: np.ndarray, **more: Any) -> Rows:
        """The rows of assignments (rows, n_vars) of the formula. more: guarantee, status, info."""
        variables = self.formula.projection or ()
        packed = pack(states[:, np.array(variables, int) - 1])
        guarantee, status = more.get("guarantee", "exact"), more.get("status", "ok")
        samples = Samples(packed, len(states), variables, guarantee, status)
        return self._rows(samples, more.get("info", {}))

    # --- combinatorial testing --------------------------------------------------------------------

    def coverage(
        self, rows: Any, t: int = 2, fields: Any = None, seconds: float | None = None
    ) -> Coverage:
        """Which legal combinations of t values occur in rows (Rows, a DataFrame, ...)?

        A combination of values of t fields is legal if some legal row has it; that is decided
        exactly. Rows that are not legal are not counted: `.ignored` says how many.

        fields      None: all fields of at most 64 values. A list: only these. {"addr": 16}: 16
                    ranges of equal size for `addr`, besides the fields of at most 64 values;
                    {"addr": [0, range(1, 256)]}: bins of your own. A wide integer that is only
                    named gets its lowest and its highest legal value and 8 ranges between them.
        seconds     raise BudgetExceeded after this time; None: no limit
        """
        with self._explained(None):
            return coverage(self, rows, t, fields, seconds)

    def cover(
        self,
        t: int = 2,
        fields: Any = None,
        seed: int | None = None,
        given: Any = None,
        seconds: float | None = None,
    ) -> Rows:
        """A small table of legal rows in which every legal combination of t values occurs.

        fields, t: as in `coverage`. given: a condition on all rows, as in `sample`. The same seed
        gives the same table. No row can be left out; the table is small, but not proved smallest.

        seconds: stop after this time; the status is "budget" and info["missing"] has the
        combinations that are not covered then. (BudgetExceeded if it is not even known which are
        legal.) None: no limit.
        """
        with self._explained(given):
            states, status, info = cover(self, t, fields, seed, given, seconds)
        return self.rows(states, guarantee="heuristic", status=status, info=info)

    # --- contradictions ---------------------------------------------------------------------------

    @contextmanager
    def _explained(self, given: Any) -> Iterator[None]:
        """Name the rules that contradict each other, instead of "unsatisfiable"."""
        try:
            yield
        except Unsatisfiable:
            try:
                reason = self.contradiction(given)
            except (ImportError, BudgetExceeded):  # no solver, or no answer in time
                reason = None
            if reason is None:
                raise
            raise Unsatisfiable(reason) from None

    # --- tables -----------------------------------------------------------------------------------

    def learn(
        self,
        frame: Any,
        pairs: str | Iterable[tuple[Any, Any]] | None = "auto",
        *,
        bins: Mapping[Any, Any] | None = None,
        drop_invalid: bool = False,
        prior: float = 1.0,
        pair_prior: float = 10.0,
        validation: Any = 0.2,
        seed: int | None = None,
        seconds: float | None = None,
        progress: bool | Callable[[str], None] | None = False,
    ) -> TableModel:
        """Learn the law of the rows of a table, which all are legal rows.

            P(row) ~ exp(sum of theta[field = value] + sum of theta[field = v, field' = w])

        frame        DataFrame, Arrow table, `Rows`, records, or a dict of columns.
        pairs        pairs of fields whose values get a theta together: [("burst", "len"), ...],
                     None, or "auto": chosen by the likelihood of rows that are held out.
        bins         ranges of an integer of more than 64 values, which has no theta otherwise and
                     stays uniform given the rest: {"addr": 16} (about equal shares) or edges,
                     {"addr": [0, 256, 4096]}: 0..255, 256..4095, 4096 and above.
        drop_invalid leave out rows that break a rule; else they are an error that names them.
        prior        pseudo-examples from the uniform law over legal rows, mixed into the data: a
                     value that never occurs in the data stays possible.
        pair_prior   pseudo-examples from the law without pairs: the same for pairs of values.
        validation   for "auto": the share of rows that is held out (the last fit has all rows), or
                     another table.
        seed         same seed, same model. seconds: a time limit; `model.why` says if it was hit.
        progress     print the steps of the search: True, False, None (if stderr is a terminal), or
                     a function that is called with each line.
        """
        return learn(
            self,
            frame,
            pairs,
            bins=bins,
            drop_invalid=drop_invalid,
            prior=prior,
            pair_prior=pair_prior,
            validation=validation,
            seed=seed,
            seconds=seconds,
            progress=progress,
        )


def _half(seconds: float | None) -> float | None:
    """The time to find a law; the rest is for drawing."""
    return None if seconds is None else 0.5 * duration(seconds)


def _left(seconds: float | None, started: float) -> float | None:
    return None if seconds is None else max(0.0, seconds - (time.monotonic() - started))


def _options(
    law: Law,
    unique: bool,
    seed: int | None,
    method: str,
    threads: int | None,
    seconds: float | None,
    strict: bool = False,
) -> Options:
    return Options(
        given=law.given or None,
        project=law.formula.projection,
        determined=True,
        unique=unique,
        seed=seed,
        method=chosen_method(law.formula, seconds) if method == "auto" else method,
        threads=threads,
        seconds=seconds,
        strict=strict,
    )
