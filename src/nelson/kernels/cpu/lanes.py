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

_I8, _I32, _I64, _F64 = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.DoubleType()
#: Lanes of a row, and int32 in it.
LANES, HALVES = 8, 16


def bits_of(x: float) -> np.uint64:
    """The bits of a float64."""
    return np.float64(x).view(np.uint64)


#: exp(x) = 2^k exp(r), k = round(x / log 2), |r| <= log(2) / 2: a Taylor polynomial of degree 9 has
#: a relative error of at most 8e-12. Adding MAGIC leaves k in the low bits of a float64.
LOG2_E, LOG_2, MAGIC = 1.4426950408889634, 0.6931471805599453, 1.5 * 2.0**52
TAYLOR = tuple(1 / float(f) for f in (362880, 40320, 5040, 720, 120, 24, 6, 2, 1, 1))
#: exp is computed of numbers in [-FARTHEST, FARTHEST].
FARTHEST = 700.0
_LOG2_E, _MINUS_LOG_2 = bits_of(LOG2_E), bits_of(-LOG_2)
_MAGIC, _MINUS_MAGIC = bits_of(MAGIC), bits_of(-MAGIC)
_C9, _C8, _C7, _C6, _C5, _C4, _C3, _C2, _C1, _C0 = (bits_of(c) for c in TAYLOR)
_LOWEST, _SIGN, _2_52 = bits_of(-FARTHEST), np.uint64(1 << 63), np.uint64(1 << 52)


@inline
def exponential(tag, x):
    """exp(x) for x <= FARTHEST; smaller x than -FARTHEST count as -FARTHEST."""
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


@inline
def smaller(x, y):
    """The smaller of two numbers that are no NaN."""
    return negative(larger(negative(x), negative(y)))


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
    for k = 0 .. 15; int32, index is a multiple of 16.
    """

    def emit(context, builder, sig, args):
        at = context.cast(builder, args[1], sig.args[1], types.intp)
        address = builder.gep(args[0], [at], inbounds=True)
        kind = ir.VectorType(_I32, HALVES)
        place = builder.bitcast(address, ir.PointerType(kind))
        row = builder.load(place)
        row.align = 4 * HALVES
        scalar = context.cast(builder, args[2], sig.args[2], types.int32)
        undefined = ir.Constant(kind, ir.Undefined)
        first = builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
        number = builder.shuffle_vector(first, undefined, ir.Constant(kind, [0] * HALVES))
        zero, masks = ir.Constant(kind, None), []
        for bits, one in ((args[3], sig.args[3]), (args[4], sig.args[4])):
            word = context.cast(builder, bits, one, types.uint16)
            masks.append(builder.bitcast(word, ir.VectorType(ir.IntType(1), HALVES)))
        row = builder.add(row, builder.select(masks[0], number, zero))
        row = builder.sub(row, builder.select(masks[1], number, zero))
        write = builder.store(row, place)
        write.align = 4 * HALVES
        return context.get_dummy_value()

    return types.void(array, index, number, on, off), emit
