"""Bit-vector formulas: a small cipher, and the conditions of a path through a program."""

from __future__ import annotations

import numpy as np

from nelson.formula import Formula
from tests.structured.circuits import FALSE, Circuit

#: The S-box of the block cipher PRESENT, 4 bits to 4 bits (Bogdanov et al. 2007).
SBOX = (12, 5, 6, 11, 9, 0, 10, 13, 3, 14, 15, 8, 4, 7, 1, 2)
#: One branch of a program: update, words a, b, c and d, shift, mask.
Step = tuple[str, int, int, int, int, int, int]


def _mixed(word: int, key: int, half: int) -> int:
    """The round function on numbers: add the key by xor, substitute nibbles, rotate by three."""
    x = word ^ key
    y = sum(SBOX[x >> k & 15] << k for k in range(0, half, 4))
    return (y << 3 | y >> (half - 3)) & ((1 << half) - 1)


def encrypt(left: int, right: int, keys: list[int], half: int) -> tuple[int, int]:
    """The Feistel network of `feistel`, on numbers."""
    for key in keys:
        left, right = right, left ^ _mixed(right, key, half)
    return left, right


def _substituted(circuit: Circuit, nibble: list[int]) -> list[int]:
    """The S-box as 16 implications for each output bit."""
    out = [circuit.wire() for _ in range(4)]
    for value, image in enumerate(SBOX):
        differs = [-a if value >> k & 1 else a for k, a in enumerate(nibble)]
        circuit.clauses += [[*differs, g if image >> k & 1 else -g] for k, g in enumerate(out)]
    return out


def feistel(half: int, rounds: int, pairs: int, known: int, seed: int = 0) -> Formula:
    """Keys of a small Feistel cipher that agree with what is known of its messages.

    A block has two halves of `half` bits (a multiple of 4), each round its own key of `half` bits.
    Variables 1..half are the key of the first round, low bit first, and so on. `pairs` random
    plaintexts are given, and of each ciphertext the `known` lowest bits (left half first), as a
    hidden key gives them. All other variables are functions of the keys.
    """
    random = np.random.default_rng([seed, 29])
    keys = random.integers(0, 1 << half, rounds).tolist()
    circuit = Circuit(half * rounds)
    one = circuit.wire()
    circuit.clauses.append([one])
    for _ in range(pairs):
        plain = random.integers(0, 1 << half, 2).tolist()
        left, right = ([one if p >> k & 1 else -one for k in range(half)] for p in plain)
        for r in range(rounds):
            mixed: list[int] = []
            inner = [_xor(circuit, x, r * half + k + 1, one) for k, x in enumerate(right)]
            for k in range(0, half, 4):
                mixed += _substituted(circuit, inner[k : k + 4])
            mixed = mixed[-3:] + mixed[:-3]
            left, right = (
                right,
                [_xor(circuit, x, y, one) for x, y in zip(left, mixed, strict=True)],
            )
        low, high = encrypt(*plain, keys, half)
        for k, wire in enumerate([*left, *right][:known]):
            bit = (low | high << half) >> k & 1
            circuit.clauses.append([wire if bit else -wire])
    return circuit.formula()


def _xor(circuit: Circuit, a: int, b: int, one: int) -> int:
    """a xor b, without a gate where a is known. `one` is a wire that is always 1."""
    if abs(a) == one:
        return -b if a > 0 else b
    return circuit.differ(a, b)


def path_condition(words: int, bits: int, branches: int, seed: int = 0) -> Formula:
    """Inputs of a program that take one given path: a question of test generation.

    The inputs are `words` numbers, variables 1..bits the first, low bit first. Each branch updates
    a random word (a = a + b, a = a xor (b shifted), a = b if c < d else a) and then tests it
    against another (a < b, or a masked equal to a constant). The outcomes of the tests are those of
    a hidden input; `path_taken` says the same on numbers.
    """
    program, hidden = program_of(words, bits, branches, seed)
    outcomes = path_taken(program, hidden, bits)
    circuit = Circuit(words * bits)
    state = [list(range(w * bits + 1, (w + 1) * bits + 1)) for w in range(words)]
    for (update, a, b, c, d, shift, mask), outcome in zip(program, outcomes, strict=True):
        if update == "add":
            state[a] = circuit.add(state[a], state[b])[:bits]
        elif update == "mix":
            moved = state[b][shift:] + state[b][:shift]
            state[a] = [circuit.differ(x, y) for x, y in zip(state[a], moved, strict=True)]
        else:
            smaller = _less(circuit, state[c], state[d])
            state[a] = [
                circuit.choose(smaller, x, y) for x, y in zip(state[b], state[a], strict=True)
            ]
        if isinstance(outcome, bool):
            test = _less(circuit, state[a], state[c])
            circuit.clauses.append([test if outcome else -test])
        else:
            chosen = [k for k in range(bits) if mask >> k & 1]
            circuit.clauses += [[state[a][k] if outcome >> k & 1 else -state[a][k]] for k in chosen]
    return circuit.formula()


def program_of(words: int, bits: int, branches: int, seed: int = 0) -> tuple[list[Step], list[int]]:
    """The program of `path_condition`, and its hidden input."""
    random = np.random.default_rng([seed, 30])
    hidden = random.integers(0, 1 << bits, words).tolist()
    out = []
    for _ in range(branches):
        a, b, c = random.choice(words, 3, replace=False).tolist()
        d = int(random.choice([w for w in range(words) if w != c]))
        update = str(random.choice(["add", "mix", "if"]))
        mask = 0  # 0: the test is a comparison
        if random.random() < 0.4:
            mask = sum(1 << k for k in random.choice(bits, 2, replace=False).tolist())
        out.append((update, a, b, c, d, int(random.integers(1, bits)), mask))
    return out, hidden


def path_taken(program: list[Step], inputs: list[int], bits: int) -> list[bool | int]:
    """The outcome of each test: a comparison, or the masked bits."""
    state, top, out = list(inputs), (1 << bits) - 1, []
    for update, a, b, c, d, shift, mask in program:
        if update == "add":
            state[a] = state[a] + state[b] & top
        elif update == "mix":
            state[a] ^= state[b] >> shift | state[b] << (bits - shift) & top
        elif state[c] < state[d]:
            state[a] = state[b]
        out.append(state[a] & mask if mask else state[a] < state[c])
    return out


def _less(circuit: Circuit, a: list[int], b: list[int]) -> int:
    """a < b: the borrow of a - b."""
    borrow = FALSE
    for x, y in zip(a, b, strict=True):
        borrow = circuit.majority(-x, y, borrow)
    return borrow
