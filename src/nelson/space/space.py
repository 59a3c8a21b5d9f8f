"""`nelson.Space`: a problem in the user's own words. Named fields and rules in, tables out.

    bus = nelson.Space()
    addr = bus.integer("addr", 0, 0xFFFF)
    burst = bus.choice("burst", ["FIXED", "INCR", "WRAP"])
    bus.require(addr % 4 == 0)
    rows = bus.sample(1_000_000, seed=0)      # uniform over legal rows

The class is the public face: each method loads the module that does the work and hands over to it,
so that declaring a space loads no sampler.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any

from nelson.budget import Budget, TimeUp
from nelson.policy import DEFAULT, Policy
from nelson.space.declaration import Declaration
from nelson.space.rows import Rows

if TYPE_CHECKING:
    from nelson.space.coverage.coverage import Coverage
    from nelson.space.law import ValueShares
    from nelson.space.plan import SpacePlan
    from nelson.space.tables.model import TableModel

#: A question that must be answered exactly, such as `count`, gives up after this many seconds.
ANSWER_SECONDS = 60.0


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
        """The space in a file: TOML (docs/space-files.md), UVL (*.uvl), SMT-LIB2 (*.smt2), DIMACS.

        .gz and .xz are decompressed. `from_uvl` and `from_dimacs` have options of their own.
        """
        from nelson.space.adapters import dimacs, toml

        name = os.fspath(path).lower()
        if name.endswith(".uvl"):
            return cls.from_uvl(path)
        if name.endswith((".smt2", ".smt2.gz", ".smt2.xz")):
            return cls.from_smt2(path)
        if not name.endswith((".toml", ".toml.gz", ".toml.xz")) and dimacs.is_dimacs(path):
            return cls.from_dimacs(path)
        return cls.from_toml(toml.read(path), os.fspath(path))

    @classmethod
    def from_toml(cls, text: str, source: str | None = None) -> Space:
        """The space that a TOML text states. source: what error messages call the text."""
        from nelson.space.adapters import toml

        space = cls()
        toml.fill(space, text, source)
        return space

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the space as a TOML file, which `Space.load` reads back."""
        from nelson.space.adapters import toml

        toml.save(self, path)

    # --- models of other tools (docs/adapters.md) -------------------------------------------------

    @classmethod
    def from_cpmpy(cls, model: Any) -> Space:
        """The variables and constraints of a CPMpy model; a legal row is a solution.

        What cannot be translated is an error that shows the expression.
        """
        from nelson.space.adapters import cpmpy

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
        from nelson.space.adapters import uvl

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
        from nelson.space.adapters import configspace

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
        from nelson.space.adapters import dimacs

        space = cls()
        dimacs.fill(space, source, names=names, dialect=dialect)
        return space

    @classmethod
    def from_smt2(cls, source: str | os.PathLike[str]) -> Space:
        """A script of SMT-LIB2 (QF_BV, QF_ABV): its path, or its text.

        A constant is a field, a vector of bits or a flag; so is each element of an array whose
        index appears. The assertions that hold at the end of the script are the rules.
        """
        from nelson.space.adapters import smt2

        space = cls()
        smt2.fill(space, source)
        return space

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        columns: Mapping[str, str] | None = None,
        rules: Any = (),
        bins: Any = None,
        name: str | None = None,
    ) -> Space:
        """A field for each column of a table: `print(space.columns)` says what each was taken for.

        frame     a DataFrame of pandas or Polars, an Arrow table, records, or the name of a file
        columns   what you know better: {"zip": "code", "age": "number"}, of flag, choice, code,
                  integer, number, date, duration, id, text, constant; {"end": "after start"} keeps
                  the ranges of a difference
        rules     texts of rules that hold in every new row: ["end - start <= 90"]; a schema of
                  pandera or pydantic may be one of them, or all. True proposes rules instead,
                  `space.suggestions`, and applies none
        bins      {"age": [0, 18, 65, 120]}, or a number of ranges, {"age": 8}; bins=8 holds for all
        """
        from nelson.space.adapters.schema import is_schema, rules_of
        from nelson.space.tables.describe import describe
        from nelson.space.tables.frames import as_frame
        from nelson.space.tables.rules import suggestions

        space = cls(name)
        table, kind = as_frame(frame)
        if isinstance(rules, str) or is_schema(rules):
            rules = [rules]
        given = (
            []
            if rules is True
            else [[r] if not is_schema(r) else rules_of(r, table) for r in rules or ()]
        )
        stated = [rule for each in given for rule in each]
        describe(space, table, kind, columns, stated, bins)
        if rules is True:
            space.suggestions = tuple(suggestions(space, table))
        return space

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
                    `solve ... before` in SystemVerilog. Their own weights are refused, but for 0:
                    they would change nothing.
        unique      no row twice. With fewer legal rows than n all are returned, in random order.
        method, seed, threads, seconds, strict: as in `nelson.sample`.
        """
        from nelson.space.plan import drawn

        asked = _law(given, weights, shares, first, seed)
        how = {"unique": unique, "seed": seed, "method": method, "threads": threads}
        budget = Budget.of(seconds, threads)
        try:
            with budget.enforced():
                return drawn(self, asked, how | {"strict": strict}, budget, n)
        except TimeUp as error:
            if strict:
                raise
            return Rows.empty(self.fields, "budget", reason=str(error), requested=n)

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
        from nelson.space.plan import space_plan

        asked = _law(given, weights, shares, first, seed)
        how = {"unique": unique, "seed": seed, "method": method, "threads": threads}
        try:
            plan = space_plan(self, asked, how, Budget.of(seconds, threads))
        except TimeUp as error:
            yield Rows.empty(self.fields, "budget", reason=str(error), requested=n)
            return
        yield from plan.stream(n, block=block)

    def plan(
        self,
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
    ) -> SpacePlan:
        """Decide once how rows are drawn; then `plan.sample(n, seed=...)` as often as you like.

        `plan.guarantee` and `plan.why` say what the rows will be worth, and `plan.rows(seed=...)`
        gives rows without end, one dict after the other. The arguments are those of `sample`;
        seed: for laws with shares, and the default of `plan.sample`.
        """
        from nelson.space.plan import space_plan

        asked = _law(given, weights, shares, first, seed)
        how = {"unique": unique, "seed": seed, "method": method, "threads": threads}
        return space_plan(self, asked, how, Budget.of(seconds, threads))

    def count(self, given: Any = None, seconds: float = ANSWER_SECONDS) -> int:
        """The number of legal rows, exactly. Raises BudgetExceeded when the time is up."""
        from nelson.space import answers

        with (budget := Budget.of(seconds)).enforced():
            return answers.count(self, given, budget)

    def marginals(
        self,
        given: Any = None,
        weights: Any = None,
        shares: Any = None,
        first: Iterable[Any] | None = None,
        seed: int | None = None,
        seconds: float | None = None,
    ) -> ValueShares:
        """The share of each value of each field: marginals()["burst"]["WRAP"].

        Exact if the space can be enumerated or compiled, else estimated from samples: see
        `.guarantee` and `.error`. A field of more than 256 values is divided into 16 ranges.
        seconds: a time limit; None: effort is counted.
        """
        from nelson.space import answers

        asked = _law(given, weights, shares, first, seed)
        with (budget := Budget.of(seconds)).enforced():
            return answers.marginals(self, asked, budget)

    def mode(
        self,
        given: Any = None,
        weights: Any = None,
        shares: Any = None,
        first: Iterable[Any] | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> dict[str, Any]:
        """A legal row of greatest probability; without weights and shares just some legal row.

        Raises BudgetExceeded when the time is up.
        """
        from nelson.space import answers

        with (budget := Budget.of(seconds)).enforced():
            return answers.mode(self, _law(given, weights, shares, first, None), budget)

    # --- combinatorial testing --------------------------------------------------------------------

    def coverage(
        self,
        rows: Any,
        t: int = 2,
        fields: Any = None,
        seconds: float | None = None,
        policy: Policy = DEFAULT,
    ) -> Coverage:
        """Which legal combinations of t values occur in rows (Rows, a DataFrame, ...)?

        A combination of values of t fields is legal if some legal row has it; that is decided
        exactly. Rows that are not legal are not counted: `.ignored` says how many.

        fields      None: all fields of at most 64 values. A list: only these. {"addr": 16}: 16
                    ranges of equal size for `addr`, besides the fields of at most 64 values;
                    {"addr": [0, range(1, 256)]}: bins of your own. A wide integer that is only
                    named gets its lowest and its highest legal value and 8 ranges between them.
        seconds     raise BudgetExceeded after this time; None: no limit
        policy      `policy.cover` has the numbers of the search
        """
        from nelson.space.coverage.coverage import coverage

        with (budget := Budget.of(seconds)).enforced():
            return coverage(self, rows, t, fields, budget, policy.cover)

    def cover(
        self,
        t: int = 2,
        fields: Any = None,
        seed: int | None = None,
        given: Any = None,
        seconds: float | None = None,
        policy: Policy = DEFAULT,
    ) -> Rows:
        """A small table of legal rows in which every legal combination of t values occurs.

        fields, t, policy: as in `coverage`. given: a condition on all rows, as in `sample`. The
        same seed gives the same table. No row can be left out; the table is small, but not proved
        smallest.

        seconds: stop after this time; the status is "budget" and info["missing"] has the
        combinations that are not covered then. (BudgetExceeded if it is not even known which are
        legal.) None: no limit.
        """
        from nelson.space.coverage.cover import cover

        with (budget := Budget.of(seconds)).enforced():
            return cover(self, t, fields, seed, given, budget, policy.cover)

    # --- contradictions ---------------------------------------------------------------------------

    def contradiction(self, given: Any = None, seconds: float = ANSWER_SECONDS) -> str | None:
        """Why no row is legal: a smallest set of rules that cannot hold together; None if one is.

        No rule of the set can be left out, unless the time was up before that was known. Raises
        BudgetExceeded if it was up before anything was.
        """
        from nelson.space import answers

        with (budget := Budget.of(seconds)).enforced():
            return answers.contradiction(self, given, budget)

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
        policy: Policy = DEFAULT,
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
        policy       `policy.pairs` says how pairs are searched for, `policy.fit` when a fit ends.
        """
        from nelson.space.tables.learn import learn

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
            policy=policy,
        )


def _law(
    given: Any, weights: Any, shares: Any, first: Iterable[Any] | None, seed: int | None
) -> dict[str, Any]:
    """The arguments of `answers.law_of`, all of them by name."""
    return {"given": given, "weights": weights, "shares": shares, "first": first, "seed": seed}
