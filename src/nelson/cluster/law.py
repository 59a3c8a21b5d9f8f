"""What a job draws: samples of a formula, rows of a space, or rows like those of a table.

request, law_of = request_of(source, theta, n, arguments)
request        what was asked for, in plain values: equal for equal requests
law_of(seed)   a `Law`: all that was decided. It can be pickled, so any process draws any part
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from nelson.chains.guarantee import weakest
from nelson.errors import BudgetExceeded, FormulaError
from nelson.formula import Formula
from nelson.formula.checks import checked_projection, evidence_literals, theta_rows
from nelson.formula.polynomial import Polynomial
from nelson.io.arrow import load_pyarrow, packed_table
from nelson.learning.checkpoint import pack_tensors
from nelson.learning.loop import formula_fingerprint
from nelson.sampling import shards
from nelson.sampling.foreign import seed_of
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan
from nelson.sampling.samples import Samples
from nelson.sampling.terms_plan import plan_of
from nelson.space.adapters.toml import to_toml
from nelson.space.clauses.decode import rows_of_samples
from nelson.space.rows import Rows
from nelson.space.tables.frames import FrameRows
from nelson.space.tables.saved import arrays_of, described

#: Options that a request has; "asked " where the decisions have an entry of the same name.
_OPTIONS = {"asked method": "method", "asked sweeps": "sweeps", "project_law": "project_law"}
_OPTIONS |= {"max_rounds": "max_rounds", "check": "check"}
#: Rows that are drawn at once if they are not keyed by the sample, ...
_BLOCK = 1 << 16
#: ... and rows of a table's model that show the types of its columns.
_SHOWN = 1000


class Law(NamedTuple):
    decided: dict[str, Any]  # entries of the job
    schema: Any  # of all its files
    drawn: Callable[[int, int], Iterator[Any]]  # (first, count) -> blocks of samples or rows

    def tables(self, first: int, count: int) -> Iterator[tuple[Any, str]]:
        """The same as Arrow tables, with their guarantees."""
        for block in self.drawn(first, count):
            if isinstance(block, Samples):
                yield packed_table(block.packed, len(block), self.schema), block.guarantee
            else:
                yield block.to_arrow().cast(self.schema), block.guarantee


def request_of(
    source: Any, theta: Any, n: int, arguments: dict[str, Any]
) -> tuple[dict[str, Any], Callable[[int], Law]]:
    """source: a formula, the plan of a space, or the model of a table. arguments: of `sample`."""
    space: Any = None
    law: Any = None
    condition, names = None, arguments["names"]
    if isinstance(source, Formula):
        # `auto` decides by counted work: a clock would decide differently in each process.
        plan = plan_of(source, theta, Options.among(arguments | {"seconds": None}))
    elif hasattr(source, "inside"):
        space, plan, law, condition = source.inside
        theta = law.theta
    elif hasattr(source, "frames"):
        return _of_table(source, arguments)
    else:
        expected = "a formula, the plan of a space, or the model of a table"
        raise FormulaError(f"samples of {type(source).__name__}", expected=expected)
    formula, options = plan.formula, replace(plan.options, threads=arguments["threads"])
    if options.unique or options.gpu is not None:
        raise FormulaError("distinct rows, or a GPU, in a folder", expected="nelson.sample")
    chosen = checked_projection(options.project, formula.n_vars)
    variables = list(range(1, formula.n_vars + 1) if chosen is None else chosen)
    if names is not None and len(names) != formula.n_vars:
        raise FormulaError(f"{len(names)} names", expected=f"{formula.n_vars}, one per variable")
    names = names and [str(names[variable - 1]) for variable in variables]
    terms = None if options.terms is None else Polynomial.of(options.terms).coefficients
    given = evidence_literals(() if options.given is None else options.given, formula.n_vars)
    rules = [repr(rule) for rule in condition.rules] if condition else []
    rows, _ = theta_rows(formula, theta)
    request = {key: getattr(options, name) for key, name in _OPTIONS.items()} | {
        "formula": formula_fingerprint(formula)[:32],
        "theta": _digest(rows.tobytes()) if rows.any() else None,
        "terms": terms and [[list(product), c] for product, c in terms.items()],
        "given": sorted(given.tolist(), key=abs) + rules,
        "variables": [] if space else variables,
        "names": list(space.fields) if space else names,
        "fields": [repr(field) for field in space.fields.values()] if space else None,
        "layout": "rows" if space else "columns" if arguments["columns"] else "packed",
    }
    pa, _ = load_pyarrow()
    kinds = {name: pa.bool_() for name in names or [f"x{v}" for v in variables]}
    if not arguments["columns"]:
        kinds = {"x": pa.binary(max(1, -(-len(variables) // 8)))}
    elif len(kinds) < len(variables):
        raise FormulaError("columns of the same name", expected="a different name for each")
    schema = pa.schema([pa.field(name, kind, nullable=False) for name, kind in kinds.items()])
    if space:
        schema = Rows.empty(space.fields).to_arrow().schema

    def law_of(seed: int) -> Law:
        if terms is not None:
            decided = {key: getattr(plan.choice, key) for key in ("method", "sweeps", "guarantee")}
            first = _digest(plan.sample(64, seed=seed).packed.tobytes())
            decided |= {"keyed": "part", "law": first, "why": plan.choice.why}
            return Law(decided, schema, partial(_with_terms, plan, seed))
        settled = shards.settle(plan.drawing(n, replace(options, seed=seed, seconds=None)))
        drawn: partial[Iterator[Any]] = partial(shards.blocks, settled)
        decided = settled.decided
        if space:
            shares = law.info.get("shares_guarantee", "exact")
            decided["guarantee"] = weakest([decided["guarantee"], shares])
            drawn = partial(_rows, settled, space, law.info, condition)
        if condition:
            decided |= {"keyed": "part", "why": f"{decided['why']}; {condition.why}"}
        return Law(decided, schema, drawn)

    return request, law_of


def _with_terms(plan: Plan, seed: int, first: int, count: int) -> Iterator[Samples]:
    """Each block has a seed."""
    for at in range(first, first + count, _BLOCK):
        samples = plan.sample(min(_BLOCK, first + count - at), seed=seed_of(seed, 0, at // 64))
        if samples.info.get("interrupted"):
            raise KeyboardInterrupt
        if not len(samples):
            raise BudgetExceeded(f"samples from {at:,} on: {samples.info['reason']}")
        yield samples


def _rows(
    settled: shards.Settled, space: Any, info: Any, condition: Any, first: int, count: int
) -> Iterator[Rows]:
    def drawn(*span: int) -> Iterator[Rows]:
        return (rows_of_samples(space, samples, info) for samples in shards.blocks(settled, *span))

    if not condition:
        return drawn(first, count)
    # Rows that break the condition are left out, and so each part has a seed.
    problem, request = settled.drawing.parts[0]
    request = replace(request, seed=seed_of(request.seed, 0, first // 64))
    settled = replace(settled, drawing=replace(settled.drawing, parts=[(problem, request)]))
    return condition.stream(lambda size: drawn(0, shards.MOST, size), count, _BLOCK)


def _of_table(model: Any, arguments: dict[str, Any]) -> tuple[dict[str, Any], Callable[[int], Law]]:
    columns, given = model.columns, arguments["given"]
    levels = {name: found.starts for name, found in model.potential.levels.items()}
    text = [to_toml(model.space), levels, model.pairs, columns and described(columns)]
    arrays = {"theta": model.vector} | (arrays_of(columns) if columns else {})
    digest = _digest(json.dumps(text).encode() + pack_tensors(arrays))
    request = {key: arguments[name] for key, name in _OPTIONS.items()} | {
        "formula": digest,
        "given": repr(sorted(given.items(), key=str) if isinstance(given, dict) else given),
        "variables": [],
        "names": [str(c.look.label) for c in columns.columns] if columns else [*model.space.fields],
        "layout": "rows",
    }

    def law_of(seed: int) -> Law:
        pa, _ = load_pyarrow()
        drawn = partial(_table_rows, model, seed, {"given": given, "method": arguments["method"]})
        rows = next(drawn(0, _SHOWN))
        schema = rows.to_arrow().schema
        for at, field in enumerate(schema):  # wider, where other rows may need it
            if pa.types.is_null(field.type):
                schema = schema.set(at, field.with_type(pa.string()))
            elif pa.types.is_decimal(field.type):
                schema = schema.set(at, field.with_type(pa.decimal128(38, field.type.scale)))
        decided = {"method": rows.info["method"], "sweeps": None, "guarantee": rows.guarantee}
        decided |= {"keyed": "part", "why": model.why, "law": digest}
        return Law(decided, schema, drawn)

    return request, law_of


def _table_rows(model: Any, seed: int, how: Any, first: int, count: int) -> Iterator[Any]:
    """Numbers in ranges are drawn until they obey the rules, so each part has a seed, not a row."""
    how = how | {"seed": seed_of(seed, 0, first // 64)}
    if model.columns is None:
        return model.stream(count, **how)
    return map(FrameRows, model.frames(count, first=first, **how))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
