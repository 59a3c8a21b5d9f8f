"""The machine code of `vector.py`: a row is LLVM's `<W x i64>`, as a Numba type.

Each function here has the name of the function of `vector.py` that it stands for. Nothing imports
this file before the first kernel is compiled (`machine.py`).
"""

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

_I32, _I64 = ir.IntType(32), ir.IntType(64)


class RowType(types.Type):
    """The Numba type of a row of `width` words."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(f"row{width}")


@register_model(RowType)
class _RowModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: RowType) -> None:
        super().__init__(dmm, fe_type, _llvm(fe_type.width))


class PointerType(types.Type):
    """The Numba type of the address of an array's first element."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(f"pointer({dtype})")


@register_model(PointerType)
class _PointerModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: PointerType) -> None:
        super().__init__(dmm, fe_type, dmm.lookup(fe_type.dtype).get_data_type().as_pointer())


@intrinsic
def bare(typing: Any, fields: Any) -> Any:
    """A named tuple with its arrays replaced by pointers."""

    def slim(kind: Any) -> Any:
        return PointerType(kind.dtype) if isinstance(kind, types.Array) else kind

    result = types.NamedTuple([slim(kind) for kind in fields.types], fields.instance_class)

    def emit(context, builder, sig, args):
        values = cgutils.unpack_tuple(builder, args[0])
        values = [
            _data(context, builder, *field) for field in zip(fields.types, values, strict=True)
        ]
        return context.make_tuple(builder, result, values)

    return result(fields), emit


def _data(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """The pointer of an array, read from its struct without a copy on the stack; or the value."""
    if isinstance(kind, types.Array):
        return context.data_model_manager[kind].get(builder, value, "data")
    return value


def _llvm(width: int) -> ir.VectorType:
    return ir.VectorType(_I64, width)


def _constant(width: int, value: int) -> ir.Constant:
    return ir.Constant(_llvm(width), [value & (2**64 - 1)] * width)


def _spread(builder: Any, scalar: Any, width: int) -> Any:
    """A vector of `width` copies of a scalar."""
    kind = ir.VectorType(scalar.type, width)
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
    zeros = ir.Constant(ir.VectorType(_I32, width), [0] * width)
    return builder.shuffle_vector(first, undefined, zeros)


def _width(kind: Any) -> int:
    return len(kind.types)


def _address(context: Any, builder: Any, sig: Any, args: Any, array: int, scale: int = 1) -> Any:
    """Address of element index * scale; argument `array` is the array, the next one the index."""
    index = context.cast(builder, args[array + 1], sig.args[array + 1], types.intp)
    if scale != 1:
        index = builder.mul(index, ir.Constant(_I64, scale), flags=["nsw"])
    data = _data(context, builder, sig.args[array], args[array])
    return builder.gep(data, [index], inbounds=True)


def _row_address(context: Any, builder: Any, sig: Any, args: Any, array: int, width: int) -> Any:
    address = _address(context, builder, sig, args, array, width)
    return builder.bitcast(address, ir.PointerType(_llvm(width)))


def _call(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    """Call an intrinsic function of LLVM."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    return builder.call(function, arguments)


# ----------------------------------------------------------------------------------------------
# operators


def _binary(op: Any, emit: str) -> None:
    @infer_global(op)
    class _Template(AbstractTemplate):
        def generic(self, args, kws):
            if len(args) == 2 and isinstance(args[0], RowType):
                if args[1] == args[0]:
                    return signature(args[0], *args)
                if isinstance(args[1], types.Integer):
                    return signature(args[0], args[0], types.uint64)
            return None

    @lower_builtin(op, RowType, RowType)
    def _rows(context, builder, sig, args):
        return getattr(builder, emit)(*args)

    @lower_builtin(op, RowType, types.uint64)
    def _scalar(context, builder, sig, args):
        return getattr(builder, emit)(args[0], _spread(builder, args[1], sig.args[0].width))


for _op, _emit in {
    operator.and_: "and_",
    operator.or_: "or_",
    operator.xor: "xor",
    operator.add: "add",
    operator.mul: "mul",
    operator.rshift: "lshr",
}.items():
    _binary(_op, _emit)


@infer_global(operator.invert)
class _InvertTemplate(AbstractTemplate):
    def generic(self, args, kws):
        return (
            signature(args[0], *args) if len(args) == 1 and isinstance(args[0], RowType) else None
        )


@lower_builtin(operator.invert, RowType)
def _invert(context, builder, sig, args):
    return builder.not_(args[0])


# ----------------------------------------------------------------------------------------------
# making rows


@intrinsic
def zeros(typing: Any, tag: Any) -> Any:
    """No lane."""
    width = _width(tag)
    return RowType(width)(tag), lambda context, builder, sig, args: _constant(width, 0)


@intrinsic
def ones(typing: Any, tag: Any) -> Any:
    """Every lane."""
    width = _width(tag)
    return RowType(width)(tag), lambda context, builder, sig, args: _constant(width, -1)


@intrinsic
def splat(typing: Any, tag: Any, scalar: Any) -> Any:
    """The same word W times."""
    width = _width(tag)

    def emit(context, builder, sig, args):
        return _spread(builder, context.cast(builder, args[1], sig.args[1], types.uint64), width)

    return RowType(width)(tag, scalar), emit


@intrinsic
def splat_bit(typing: Any, tag: Any, scalar: Any) -> Any:
    """An int32 that is 0 or -1 as a row of zeros or ones.

    The int32 fills both halves of each word, so that LLVM makes it one broadcast load.
    """
    width = _width(tag)

    def emit(context, builder, sig, args):
        half = context.cast(builder, args[1], sig.args[1], types.int32)
        return builder.bitcast(_spread(builder, half, 2 * width), _llvm(width))

    return RowType(width)(tag, scalar), emit


# ----------------------------------------------------------------------------------------------
# memory


@intrinsic
def load(typing: Any, tag: Any, array: Any, index: Any) -> Any:
    width = _width(tag)

    def emit(context, builder, sig, args):
        row = builder.load(_row_address(context, builder, sig, args, 1, width))
        row.align = min(64, 8 * width)
        return row

    return RowType(width)(tag, array, index), emit


@intrinsic
def store(typing: Any, array: Any, index: Any, row: Any) -> Any:
    def emit(context, builder, sig, args):
        width = sig.args[2].width
        write = builder.store(args[2], _row_address(context, builder, sig, args, 0, width))
        write.align = min(64, 8 * width)
        return context.get_dummy_value()

    return types.void(array, index, row), emit


@intrinsic
def prefetch(typing: Any, tag: Any, array: Any, index: Any) -> Any:
    width = _width(tag)

    def emit(context, builder, sig, args):
        address = _row_address(context, builder, sig, args, 1, width)
        start = builder.bitcast(address, ir.PointerType(ir.IntType(8)))
        hints = [ir.Constant(_I32, k) for k in (0, 3, 1)]  # read, keep in all caches, data
        for line in range(0, 8 * width, 64):
            address = builder.gep(start, [ir.Constant(_I64, line)])
            _call(builder, "llvm.prefetch.p0", ir.VoidType(), [address, *hints])
        return context.get_dummy_value()

    return types.void(tag, array, index), emit


@intrinsic
def peek(typing: Any, array: Any, index: Any) -> Any:
    def emit(context, builder, sig, args):
        return builder.load(_address(context, builder, sig, args, 0))

    return array.dtype(array, index), emit


@intrinsic
def peek_volatile(typing: Any, array: Any, index: Any) -> Any:
    """Read a cell that another thread may write: never hoisted out of a loop."""

    def emit(context, builder, sig, args):
        address = _address(context, builder, sig, args, 0)
        return builder.load_atomic(address, "monotonic", array.dtype.bitwidth // 8)

    return array.dtype(array, index), emit


@intrinsic
def poke(typing: Any, array: Any, index: Any, value: Any) -> Any:
    def emit(context, builder, sig, args):
        cast = context.cast(builder, args[2], sig.args[2], sig.args[0].dtype)
        builder.store(cast, _address(context, builder, sig, args, 0))
        return context.get_dummy_value()

    return types.void(array, index, value), emit


# ----------------------------------------------------------------------------------------------
# looking into rows


@intrinsic
def any_lane(typing: Any, row: Any) -> Any:
    """Is any bit of a row set?"""

    def emit(context, builder, sig, args):
        width, value = sig.args[0].width, args[0]
        while width > 8:  # fold to one machine register, then one compare
            half, undefined = width // 2, ir.Constant(_llvm(width), ir.Undefined)
            chosen = [
                ir.Constant(ir.VectorType(_I32, half), list(range(at, at + half)))
                for at in (0, half)
            ]
            parts = [builder.shuffle_vector(value, undefined, words) for words in chosen]
            value, width = builder.or_(*parts), half
        lanes = builder.icmp_unsigned("!=", value, _constant(width, 0))
        mask = builder.bitcast(lanes, ir.IntType(width))
        return builder.icmp_unsigned("!=", mask, ir.Constant(ir.IntType(width), 0))

    return types.boolean(row), emit


@intrinsic
def popcount(typing: Any, row: Any) -> Any:
    """Number of bits set, word by word."""

    def emit(context, builder, sig, args):
        width = sig.args[0].width
        return _call(builder, f"llvm.ctpop.v{width}i64", _llvm(width), args)

    return row(row), emit


@intrinsic
def total(typing: Any, row: Any) -> Any:
    """Sum of the words, as int64."""

    def emit(context, builder, sig, args):
        return _call(builder, f"llvm.vector.reduce.add.v{sig.args[0].width}i64", _I64, args)

    return types.int64(row), emit
