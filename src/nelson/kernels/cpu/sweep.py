"""One heat-bath sweep inside the valid space.

From a valid state, variable v is redrawn in the lanes where each of its clauses holds without it.
There its conditional distribution given all other variables is Bernoulli(p_v); elsewhere its value
is forced. So P_theta(. | C) is stationary, and a valid lane stays valid. To evaluate a clause
"without v", the row of v is first set to the value that makes its literal false. Variables of one
colour class share no clause, so their undecided lanes may wait until the end of a block.

The classes are visited in a cyclic order with a random start and direction, drawn for each seed and
context (`rng.class_order`). In a fixed order the first class would take what room there is in every
sample of every seed: in the hard-core model on a grid, all samples would start on the same
sublattice, and chains with another seed could not show it. P_theta is stationary under every order.

A lane that violates a clause keeps violating it: no variable of that clause is free there.
"""

from nelson.kernels.core.bernoulli import draw, rows_for
from nelson.kernels.core.compile import inline
from nelson.kernels.core.rng import class_order
from nelson.kernels.core.vector import any_lane, load, ones, peek, poke, store, zeros
from nelson.kernels.cpu.rounds import finish_queue
from nelson.kernels.cpu.state import BLOCK, KEY1, WANTED, enqueue, stream, violated


@inline
def sweep(tag, p, law, row, s, job, t, round, moved):
    """One heat-bath update of every variable of `order`, for tile t of the job.

    Sets moved[v] = 1 if v was free in a lane.
    """
    key1, every, none = load(tag, s.constants, KEY1), ones(tag), zeros(tag)
    wanted = load(tag, s.constants, WANTED)
    h = rows_for(64.0 * len(tag), law.max_rows)
    c, step = class_order(job.seed, peek(job.context, t), p.n_classes)
    for _ in range(p.n_classes):
        begin, end = peek(p.class_ptr, c), peek(p.class_ptr, c + 1)
        c += step
        if c >= p.n_classes:
            c -= p.n_classes
        for first in range(begin, end, BLOCK):
            queued = 0
            for q in range(first, min(end, first + BLOCK)):
                v = peek(p.order, q)
                old, stuck = load(tag, s.x, v), none
                start, middle = peek(p.occ_ptr, v), peek(p.occ_mid, v)
                store(s.x, v, none)  # make the literal false in the positive clauses of v, ..
                for e in range(start, peek(p.occ_ptr, v + 1)):
                    if e == middle:
                        store(s.x, v, every)  # .. then in the negative ones
                    stuck = stuck | violated(tag, every, p.clause_ptr, p.lits, s, peek(p.occ, e))
                undecided, value = draw(
                    tag, law, row + v, stream(tag, p, s, round, v), key1, ~stuck, h
                )
                store(s.x, v, (old & (stuck | undecided)) | value)
                queued = enqueue(s, v, undecided, queued)
                if any_lane(wanted & ~stuck):  # threads share `moved`: they only ever set it
                    poke(moved, v, 1)
            finish_queue(tag, p, law, row, s, round, h, queued, False, 0)
