"""GPU instructions that Numba has no name for, or that its compiler would not choose.

`simulated.py` has the same functions in plain Python.
"""

import numpy as np
from llvmlite import ir
from numba import cuda, types
from numba.cuda.extending import intrinsic

WARP = 32
_EVERY = 0xFFFFFFFF
#: Registers per thread: with 80, the registers of a multiprocessor serve 768 threads.
REGISTERS = 80
_INT32, _INT64 = ir.IntType(32), ir.IntType(64)
_PAIR = types.UniTuple(types.uint64, 2)

device = cuda.jit(device=True, forceinline=True)


def kernel(function):
    return cuda.jit(cache=True, max_registers=REGISTERS)(function)


def _asm(builder, code, constraints, result, args, side_effect=False):
    """Call inline PTX."""
    function = ir.FunctionType(result, [argument.type for argument in args])
    return builder.call(ir.InlineAsm(function, code, constraints, side_effect=side_effect), args)


# --- loads and stores without a test for negative indices ----------------------------------------


def _is_element(array, i):
    return isinstance(array, types.Array) and isinstance(i, types.Integer)


def _data(context, builder, signature, args):
    """Address of the first element of the array that is the first argument."""
    return context.make_array(signature.args[0])(context, builder, args[0]).data


def _pairs(context, builder, signature, args):
    """The same for an array of 64-bit words as pairs, which one instruction loads or stores."""
    data = _data(context, builder, signature, args)
    pair = ir.VectorType(_INT64, 2)
    return builder.bitcast(data, pair.as_pointer(data.type.addrspace))


def _load_pair(context, builder, pointer):
    loaded = builder.load(pointer)
    loaded.align = 16
    parts = [builder.extract_element(loaded, ir.Constant(_INT32, k)) for k in (0, 1)]
    return context.make_tuple(builder, _PAIR, parts)


def _vector(builder, parts):
    """A vector of two values of one type."""
    pair = ir.Constant(ir.VectorType(parts[0].type, 2), ir.Undefined)
    for k in (0, 1):
        pair = builder.insert_element(pair, parts[k], ir.Constant(_INT32, k))
    return pair


@intrinsic
def peek(typingctx, array, i):
    """array[i]."""
    if not _is_element(array, i):
        return None

    def build(context, builder, signature, args):
        data = _data(context, builder, signature, args)
        return builder.load(builder.gep(data, [args[1]], inbounds=True))

    return array.dtype(array, i), build


@intrinsic
def poke(typingctx, array, i, value):
    """array[i] = value."""
    if not _is_element(array, i):
        return None

    def build(context, builder, signature, args):
        data = _data(context, builder, signature, args)
        value = context.cast(builder, args[2], signature.args[2], array.dtype)
        builder.store(value, builder.gep(data, [args[1]], inbounds=True))
        return context.get_dummy_value()

    return types.void(array, i, value), build


@intrinsic
def peek2(typingctx, array, i):
    """(array[2 i], array[2 i + 1])."""
    if not _is_element(array, i):
        return None

    def build(context, builder, signature, args):
        pairs = _pairs(context, builder, signature, args)
        return _load_pair(context, builder, builder.gep(pairs, [args[1]], inbounds=True))

    return _PAIR(array, i), build


@intrinsic
def poke2(typingctx, array, i, first, second):
    """array[2 i], array[2 i + 1] = first, second."""
    if not _is_element(array, i):
        return None

    def build(context, builder, signature, args):
        pairs = _pairs(context, builder, signature, args)
        at = builder.gep(pairs, [args[1]], inbounds=True)
        builder.store(_vector(builder, args[2:]), at).align = 16
        return context.get_dummy_value()

    return types.void(array, i, types.uint64, types.uint64), build


@intrinsic
def load2(typingctx, array, code):
    """Pair code / 16 of 64-bit words: `code`, a multiple of 16, is the address in bytes."""
    if not _is_element(array, code):
        return None

    def build(context, builder, signature, args):
        pairs = _pairs(context, builder, signature, args)
        code = args[1]
        if code.type.width != 32:
            code = (builder.trunc if code.type.width > 32 else builder.zext)(code, _INT32)
        bytes_ = builder.bitcast(pairs, ir.IntType(8).as_pointer(pairs.type.addrspace))
        at = builder.gep(bytes_, [code], inbounds=True)
        return _load_pair(context, builder, builder.bitcast(at, pairs.type))

    return _PAIR(array, code), build


def _pin(space):
    @intrinsic
    def pin(typingctx, array):
        """The same array with its address in a register; else every access computes it again."""
        if not isinstance(array, types.Array):
            return None

        def build(context, builder, signature, args):
            pinned = context.make_array(signature.args[0])(context, builder, args[0])
            data = pinned.data
            here = ir.PointerType(data.type.pointee, space)
            address = builder.ptrtoint(builder.addrspacecast(data, here), _INT64)
            address = _asm(builder, "mov.b64 $0, $1;", "=l,l", _INT64, [address])
            pinned.data = builder.addrspacecast(builder.inttoptr(address, here), data.type)
            return pinned._getvalue()

        return array(array), build

    return pin


pinned = _pin(3)  # for arrays in shared memory
pinned_far = _pin(1)  # for arrays in global memory


# --- arithmetic ----------------------------------------------------------------------------------


def _spread(fill_32):
    """An intrinsic that copies one bit of a 32-bit word to 64 bits; fill_32 copies it to 32."""

    @intrinsic
    def spread(typingctx, word):
        if word != types.uint32:
            return None

        def build(context, builder, signature, args):
            half = fill_32(builder, args[0])
            return builder.bitcast(_vector(builder, [half, half]), _INT64)

        return types.uint64(word), build

    return spread


def _bit_15(builder, word):
    """Copy the sign of byte 1 to all four bytes."""
    return _asm(builder, "prmt.b32 $0, $1, 0, 0x9999;", "=r,r", word.type, [word])


sign = _spread(lambda builder, word: builder.ashr(word, ir.Constant(word.type, 31)))
sign_low = _spread(_bit_15)


@intrinsic
def masked(typingctx, word, mask):
    """word & mask, before any shift: LLVM would shift first, and then could fuse nothing."""
    if word != types.uint32 or not isinstance(mask, types.Integer):
        return None

    def build(context, builder, signature, args):
        mask = context.cast(builder, args[1], signature.args[1], types.uint32)
        return _asm(builder, "and.b32 $0, $1, $2;", "=r,r,r", _INT32, [args[0], mask])

    return types.uint32(word, mask), build


_MULTIPLY_ADD = """{
    .reg .u32 a, b, c, d, low, high; .reg .u64 wide;
    mov.b64 {a, b}, $1;
    mov.b64 {c, d}, $2;
    mad.wide.u32 wide, a, c, $3;
    mov.b64 {low, high}, wide;
    mad.lo.u32 high, b, c, high;
    mad.lo.u32 high, a, d, high;
    mov.b64 $0, {low, high};
}"""


@intrinsic
def multiply_add(typingctx, y, factor, more):
    """y * factor + more, all 64 bits, in three instructions: the compiler takes four to six."""
    if (y, factor, more) != (types.uint64,) * 3:
        return None

    def build(context, builder, signature, args):
        return _asm(builder, _MULTIPLY_ADD, "=l,l,l,l", _INT64, args)

    return types.uint64(y, factor, more), build


@device
def popcount(mask):
    return np.int32(cuda.popc(mask))


# --- warps, barriers, loops ----------------------------------------------------------------------


@intrinsic
def rolled(typingctx):
    """As first statement of a loop: do not unroll it. Shorter code needs fewer fetches."""

    def build(context, builder, signature, args):
        _asm(builder, r".pragma \22nounroll\22;", "", ir.VoidType(), args, side_effect=True)
        return context.get_dummy_value()

    return types.void(), build


@device
def ballot(flag):
    return np.uint32(cuda.ballot_sync(_EVERY, flag))


@device
def below(rank):
    """Mask of the threads of a warp before thread `rank`."""
    return (np.uint32(1) << np.uint32(rank)) - np.uint32(1)


@intrinsic
def _barrier(typingctx, number, threads):
    """Wait for the threads that share barrier `number`; a block has 16 barriers."""

    def build(context, builder, signature, args):
        constraints = "r,r,~{memory}"
        _asm(builder, "bar.sync $0, $1;", constraints, ir.VoidType(), args, side_effect=True)
        return context.get_dummy_value()

    return types.void(types.int32, types.int32), build


@device
def sync(team, which):
    """Wait for all `team` threads of team `which`; afterwards all see what they wrote."""
    if team == WARP:
        cuda.syncwarp()
    else:
        _barrier(np.int32(which + 1), team)


@device
def sync_warp():
    cuda.syncwarp()


@device
def sync_block():
    cuda.syncthreads()


@device
def atomic_add(array, i, value):
    return cuda.atomic.add(array, i, value)


@device
def atomic_or(array, i, value):
    return cuda.atomic.or_(array, i, value)


@device
def atomic_and(array, i, value):
    return cuda.atomic.and_(array, i, value)


@device
def atomic_max(array, i, value):
    return cuda.atomic.max(array, i, value)
