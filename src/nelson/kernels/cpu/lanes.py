"""Sixteen lanes of a word at a time: int32 and float32 in rows of eight 64-bit words.

Integers are exact, and floating-point operations round as IEEE 754 says, in the order written here,
so that NumPy gives the same bits.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nelson.kernels.core.vector_llvm import RowType
from nelson.kernels.cpu.native import LANES, WIDTH

_I16, _I32, _I64, _F32 = ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
#: exp(x) = 2^k exp(r), k = round(x / log 2), |r| <= log(2) / 2, exp(r) by a Taylor polynomial of
#: degree 6. Adding MAGIC leaves k in the low bits of a float32.
LOG2_E, LOG_2, MAGIC = 1.4426950408889634, 0.6931471805599453, 1.5 * 2.0**23
TAYLOR = tuple(1 / float(f) for f in (720, 120, 24, 6, 2, 1, 1))
#: exp is computed of numbers in [-FARTHEST, 0].
FARTHEST = 80.0
_INTS, _FLOATS, _WIDE = (ir.VectorType(kind, LANES) for kind in (_I32, _F32, _I64))
_ROW, _MASK = ir.VectorType(_I64, WIDTH), ir.VectorType(ir.IntType(1), LANES)
_ZERO = ir.Constant(_INTS, None)


def _float(x: float) -> ir.Constant:
    return ir.Constant(_FLOATS, [float(np.float32(x))] * LANES)


def _copies(builder: Any, scalar: Any, kind: ir.VectorType) -> Any:
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_INTS, [0] * LANES))


def _mask(context: Any, builder: Any, word: Any, kind: Any) -> Any:
    """Bits 0 .. 15 of a word as a mask."""
    word = context.cast(builder, word, kind, types.uint64)
    return builder.bitcast(builder.trunc(word, _I16), _MASK)


def _number(context: Any, builder: Any, scalar: Any, kind: Any) -> Any:
    return _copies(builder, context.cast(builder, scalar, kind, types.int32), _INTS)


def _bits(builder: Any, mask: Any) -> Any:
    """A mask as a word."""
    return builder.zext(builder.bitcast(mask, _I16), _I64)


def _exponential(builder: Any, h: Any, step: Any) -> Any:
    """exp(h * step) for integers h <= 0, as float32."""
    x = builder.fmul(builder.sitofp(h, _FLOATS), _copies(builder, step, _FLOATS))
    low = _float(-FARTHEST)
    x = builder.select(builder.fcmp_ordered("<", x, low), low, x)
    t = builder.fadd(builder.fmul(x, _float(LOG2_E)), _float(MAGIC))
    k = builder.fsub(t, _float(MAGIC))
    r = builder.fsub(x, builder.fmul(k, _float(LOG_2)))
    p = _float(TAYLOR[0])
    for c in TAYLOR[1:]:
        p = builder.fadd(builder.fmul(p, r), _float(c))
    power = builder.shl(builder.bitcast(t, _INTS), ir.Constant(_INTS, [23] * LANES))
    return builder.bitcast(builder.add(builder.bitcast(p, _INTS), power), _FLOATS)


@intrinsic
def threshold(typing: Any, h: Any, step: Any) -> Any:
    """T = 2^32 / (1 + exp(-step * h)) for int32 h, as a number without sign.

    With e = exp(-|h|), the rarer value has the weight max(1, floor(2^32 e / (1 + e))): relative
    errors are about 1e-6. T is this weight, or 2^32 minus it for h > 0.
    """

    def emit(context, builder, sig, args):
        h = builder.bitcast(args[0], _INTS)
        up = builder.icmp_signed(">", h, _ZERO)
        e = _exponential(builder, builder.select(up, builder.sub(_ZERO, h), h), args[1])
        share = builder.fdiv(e, builder.fadd(e, _float(1.0)))
        rare = builder.fptoui(builder.fmul(share, _float(2.0**32)), _INTS)
        is_zero = builder.icmp_unsigned("==", rare, _ZERO)
        rare = builder.select(is_zero, ir.Constant(_INTS, [1] * LANES), rare)
        return builder.bitcast(builder.select(up, builder.sub(_ZERO, rare), rare), _ROW)

    return h(h, types.float32), emit


@intrinsic
def numbers(typing: Any, tag: Any, number: Any) -> Any:
    """The same int32 in every lane."""

    def emit(context, builder, sig, args):
        return builder.bitcast(_number(context, builder, args[1], sig.args[1]), _ROW)

    return RowType(WIDTH)(tag, number), emit


@intrinsic
def where(typing: Any, bits: Any, row: Any, other: Any) -> Any:
    """`row` in the lanes whose bit is set, else `other`."""

    def emit(context, builder, sig, args):
        mask = _mask(context, builder, args[0], sig.args[0])
        a, b = (builder.bitcast(value, _INTS) for value in args[1:])
        return builder.bitcast(builder.select(mask, a, b), _ROW)

    return row(bits, row, row), emit


@intrinsic
def most(typing: Any, a: Any, b: Any) -> Any:
    """The larger of two int32."""

    def emit(context, builder, sig, args):
        a, b = (builder.bitcast(value, _INTS) for value in args)
        return builder.bitcast(builder.select(builder.icmp_signed(">", a, b), a, b), _ROW)

    return a(a, b), emit


@intrinsic
def weight(typing: Any, energy: Any, top: Any, step: Any, unit: Any) -> Any:
    """floor(unit * exp(step * (energy - top))), int32, for energy <= top."""

    def emit(context, builder, sig, args):
        a, b = (builder.bitcast(value, _INTS) for value in args[:2])
        e = _exponential(builder, builder.sub(a, b), args[2])
        scaled = builder.fmul(e, _copies(builder, args[3], _FLOATS))
        return builder.bitcast(builder.fptosi(scaled, _INTS), _ROW)

    return energy(energy, energy, types.float32, types.float32), emit


@intrinsic
def plus(typing: Any, a: Any, b: Any) -> Any:
    """Sums of int32."""

    def emit(context, builder, sig, args):
        a, b = (builder.bitcast(value, _INTS) for value in args)
        return builder.bitcast(builder.add(a, b), _ROW)

    return a(a, b), emit


@intrinsic
def share_of(typing: Any, random: Any, total: Any) -> Any:
    """floor(random * total / 2^32) of 32-bit numbers without sign: uniform below `total`."""

    def emit(context, builder, sig, args):
        a, b = (builder.zext(builder.bitcast(value, _INTS), _WIDE) for value in args)
        high = builder.lshr(builder.mul(a, b), ir.Constant(_WIDE, [32] * LANES))
        return builder.bitcast(builder.trunc(high, _INTS), _ROW)

    return random(random, random), emit


@intrinsic
def below(typing: Any, a: Any, b: Any) -> Any:
    """Bit k is set if a < b in lane k; 32-bit numbers without sign."""

    def emit(context, builder, sig, args):
        a, b = (builder.bitcast(value, _INTS) for value in args)
        return _bits(builder, builder.icmp_unsigned("<", a, b))

    return types.uint64(a, b), emit
