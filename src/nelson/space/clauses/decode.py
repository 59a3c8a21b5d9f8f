"""Packed samples -> rows: columns of codes.

Bit k of word w of a variable is sample 64 w + k. For a one-hot field the bits of the code are made
on packed words, 64 samples at a time: bit j of the code is the OR of the variables of those values
whose code has bit j. Then one unpacking for each bit, never one for each value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nelson.chains.guarantee import weakest
from nelson.formula.memo import Recent, Slot
from nelson.kernels.core.bits import pack
from nelson.sampling.samples import Samples
from nelson.space.clauses.numbers import is_one_hot
from nelson.space.language.fields import Field, Integer
from nelson.space.rows import Rows, code_type

if TYPE_CHECKING:
    from nelson.space.declaration import Declaration

#: Up to this many rows x variables, all fields are read at once, with 8 bytes for each variable.
_FEW_CELLS = 1 << 18
_POWERS = np.uint64(1) << np.arange(64, dtype=np.uint64)


def rows_of_samples(space: Declaration, samples: Samples, law_info: dict[str, Any]) -> Rows:
    """The rows of samples of the formula. law_info: `Law.info`."""
    info = samples.info | law_info
    if "decisions" in info:
        info["why"] = f"the space compiled to a circuit of {info['decisions']:,} decisions"
    # The rows are those of a law that was fitted to the asked shares.
    guarantee = weakest([samples.guarantee, info.get("shares_guarantee", "exact")])
    codes = columns(space, samples, space.fields)
    return Rows(space.fields, codes, samples.count, guarantee, samples.status, info)


def rows_of_states(
    space: Declaration,
    states: np.ndarray,
    guarantee: str = "exact",
    status: str = "ok",
    info: dict[str, Any] | None = None,
) -> Rows:
    """The rows of assignments (rows, n_vars) of the formula."""
    variables = tuple(space.formula.projection or ())
    packed = pack(states[:, np.array(variables, int) - 1])
    samples = Samples(packed, len(states), variables, guarantee, status)
    return rows_of_samples(space, samples, info or {})


def columns(space: Declaration, samples: Samples, names: Iterable[str]) -> dict[str, np.ndarray]:
    """The codes of these fields, (count,)."""
    few = samples.count * len(samples.variables) <= _FEW_CELLS
    known = _few_codes(space, samples) if few else {}
    at: dict[int, int] = {}
    out = {}
    for name in names:
        if name in known:
            out[name] = known[name]
            continue
        field = space.fields[name]
        at = at or {variable: k for k, variable in enumerate(samples.variables)}
        planes = [samples.packed[:, at[variable]] for variable in space.encoding.of_field[name]]
        if is_one_hot(field):
            planes = _binary(planes)
        out[name] = _codes(field, planes, samples.count)
    return out


class _Layout(NamedTuple):
    """How to read the fields of 1 to 64 variables off a few samples, all of them at once."""

    places: np.ndarray  # (total,): the columns of the variables, field by field
    weights: np.ndarray  # (total, 1) uint64: what a variable that is true adds to its number
    starts: np.ndarray  # (fields,): the first variable of each field, in `places`
    signs: np.ndarray  # (fields, 1) uint64: the bit of the sign of a number in two's complement
    lows: np.ndarray  # (fields, 1) uint64: the lowest value, which has the code 0
    kinds: list[tuple[str, Any]]  # names, and types of the codes


#: By the variables of the samples.
_LAYOUTS: Slot[Recent[tuple[int, ...], _Layout]] = Slot("layouts of rows")


def _layout(space: Declaration, variables: tuple[int, ...]) -> _Layout:
    at = {variable: k for k, variable in enumerate(variables)}
    places: list[int] = []
    weights: list[np.ndarray] = []
    starts, signs, lows, kinds = [], [], [], []
    for name, field in space.fields.items():
        of_field, low = space.encoding.of_field[name], _lowest(field)
        if not 0 < len(of_field) <= 64 or not all(variable in at for variable in of_field):
            continue  # too wide, or not among the variables of projected samples
        starts.append(len(places))
        places += [at[variable] for variable in of_field]
        codes = np.arange(len(of_field), dtype=np.uint64)
        weights.append(codes if is_one_hot(field) else _POWERS[: len(of_field)])
        signs.append(1 << len(of_field) - 1 if low < 0 else 0)
        lows.append(low % 2**64)
        kinds.append((name, code_type(field.size)))
    return _Layout(
        np.array(places, np.int64),
        np.concatenate([np.zeros(0, np.uint64), *weights])[:, None],
        np.array(starts, np.int64),
        np.array(signs, np.uint64)[:, None],
        np.array(lows, np.uint64)[:, None],
        kinds,
    )


def _few_codes(space: Declaration, samples: Samples) -> dict[str, np.ndarray]:
    """The codes of the fields of 1 to 64 variables: for a few rows NumPy's calls take the time, so
    there are few of them for all fields together.
    """
    known = space.formula.memo.recent(_LAYOUTS, 4)
    way = known.once(samples.variables, lambda: _layout(space, samples.variables))
    if not way.kinds:
        return {}
    octets = np.ascontiguousarray(samples.packed.T[way.places]).astype("<u8", copy=False)
    bits = np.unpackbits(octets.view(np.uint8), axis=1, count=samples.count, bitorder="little")
    numbers = np.add.reduceat(way.weights * bits, way.starts, axis=0)
    # In 64 bits: (number ^ sign) - sign extends the sign of a number in two's complement.
    numbers = (numbers ^ way.signs) - way.signs - way.lows
    return {name: row.astype(kind) for (name, kind), row in zip(way.kinds, numbers, strict=True)}


def _binary(planes: list[np.ndarray]) -> list[np.ndarray]:
    """One-hot planes -> planes of the bits of the code."""
    return [
        np.bitwise_or.reduce([plane for code, plane in enumerate(planes) if code >> j & 1])
        for j in range((len(planes) - 1).bit_length())
    ]


def _codes(field: Field, planes: list[np.ndarray], count: int) -> np.ndarray:
    """The codes of many samples, from the bits of the code, packed."""
    low = _lowest(field)
    if len(planes) > 64:
        return _wide(planes, count, low)
    kind = np.uint64 if low else code_type(1 << len(planes))
    number = np.zeros(count, kind)
    for j, plane in enumerate(planes):
        number |= unpacked(plane, count).astype(kind) << kind(j)
    if low < 0 and planes:  # two's complement: arithmetic wraps in 64 bits
        top = np.uint64(len(planes) - 1)
        number |= (np.uint64(0) - (number >> top & np.uint64(1))) << top
    if low:
        number -= np.uint64(low % 2**64)
    return number.astype(code_type(field.size), copy=False)


def _lowest(field: Field) -> int:
    """The lowest value of an integer that is encoded as a binary number; else 0."""
    binary = isinstance(field, Integer) and field.size > 2 and not is_one_hot(field)
    return field.low if isinstance(field, Integer) and binary else 0


def _wide(planes: list[np.ndarray], count: int, low: int) -> np.ndarray:
    """Codes of more than 64 bits, as Python's integers."""
    bits = np.stack([unpacked(plane, count) for plane in planes], axis=1)
    octets = np.packbits(bits, axis=1, bitorder="little")
    signed = low < 0
    out = np.empty(count, object)
    out[:] = [int.from_bytes(row.tobytes(), "little") for row in octets]
    if signed:
        out -= bits[:, -1].astype(object) << len(planes)
    return out - low


def unpacked(plane: np.ndarray, count: int) -> np.ndarray:
    """(words,) uint64 -> (count,) uint8, 0 or 1."""
    octets = np.ascontiguousarray(plane).astype("<u8", copy=False).view(np.uint8)
    return np.unpackbits(octets, count=count, bitorder="little")
