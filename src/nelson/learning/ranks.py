"""Processes that `torchrun` started, as a `ProcessGroup`: gloo on CPUs, NCCL on GPUs.

Numbers travel as tensors, everything else as JSON and safetensors: nothing is pickled. When a rank
dies its connections close, and the others notice at once; a rank that hangs is noticed after
`timeout` seconds. In both cases the others raise `Lost`.

NCCL is untested: that takes two GPUs.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import Any, TypeVar

import numpy as np

from nelson.errors import FormulaError, NelsonError
from nelson.learning.checkpoint import pack_tensors, unpack_tensors
from nelson.learning.group import ALONE, ProcessGroup, State

T = TypeVar("T")


class Lost(NelsonError):
    """Another rank died, or did not answer in time."""


def local_ranks() -> int:
    """How many ranks share this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def join(device: str = "cpu", timeout: float = 600.0) -> ProcessGroup:
    """The group of this process, as torchrun's environment says; without torchrun it is alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    return Ranks(device, timeout) if size > 1 else ALONE


def device_of_rank(device: str) -> str:
    """The device of this rank: for "cuda", the GPU with the rank's number on its machine."""
    if device == "cuda":
        return f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    if device != "cpu":
        raise FormulaError(f"device {device!r}", expected="cpu or cuda")
    return device


class Ranks(ProcessGroup):
    def __init__(self, device: str, timeout: float) -> None:
        try:
            import torch
            import torch.distributed as dist
        except ImportError as error:
            raise NelsonError(
                'several ranks need torch: pip install "nelson-mrf[torch]"'
            ) from error
        self._torch, self._dist = torch, dist
        self.device = device_of_rank(device)
        if self.device != "cpu":
            index = int(self.device.partition(":")[2])
            if index >= torch.cuda.device_count():
                raise NelsonError(
                    f"rank {index} of this machine has no GPU ({torch.cuda.device_count()} found): "
                    "start as many ranks as there are GPUs, or use --device cpu"
                )
            torch.cuda.set_device(index)
        _prefer_loopback()
        self._interrupted = False
        limit = timedelta(seconds=timeout)
        with _contact():
            from torch.distributed.rendezvous import rendezvous

            store, self.rank, self.size = next(rendezvous("env://", timeout=limit))
            # When torchrun restarts the ranks, the store may still hold addresses of the dead ones.
            attempt = f"nelson {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
            self._store = dist.distributed_c10d.PrefixStore(attempt, store)
            dist.init_process_group(
                "gloo" if self.device == "cpu" else "nccl",
                store=self._store,
                rank=self.rank,
                world_size=self.size,
                timeout=limit,
            )

    # --- the methods of ProcessGroup ---

    def sum(self, x: np.ndarray) -> np.ndarray:
        # Sums of floats are exact: all terms but one are 0.
        tensor = self._tensor(x)
        with _contact():
            self._dist.all_reduce(tensor)
            return tensor.cpu().numpy()

    def join(self, x: np.ndarray) -> np.ndarray:
        return np.frombuffer(b"".join(self._gathered(x.tobytes())), x.dtype)

    def gather(self, value: T) -> list[T]:
        return [json.loads(text) for text in self._gathered(json.dumps(value).encode())]

    def tell(self, state: State) -> State:
        data = b""
        if self.rank == 0:
            arrays, rest = state
            text = json.dumps(rest).encode()
            data = len(text).to_bytes(8, "little") + text + pack_tensors(arrays)
        sizes = self._tensor(np.array([len(data)]))
        with _contact():
            self._dist.broadcast(sizes, 0)
            padded = self._tensor(np.frombuffer(data.ljust(int(sizes[0]), b"\0"), np.uint8))
            self._dist.broadcast(padded, 0)
            data = padded.cpu().numpy().tobytes()
        end = 8 + int.from_bytes(data[:8], "little")
        return unpack_tensors(data[end:]), json.loads(data[8:end])

    def halt(self, late: bool) -> str:
        counts = self.sum(np.array([late and self.rank == 0, self._interrupted], np.int64))
        return "interrupted" if counts[1] else "late" if counts[0] else ""

    # --- signals and failures --------------------------------------------------------------------

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM end the run on all ranks, between two iterations."""

        def note(number: int, frame: FrameType | None) -> None:
            self._interrupted = True

        before = {n: signal.signal(n, note) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def fails_first(self) -> bool:
        """Whether this rank is the first to fail; failures of the others follow from it."""
        try:
            self._store.set_timeout(timedelta(seconds=5))  # the store may be gone
            return int(self._store.add("failed", 1)) == 1
        except RuntimeError:  # the store is gone with the rank that held it
            return True

    def leave(self) -> None:
        self._dist.destroy_process_group()

    def _tensor(self, x: np.ndarray) -> Any:
        """A copy of x on the device: collectives work in place."""
        return self._torch.from_numpy(np.array(x, order="C")).to(self.device)

    def _gathered(self, data: bytes) -> list[bytes]:
        """The bytes of all ranks; on the way each is padded to the longest."""
        sizes = np.zeros(self.size, np.int64)
        sizes[self.rank] = len(data)
        sizes = self.sum(sizes)
        longest = int(sizes.max())
        mine = self._tensor(np.frombuffer(data.ljust(longest, b"\0"), np.uint8))
        padded = [self._torch.empty_like(mine) for _ in range(self.size)]
        with _contact():
            self._dist.all_gather(padded, mine)
            return [
                tensor.cpu().numpy()[:size].tobytes()
                for tensor, size in zip(padded, sizes.tolist(), strict=True)
            ]


@contextmanager
def _contact() -> Iterator[None]:
    """Turns errors of torch.distributed into `Lost`."""
    try:
        yield
    except RuntimeError as error:  # torch has no narrower type that all backends raise
        reason = re.sub(r"^\[[^]]*\]\s*", "", " ".join(str(error).split()))  # drops [file:line]
        raise Lost(f"contact with another rank was lost: {reason[:120]}") from None


def _prefer_loopback() -> None:
    """If all ranks are on one machine they use its loopback interface, not its host name."""
    if local_ranks() == int(os.environ["WORLD_SIZE"]):
        names = {name for _, name in socket.if_nameindex()}
        for name in ("lo", "lo0"):
            if name in names:
                os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
                return
