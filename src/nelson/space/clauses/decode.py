"""Packed samples -> rows: columns of codes.

Bit k of word w of a variable is sample 64 w + k. For a one-hot field the bits of the code are made
on packed words, 64 samples at a time: bit j of the code is the OR of the variables of those values
whose code has bit j. Then one unpacking for each bit, never one for each value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from nelson.chains.guarantee import weakest
from nelson.kernels.core.bits import pack
from nelson.sampling.samples import Samples
from nelson.space.clauses.numbers import is_one_hot
from nelson.space.language.fields import Field, Integer
from nelson.space.rows import Rows, code_type

if TYPE_CHECKING:
    from nelson.space.declaration import Declaration

#: All variables of up to this many rows x variables are unpacked at once, 8 bytes each: a single
#: row then takes half the time.
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
    at = {variable: k for k, variable in enumerate(samples.variables)}
    few = samples.count * len(at) <= _FEW_CELLS
    bits = _bits(samples) if few else None
    out = {}
    for name in names:
        field = space.fields[name]
        places = [at[variable] for variable in space.encoding.of_field[name]]
        if bits is not None and len(places) <= 64:
            out[name] = _few_codes(field, bits[places])
            continue
        planes = [samples.packed[:, place] for place in places]
        if is_one_hot(field):
            planes = _binary(planes)
        out[name] = _codes(field, planes, samples.count)
    return out


def _bits(samples: Samples) -> np.ndarray:
    """The value of each variable in each sample, (variables, count), as 64-bit numbers."""
    octets = np.ascontiguousarray(samples.packed.T).astype("<u8", copy=False).view(np.uint8)
    bits = np.unpackbits(octets, axis=1, count=samples.count, bitorder="little")
    return bits.astype(np.uint64)


def _binary(planes: list[np.ndarray]) -> list[np.ndarray]:
    """One-hot planes -> planes of the bits of the code."""
    return [
        np.bitwise_or.reduce([plane for code, plane in enumerate(planes) if code >> j & 1])
        for j in range((len(planes) - 1).bit_length())
    ]


def _few_codes(field: Field, bits: np.ndarray) -> np.ndarray:
    """The codes of a few samples, from the values of the variables, (variables, count)."""
    if is_one_hot(field):
        number = np.arange(len(bits), dtype=np.uint64) @ bits
    else:
        number = _POWERS[: len(bits)] @ bits
    return _code_of_number(field, number, len(bits))


def _codes(field: Field, planes: list[np.ndarray], count: int) -> np.ndarray:
    """The codes of many samples, from the bits of the code, packed."""
    low = _lowest(field)
    if len(planes) > 64:
        return _wide(planes, count, low)
    kind = np.uint64 if low else code_type(1 << len(planes))
    number = np.zeros(count, kind)
    for j, plane in enumerate(planes):
        number |= unpacked(plane, count).astype(kind) << kind(j)
    return _code_of_number(field, number, len(planes))


def _lowest(field: Field) -> int:
    """The lowest value of an integer that is encoded as a binary number; else 0."""
    binary = isinstance(field, Integer) and field.size > 2 and not is_one_hot(field)
    return field.low if isinstance(field, Integer) and binary else 0


def _code_of_number(field: Field, number: np.ndarray, width: int) -> np.ndarray:
    """Binary numbers of `width` bits, in two's complement, as distances from the lowest value."""
    low = _lowest(field)
    if low < 0 and width:  # arithmetic wraps in 64 bits
        top = np.uint64(width - 1)
        number |= (np.uint64(0) - (number >> top & np.uint64(1))) << top
    if low:
        number -= np.uint64(low % 2**64)
    return number.astype(code_type(field.size), copy=False)


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
