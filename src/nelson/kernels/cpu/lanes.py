"""Eight lanes of a word at a time: bits as masks, int32 as float64, and the exponential function.

A row is eight 64-bit words, one for each lane (`kernels/core/vector.py`, `floats.py`). All
operations round as IEEE 754 says, in the order written here, so that NumPy gives the same bits.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nelson.kernels.core.compile import inline
from nelson.kernels.core.vector import Row, splat
from nelson.kernels.cpu.floats import larger, plus, times

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_F32, _F64 = ir.FloatType(), ir.DoubleType()
#: Lanes of a row, and int32 in it.
LANES, HALVES = 8, 16


def bits_of(x: float) -> np.uint64:
    """The bits of a float64."""
    return np.float64(x).view(np.uint64)


#: exp(x) = 2^k exp(r), k = round(x / log 2), |r| <= log(2) / 2: a Taylor polynomial of degree 9 has
#: a relative error of at most 8e-12. Adding MAGIC leaves k in the low bits of a float64.
LOG2_E, LOG_2, MAGIC = 1.4426950408889634, 0.6931471805599453, 1.5 * 2.0**52
TAYLOR = tuple(1 / float(f) for f in (362880, 40320, 5040, 720, 120, 24, 6, 2, 1, 1))
#: exp is computed of numbers in [-FARTHEST, 0].
FARTHEST = 700.0
#: The same in float32, with a polynomial of degree 6.
TAYLOR32, FARTHEST32, MAGIC32 = TAYLOR[3:], 80.0, 1.5 * 2.0**23
_LOG2_E, _MINUS_LOG_2 = bits_of(LOG2_E), bits_of(-LOG_2)
_MAGIC, _MINUS_MAGIC = bits_of(MAGIC), bits_of(-MAGIC)
_C9, _C8, _C7, _C6, _C5, _C4, _C3, _C2, _C1, _C0 = (bits_of(c) for c in TAYLOR)
_LOWEST, _SIGN, _2_52 = bits_of(-FARTHEST), np.uint64(1 << 63), np.uint64(1 << 52)


@inline
def exponential(tag, x):
    """exp(x) for x <= 0; smaller x than -FARTHEST count as -FARTHEST."""
    x = larger(x, splat(tag, _LOWEST))
    t = plus(times(x, splat(tag, _LOG2_E)), splat(tag, _MAGIC))
    k = plus(t, splat(tag, _MINUS_MAGIC))
    r = plus(x, times(k, splat(tag, _MINUS_LOG_2)))
    p = plus(times(splat(tag, _C9), r), splat(tag, _C8))
    p = plus(times(p, r), splat(tag, _C7))
    p = plus(times(p, r), splat(tag, _C6))
    p = plus(times(p, r), splat(tag, _C5))
    p = plus(times(p, r), splat(tag, _C4))
    p = plus(times(p, r), splat(tag, _C3))
    p = plus(times(p, r), splat(tag, _C2))
    p = plus(times(p, r), splat(tag, _C1))
    p = plus(times(p, r), splat(tag, _C0))
    return p + t * _2_52


@inline
def negative(x):
    """-x"""
    return x ^ _SIGN


@intrinsic
def spread_bits(typing: Any, tag: Any, bits: Any) -> Any:
    """Lane k is all ones if bit k is set, else zeros."""

    def emit(context, builder, sig, args):
        byte = context.cast(builder, args[1], sig.args[1], types.uint8)
        lanes = builder.bitcast(byte, ir.VectorType(ir.IntType(1), LANES))
        return builder.sext(lanes, ir.VectorType(_I64, LANES))

    return Row(LANES)(tag, bits), emit


@intrinsic
def collect_bits(typing: Any, row: Any) -> Any:
    """A word whose bit k is set if lane k is not 0."""

    def emit(context, builder, sig, args):
        zero = ir.Constant(args[0].type, None)
        lanes = builder.icmp_unsigned("!=", args[0], zero)
        return builder.zext(builder.bitcast(lanes, _I8), _I64)

    return types.uint64(row), emit


@intrinsic
def load_numbers(typing: Any, tag: Any, array: Any, index: Any) -> Any:
    """array[index .. index + 7], int32, as float64; index is a multiple of 8."""

    def emit(context, builder, sig, args):
        at = context.cast(builder, args[2], sig.args[2], types.intp)
        address = builder.gep(args[1], [at], inbounds=True)
        kind = ir.VectorType(_I32, LANES)
        whole = builder.load(builder.bitcast(address, ir.PointerType(kind)))
        whole.align = 4 * LANES
        values = builder.sitofp(whole, ir.VectorType(_F64, LANES))
        return builder.bitcast(values, ir.VectorType(_I64, LANES))

    return Row(LANES)(tag, array, index), emit


@intrinsic
def add_where(typing: Any, array: Any, index: Any, number: Any, on: Any, off: Any) -> Any:
    """array[index + k] += number where bit k of `on` is set, and -= number where bit k of `off` is,
    for k = 0 .. 31; int32, index is a multiple of 16.
    """

    def emit(context, builder, sig, args):
        at = context.cast(builder, args[1], sig.args[1], types.intp)
        kind = _halves(_I32)
        number = _copies(builder, context.cast(builder, args[2], sig.args[2], types.int32), kind)
        zero = ir.Constant(kind, None)
        for first in range(0, 32, HALVES):
            place = builder.gep(args[0], [builder.add(at, ir.Constant(_I64, first))], inbounds=True)
            place = builder.bitcast(place, ir.PointerType(kind))
            row = builder.load(place)
            row.align = 4 * HALVES
            on, off = (_mask(context, builder, args[k], sig.args[k], first) for k in (3, 4))
            row = builder.add(row, builder.select(on, number, zero))
            row = builder.sub(row, builder.select(off, number, zero))
            write = builder.store(row, place)
            write.align = 4 * HALVES
        return context.get_dummy_value()

    return types.void(array, index, number, on, off), emit


def _halves(kind: Any) -> ir.VectorType:
    return ir.VectorType(kind, HALVES)


def _copies(builder: Any, scalar: Any, kind: ir.VectorType) -> Any:
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_halves(_I32), [0] * HALVES))


def _mask(context: Any, builder: Any, word: Any, kind: Any, first: int) -> Any:
    """Bits first .. first + 15 of a word as a mask."""
    word = context.cast(builder, word, kind, types.uint64)
    part = builder.trunc(builder.lshr(word, ir.Constant(_I64, first)), ir.IntType(HALVES))
    return builder.bitcast(part, _halves(ir.IntType(1)))


@intrinsic
def heat_bath(typing: Any, array: Any, index: Any, scale: Any, random: Any) -> Any:
    """16 lanes at once, in float32: bit k is 1 with probability 1 / (1 + exp(-scale * array[index + k])).

    random: a row; lane k takes the k-th 32 bits of it. With e = exp(-|h|), the less likely value has
    probability e / (1 + e) and is drawn if r (1 + e) < 2^31 e, for r of 31 bits. So probabilities
    have a relative error of about 1e-6, and are multiples of 2^-31.
    """

    def emit(context, builder, sig, args):
        ints, floats = _halves(_I32), _halves(_F32)
        at = context.cast(builder, args[1], sig.args[1], types.intp)
        place = builder.gep(args[0], [at], inbounds=True)
        h = builder.load(builder.bitcast(place, ir.PointerType(ints)))
        h.align = 4 * HALVES
        zero = ir.Constant(ints, None)
        up = builder.icmp_signed(">", h, zero)
        minus = builder.select(up, builder.sub(zero, h), h)  # -|h|
        x = builder.fmul(builder.sitofp(minus, floats), _copies(builder, args[2], floats))
        x = builder.select(builder.fcmp_ordered("<", x, _float(-FARTHEST32)), _float(-FARTHEST32), x)
        t = builder.fadd(builder.fmul(x, _float(LOG2_E)), _float(MAGIC32))
        k = builder.fsub(t, _float(MAGIC32))
        r = builder.fsub(x, builder.fmul(k, _float(LOG_2)))
        p = _float(TAYLOR32[0])
        for c in TAYLOR32[1:]:
            p = builder.fadd(builder.fmul(p, r), _float(c))
        power = builder.shl(builder.bitcast(t, ints), ir.Constant(ints, [23] * HALVES))
        e = builder.bitcast(builder.add(builder.bitcast(p, ints), power), floats)
        bits = builder.lshr(builder.bitcast(args[3], ints), ir.Constant(ints, [1] * HALVES))
        number = builder.sitofp(bits, floats)
        left = builder.fmul(number, builder.fadd(e, _float(1.0)))
        rare = builder.fcmp_ordered("<", left, builder.fmul(e, _float(2.0**31)))
        lanes = builder.bitcast(builder.xor(rare, up), ir.IntType(HALVES))
        return builder.zext(lanes, _I64)

    return types.uint64(array, index, types.float32, random), emit


def _float(x: float) -> ir.Constant:
    return ir.Constant(_halves(_F32), [float(np.float32(x))] * HALVES)
