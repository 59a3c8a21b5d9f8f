"""One GPU: whether it exists, its memory, its stream.

If torch is in use, work goes to torch's current stream and memory comes from torch's allocator:
freeing a buffer of another allocator would stall the GPU.
"""

from __future__ import annotations

import sys
import threading
from functools import cache
from typing import Any

import numpy as np

from nelson.errors import NelsonError

#: Draws below this number of bytes do not ask for the free memory: the question takes longer.
_SMALL_DRAW_BYTES = 1 << 28
#: Empty arrays to pass as scratch space, by the number of the GPU.
_NO_SCRATCH: dict[int, tuple[Any, ...]] = {}
#: Buffers of uploads up to this size are kept for the next upload of the same shape.
_MAX_KEPT_BYTES = 1 << 20
#: Buffers kept per thread.
_MAX_KEPT_BUFFERS = 8


class _UploadBuffers(threading.local):
    """Buffers of this thread's uploads: to make an array of Numba takes longer than to fill it."""

    def __init__(self) -> None:
        self.held: dict[Any, tuple[Any, tuple[Any, ...]]] = {}


_buffers = _UploadBuffers()


@cache
def _open(index: int) -> Any:
    """The launch module, if GPU `index` exists; else NelsonError says what is missing."""
    try:
        from nelson.kernels.cuda import launch as cuda_launch
    except ImportError as error:
        raise NelsonError(
            f'device="cuda" needs numba-cuda ({error}): pip install "nelson-mrf[cuda]"'
        ) from error
    from numba import cuda

    from nelson.kernels.cuda.setup import SIMULATED

    if not SIMULATED:
        try:
            gpus = len(cuda.gpus)
        except Exception as error:  # the driver's errors have no common type
            gpus, why = 0, " ".join(str(error).split()).split(". ")[0][:100] or "none"
        else:
            why = f"{gpus} found"
        if index >= gpus:
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


class Gpu:
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
        """Torch's current stream. Samples drawn on another stream are complete: a draw waits."""
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
        """Copies of one-dimensional arrays, in one transfer.

        The caller may use them until this thread calls `lend` again with the same sizes.
        """
        ends = np.cumsum([-(-array.nbytes // 8) * 8 for array in arrays]).tolist()
        host, begins = np.zeros(ends[-1], np.uint8), [0, *ends[:-1]]
        for begin, array in zip(begins, arrays, strict=True):
            host[begin : begin + array.nbytes] = array.view(np.uint8)
        key = self.index, self.torch is None, *((array.dtype, array.size) for array in arrays)
        whole, parts = _buffers.held.get(key) or self._place(len(host), begins, arrays)
        if len(host) <= _MAX_KEPT_BYTES and key not in _buffers.held:
            if len(_buffers.held) >= _MAX_KEPT_BUFFERS:
                _buffers.held.pop(next(iter(_buffers.held)))
            _buffers.held[key] = whole, parts
        if self.torch is None:
            whole.copy_to_device(host)
        else:
            whole.copy_(self.torch.from_numpy(host), non_blocking=True)
        return parts

    def _place(self, size: int, begins: list[int], arrays: list[np.ndarray]) -> tuple[Any, tuple]:
        """A buffer from torch or Numba, and Numba's views of it, one for each array."""
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
        """Work space in global memory: 64-bit words, the same as 32-bit words, more 32-bit words.

        A kernel that needs none still has to be given arrays: those are kept.
        """
        if size64 or self.index not in _NO_SCRATCH:
            wide = self.empty(size64, np.uint64)
            space = wide, wide.view(np.uint32), self.empty(size32, np.uint32)
            if size64:
                return space
            _NO_SCRATCH[self.index] = space
        return _NO_SCRATCH[self.index]

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
        """Raise an error with advice if there is too little memory, before the driver does."""
        if self.simulated or wanted < _SMALL_DRAW_BYTES:
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
