"""What was learned from a table: a law over the legal rows of a space.

    model = space.learn(frame)
    model.sample(1000, given={"burst": "WRAP"})     # a frame like the one that came in
    model.log_prob(frame)                           # one number a row
    model.save("folder"); nelson.load("folder")

A folder has model.json (the space as TOML, how the model was made), theta.safetensors
and README.md. Nothing in it is pickled.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson._version import __version__
from nelson.budget import Budget
from nelson.errors import LINES, FormulaError, printable
from nelson.exact.compiled import Compiled
from nelson.exact.routes import CIRCUIT, ENUMERATE
from nelson.io import atomic
from nelson.learning.checkpoint import pack_tensors
from nelson.learning.model import writable
from nelson.log_z.compute import log_z
from nelson.log_z.result import LogPartition
from nelson.sampling.total_variation import judged
from nelson.space.adapters.toml import to_toml
from nelson.space.answers import explained
from nelson.space.language.expressions import Rule
from nelson.space.language.fields import Bins
from nelson.space.language.measures import constant_of
from nelson.space.law import ValueShares
from nelson.space.names import field_of, has
from nelson.space.rows import Rows, code_type, table_codes
from nelson.space.tables.columns import ROUNDS, Columns, given_up, load_pandas
from nelson.space.tables.elimination import BLOCK, LevelLaw
from nelson.space.tables.fit import Fitted, TableProblem
from nelson.space.tables.frames import as_frame, like
from nelson.space.tables.potential import Pair, Potential
from nelson.space.tables.saved import arrays_of, described

if TYPE_CHECKING:
    from nelson.space.space import Space

FORMAT = 3
KIND = "table"
#: Options that limit a draw and do not change its rows.
_LIMITS = {"seconds", "threads"}
#: Files of other models that may have been in the folder before.
_OTHERS = ("formula.cnf", "net.safetensors", "history.csv")


@dataclass(frozen=True)
class Facts:
    """How a model was learned.

    guarantee   "exact": fitted with exact moments; else that of the samples that were used
    converged   is the likelihood at its maximum
    why         the same in words, and how the search for pairs ended
    held_out    (mean, standard error) of log P of rows that were held out; None if none were
    steps       of the search for pairs
    notes       what the reader should know: rows and columns left out, fields without theta
    """

    guarantee: str
    converged: bool
    why: str
    examples: int
    dropped: int
    seed: int
    prior: float
    pair_prior: float
    held_out: tuple[float, float] | None
    steps: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Evaluation:
    """A table against a model. Distances are total variation, 0 to 1, means over (pairs of) fields.

    rows, valid        number of rows, and the share of them that is legal
    log_likelihood     mean log P of the legal rows, in nats, and its standard error `error`
    value_distance     between the shares of the values of a field in the table and in the model
    value_noise        what a table of this size drawn from the model would have
    pair_distance, pair_noise   the same for pairs of fields
    """

    rows: int
    valid: float
    log_likelihood: float
    error: float
    value_distance: float
    value_noise: float
    pair_distance: float
    pair_noise: float

    def __str__(self) -> str:
        return (
            f"{self.rows:,} rows, {self.valid:.2%} legal; log-likelihood {self.log_likelihood:.4f} "
            f"+- {self.error:.4f} a row; distance of values {self.value_distance:.4f} (noise: "
            f"{self.value_noise:.4f}), of pairs {self.pair_distance:.4f} ({self.pair_noise:.4f})"
        )


class TableModel:
    """P(row) ~ exp(sum of theta[field = value] + sum of theta[pair of values]) over legal rows.

    space       the fields and rules
    pairs       the pairs of fields that have a theta
    theta       {(field,): array over its levels, (field, field'): array over both}; 0 at the most
                common level
    guarantee, converged, why, notes   see `Facts`; all facts are in `facts`
    """

    def __init__(
        self,
        space: Space,
        potential: Potential,
        theta: np.ndarray,
        shares: np.ndarray,
        columns: Columns | None,
        facts: Facts,
        problem: TableProblem | None = None,
        log_z: LogPartition | None = None,
    ) -> None:
        self.space, self.potential, self.facts = space, potential, facts
        self.vector, self.columns = theta, columns
        self._shares, self._problem = shares, problem
        self._learned_with = len(space.fields), len(space.rules)
        if log_z is not None:
            self.__dict__["log_z"] = log_z

    guarantee = property(lambda self: self.facts.guarantee)
    converged = property(lambda self: self.facts.converged)
    why = property(lambda self: self.facts.why)
    notes = property(lambda self: self.facts.notes)

    @property
    def pairs(self) -> list[Pair]:
        return list(self.potential.pairs)

    @property
    def theta(self) -> dict[tuple[str, ...], np.ndarray]:
        return self.potential.tables(self.vector)

    def _check_space(self) -> None:
        """Refuse a space that is no longer the one that the model was learned with."""
        if (len(self.space.fields), len(self.space.rules)) != self._learned_with:
            raise FormulaError(
                "a model whose space got new fields or rules after it was learned",
                expected="to learn again; given= adds a condition without changing the space",
            )

    @property
    def _weights(self) -> dict[Rule, float]:
        """What `Space.sample` takes."""
        self._check_space()
        return self._fitted.weights

    @cached_property
    def _fitted(self) -> Fitted:
        problem = self._problem or TableProblem.of(self.space, self.potential, self.facts.seed)
        return Fitted(problem, self.vector, self._shares, self.guarantee, self.converged, self.why)

    @cached_property
    def log_z(self) -> LogPartition:
        """log of the sum of exp(potential) over all legal rows: exact, or with its interval."""
        problem = self._fitted.problem
        if problem.source is None:
            log_odds = problem.log_odds(self.vector)
            found = log_z(problem.formula, log_odds, seed=self.facts.seed)
            return found.shifted(problem.offset(self.vector))
        value = self._fitted.log_z
        if problem.levels is not None:
            method = "elimination"
        else:
            method = CIRCUIT if isinstance(problem.source, Compiled) else ENUMERATE
        return LogPartition(value, 0.0, method, problem.source.why, 0.0, True, {})

    # --- answers ----------------------------------------------------------------------------------

    def rows(
        self, n: int = 1, *, given: Any = None, seed: int | None = None, **options: Any
    ) -> Rows:
        """n new legal rows; of numbers that are kept as ranges, the ranges.

        given: a condition, as in `Space.sample`, with its other options.
        """
        self._check_space()
        law = None if self._asks_more(options) else self._law(given)
        if law is None:
            given = (
                self._conditions(given)[0]
                if isinstance(given, Mapping) and self.columns is not None
                else given
            )
            return self.space.sample(n, given=given, weights=self._weights, seed=seed, **options)
        seed = fresh_seed() if seed is None else int(seed)
        return self._drawn(law, n, given, seed, seconds=options.get("seconds"))

    @staticmethod
    def _asks_more(options: Mapping[str, Any]) -> bool:
        """Does an option ask for what plain draws of the law of fields do not have?"""
        plain = {"unique": False, "method": "auto"}
        return any(options[name] != plain.get(name) for name in options.keys() - _LIMITS)

    def _drawn(
        self,
        law: LevelLaw,
        n: int,
        given: Any,
        seed: int,
        first: int = 0,
        seconds: float | None = None,
    ) -> Rows:
        """Rows first to first + n of a seed; fewer if the time is up."""
        started = time.monotonic()
        budget = Budget.of(seconds)
        pieces: list[dict[str, np.ndarray]] = []
        done, asked = 0, n
        with explained(self.space, given, Budget()):
            while done < n or not pieces:
                if budget.spent:
                    n = done
                m = n - done if seconds is None else min(BLOCK, n - done)
                pieces.append(law.draw(self.vector, m, seed, first + done))
                done += m
        drawn = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
        bound = law.tv_bound(self.vector)
        codes = {
            name: column.astype(code_type(self.space.fields[name].size))
            for name, column in drawn.items()
        }
        info = {"method": "elimination", "seed": seed, "seconds": time.monotonic() - started}
        info["tv_bound"] = bound
        rows = {name: codes[name] for name in self.space.fields}
        guarantee, status = judged(self.guarantee, bound)[0], "ok"
        if done < asked:
            guarantee, status = guarantee if done else "heuristic", "budget"
            info["reason"] = f"the time was up after {done:,} of {asked:,} rows"
        return Rows(self.space.fields, rows, done, guarantee, status, info)

    def _law(self, given: Any) -> LevelLaw | None:
        """The law of the fields given a condition, if they can be eliminated one by one."""
        levels = self._fitted.problem.levels
        if given is None or levels is None:
            return levels
        most = self._fitted.problem.policy.pairs.cost
        return LevelLaw.of(self.space, self.potential, most, self._conditions(given)[0])

    def _conditions(self, given: Any) -> tuple[list[Rule], dict[str, float]]:
        """`given` as rules, and the numbers that columns kept as ranges are to have."""
        if given is None:
            return [], {}
        if not isinstance(given, Mapping):
            every = [given] if isinstance(given, (str, Rule)) else list(given)
            return [self.space.rule(rule) for rule in every], {}
        rules, numbers = [], {}
        for key, value in given.items():
            of = field_of(self.space, key)
            if not isinstance(of, Bins) or value is None or value in of.values:
                rules.append(has(of, value))
            elif of.after is not None:
                rules.append(of == value)
            else:
                numbers[of.name] = constant_of(value, of.unit, of.name)
                rules.append(has(of, of.value(of.code(numbers[of.name]))))
        return rules, numbers

    def stream(
        self, n: int | None = None, *, given: Any = None, seed: int | None = None, **options: Any
    ) -> Iterator[Rows]:
        """The rows of `rows` in blocks, in constant memory, as `Space.stream`."""
        block = int(options.pop("block", 1 << 16))
        law = None if self._asks_more(options) else self._law(given)
        if law is None:
            yield from self.space.stream(
                n, given=given, weights=self._weights, seed=seed, block=block, **options
            )
            return
        self._check_space()
        budget = Budget.of(options.get("seconds"))
        seed, first = fresh_seed() if seed is None else int(seed), 0
        while n is None or first < n:
            m = block if n is None else min(block, n - first)
            yield (rows := self._drawn(law, m, given, seed, first, budget.seconds_left))
            if rows.status != "ok":
                return
            first += m

    def sample(
        self, n: int = 1, *, given: Any = None, seed: int | None = None, **options: Any
    ) -> Any:
        """n new rows, as a table like the one that the model was learned from.

        Its types, categories and order of columns are the same; `frame.attrs` has the guarantee. A
        model that was learned from another kind of table gives `Rows`.
        """
        if self.columns is None:
            return self.rows(n, given=given, seed=seed, **options)
        frames = list(self.frames(n, given=given, seed=seed, block=max(1, n), **options))
        return like(frames[0] if len(frames) == 1 else _joined(frames), self.columns.table)

    def frames(
        self,
        n: int | None = None,
        *,
        given: Any = None,
        seed: int | None = None,
        block: int = 1 << 16,
        first: int = 0,
        **options: Any,
    ) -> Iterator[Any]:
        """The rows of `sample` as DataFrames of at most `block` rows, in constant memory."""
        assert self.columns is not None
        seed = fresh_seed() if seed is None else int(seed)
        rules, fixed = self._conditions(given)
        budget = Budget.of(options.get("seconds"))
        done, turn, missed = 0, 0, 0
        while n is None or done < n or not turn:
            m = block if n is None else min(block, n - done)
            part = _part(seed, turn)
            if not budget.counted:
                options["seconds"] = budget.left
            rows = self.rows(m, given=given, seed=part, **options)
            numbers, legal = self.columns.completed(rows, part, rules, fixed)
            if not legal.all():
                rows, numbers = _kept(rows, legal), {k: v[legal] for k, v in numbers.items()}
            missed = 0 if len(rows) else missed + 1
            if missed > ROUNDS:
                raise given_up(done, n or 0)
            done, turn = done + len(rows), turn + 1
            yield self.columns.frame(rows, numbers, first + done - len(rows))
            if rows.status != "ok" and len(rows) < m:
                return  # the time was up

    def log_prob(self, table: Any) -> np.ndarray:
        """log P of each row, in nats; -inf if it breaks a rule. `log_z` says how exact it is.

        Of a number that is kept as ranges: the probability of its range.
        """
        table = self._opened(table)
        return self._scored(self._codes(table), self.space.satisfied(table))

    def _opened(self, table: Any) -> Any:
        if self.columns is None or isinstance(table, Rows):
            return table
        return as_frame(table)[0]

    def _codes(self, table: Any) -> Rows:
        codes = {
            name: np.asarray(column)
            for name, column in table_codes(self.space.fields, table).items()
        }
        return Rows(self.space.fields, codes, len(next(iter(codes.values()))))

    def _scored(self, table: Rows, legal: np.ndarray | None = None) -> np.ndarray:
        self._check_space()
        legal = self.space.satisfied(table) if legal is None else legal
        out = np.full(len(legal), -np.inf)
        if legal.any():
            kept = {name: column[legal] for name, column in table.codes.items()}
            rows = self.potential.levels_of(kept)
            out[legal] = (
                self.potential.score(self.vector, rows, int(legal.sum())) - self.log_z.value
            )
        return out

    def evaluate(self, table: Any, seed: int | None = 0) -> Evaluation:
        """How likely are the rows, and do their values occur as often as in the model?"""
        table = self._opened(table)
        rows = self._codes(table)
        scores = self._scored(rows, self.space.satisfied(table))
        legal = np.isfinite(scores)
        n = int(legal.sum())
        if not n:
            raise FormulaError(
                f"a table of {len(scores)} rows, none of which is legal", expected="legal rows"
            )
        kept = {name: column[legal] for name, column in rows.codes.items()}
        # Four times as many samples as rows, so that the noise is that of the table; within limits.
        m = min(1 << 21, max(1 << 17, 4 * n))
        levels = self.potential.levels_of
        data, model = levels(kept), levels(self.rows(m, seed=seed).codes)
        values = [(name,) for name in data]
        pairs = [
            (a, b)
            for k, a in enumerate(data)
            for b in list(data)[k + 1 :]
            if self.potential.levels[a].count * self.potential.levels[b].count <= 4096
        ]
        scores = scores[legal]
        error = float(scores.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
        return Evaluation(
            len(legal),
            n / len(legal),
            float(scores.mean()),
            error,
            *self._distance(data, model, values, n, m),
            *self._distance(data, model, pairs, n, m),
        )

    def _distance(
        self, data: Any, model: Any, blocks: Sequence[tuple[str, ...]], n: int, m: int
    ) -> tuple[float, float]:
        """(mean total variation, its expectation if the model is right)."""
        here, there = self.potential.counts(data, blocks), self.potential.counts(model, blocks)
        found, noise = [], []
        for names in blocks:
            p, q = here[names] / n, there[names] / m
            found.append(0.5 * float(np.abs(p - q).sum()))
            spread = np.sqrt(2 / math.pi * q * (1 - q) * (1 / n + 1 / m))
            noise.append(0.5 * float(spread.sum()))
        if not blocks:
            return 0.0, 0.0
        return float(np.mean(found)), float(np.mean(noise))

    def mode(self, given: Any = None) -> dict[str, Any]:
        """A legal row of greatest probability."""
        return self.space.mode(given, self._weights)

    def marginals(self, given: Any = None) -> ValueShares:
        """The share of each value of each field: see `Space.marginals`."""
        return self.space.marginals(given, weights=self._weights)

    # --- words ------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        facts, size = self.facts, len(self.space.fields)
        lines = [
            f"TableModel: {size} fields, {len(self.space.rules)} rules, {len(self.vector)} numbers "
            f"on values and pairs of values, learned from {facts.examples:,} rows",
            f"pairs of fields: {', '.join(f'{a} x {b}' for a, b in self.pairs) or 'none'}",
        ]
        if facts.held_out is not None:
            mean, error = facts.held_out
            lines.append(
                f"log-likelihood of rows that were held out: {mean:.4f} +- {error:.4f} a row"
            )
        if values := self._strongest_values():
            lines += [
                "strongest values (share of rows; if all values were equally common):",
                *values,
            ]
        if pairs := self._strongest_pairs():
            lines += ["strongest pairs (how often; against independent fields):", *pairs]
        lines += [f"note: {note}" for note in facts.notes]
        said = facts.why.startswith(facts.guarantee)
        lines.append(f"[{facts.why}]" if said else f"[{facts.guarantee}; {facts.why}]")
        return printable("\n".join(lines), keep=LINES)

    def _strongest_values(self) -> list[str]:
        found = []
        for names, shares in self.potential.completed(self._shares).items():
            if len(names) == 1:
                levels = self.potential.levels[names[0]]
                even = levels.even
                best = int((shares / even).argmax())
                share = float(shares[best])
                said = f"  {levels.text(best)}: {share:.1%} ({even[best]:.1%})"
                found.append((share * math.log(max(share, 1e-300) / even[best]), said))
        return [said for _, said in sorted(found, reverse=True)[:5]]

    def _strongest_pairs(self) -> list[str]:
        tables = self.potential.completed(self._shares)
        found = []
        for pair in self.pairs:
            shares, levels = tables[pair], [self.potential.levels[name] for name in pair]
            alone = np.outer(shares.sum(axis=1), shares.sum(axis=0))
            safe = np.where(shares > 0, shares / alone.clip(1e-300), 1.0)
            gain = shares * np.log(safe)
            a, b = np.unravel_index(int(gain.argmax()), gain.shape)
            both = f"{levels[0].text(int(a))} with {levels[1].text(int(b))}"
            said = f"  {both}: {shares[a, b]:.1%} of rows, {safe[a, b]:.3g} times as often"
            found.append((float(gain.sum()), said))
        return [said for _, said in sorted(found, reverse=True)[:5]]

    # --- files ------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a folder for `nelson.load`. model.json is removed first and written last."""
        self._check_space()
        described = self._described()  # raises before anything is written
        folder = writable(path)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.json").unlink(missing_ok=True)
        arrays = {"theta": self.vector, "shares": self._shares}
        arrays |= {} if self.columns is None else arrays_of(self.columns)
        atomic.write(folder / "theta.safetensors", pack_tensors(arrays))
        for name in _OTHERS:
            (folder / name).unlink(missing_ok=True)
        atomic.write(folder / "README.md", self._readme().encode())
        atomic.write(folder / "model.json", described.encode())

    def _described(self) -> str:
        content = {
            "format": FORMAT,
            "kind": KIND,
            "nelson": __version__,
            "space": to_toml(self.space),
            "levels": {name: levels.starts for name, levels in self.potential.levels.items()},
            "reference": dict(self.potential.reference),
            "pairs": self.pairs,
            "columns": None if self.columns is None else described(self.columns),
            "log_z": _saved_log_z(self.__dict__.get("log_z")),
            "facts": asdict(self.facts),
        }
        for column in () if self.columns is None else self.columns.columns:
            for value in column.look.categories or ():
                _check_value(column.name, value)
        return json.dumps(content, indent=1)

    def _readme(self) -> str:
        lines = [
            "# A model of a table",
            "",
            "```",
            repr(self),
            "```",
            "",
            "In Python: `nelson.load(folder).sample(1000)`. Nothing in this folder is pickled.",
        ]
        return "\n".join(lines) + "\n"


def _part(seed: int, turn: int) -> int:
    """The seed of a part of the rows; that of the first one is the seed itself."""
    return seed if not turn else int(np.random.SeedSequence([seed, turn]).generate_state(1)[0])


def fresh_seed() -> int:
    return int(np.random.default_rng().integers(2**31))


def _kept(rows: Rows, legal: np.ndarray) -> Rows:
    codes = {name: column[legal] for name, column in rows.codes.items()}
    return Rows(rows.fields, codes, int(legal.sum()), rows.guarantee, rows.status, rows.info)


def _joined(frames: list[Any]) -> Any:
    joined = load_pandas().concat(frames, ignore_index=True)
    joined.attrs = frames[0].attrs
    return joined


def _saved_log_z(found: LogPartition | None) -> dict[str, Any] | None:
    if found is None:
        return None
    kept = {key: getattr(found, key) for key in ("value", "half_width", "method", "why", "exact")}
    return kept | {"guarantee": found.info.get("guarantee")}


def _check_value(name: str, value: Any) -> None:
    if not isinstance(value, (str, int, float, bool, type(None))) or value != value:
        raise FormulaError(
            f"the value {value!r} of {name} in a file",
            expected="texts, numbers, True, False or None",
        )
