"""Samples in a GPU's memory: the same interface as `Samples`, and no copy until one is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nelson.kernels.core.bits import tail_mask
from nelson.sampling.samples import Samples


@dataclass(frozen=True, eq=False, repr=False)
class DeviceSamples(Samples):
    """`Samples` whose packed words are in a GPU's memory.

    packed     a flat device array of 64-bit words. torch.as_tensor(samples), CuPy and everything
               else that reads `__cuda_array_interface__` or DLPack sees int64 of shape (words, n)
               or (contexts, words, n), without a copy
    to_torch   zeros and ones as a tensor, unpacked on the GPU
    mean       by popcount on the GPU
    host       the same samples in the host's memory
    """

    packed_shape: tuple[int, ...] = ()  # (words, n) or (contexts, words, n)
    gpu: Any = None

    @property
    def contexts(self) -> int | None:
        return self.packed_shape[0] if len(self.packed_shape) == 3 else None

    @property
    def _sizes(self) -> tuple[int, int, int]:
        """(contexts, words, columns)."""
        return (1, *self.packed_shape) if len(self.packed_shape) == 2 else self.packed_shape  # type: ignore[return-value]

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        words: Any = self.packed
        interface = dict(words.__cuda_array_interface__)
        interface.update(shape=self.packed_shape, typestr="<i8", strides=None)
        if 0 in self.packed_shape:
            interface["data"] = (0, False)
        return interface

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.gpu.index)  # kDLCUDA

    def _tensor(self) -> Any:
        import torch

        return torch.as_tensor(self, device=f"cuda:{self.gpu.index}")

    def host(self) -> Samples:
        """These samples in the host's memory."""
        contexts, words, columns = self._sizes
        flat = self.gpu.get(self.packed)[: contexts * words * columns]
        packed = flat.view(np.uint64).reshape(self.packed_shape)
        if self.count % 64 and packed.size:  # lanes behind the last sample hold anything
            packed[..., -1, :] &= tail_mask(self.count % 64)
        return Samples(
            packed, self.count, self.variables, self.guarantee, self.status, dict(self.info)
        )

    def to_numpy(self) -> np.ndarray:
        return self.host().to_numpy()

    def mean(self) -> np.ndarray:
        """Marginals by popcount on the GPU: (n,), or (contexts, n)."""
        from nelson.kernels.cuda import bits

        contexts, words, columns = self._sizes
        (ones,) = self.gpu.lend([np.zeros(max(1, contexts * columns), np.int64)])
        full = self.count // 64  # full words; the lanes of the last word are counted on the host
        if full:
            view = self.packed
            if full == words:
                bits.count(view, contexts, words, columns, ones, self.gpu.stream)
            else:
                for k in range(contexts):
                    at, into = k * words * columns, k * columns
                    bits.count(
                        view[at:], 1, full, columns, ones[into : into + columns], self.gpu.stream
                    )
        total = self.gpu.get(ones)[: contexts * columns].reshape(contexts, columns)
        if self.count % 64:
            mask = tail_mask(self.count % 64)
            for k in range(contexts):
                at = (k * words + full) * columns
                last = self.gpu.get(self.packed[at : at + columns]).view(np.uint64)
                total[k] += np.bitwise_count(last & mask)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = total / np.float64(self.count)
        return mean if len(self.packed_shape) == 3 else mean[0]

    def to_torch(self, dtype: Any = None) -> Any:
        """(m, n), or (contexts, m, n): zeros and ones of any dtype (uint8), on the GPU."""
        import torch

        from nelson.kernels.cuda import bits

        contexts, words, columns = self._sizes
        dtype = torch.uint8 if dtype is None else dtype
        # Numba has no arrays for torch's half precision types: those are converted from bytes.
        plain = dtype if dtype in (torch.uint8, torch.float32, torch.float64) else torch.uint8
        shape = (contexts, self.count, columns)
        out = torch.empty(shape, dtype=plain, device=f"cuda:{self.gpu.index}")
        if out.numel():
            flat = self.gpu.cuda.as_cuda_array(out.reshape(-1))
            bits.unpack(self.packed, contexts, words, columns, self.count, flat, self.gpu.stream)
        out = out if plain == dtype else out.to(dtype)
        return out if len(self.packed_shape) == 3 else out[0]

    def __repr__(self) -> str:
        shape = " x ".join(map(str, [*self.packed_shape[:-2], self.count, len(self.variables)]))
        device, method = self.info.get("device", "cuda"), self.info.get("method", "?")
        return f"Samples({shape}, {self.guarantee}, {self.status}, method={method!r}, {device})"
