"""What a job draws: samples of a formula, rows of a space, or rows like those of a table.

request, law_of = request_of(formula, theta, n, arguments)
request        what was asked for, in plain values: equal for equal requests
law_of(seed)   all that was decided. It can be pickled, so that any process draws any part:
               law.tables(first, count) yields (Arrow table, guarantee)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from nelson.chains.guarantee import weakest
from nelson.errors import FormulaError
from nelson.formula import Formula
from nelson.formula.checks import checked_projection, evidence_literals, theta_rows
from nelson.io.arrow import load_pyarrow
from nelson.kernels.cpu.rows import to_rows
from nelson.learning.checkpoint import pack_tensors
from nelson.learning.loop import formula_fingerprint
from nelson.sampling import shards
from nelson.sampling.foreign import seed_of
from nelson.sampling.options import Options
from nelson.sampling.plan import Plan
from nelson.space.adapters.toml import to_toml
from nelson.space.clauses.decode import rows_of_samples
from nelson.space.conditioned import Condition
from nelson.space.rows import Rows
from nelson.space.tables.saved import arrays_of, described

#: Options that a request has; "asked " where the decisions have an entry of the same name.
_OPTIONS = {"asked method": "method", "asked sweeps": "sweeps", "project_law": "project_law"}
_OPTIONS |= {"max_rounds": "max_rounds", "check": "check"}
#: Rows of a model that show the types of its columns.
_SHOWN = 1000


def request_of(
    source: Any, theta: Any, n: int, arguments: dict[str, Any]
) -> tuple[dict[str, Any], Callable[[int], SampleLaw | ModelLaw]]:
    """source: a formula, the plan of a space, or the model of a table. arguments: of `sample`."""
    space, row_law, condition, layout = None, None, None, "packed"
    if isinstance(source, Formula):
        # `auto` decides by counted work: a clock would decide differently in each process.
        plan = Plan(source, theta, Options.among(arguments | {"seconds": None}))
        options, layout = plan.options, "columns" if arguments["columns"] else layout
    elif hasattr(source, "inside"):
        space, plan, row_law, condition = source.inside
        theta = row_law.theta
        options = replace(plan.options, threads=arguments["threads"], seconds=None)
        layout = "rows"
    elif hasattr(source, "frames"):
        return _of_model(source, arguments)
    else:
        raise FormulaError(
            f"samples of {type(source).__name__}",
            expected="a formula, the plan of a space, or the model of a table",
        )
    if options.unique or options.gpu is not None:
        raise FormulaError(
            "distinct rows, or a GPU, in a folder of parts", expected="nelson.sample"
        )
    formula = plan.formula
    rows, single = theta_rows(formula, theta)
    if not single:
        raise FormulaError("several theta rows", expected="one theta vector")
    chosen = checked_projection(options.project, formula.n_vars)
    variables = list(range(1, formula.n_vars + 1) if chosen is None else chosen)
    names = arguments["names"]
    if names is not None and len(names) != formula.n_vars:
        raise FormulaError(f"{len(names)} names", expected=f"{formula.n_vars}, one per variable")
    names = names and [str(names[variable - 1]) for variable in variables]
    if names and layout == "columns" and len(set(names)) < len(names):
        raise FormulaError("columns of the same name", expected="a different name for each")
    evidence = evidence_literals(() if options.given is None else options.given, formula.n_vars)
    request = {key: getattr(options, name) for key, name in _OPTIONS.items()} | {
        "formula": formula_fingerprint(formula)[:32],
        "theta": hashlib.sha256(rows.tobytes()).hexdigest()[:32] if rows.any() else None,
        "given": [
            *sorted(evidence.tolist(), key=abs),
            *map(repr, condition.rules if condition else ()),
        ],
        "variables": variables if space is None else [],
        "names": names if space is None else list(space.fields),
        "fields": None if space is None else [repr(field) for field in space.fields.values()],
        "layout": layout,
    }
    pa, _ = load_pyarrow()
    if space is not None:
        schema = Rows.empty(space.fields).to_arrow().schema
    elif layout == "packed":
        kind = pa.binary(max(1, -(-len(variables) // 8)))
        schema = pa.schema([pa.field("x", kind, nullable=False)])
    else:
        titles = names or [f"x{v}" for v in variables]
        schema = pa.schema([pa.field(title, pa.bool_(), nullable=False) for title in titles])

    def law_of(seed: int) -> SampleLaw:
        settled = shards.settle(plan.drawing(n, replace(options, seed=seed)))
        return SampleLaw(settled, schema, layout, space, row_law.info if row_law else {}, condition)

    return request, law_of


def _of_model(
    model: Any, arguments: dict[str, Any]
) -> tuple[dict[str, Any], Callable[[int], ModelLaw]]:
    given, columns = arguments["given"], model.columns
    levels = {name: found.starts for name, found in model.potential.levels.items()}
    text = [to_toml(model.space), levels, model.pairs, columns and described(columns)]
    arrays = {"theta": model.vector} | (arrays_of(columns) if columns else {})
    digest = hashlib.sha256(json.dumps(text).encode() + pack_tensors(arrays)).hexdigest()[:32]
    request = {key: arguments[name] for key, name in _OPTIONS.items()} | {
        "formula": digest,
        "given": repr(sorted(given.items(), key=str) if isinstance(given, dict) else given),
        "variables": [],
        "names": [str(c.look.label) for c in columns.columns] if columns else [*model.space.fields],
        "layout": "rows",
    }
    return request, lambda seed: ModelLaw(model, digest, seed, given, arguments["method"])


@dataclass(frozen=True)
class SampleLaw:
    """Of a settled plan. space: its rows have the columns of that space; info: what is known of
    its law; condition: rows that do not obey it are left out, and so each part has a seed.
    """

    settled: shards.Settled
    schema: Any
    layout: str
    space: Any
    info: dict[str, Any]
    condition: Condition | None

    @property
    def decided(self) -> dict[str, Any]:
        plan, besides = self.settled.drawing, self.condition
        return {
            "method": plan.sampler.name,
            "sweeps": plan.sweeps,
            "guarantee": weakest([plan.guarantee, self.info.get("shares_guarantee", "exact")]),
            "why": plan.choice.why + (f"; {besides.why}" if besides else ""),
            "keyed": "sample" if self.settled.numbered and not besides else "part",
            "law": self.settled.digest,
        }

    def tables(self, first: int, count: int) -> Iterator[tuple[Any, str]]:
        pa, _ = load_pyarrow()
        width = max(1, self.settled.drawing.formula.n_total)
        block = 64 * max(1, min(1 << 16, (1 << 28) // width) // 64)  # at most 32 MB
        if self.space is not None:
            for rows in self._rows(first, count, block):
                yield rows.to_arrow(), rows.guarantee
            return
        for samples in shards.blocks(self.settled, first, count, block):
            if self.layout == "packed":
                octets = to_rows(samples.packed, len(samples))[None]
            else:  # Arrow packs Booleans as we do: the bits of a column side by side, lowest first
                octets = np.ascontiguousarray(samples.packed.T)
            columns = [
                pa.Array.from_buffers(kind, len(samples), [None, pa.py_buffer(bits)])
                for kind, bits in zip(self.schema.types, octets, strict=True)
            ]
            yield pa.Table.from_arrays(columns, schema=self.schema), samples.guarantee

    def _rows(self, first: int, count: int, block: int) -> Iterator[Rows]:
        def drawn(settled: shards.Settled, first: int, count: int, block: int) -> Iterator[Rows]:
            for samples in shards.blocks(settled, first, count, block):
                yield rows_of_samples(self.space, samples, self.info)

        if self.condition is None:
            return drawn(self.settled, first, count, block)
        problem, request = self.settled.drawing.parts[0]
        request = replace(request, seed=seed_of(request.seed, 0, first // 64))
        drawing = replace(self.settled.drawing, parts=[(problem, request)])
        settled = replace(self.settled, drawing=drawing)
        return self.condition.stream(
            lambda size: drawn(settled, 0, shards.MOST, size), count, block
        )


@dataclass(frozen=True)
class ModelLaw:
    """Of the model of a table. Numbers inside of ranges are drawn until they obey the rules, and so
    are not keyed by the row: each part has a seed.
    """

    model: Any
    digest: str
    seed: int
    given: Any
    method: str

    @property
    def decided(self) -> dict[str, Any]:
        _, guarantee, method = self._shown
        decided = {"method": method, "sweeps": None, "guarantee": guarantee, "keyed": "part"}
        return decided | {"why": self.model.why, "law": self.digest}

    @property
    def schema(self) -> Any:
        return self._shown[0]

    @cached_property
    def _shown(self) -> tuple[Any, str, str]:
        """The schema, guarantee and method of the first rows."""
        pa, _ = load_pyarrow()
        table, guarantee, method = next(self._drawn(0, _SHOWN))
        schema = table.schema
        for at, field in enumerate(schema):  # wider, where other rows may need it
            if pa.types.is_null(field.type):
                schema = schema.set(at, field.with_type(pa.string()))
            elif pa.types.is_decimal(field.type):
                schema = schema.set(at, field.with_type(pa.decimal128(38, field.type.scale)))
        return schema, guarantee, method

    def tables(self, first: int, count: int) -> Iterator[tuple[Any, str]]:
        for table, guarantee, _ in self._drawn(first, count):
            yield table.cast(self.schema), guarantee

    def _drawn(self, first: int, count: int) -> Iterator[tuple[Any, str, str]]:
        pa, _ = load_pyarrow()
        seed = seed_of(self.seed, 0, first // 64)
        how: Any = {"given": self.given, "seed": seed, "method": self.method}
        if self.model.columns is None:
            for rows in self.model.stream(count, **how):
                yield rows.to_arrow(), rows.guarantee, rows.info["method"]
            return
        for frame in self.model.frames(count, first=first, **how):
            attributes, frame.attrs = frame.attrs, {}  # pyarrow would keep them in the schema
            table = pa.Table.from_pandas(frame, preserve_index=False)
            yield table, attributes["guarantee"], attributes["info"]["method"]
