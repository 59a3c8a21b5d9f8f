"""The instructions of `lanes.py` and `lane_bytes.py` under names that load neither Numba nor LLVM.

They exist as machine code only: a kernel that uses one of them is never interpreted.
"""

from nelson.kernels.core.compile import only_compiled

#: Words of a row, and lanes of 32 bits in it.
WIDTH, LANES = 8, 16
#: A table that `lookup` reads: one entry for each value of six bits.
ENTRIES = 64

_LANES, _BYTES = "nelson.kernels.cpu.lanes", "nelson.kernels.cpu.lane_bytes"

below = only_compiled(_LANES, "below")
most = only_compiled(_LANES, "most")
numbers = only_compiled(_LANES, "numbers")
plus = only_compiled(_LANES, "plus")
share_of = only_compiled(_LANES, "share_of")
threshold = only_compiled(_LANES, "threshold")
weight = only_compiled(_LANES, "weight")
where = only_compiled(_LANES, "where")

compare_bytes = only_compiled(_BYTES, "compare_bytes")
lookup = only_compiled(_BYTES, "lookup")
plus_bytes = only_compiled(_BYTES, "plus_bytes")
store_bytes = only_compiled(_BYTES, "store_bytes")
where_bytes = only_compiled(_BYTES, "where_bytes")
