"""All structures of a formula whose gates are functions of few inputs.

    structures = { x : inputs of x are any of 2^k values, gates are computed, all clauses hold }

A formula of 14 inputs and 2,000 gates has at most 2^14 structures, however wide it is: neither a
search over its variables nor a compiler sees that. `find_gates` does. The values of the inputs are
numbered; 64 of them are one word of the kernel that rebuilds eliminated variables, which computes
all gates and checks all clauses. O(2^k literals / 64) word operations.
"""

from __future__ import annotations

import numpy as np

from nelson.budget import Budget
from nelson.exact.inputs import GateOrder, gates_of
from nelson.exact.preprocess import Completion, Rebuild
from nelson.exact.routes import Reason
from nelson.formula import Formula
from nelson.formula.flat import lengths_to_offsets
from nelson.formula.memo import Slot
from nelson.io.progress import phase
from nelson.kernels.core.bits import compact, unpack, words_for
from nelson.policy import DEFAULT, Policy

_ROWS: Slot[dict[Policy, np.ndarray | Reason]] = Slot("structures by the values of the inputs")
#: Bit k of a word is value number k: variable i of the inputs, i < 6, is bit i of k.
_LOW_BITS = [sum(1 << k for k in range(64) if k >> i & 1) for i in range(6)]


def input_count(formula: Formula, policy: Policy = DEFAULT) -> int | Reason:
    """The number of inputs that decide all variables; or why their values cannot be enumerated."""
    limits = policy.exact
    if limits.inputs < 1 or len(formula.literals) > limits.gate_literals:
        return Reason(f"{len(formula.literals):,} literals are too many to look for gates")
    with phase("looking for inputs and gates"):
        gates = gates_of(formula)
    inputs = len(gates.inputs)
    if not len(gates.targets):
        return Reason("no gates")
    if inputs > limits.inputs or len(formula.literals) << inputs > limits.input_work:
        return Reason(f"{len(gates.targets):,} gates, but {inputs:,} inputs are too many")
    return inputs


def rows_by_inputs(
    formula: Formula, budget: Budget, policy: Policy = DEFAULT
) -> np.ndarray | Reason:
    """All structures, (m, n_total) bool, in no particular order; or why they were not enumerated.
    Kept with the formula.
    """
    known = formula.memo.once(_ROWS, dict)
    if policy in known:
        return known[policy]
    rows = _search(formula, budget, policy)
    if budget.counted or not isinstance(rows, Reason):
        known[policy] = rows
    return rows


def _search(formula: Formula, budget: Budget, policy: Policy) -> np.ndarray | Reason:
    inputs = input_count(formula, policy)
    if isinstance(inputs, Reason):
        return inputs
    gates = gates_of(formula)
    with phase("enumerating the values of the inputs"):
        return _rows(formula, gates, budget, policy.exact.row_cells)


def _rows(
    formula: Formula, gates: GateOrder, budget: Budget, most_cells: int
) -> np.ndarray | Reason:
    # Words of all variables together that are computed at once: 16 MiB.
    words_at_once = 1 << 21
    n, inputs = formula.n_total, len(gates.inputs)
    codes = 2 * (np.abs(formula.literals) - 1) + (formula.literals > 0)
    clauses = formula.offsets, codes.astype(np.int32)
    complete = Completion(
        _backwards(gates), gates.inputs, np.arange(n), n, clauses, max(1, budget.threads)
    )
    words = words_for(1 << inputs)
    step = max(1, words_at_once // max(1, n))
    parts: list[np.ndarray] = []
    cells = 0
    for first in range(0, words, step):
        if budget.spent:
            return Reason(f"the time was up after {64 * first:,} of 2^{inputs} values of inputs")
        numbers = np.arange(first, min(words, first + step), dtype=np.uint64)
        lanes = np.full(len(numbers), np.uint64((1 << min(64, 1 << inputs)) - 1))
        out = np.empty((len(numbers), n), np.uint64)
        valid = complete(_values(numbers, inputs), lanes, out)
        if valid.any():
            parts.append(unpack(*compact(out, valid)))
            cells += parts[-1].size
        if cells > most_cells:
            return Reason(f"2^{inputs} values of inputs have too many structures to keep")
    return np.concatenate(parts) if parts else np.zeros((0, n), bool)


def _values(words: np.ndarray, inputs: int) -> np.ndarray:
    """(words, inputs) uint64: values 64 w .. 64 w + 63 of the inputs, for each word number w."""
    out = np.empty((len(words), inputs), np.uint64)
    for i in range(inputs):
        if i < 6:
            out[:, i] = np.uint64(_LOW_BITS[i])
        else:
            bit = words >> np.uint64(i - 6) & np.uint64(1)
            out[:, i] = np.uint64(0) - bit
    return out


def _backwards(gates: GateOrder) -> Rebuild:
    """The gates as definitions, of which the last one is computed first; tests are left out."""
    order = np.flatnonzero(gates.target >= 0)[::-1]
    terms = [np.arange(gates.first[e], gates.first[e + 1]) for e in order]
    chosen = np.concatenate([np.zeros(0, np.int64), *terms])
    literals = [gates.literals[gates.start[t] : gates.start[t + 1]] for t in chosen]
    return Rebuild(
        target=gates.target[order],
        flip=gates.flip[order],
        first=lengths_to_offsets(np.array([len(t) for t in terms], np.int64)),
        start=lengths_to_offsets(np.array([len(part) for part in literals], np.int64)),
        literals=np.concatenate([np.zeros(0, np.int32), *literals]),
    )
