"""The instructions of `lanes.py` under names that load neither Numba nor LLVM.

They exist as machine code only: a kernel that uses one of them is never interpreted.
"""

from nelson.kernels.core.compile import only_compiled

#: As in `lanes.py`: words of a row, and lanes in it.
WIDTH, LANES = 8, 16

_LANES = "nelson.kernels.cpu.lanes"

add_where = only_compiled(_LANES, "add_where")
below = only_compiled(_LANES, "below")
heat_bath = only_compiled(_LANES, "heat_bath")
load_signed = only_compiled(_LANES, "load_signed")
most = only_compiled(_LANES, "most")
numbers = only_compiled(_LANES, "numbers")
plus = only_compiled(_LANES, "plus")
share_of = only_compiled(_LANES, "share_of")
weight = only_compiled(_LANES, "weight")
where = only_compiled(_LANES, "where")
