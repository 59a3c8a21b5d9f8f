"""40,000 mutated files through the reader: a Formula or a FormulaError, and nothing else."""

from __future__ import annotations

import gzip
import lzma
import random
import traceback

import pytest

from nelson.errors import FormulaError
from nelson.formula import Formula

SEED = 20240229
FILES = 40_000

SEEDS = [
    b"c plain\np cnf 5 4\n1 -2 3 0\n-1 4 0\n2 -5\n 3 0\n5 0\n",
    b"p cnf 3 2\r\n1 2 0\r\n-1 3 0\r\n%\r\n0\r\n",
    b"c t pwmc\np cnf 4 2\nc p show 1 2 0\nc p weight 1 0.25 0\nc p weight -1 3/4 0\n1 4 0\n-2 0\n",
    b"p cnf 3 1\nw 1 0.3\nw 2 -1\nw 3 1\n1 2 3 0\n",
    b"p wcnf 3 1\nw 1 2.5 0\nw -1 1e-3 0\n-1 -2 0\n",
    b"p cnf 2 1\nc weights 0.5 0.5 2 1\n1 2 0\n",
    b"c ind 1 2 0\nc ind 3 0\np cnf 9 3\nx1 2 -3 0\nx 4 5 6 7 8 9 0\n1 9 0\n",
    b"p wpcnf 3 1\nvp 1 2 0\nw 1 0.1\n1 2 3 0\n",
    b"p cnf 3 2\nc ind 1 0\np cnf 4 2\n1 2 0\np wcnf 3 2\n-1 3 0\n",
]
SEEDS += [gzip.compress(SEEDS[0], mtime=0), lzma.compress(SEEDS[2])]

TOKENS = [
    b"0", b"-0", b"1", b"-1", b"--1", b"+1", b"2147483647", b"2147483648", b"-2147483648",
    b"268435456", b"99999999999", b"9223372036854775808", b"-" + b"9" * 40, b"7" * 5000, b"1e9",
    b"1e999999999999999999", b"1e-99999999999999999999", b"." * 30, b"0x10", b"1_000", b"1/3",
    b"1/0", b"0/0", b"1//2", b"nan", b"-inf", b"NaN", b"1." + b"3" * 900, b"1." + b"3" * 1100,
    b"\xff\xfe", b"\x00", b"\xc2\xa0", b"\xd9\xa1", b"\n", b"\r", b"\n\n\n", b"%", b"\n%", b"\nc",
    b"p cnf 99999999999 1", b"\np cnf 3 3\n", b"\np cnf 268435456 9\n", b"\nc p show ", b"\nc ind ",
    b"\nc weights ", b"\nw ", b"\nx ", b"\nc p weight ", b"\nvp ", b"\x1f\x8b", b"\xfd7zXZ\x00",
]  # fmt: skip


def mutated(rng: random.Random) -> bytes:
    """A valid file after one to four random edits, more often few."""
    data = bytearray(rng.choice(SEEDS))
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        a, b = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
        kind = rng.randrange(8)
        if kind == 0 and data:  # flip a bit
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif kind == 1 and data:  # replace a byte
            data[rng.randrange(len(data))] = rng.randrange(256)
        elif kind == 2:  # truncate
            del data[b:]
        elif kind == 3:  # cut something out
            del data[a : min(b, a + 8)]
        elif kind == 4:  # double a piece
            data[a:a] = data[a:b]
        elif kind == 5:  # insert
            data[a:a] = rng.choice(TOKENS)
        else:  # swap or replace tokens
            tokens = bytes(data).split(b" ")
            i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
            tokens[i], tokens[j] = tokens[j], tokens[i]
            if kind == 7:
                tokens[i] = rng.choice(TOKENS)
            data = bytearray(b" ".join(tokens))
    return bytes(data)


def attempt(data: bytes, dialect: str) -> Formula | FormulaError | str:
    try:
        return Formula.from_dimacs(data, dialect=dialect)
    except FormulaError as error:
        return error
    except BaseException:
        return traceback.format_exc()


@pytest.mark.slow
def test_fuzz() -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    read = refused = 0
    for k in range(FILES):
        data = mutated(rng)
        dialect = rng.choice(("auto", "auto", "mcc", "literal", "cachet", "minic2d", "none"))
        outcome = attempt(data, dialect)
        if isinstance(outcome, FormulaError):
            refused += 1
            assert str(outcome).startswith("<bytes>"), (k, data, outcome)
            continue
        assert isinstance(outcome, Formula), f"file {k} of seed {SEED}: {data!r}\n{outcome}"
        read += 1
        if outcome.n_vars < 1000 and not outcome.n_aux:  # it can be written, and read again
            assert Formula.from_string(outcome.to_dimacs() or "") == outcome, (k, data)
    print(f"{read} read, {refused} refused")
    # The mutations must reach both sides, or the test shows nothing.
    assert min(read, refused) > FILES // 10
