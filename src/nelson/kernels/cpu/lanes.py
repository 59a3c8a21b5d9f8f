"""Sixteen lanes of a word at a time: int32 and float32 in rows of eight 64-bit words.

Integers are exact, and floating-point operations round as IEEE 754 says, in the order written here,
so that NumPy gives the same bits.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nelson.kernels.core.vector_llvm import Row

_I16, _I32, _I64, _F32 = ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
#: Words of a row, and lanes in it.
WIDTH, LANES = 8, 16
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


def _place(context: Any, builder: Any, array: Any, index: Any, kind: Any) -> Any:
    at = context.cast(builder, index, kind, types.intp)
    return builder.bitcast(builder.gep(array, [at], inbounds=True), ir.PointerType(_INTS))


def _load(builder: Any, place: Any) -> Any:
    row = builder.load(place)
    row.align = 4 * LANES
    return row


def _mask(context: Any, builder: Any, word: Any, kind: Any, first: int = 0) -> Any:
    """Bits first .. first + 15 of a word as a mask."""
    word = context.cast(builder, word, kind, types.uint64)
    part = builder.trunc(builder.lshr(word, ir.Constant(_I64, first)), _I16)
    return builder.bitcast(part, _MASK)


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
def add_where(typing: Any, array: Any, index: Any, number: Any, on: Any, off: Any) -> Any:
    """array[index + k] += number where bit k of `on` is set, and -= number where bit k of `off` is,
    for k = 0 .. 31; int32, index is a multiple of 16.
    """

    def emit(context, builder, sig, args):
        at = context.cast(builder, args[1], sig.args[1], types.intp)
        number = _number(context, builder, args[2], sig.args[2])
        for first in range(0, 32, LANES):
            here = builder.add(at, ir.Constant(_I64, first))
            place = _place(context, builder, args[0], here, types.intp)
            row = _load(builder, place)
            on, off = (_mask(context, builder, args[k], sig.args[k], first) for k in (3, 4))
            row = builder.add(row, builder.select(on, number, _ZERO))
            row = builder.sub(row, builder.select(off, number, _ZERO))
            builder.store(row, place).align = 4 * LANES
        return context.get_dummy_value()

    return types.void(array, index, number, on, off), emit


@intrinsic
def heat_bath(typing: Any, array: Any, index: Any, step: Any, random: Any) -> Any:
    """Bit k is 1 with probability 1 / (1 + exp(-step * array[index + k])), for k = 0 .. 15.

    random: a row; lane k takes the k-th 32 bits of it. With e = exp(-|h|), the rarer value has
    probability e / (1 + e) and is drawn if r (1 + e) < 2^31 e, for r of 31 bits. So probabilities
    have a relative error of about 1e-6, and are multiples of 2^-31.
    """

    def emit(context, builder, sig, args):
        h = _load(builder, _place(context, builder, args[0], args[1], sig.args[1]))
        up = builder.icmp_signed(">", h, _ZERO)
        e = _exponential(builder, builder.select(up, builder.sub(_ZERO, h), h), args[2])
        bits = builder.lshr(builder.bitcast(args[3], _INTS), ir.Constant(_INTS, [1] * LANES))
        left = builder.fmul(builder.sitofp(bits, _FLOATS), builder.fadd(e, _float(1.0)))
        rare = builder.fcmp_ordered("<", left, builder.fmul(e, _float(2.0**31)))
        return _bits(builder, builder.xor(rare, up))

    return types.uint64(array, index, types.float32, random), emit


@intrinsic
def numbers(typing: Any, tag: Any, number: Any) -> Any:
    """The same int32 in every lane."""

    def emit(context, builder, sig, args):
        return builder.bitcast(_number(context, builder, args[1], sig.args[1]), _ROW)

    return Row(WIDTH)(tag, number), emit


@intrinsic
def where(typing: Any, bits: Any, row: Any, other: Any) -> Any:
    """`row` in the lanes whose bit is set, else `other`."""

    def emit(context, builder, sig, args):
        mask = _mask(context, builder, args[0], sig.args[0])
        a, b = (builder.bitcast(value, _INTS) for value in args[1:])
        return builder.bitcast(builder.select(mask, a, b), _ROW)

    return row(bits, row, row), emit


@intrinsic
def load_signed(typing: Any, tag: Any, array: Any, index: Any, positive: Any) -> Any:
    """array[index .. index + 15], int32; negated if `positive` is 0."""

    def emit(context, builder, sig, args):
        row = _load(builder, _place(context, builder, args[1], args[2], sig.args[2]))
        sign = _number(context, builder, args[3], sig.args[3])
        is_positive = builder.icmp_signed("!=", sign, _ZERO)
        return builder.bitcast(builder.select(is_positive, row, builder.sub(_ZERO, row)), _ROW)

    return Row(WIDTH)(tag, array, index, positive), emit


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
