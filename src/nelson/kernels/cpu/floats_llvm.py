"""The machine code of `floats.py`, loaded when a kernel is compiled."""

from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

_I64, _F64 = ir.IntType(64), ir.DoubleType()


def _floats(builder: Any, row: Any) -> Any:
    return builder.bitcast(row, ir.VectorType(_F64, row.type.count))


def _words(builder: Any, values: Any) -> Any:
    return builder.bitcast(values, ir.VectorType(_I64, values.type.count))


@intrinsic
def times(typing: Any, a: Any, b: Any) -> Any:
    """a * b"""

    def emit(context, builder, sig, args):
        return _words(builder, builder.fmul(*(_floats(builder, row) for row in args)))

    return a(a, b), emit


@intrinsic
def plus(typing: Any, a: Any, b: Any) -> Any:
    """a + b"""

    def emit(context, builder, sig, args):
        return _words(builder, builder.fadd(*(_floats(builder, row) for row in args)))

    return a(a, b), emit


@intrinsic
def larger(typing: Any, a: Any, b: Any) -> Any:
    """The larger of two numbers that are no NaN."""

    def emit(context, builder, sig, args):
        x, y = (_floats(builder, row) for row in args)
        return builder.select(builder.fcmp_ordered("<", x, y), args[1], args[0])

    return a(a, b), emit


@intrinsic
def less(typing: Any, a: Any, b: Any) -> Any:
    """All ones in the words where a < b, else zeros."""

    def emit(context, builder, sig, args):
        x, y = (_floats(builder, row) for row in args)
        return builder.sext(builder.fcmp_ordered("<", x, y), args[0].type)

    return a(a, b), emit


@intrinsic
def converted(typing: Any, a: Any) -> Any:
    """Integers below 2^63 to float64."""

    def emit(context, builder, sig, args):
        kind = ir.VectorType(_F64, args[0].type.count)
        return _words(builder, builder.sitofp(args[0], kind))

    return a(a), emit
