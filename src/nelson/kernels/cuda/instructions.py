"""Instructions of a GPU that Numba has no name for, or that its compiler would not choose."""

import numpy as np
from llvmlite import ir
from numba import cuda, types
from numba.cuda.extending import intrinsic

WARP = 32
_EVERY = 0xFFFFFFFF
#: Registers of a thread: so many that 768 threads fit on a multiprocessor.
REGISTERS = 80

device = cuda.jit(device=True, forceinline=True)


def kernel(function):
    return cuda.jit(cache=True, max_registers=REGISTERS)(function)


@intrinsic
def peek(typingctx, array, i):
    """array[i] without a test for negative i."""
    if not isinstance(array, types.Array) or not isinstance(i, types.Integer):
        return None

    def build(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load(builder.gep(data, [args[1]], inbounds=True))

    return array.dtype(array, i), build


@intrinsic
def poke(typingctx, array, i, value):
    """array[i] = value without a test for negative i."""
    if not isinstance(array, types.Array) or not isinstance(i, types.Integer):
        return None

    def build(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        value = context.cast(builder, args[2], signature.args[2], array.dtype)
        builder.store(value, builder.gep(data, [args[1]], inbounds=True))
        return context.get_dummy_value()

    return types.void(array, i, value), build


def _pairs(context, builder, array_type, array):
    """The data of an array of 64-bit words as pairs, which one instruction loads or stores."""
    data = context.make_array(array_type)(context, builder, array).data
    pair = ir.VectorType(ir.IntType(64), 2)
    return builder.bitcast(data, pair.as_pointer(data.type.addrspace))


def _load_pair(context, builder, pointer):
    loaded = builder.load(pointer)
    loaded.align = 16
    parts = [builder.extract_element(loaded, ir.Constant(ir.IntType(32), k)) for k in (0, 1)]
    return context.make_tuple(builder, types.UniTuple(types.uint64, 2), parts)


@intrinsic
def peek2(typingctx, array, i):
    """(array[2 i], array[2 i + 1])."""
    if not isinstance(array, types.Array) or not isinstance(i, types.Integer):
        return None

    def build(context, builder, signature, args):
        pairs = _pairs(context, builder, signature.args[0], args[0])
        return _load_pair(context, builder, builder.gep(pairs, [args[1]], inbounds=True))

    return types.UniTuple(types.uint64, 2)(array, i), build


@intrinsic
def poke2(typingctx, array, i, first, second):
    """array[2 i], array[2 i + 1] = first, second."""
    if not isinstance(array, types.Array) or not isinstance(i, types.Integer):
        return None

    def build(context, builder, signature, args):
        pairs = _pairs(context, builder, signature.args[0], args[0])
        value = ir.Constant(ir.VectorType(ir.IntType(64), 2), ir.Undefined)
        for k in (0, 1):
            value = builder.insert_element(value, args[2 + k], ir.Constant(ir.IntType(32), k))
        stored = builder.store(value, builder.gep(pairs, [args[1]], inbounds=True))
        stored.align = 16
        return context.get_dummy_value()

    return types.void(array, i, types.uint64, types.uint64), build


@intrinsic
def load2(typingctx, array, code):
    """Pair code / 16 of 64-bit words: code is its address already, a multiple of 16."""
    if not isinstance(array, types.Array) or not isinstance(code, types.Integer):
        return None

    def build(context, builder, signature, args):
        pairs = _pairs(context, builder, signature.args[0], args[0])
        int32 = ir.IntType(32)
        code = args[1]
        if code.type.width != 32:
            code = (builder.trunc if code.type.width > 32 else builder.zext)(code, int32)
        bytes_ = builder.bitcast(pairs, ir.IntType(8).as_pointer(pairs.type.addrspace))
        at = builder.gep(bytes_, [code], inbounds=True)
        return _load_pair(context, builder, builder.bitcast(at, pairs.type))

    return types.UniTuple(types.uint64, 2)(array, code), build


def _twice(builder, half):
    """A 32-bit word in both halves of 64 bits."""
    int32 = ir.IntType(32)
    pair = ir.Constant(ir.VectorType(int32, 2), ir.Undefined)
    for k in (0, 1):
        pair = builder.insert_element(pair, half, ir.Constant(int32, k))
    return builder.bitcast(pair, ir.IntType(64))


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


def _spread(in_all_of_32):
    """One bit of a 32-bit word in all of 64 bits, from one that has it in all of 32."""

    @intrinsic
    def spread(typingctx, word):
        if word != types.uint32:
            return None

        def build(context, builder, signature, args):
            return _twice(builder, in_all_of_32(builder, args[0]))

        return types.uint64(word), build

    return spread


def _bit_15(builder, word):
    """The sign of byte 1, four times."""
    function = ir.FunctionType(word.type, [word.type])
    code = ir.InlineAsm(function, "prmt.b32 $0, $1, 0, 0x9999;", "=r,r")
    return builder.call(code, [word])


sign = _spread(lambda builder, word: builder.ashr(word, ir.Constant(word.type, 31)))
sign_low = _spread(_bit_15)


@intrinsic
def masked(typingctx, word, mask):
    """word & mask, first of all: LLVM would shift before, and then nothing can be fused."""
    if word != types.uint32 or not isinstance(mask, types.Integer):
        return None

    def build(context, builder, signature, args):
        int32 = ir.IntType(32)
        asm = ir.InlineAsm(ir.FunctionType(int32, [int32, int32]), "and.b32 $0, $1, $2;", "=r,r,r")
        mask = context.cast(builder, args[1], signature.args[1], types.uint32)
        return builder.call(asm, [args[0], mask])

    return types.uint32(word, mask), build


@intrinsic
def multiply_add(typingctx, y, factor, more):
    """y * factor + more, all 64 bits, in three instructions: the compiler takes four to six."""
    if (y, factor, more) != (types.uint64,) * 3:
        return None

    def build(context, builder, signature, args):
        int64 = ir.IntType(64)
        function = ir.FunctionType(int64, [int64] * 3)
        return builder.call(ir.InlineAsm(function, _MULTIPLY_ADD, "=l,l,l,l"), args)

    return types.uint64(y, factor, more), build


def _pin(space):
    @intrinsic
    def pin(typingctx, array):
        """The same array, its address in a register: else every access adds up its parts."""
        if not isinstance(array, types.Array):
            return None

        def build(context, builder, signature, args):
            pinned = context.make_array(signature.args[0])(context, builder, args[0])
            data, int64 = pinned.data, ir.IntType(64)
            here = ir.PointerType(data.type.pointee, space)
            address = builder.ptrtoint(builder.addrspacecast(data, here), int64)
            move = ir.InlineAsm(ir.FunctionType(int64, [int64]), "mov.b64 $0, $1;", "=l,l")
            address = builder.inttoptr(builder.call(move, [address]), here)
            pinned.data = builder.addrspacecast(address, data.type)
            return pinned._getvalue()

        return array(array), build

    return pin


pinned, pinned_far = _pin(3), _pin(1)  # of shared memory, of global memory


@intrinsic
def rolled(typingctx):
    """First in a loop: it is not unrolled. Code that is not there need not be fetched."""

    def build(context, builder, signature, args):
        function = ir.FunctionType(ir.VoidType(), [])
        code = ir.InlineAsm(function, r".pragma \22nounroll\22;", "", side_effect=True)
        builder.call(code, args)
        return context.get_dummy_value()

    return types.void(), build


@device
def ballot(flag):
    return np.uint32(cuda.ballot_sync(_EVERY, flag))


@device
def popcount(mask):
    return np.int32(cuda.popc(mask))


@device
def below(lane):
    """The threads of a warp before this one."""
    return (np.uint32(1) << np.uint32(lane)) - np.uint32(1)


@intrinsic
def _barrier(typingctx, number, threads):
    """Wait for the threads that share a barrier: there are 16 a block."""

    def build(context, builder, signature, args):
        function = ir.FunctionType(ir.VoidType(), [ir.IntType(32), ir.IntType(32)])
        code = ir.InlineAsm(function, "bar.sync $0, $1;", "r,r,~{memory}", side_effect=True)
        builder.call(code, args)
        return context.get_dummy_value()

    return types.void(types.int32, types.int32), build


@device
def sync(team, which):
    """Wait for all threads of team `which`; what they wrote can be read."""
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
