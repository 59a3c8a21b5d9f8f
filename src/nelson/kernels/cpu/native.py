"""The instructions of `lanes.py` and `lane_bytes.py`, under names that load no LLVM."""

from nelson.kernels.core.compile import instruction

#: Words of a row, and lanes of 32 bits in it.
WIDTH, LANES = 8, 16
#: A table that `lookup` reads: one entry for each value of six bits.
ENTRIES = 64

_LANES, _BYTES = "nelson.kernels.cpu.lanes", "nelson.kernels.cpu.lane_bytes"

below = instruction(_LANES, "below")
most = instruction(_LANES, "most")
numbers = instruction(_LANES, "numbers")
plus = instruction(_LANES, "plus")
share_of = instruction(_LANES, "share_of")
threshold = instruction(_LANES, "threshold")
weight = instruction(_LANES, "weight")
where = instruction(_LANES, "where")

compare_bytes = instruction(_BYTES, "compare_bytes")
lookup = instruction(_BYTES, "lookup")
plus_bytes = instruction(_BYTES, "plus_bytes")
store_bytes = instruction(_BYTES, "store_bytes")
where_bytes = instruction(_BYTES, "where_bytes")
