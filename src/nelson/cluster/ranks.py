"""Processes that `torchrun` started, as a `Group`: gloo on CPUs, NCCL on GPUs.

Numbers travel as tensors, everything else as JSON and safetensors: nothing is pickled. A rank that
is gone closes its connections, which the others notice at once; one that hangs is noticed after
`timeout` seconds. Either way they raise `Lost`.

NCCL is untested: no test here has two GPUs to run on.
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
from nelson.learning.group import ALONE, Group, State

T = TypeVar("T")
_LAST_WORDS = 5.0  # seconds to find out who fails first


class Lost(NelsonError):
    """Another rank is gone, or has not answered in time."""


def local_ranks() -> int:
    """How many ranks share this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def join(device: str = "cpu", timeout: float = 600.0) -> Group:
    """The group that this process is one of; one process if nobody said otherwise."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    return Ranks(device, timeout) if size > 1 else ALONE


def device_of_rank(device: str) -> str:
    """ "cuda" is the GPU with the rank's number on its machine."""
    if device == "cuda":
        return f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    if device != "cpu":
        raise FormulaError(f"device {device!r}", expected="cpu or cuda")
    return device


class Ranks(Group):
    def __init__(self, device: str, timeout: float) -> None:
        try:
            import torch
            import torch.distributed as dist
        except ImportError as error:
            raise NelsonError('several ranks need torch: pip install "nelson[torch]"') from error
        self._torch, self._dist = torch, dist
        self.device = device_of_rank(device)
        if self.device != "cpu":
            index = int(self.device.partition(":")[2])
            if index >= torch.cuda.device_count():
                raise NelsonError(
                    f"rank {index} of this machine has no GPU ({torch.cuda.device_count()} found): "
                    "as many ranks as GPUs, or --device cpu"
                )
            torch.cuda.set_device(index)
        _stay_at_home()
        self._signal = 0
        limit = timedelta(seconds=timeout)
        with _contact():
            from torch.distributed.rendezvous import rendezvous

            store, self.rank, self.size = next(rendezvous("env://", timeout=limit))
            # torchrun that restarts its ranks may keep the store, with the addresses of the dead.
            attempt = f"nelson {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
            self._store = dist.distributed_c10d.PrefixStore(attempt, store)
            dist.init_process_group(
                "gloo" if self.device == "cpu" else "nccl",
                store=self._store,
                rank=self.rank,
                world_size=self.size,
                timeout=limit,
            )

    # --- what a Group does -----------------------------------------------------------------------

    def sum(self, x: np.ndarray) -> np.ndarray:
        # A copy: the sum is made in place. Sums of floats have one term that is not 0.
        there = self._torch.from_numpy(np.array(x, order="C")).to(self.device)
        with _contact():
            self._dist.all_reduce(there)
            return there.cpu().numpy()

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
            size = int(sizes[0])
            bytes_ = self._tensor(np.frombuffer(data.ljust(size, b"\0"), np.uint8))
            self._dist.broadcast(bytes_, 0)
            data = bytes_.cpu().numpy().tobytes()
        end = 8 + int.from_bytes(data[:8], "little")
        return unpack_tensors(data[end:]), json.loads(data[8:end])

    def halt(self, late: bool) -> str:
        seen = self.sum(np.array([late and self.rank == 0, self._signal != 0], np.int64))
        return "interrupted" if seen[1] else "late" if seen[0] else ""

    # --- beyond that -----------------------------------------------------------------------------

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM are noted, and end the run between two iterations, on all ranks."""

        def note(number: int, frame: FrameType | None) -> None:
            self._signal = number

        before = {n: signal.signal(n, note) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def fails_first(self) -> bool:
        """Is this the first rank to fail? What happens to others afterwards follows from it."""
        try:
            self._store.set_timeout(timedelta(seconds=_LAST_WORDS))
            return int(self._store.add("failed", 1)) == 1
        except RuntimeError:  # nobody there to ask
            return True

    def leave(self) -> None:
        self._dist.destroy_process_group()

    def _tensor(self, x: np.ndarray) -> Any:
        return self._torch.from_numpy(np.array(x)).to(self.device)

    def _gathered(self, data: bytes) -> list[bytes]:
        """The bytes of all ranks, each padded to the longest on the way."""
        sizes = np.zeros(self.size, np.int64)
        sizes[self.rank] = len(data)
        sizes = self.sum(sizes)
        longest = int(sizes.max())
        mine = self._tensor(np.frombuffer(data.ljust(longest, b"\0"), np.uint8))
        parts = [self._torch.empty_like(mine) for _ in range(self.size)]
        with _contact():
            self._dist.all_gather(parts, mine)
            return [
                part.cpu().numpy()[:size].tobytes()
                for part, size in zip(parts, sizes.tolist(), strict=True)
            ]


@contextmanager
def _contact() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # torch has no narrower type that all backends raise
        what = re.sub(r"^\[[^]]*\]\s*", "", " ".join(str(error).split()))  # file and line, theirs
        raise Lost(f"contact with another rank was lost: {what[:120]}") from None


def _stay_at_home() -> None:
    """Ranks of one machine talk over its loopback, whatever its name resolves to."""
    if local_ranks() == int(os.environ["WORLD_SIZE"]):
        names = {name for _, name in socket.if_nameindex()}
        for name in ("lo", "lo0"):
            if name in names:
                os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
                return
