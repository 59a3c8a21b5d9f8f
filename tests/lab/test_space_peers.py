"""The benchmark of named fields: its checks, its laws and its statistic are right.

A statistical test has a fixed seed. `Deviation.fine` allows five standard deviations, which a
faultless sampler exceeds about once in 1,000 draws.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from math import comb

import numpy as np
import pytest

from lab.space_peers import environments, problems, table
from lab.space_peers.problems import PROBLEMS, bus_cells, bus_law, bus_legal, pearson
from lab.space_peers.protocol import SHARES, TRANSACTIONS

DRAW_NUMPY = environments.HERE / "draw_numpy.py"


def every_bus_row(bits: int) -> np.ndarray:
    """All rows with fields in their ranges that satisfy the rules, by plain Python."""
    top = (1 << bits) - 1
    return np.array(
        [
            (addr, length, burst, write)
            for addr in range(0, top + 1, 4)
            for length in range(1, 16)
            for burst in range(3)
            for write in range(2)
            if addr + length <= top and (burst < 2 or length in (2, 4, 8))
        ]
    )


@pytest.fixture(scope="module")
def bus_rows() -> np.ndarray:
    addr = np.arange(0, 65536, 4)
    grid = np.meshgrid(addr, np.arange(1, 16), np.arange(3), np.arange(2))
    rows = np.stack([axis.ravel() for axis in grid], axis=1)
    return rows[bus_legal(rows, 16)]


def ordered_rows(n: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Uniform rows of ordered transactions, by rejection."""
    blocks: list[np.ndarray] = []
    while sum(map(len, blocks)) < n:
        addr = rng.integers(0, 65536, (200_000, count))
        length = rng.integers(1, 16, (200_000, count))
        rows = np.stack([addr, length], axis=2).reshape(len(addr), -1)
        blocks.append(rows[problems.ordered_legal(rows)])
    return np.concatenate(blocks)[:n]


# The checks ---------------------------------------------------------------------------------------


def test_check_of_the_bus():
    rows = every_bus_row(8)
    assert bus_legal(rows, 8).all()
    grid = np.indices((260, 17, 4, 3)).reshape(4, -1).T - [2, 0, 0, 0]
    assert bus_legal(grid, 8).sum() == len(rows)


@pytest.mark.parametrize(
    ("column", "value"), [(0, 2), (0, -4), (0, 65532), (1, 0), (1, 16), (1, 3), (2, 3), (3, 2)]
)
def test_each_rule_of_the_bus_is_checked(column, value):
    row = [65528, 4, 2, 1]
    assert bus_legal(np.array([row]), 16).all()
    row[column] = value
    assert not bus_legal(np.array([row]), 16).any()


def test_check_of_ordered_transactions():
    row = np.array([10, 5, 15, 1, 16, 15, 65535, 15])
    assert problems.ordered_legal(row[None]).all()
    for column, value in [(0, -1), (1, 6), (1, 0), (2, 14), (3, 2), (6, 65536), (7, 0), (7, 16)]:
        wrong = row.copy()
        wrong[column] = value
        assert not problems.ordered_legal(wrong[None]).any(), (column, value)


def test_check_of_the_table():
    """Against the six rules written once more, for one row at a time."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, list(table.COLUMNS.values()), (2000, len(table.NAMES)))

    def fine(row: np.ndarray) -> bool:
        region, plan, device, os, age, income, channel, payment, support, status = row
        return not (
            (device == 0 and os not in (0, 1))
            or (device == 3 and os in (0, 1))
            or income > age + 2
            or (plan == 3 and payment == 0)
            or (support == 2 and plan < 2)
            or (region == 4 and channel in (3, 4) and status == 0)
        )

    assert table.legal(rows).tolist() == [fine(row) for row in rows]
    rows[0, 2] = 5  # no such category
    assert not table.legal(rows)[0]


# The laws -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [8, 11])
def test_law_of_the_bus(bits):
    rows = every_bus_row(bits)
    shares = np.bincount(bus_cells(rows, bits), minlength=1440) / len(rows)
    np.testing.assert_allclose(bus_law(bits, None), shares, atol=1e-12)
    weights = (np.array(SHARES) / np.bincount(rows[:, 2]))[rows[:, 2]]
    asked = np.bincount(bus_cells(rows, bits), weights, minlength=1440)
    np.testing.assert_allclose(bus_law(bits, SHARES), asked, atol=1e-12)


def test_law_of_ordered_transactions():
    """Two transactions below 24: every row is listed."""
    counts = np.zeros((2, 24, 15))
    lengths = range(1, 16)
    for a, n, b, m in itertools.product(range(24), lengths, range(24), lengths):
        if a + n <= b:
            counts[0, a, n - 1] += 1
            counts[1, b, m - 1] += 1
    np.testing.assert_array_equal(problems.ordered_counts(2, size=24), counts)


@pytest.mark.parametrize("count", TRANSACTIONS.values())
def test_number_of_ordered_transactions(count):
    """Without their lengths, whose sum is s, the addresses are a non-decreasing sequence below
    65536 - s: there are C(65535 - s + count, count).
    """
    ways = [1]  # of s
    for _ in range(count - 1):
        ways = [int(sum(ways[max(s - 15, 0) : s])) for s in range(len(ways) + 15)]
    total = 15 * sum(w * comb(65535 - s + count, count) for s, w in enumerate(ways))
    for counts in problems.ordered_counts(count):
        assert counts.sum() == pytest.approx(total, rel=1e-12)


@pytest.mark.slow
def test_law_of_the_table():
    """log Z against the share of legal proposals; five sigma, a false alarm in 10^6."""
    rng = np.random.default_rng(1)
    x: dict[str, np.ndarray] = {}
    n = 100_000
    for column, law in table.conditionals().items():
        p = np.broadcast_to(
            law[tuple(x[parent] for parent in table.PARENTS[column])], (n, law.shape[-1])
        )
        x[column] = (rng.random(n)[:, None] > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    share = table.legal(np.stack(list(x.values()), axis=1)).mean()
    z = np.exp(table.log_z())
    assert abs(share - z) < 5 * (z * (1 - z) / n) ** 0.5
    train, test = table.train_and_test()
    assert table.legal(train).all() and table.legal(test).all()
    assert table.two_way_distance(train, train) == 0
    shuffled = np.random.default_rng(2).permuted(train, axis=0)  # no column depends on another
    assert 3 * table.two_way_distance(train, test) < table.two_way_distance(shuffled, test)


# The statistic ------------------------------------------------------------------------------------


def test_mean_and_variance_of_the_statistic(monkeypatch):
    """Exact, over all outcomes of four draws from three cells."""
    monkeypatch.setattr(problems, "LEAST_EXPECTED", 0)
    p, n = np.array([0.5, 0.3, 0.2]), 4
    mean = square = 0.0
    for outcome in itertools.product(range(3), repeat=n):
        chance = p[list(outcome)].prod()
        _, freedom, z = pearson(np.bincount(outcome, minlength=3), p)
        mean, square = mean + chance * z, square + chance * z * z
    assert freedom == 2
    assert mean == pytest.approx(0, abs=1e-12) and square == pytest.approx(1)


def test_rare_cells_are_pooled():
    law = np.array([0.5, 0.49, 0.004, 0.003, 0.003])
    statistic, freedom, _ = pearson(np.array([50, 49, 1, 0, 0]), law)
    assert freedom == 2 and statistic == pytest.approx(0, abs=1e-9)
    assert pearson(np.array([1]), np.array([1.0])) == (0.0, 1, 0.0)


@pytest.mark.parametrize("n", [300, 3000, 100_000])
def test_uniform_rows_are_accepted(bus_rows, n):
    rng = np.random.default_rng(n)
    found = PROBLEMS["bus"].deviation(bus_rows[rng.integers(0, len(bus_rows), n)])
    assert found.fine, found
    assert len(bus_rows) == 1_081_242


def test_asked_shares_are_accepted(bus_rows):
    rng = np.random.default_rng(4)
    weights = (np.array(SHARES) / np.bincount(bus_rows[:, 2]))[bus_rows[:, 2]]
    rows = bus_rows[rng.choice(len(bus_rows), 50_000, p=weights)]
    assert PROBLEMS["shares"].deviation(rows).fine
    assert not PROBLEMS["bus"].deviation(rows).fine


def biased(kind: str, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The twins: 20,000 legal rows of laws that tools draw from by mistake."""
    weights = np.ones(len(rows))
    if kind == "burst first":
        weights = (1 / np.bincount(rows[:, 2]))[rows[:, 2]]
    elif kind == "one length 30% too often":
        weights += 0.3 * (rows[:, 1] == 7)
    elif kind == "even words twice as often":
        weights += rows[:, 0] % 8 == 0
    elif kind == "low addresses":
        return rows[rng.integers(0, len(rows) // 8, 20_000)]
    else:
        weights[rng.random(len(rows)) < 0.999] = 0  # the same few rows again and again
    return rows[rng.choice(len(rows), 20_000, p=weights / weights.sum())]


@pytest.mark.parametrize(
    "kind",
    [
        "burst first",
        "one length 30% too often",
        "even words twice as often",
        "low addresses",
        "few rows",
    ],
)
def test_biased_rows_are_rejected(bus_rows, kind):
    rows = biased(kind, bus_rows, np.random.default_rng(5))
    assert PROBLEMS["bus"].legal(rows).all()
    found = PROBLEMS["bus"].deviation(rows)
    assert not found.fine and found.z > 5 and found.error > 0, found


def test_ordered_transactions_are_judged():
    """Rejection is accepted; choosing one address after the other, as a person would, is not."""
    rng = np.random.default_rng(6)
    four = PROBLEMS["four"]
    assert four.deviation(ordered_rows(20_000, 4, rng)).fine
    rows = np.zeros((20_000, 8), np.int64)
    rows[:, 1::2] = rng.integers(1, 16, (20_000, 4))
    low = np.zeros(20_000, np.int64)
    for i in range(4):
        high = 65536 - 15 * (3 - i)
        rows[:, 2 * i] = rng.integers(low, high)
        low = rows[:, 2 * i] + rows[:, 2 * i + 1]
    assert four.legal(rows).all()
    assert four.deviation(rows).z > 100


# Running peers ------------------------------------------------------------------------------------


@pytest.mark.process
def test_a_peer_answers(tmp_path):
    """The NumPy program needs no environment; it draws the law, and says what it cannot do."""
    out = tmp_path / "rows"
    for name in ("shares", "bus32", "four"):
        problem = PROBLEMS[name]
        answer = environments.run("numpy", tmp_path, [name, "60", "20000", "1", str(out)], 120)
        assert answer["rows"] == 20_000 and 0 < answer["first"] <= answer["seconds"]
        rows = np.fromfile(out, np.int64).reshape(-1, len(problem.columns))
        assert len(rows) == 20_000 and problem.legal(rows).all()
        assert problem.deviation(rows).fine
    with pytest.raises(environments.PeerMissing, match="cannot be listed"):
        environments.run("numpy", tmp_path, ["bus32", "1", "10", "1", str(out), "list"], 120)
    done = subprocess.run(
        [sys.executable, DRAW_NUMPY, "bus32", "1", "10", "1", str(out), "list"],
        capture_output=True,
        check=True,
    )
    assert "missing" in json.loads(done.stdout)


def test_a_peer_that_does_not_install_is_missing(tmp_path, monkeypatch):
    def fail(command, **options):
        raise subprocess.CalledProcessError(1, command, stderr="a\nERROR: no such version\n")

    def hang(command, **options):
        raise subprocess.TimeoutExpired(command, 1)

    for broken, reason in ((fail, "does not install: ERROR: no such version"), (hang, "900 s")):
        monkeypatch.setattr(environments.subprocess, "run", broken)
        with pytest.raises(environments.PeerMissing, match=reason):
            environments.python_of("z3", tmp_path)
    assert not (tmp_path / "z3" / "installed.txt").exists()
