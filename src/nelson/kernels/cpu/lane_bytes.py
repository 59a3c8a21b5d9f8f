"""All 64 lanes of a word at a time: byte k of a row of eight 64-bit words belongs to lane k."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from nelson.kernels.cpu.native import ENTRIES, LANES, WIDTH

_I8, _I32, _I64 = (ir.IntType(bits) for bits in (8, 32, 64))
_ROW = ir.VectorType(_I64, WIDTH)
_BYTES, _EACH = (ir.VectorType(ir.IntType(bits), ENTRIES) for bits in (8, 1))


def _each(context: Any, builder: Any, word: Any, kind: Any) -> Any:
    """The bits of a word as a mask of bytes."""
    word = context.cast(builder, word, kind, types.uint64)
    if "+avx512bw" in context.codegen().magic_tuple()[2].split(","):
        return builder.bitcast(word, _EACH)  # masks have registers of their own
    eight = builder.bitcast(word, ir.VectorType(_I8, WIDTH))
    owner = ir.Constant(ir.VectorType(_I32, ENTRIES), [k // 8 for k in range(ENTRIES)])
    copies = builder.shuffle_vector(eight, ir.Constant(eight.type, ir.Undefined), owner)
    bit = builder.and_(copies, ir.Constant(_BYTES, [1 << k % 8 for k in range(ENTRIES)]))
    return builder.icmp_unsigned("!=", bit, ir.Constant(_BYTES, None))


def _copies(builder: Any, scalar: Any, count: int) -> Any:
    undefined = ir.Constant(ir.VectorType(scalar.type, count), ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
    zeros = ir.Constant(ir.VectorType(_I32, count), [0] * count)
    return builder.shuffle_vector(first, undefined, zeros)


def _place(context: Any, builder: Any, array: Any, index: Any, kind: Any, result: Any) -> Any:
    at = context.cast(builder, index, kind, types.intp)
    return builder.bitcast(builder.gep(array, [at], inbounds=True), ir.PointerType(result))


@intrinsic
def store_bytes(typing: Any, array: Any, index: Any, row: Any, shift: Any) -> Any:
    """array[index + k] = bits shift .. shift + 7 of the k-th 32-bit number, for k = 0 .. 15."""

    def emit(context, builder, sig, args):
        shift = _copies(builder, context.cast(builder, args[3], sig.args[3], types.int32), LANES)
        some = builder.lshr(builder.bitcast(args[2], shift.type), shift)
        kind = ir.VectorType(_I8, LANES)
        place = _place(context, builder, args[0], args[1], sig.args[1], kind)
        builder.store(builder.trunc(some, kind), place).align = LANES
        return context.get_dummy_value()

    return types.void(array, index, row, shift), emit


@intrinsic
def lookup(typing: Any, array: Any, index: Any, entries: Any) -> Any:
    """Byte k is array[index + byte k of `entries`]; these bytes are below 64."""

    def emit(context, builder, sig, args):
        place = _place(context, builder, args[0], args[1], sig.args[1], _BYTES)
        way = LOOKUPS[lookup_way(*context.codegen().magic_tuple())]
        return builder.bitcast(way(builder, place, builder.bitcast(args[2], _BYTES)), _ROW)

    return entries(array, index, entries), emit


def lookup_way(triple: str, name: str, features: str) -> str:
    """The fastest of LOOKUPS that a machine has."""
    ways = [way for way in ("avx512vbmi", "avx2") if f"+{way}" in features.split(",")]
    if triple.startswith(("aarch64", "arm64")):
        ways = ["neon"]
    return [*ways, "loads"][0]


def _part(builder: Any, row: Any, first: int, count: int) -> Any:
    """Bytes first .. first + count - 1, as a shorter row."""
    lanes = ir.Constant(ir.VectorType(_I32, count), list(range(first, first + count)))
    return builder.shuffle_vector(row, ir.Constant(row.type, ir.Undefined), lanes)


def _joined(builder: Any, parts: list[Any]) -> Any:
    while len(parts) > 1:
        count = 2 * parts[0].type.count
        lanes = ir.Constant(ir.VectorType(_I32, count), list(range(count)))
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [builder.shuffle_vector(a, b, lanes) for a, b in pairs]
    return parts[0]


def _vbmi(builder: Any, place: Any, chosen: Any) -> Any:
    """One instruction for 64 bytes."""
    return _call(
        builder, "llvm.x86.avx512.permvar.qi.512", _BYTES, [_table(builder, place), chosen]
    )


def _avx2(builder: Any, place: Any, chosen: Any) -> Any:
    """One instruction takes 32 bytes from 16; two bits of the number choose among four of them."""
    table, parts = _table(builder, place), []
    for first in (0, 32):
        at = _part(builder, chosen, first, 32)
        parts_of_table = []
        for quarter in range(0, ENTRIES, 16):
            some = _part(builder, table, quarter, 16)
            twice = ir.Constant(ir.VectorType(_I32, 32), [k % 16 for k in range(32)])
            both = builder.shuffle_vector(some, ir.Constant(some.type, ir.Undefined), twice)
            parts_of_table.append(_call(builder, "llvm.x86.avx2.pshuf.b", at.type, [both, at]))
        for bit in (16, 32):
            mask = builder.and_(at, ir.Constant(at.type, [bit] * 32))
            is_set = builder.icmp_unsigned("!=", mask, ir.Constant(at.type, None))
            pairs = zip(parts_of_table[::2], parts_of_table[1::2], strict=True)
            parts_of_table = [builder.select(is_set, high, low) for low, high in pairs]
        parts += parts_of_table
    return _joined(builder, parts)


def _neon(builder: Any, place: Any, chosen: Any) -> Any:
    """One instruction takes 16 bytes from 64."""
    table = _table(builder, place)
    quarters = [_part(builder, table, first, 16) for first in range(0, ENTRIES, 16)]
    looked_up = []
    for first in range(0, ENTRIES, 16):
        at = _part(builder, chosen, first, 16)
        looked_up.append(_call(builder, "llvm.aarch64.neon.tbl4.v16i8", at.type, [*quarters, at]))
    return _joined(builder, looked_up)


def _loads(builder: Any, place: Any, chosen: Any) -> Any:
    """A load for each lane."""
    table, looked_up = builder.bitcast(place, ir.PointerType(_I8)), chosen
    for k in range(ENTRIES):
        lane = ir.Constant(_I32, k)
        at = builder.zext(builder.extract_element(chosen, lane), _I64)
        byte = builder.load(builder.gep(table, [at], inbounds=True))
        looked_up = builder.insert_element(looked_up, byte, lane)
    return looked_up


def _call(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    """Call an instruction of the machine."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


def _table(builder: Any, place: Any) -> Any:
    table = builder.load(place)
    table.align = ENTRIES
    return table


#: Ways to look up 64 bytes, by the instructions that they need.
LOOKUPS = {"avx512vbmi": _vbmi, "avx2": _avx2, "neon": _neon, "loads": _loads}


@intrinsic
def plus_bytes(typing: Any, row: Any, bits: Any, number: Any) -> Any:
    """Add a number to the bytes of the lanes whose bit is set."""

    def emit(context, builder, sig, args):
        byte = context.cast(builder, args[2], sig.args[2], types.uint8)
        mask = _each(context, builder, args[1], sig.args[1])
        more = builder.select(mask, _copies(builder, byte, ENTRIES), ir.Constant(_BYTES, None))
        return builder.bitcast(builder.add(builder.bitcast(args[0], _BYTES), more), _ROW)

    return row(row, bits, number), emit


@intrinsic
def where_bytes(typing: Any, bits: Any, row: Any, other: Any) -> Any:
    """Bytes of `row` in the lanes whose bit is set, else those of `other`."""

    def emit(context, builder, sig, args):
        mask = _each(context, builder, args[0], sig.args[0])
        a, b = (builder.bitcast(value, _BYTES) for value in args[1:])
        return builder.bitcast(builder.select(mask, a, b), _ROW)

    return row(bits, row, row), emit


@intrinsic
def compare_bytes(typing: Any, a: Any, b: Any) -> Any:
    """(lanes in which byte a < byte b, lanes in which they are equal); no sign."""
    result = types.UniTuple(types.uint64, 2)

    def emit(context, builder, sig, args):
        a, b = (builder.bitcast(value, _BYTES) for value in args)
        masks = [builder.icmp_unsigned(sign, a, b) for sign in ("<", "==")]
        return context.make_tuple(builder, result, [builder.bitcast(m, _I64) for m in masks])

    return result(a, b), emit
