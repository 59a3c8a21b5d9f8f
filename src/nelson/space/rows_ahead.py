"""Rows that are drawn ahead, for each evidence that is asked for in turn.

A state machine asks for one row given what happened before: the same few hundred evidences come
again and again. Each has a stream of rows, drawn in blocks; a row out of a block costs about a
microsecond. The blocks that wait take at most MEMORY bytes, about: the stream that was not used for
longest is given up, and begins anew with other random numbers when it is asked for again.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any

#: Of all rows that wait: a value is one of a list; a stream has a plan and a block of samples.
MEMORY, VALUE_BYTES, STREAM_BYTES = 64 << 20, 16, 32 << 10
#: Rows of a stream that are drawn at once: a block costs a third of a millisecond.
BLOCK = 256

Row = dict[str, Any]


class RowsAhead:
    """The streams of one plan. Threads may share it."""

    def __init__(
        self, stream: Callable[[Any, int], Iterator[Row]], fields: int, seed: int | None
    ) -> None:
        """stream: (evidence, seed) -> rows without end. seed: None draws one."""
        self._stream, self._seed = stream, secrets.randbits(63) if seed is None else int(seed)
        self.most = max(1, MEMORY // (BLOCK * VALUE_BYTES * fields + STREAM_BYTES))  # streams
        self._streams: OrderedDict[Hashable, Iterator[Row]] = OrderedDict()
        self._begun: dict[Hashable, int] = {}  # how often the stream of an evidence began
        self._lock = threading.Lock()

    def next(self, key: Hashable, evidence: Any) -> Row:
        """The next row of an evidence. key: what tells it from others."""
        with self._lock:
            stream = self._streams.get(key)
            if stream is None:
                begun = self._begun[key] = self._begun.get(key, 0) + 1
                named = hashlib.sha256(repr((self._seed, key, begun)).encode()).digest()
                stream = self._stream(evidence, int.from_bytes(named[:8]) >> 1)
                self._streams[key] = stream
                if len(self._streams) > self.most:
                    self._streams.popitem(last=False)
            else:
                self._streams.move_to_end(key)
            return next(stream)
