"""One GPU: whether it is there, its memory, its stream.

Work goes to torch's current stream where torch is in use, and memory comes from torch's allocator
then: freeing a buffer would otherwise stop the card.
"""

from __future__ import annotations

import sys
import threading
from functools import cache
from typing import Any

import numpy as np

from nelson.errors import FormulaError, NelsonError

#: Bytes of a draw that is not worth the question how much memory is free.
_SMALL = 1 << 28
#: Arrays of nothing, three a GPU.
_NOTHING: dict[int, tuple[Any, ...]] = {}
#: Bytes of an upload whose place on the card is kept, and how many of them.
_KEPT_BYTES, _KEPT = 1 << 20, 8


class _Places(threading.local):
    """Where a thread's uploads lie, for the next ones of the same shape: to make one of Numba's
    arrays takes longer than to fill it.
    """

    def __init__(self) -> None:
        self.held: dict[Any, tuple[Any, tuple[Any, ...]]] = {}


_places = _Places()


def number(device: Any) -> int | None:
    """Which GPU is meant: "cuda", "cuda:1", a torch.device; None is the CPU."""
    if device is None or str(device) == "cpu":
        return None
    kind, _, index = str(device).partition(":")
    if kind != "cuda" or not (index == "" or index.isdigit()):
        raise FormulaError(f"device={device!r}", expected='"cpu", "cuda" or "cuda:N"')
    return int(index or 0)


@cache
def _open(index: int) -> Any:
    """The launch module, with GPU `index` selected; or an error that says what is missing."""
    try:
        from nelson.kernels.cuda import launch as cuda_launch
    except ImportError as error:
        raise NelsonError(
            f'device="cuda" needs numba-cuda ({error}): pip install "nelson[cuda]"'
        ) from error
    from numba import cuda

    from nelson.kernels.cuda.setup import SIMULATED

    if not SIMULATED:
        try:
            found = len(cuda.gpus)
        except Exception as error:  # the driver's errors have no common type
            found, why = 0, " ".join(str(error).split()).split(". ")[0][:100] or "none"
        else:
            why = f"{found} found"
        if index >= found:
            raise NelsonError(
                f'device="cuda:{index}": no such NVIDIA GPU ({why}); device="cpu" draws the same '
                "samples"
            )
    return cuda_launch


def available() -> bool:
    try:
        _open(0)
    except NelsonError:
        return False
    return True


class Card:
    """One GPU: memory, streams, launches."""

    def __init__(self, index: int) -> None:
        self.launch = _open(index)
        from numba import cuda

        from nelson.kernels.cuda.setup import SIMULATED

        self.index, self.cuda, self.simulated = index, cuda, SIMULATED
        if not SIMULATED:
            cuda.select_device(index)
        torch = sys.modules.get("torch")
        usable = torch is not None and not SIMULATED and torch.cuda.is_available()
        self.torch: Any = torch if usable else None

    @property
    def stream(self) -> Any:
        """Torch's current one, also if samples were drawn on another: they have been waited for."""
        if self.torch is None:
            return 0
        handle = self.torch.cuda.current_stream(self.index).cuda_stream
        return self.cuda.external_stream(handle) if handle else 0

    def empty(self, size: int, dtype: type) -> Any:
        """An uninitialised array of one axis."""
        if self.torch is None:
            return self.cuda.device_array(max(1, size), dtype)
        bytes_ = max(1, size) * np.dtype(dtype).itemsize
        tensor = self.torch.empty(bytes_, dtype=self.torch.uint8, device=f"cuda:{self.index}")
        return self.cuda.as_cuda_array(tensor).view(dtype)

    def put(self, array: np.ndarray) -> Any:
        array = np.ascontiguousarray(array).reshape(-1)
        if self.torch is None:
            return self.cuda.to_device(array, stream=self.stream)
        there = self.torch.from_numpy(array.view(np.uint8)).to(f"cuda:{self.index}")
        return self.cuda.as_cuda_array(there).view(array.dtype)

    def lend(self, arrays: list[np.ndarray]) -> tuple[Any, ...]:
        """Copies of arrays of one axis, in one transfer. They are the caller's until this thread
        asks for others of the same sizes.
        """
        ends = np.cumsum([-(-array.nbytes // 8) * 8 for array in arrays]).tolist()
        host, begins = np.zeros(ends[-1], np.uint8), [0, *ends[:-1]]
        for begin, array in zip(begins, arrays, strict=True):
            host[begin : begin + array.nbytes] = array.view(np.uint8)
        key = self.index, self.torch is None, *((array.dtype, array.size) for array in arrays)
        whole, parts = _places.held.get(key) or self._place(len(host), begins, arrays)
        if len(host) <= _KEPT_BYTES and key not in _places.held:
            if len(_places.held) >= _KEPT:
                _places.held.pop(next(iter(_places.held)))
            _places.held[key] = whole, parts
        if self.torch is None:
            whole.copy_to_device(host)
        else:
            whole.copy_(self.torch.from_numpy(host), non_blocking=True)
        return parts

    def _place(self, size: int, begins: list[int], arrays: list[np.ndarray]) -> tuple[Any, tuple]:
        """Memory, torch's or Numba's, and arrays of Numba's in it."""
        if self.torch is None:
            whole = there = self.cuda.device_array(size, np.uint8)
        else:
            whole = self.torch.empty(size, dtype=self.torch.uint8, device=f"cuda:{self.index}")
            there = self.cuda.as_cuda_array(whole)
        return whole, tuple(
            there[begin : begin + array.nbytes].view(array.dtype)
            for begin, array in zip(begins, arrays, strict=True)
        )

    def scratch(self, size64: int, size32: int) -> tuple[Any, ...]:
        """Work space in global memory: words of 64 bits, their halves, words of 32 bits; if none is
        needed, something to pass for it.
        """
        if size64 or self.index not in _NOTHING:
            wide = self.empty(size64, np.uint64)
            space = wide, wide.view(np.uint32), self.empty(size32, np.uint32)
            if size64:
                return space
            _NOTHING[self.index] = space
        return _NOTHING[self.index]

    def get(self, array: Any) -> np.ndarray:
        return array.copy_to_host(stream=0 if self.simulated else self.stream)

    def wait(self) -> None:
        if self.simulated:
            return
        stream = self.stream
        if stream == 0:
            self.cuda.synchronize()
        else:
            stream.synchronize()

    def require(self, wanted: int, what: str) -> None:
        """An error before the driver's own, if there is too little memory. To ask takes longer than
        a small draw does.
        """
        if self.simulated or wanted < _SMALL:
            return
        free = self.cuda.current_context().get_memory_info().free
        if self.torch is not None:
            held = self.torch.cuda.memory_reserved(self.index)
            free += held - self.torch.cuda.memory_allocated(self.index)
        if wanted > free:
            raise NelsonError(
                f"{what} take {wanted / 2**30:.1f} GiB, the GPU has {free / 2**30:.1f} GiB free: "
                "ask for fewer at a time (nelson.stream), or for fewer variables (project=)"
            )
