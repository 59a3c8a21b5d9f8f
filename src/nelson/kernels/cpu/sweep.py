"""One heat-bath sweep inside the valid space.

From a valid state, variable v is redrawn in those lanes where each of its clauses holds without it:
there its conditional law given all others is Bernoulli(p_v), elsewhere its value is forced. So
P_theta(. | C) is stationary, and a valid lane stays valid. To look at a clause "without v", v's own
row is first set to the value that makes its literal false. Variables of one colour class share no
clause, so their undecided lanes may wait until the end of a block.

A lane that violates a clause keeps violating it: no variable of that clause is free there.
"""

from nelson.kernels.core.bernoulli import draw, rows_for
from nelson.kernels.core.compile import inline
from nelson.kernels.core.vector import any_lane, load, ones, peek, poke, store, zeros
from nelson.kernels.cpu.rounds import finish_queue
from nelson.kernels.cpu.state import BLOCK, stream, violated


@inline
def sweep(tag, p, law, row, s, round, moved):
    """One heat-bath update of every variable of `order`, inside the valid space."""
    key1, every, none = load(tag, s.constants, 3), ones(tag), zeros(tag)
    wanted = load(tag, s.constants, 4)
    h = rows_for(64.0 * len(tag), law.max_rows)
    for c in range(p.n_classes):
        end = peek(p.class_ptr, c + 1)
        for first in range(peek(p.class_ptr, c), end, BLOCK):
            queued = 0
            for q in range(first, min(end, first + BLOCK)):
                v = peek(p.order, q)
                old, stuck = load(tag, s.x, v), none
                start, middle = peek(p.occ_ptr, v), peek(p.occ_mid, v)
                store(s.x, v, none)  # no literal of v holds: first its positive clauses, ..
                for e in range(start, peek(p.occ_ptr, v + 1)):
                    if e == middle:
                        store(s.x, v, every)  # .. then its negative ones
                    stuck = stuck | violated(tag, every, p.clause_ptr, p.lits, s, peek(p.occ, e))
                undecided, value = draw(
                    tag, law, row + v, stream(tag, p, s, round, v), key1, ~stuck, h
                )
                store(s.x, v, (old & (stuck | undecided)) | value)
                store(s.queue_rows, queued, undecided)
                poke(s.queue, queued, v)
                queued += int(any_lane(undecided))
                if any_lane(wanted & ~stuck):  # threads share `moved`: only ever set
                    poke(moved, v, 1)
            finish_queue(tag, p, law, row, s, round, h, queued, False, 0)
