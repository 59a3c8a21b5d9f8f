"""Training on several ranks: the same theta as one process, bit for bit, whatever their number.

Everything that ranks add up is integers, and the one sum of floats has one order
(`Draw.spread`), so equalities here are of bytes and not up to a tolerance.
Ranks are threads where only the arithmetic matters, and real `torchrun` on loopback where it is
processes that talk, die and come back.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from dataclasses import replace
from importlib import resources
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import nelson
from nelson import Formula, FormulaError
from nelson.cli.train import same_everywhere
from nelson.cluster.rows import file_digest, load_share
from nelson.io import sample_files as nio
from nelson.io import tables
from nelson.io.atomic import writing
from nelson.kernels.core.bits import pack, unpack
from nelson.learning import shares
from nelson.learning.data import load_examples
from nelson.learning.draw import Draw, Drawer
from nelson.learning.group import ALONE, Group, span
from nelson.learning.model import load
from tests import ROOT

STREETS = Path(str(resources.files("nelson.tasks") / "data")) / "streets.cnf"
THETA = [1.5, -1.0, 0.5, 0.0, 1.0, -0.5, 0.0]
TIMEOUT = 240  # seconds; the first call may have to compile


class Threads:
    """A group whose ranks are threads: what `Ranks` does, without the processes."""

    class Rank(Group):
        def __init__(self, home: Threads, rank: int) -> None:
            self.home, self.rank, self.size = home, rank, home.size

        def gather(self, value):
            self.home.slots[self.rank] = value
            self.home.barrier.wait(60)
            found = list(self.home.slots)
            self.home.barrier.wait(60)
            return found

        def sum(self, x):
            return np.sum(self.gather(np.array(x)), axis=0)

        def join(self, x):
            return np.concatenate(self.gather(x))

        def tell(self, state):
            return self.gather(state)[0]

    def __init__(self, size: int) -> None:
        self.size, self.slots, self.barrier = size, [None] * size, threading.Barrier(size)

    def run(self, work):
        """work(group) on every rank; -> what they return."""
        results, errors = [None] * self.size, []

        def one(rank: int) -> None:
            try:
                results[rank] = work(self.Rank(self, rank))
            except BaseException as error:
                errors.append(error)
                self.barrier.abort()

        ranks = [threading.Thread(target=one, args=(rank,)) for rank in range(self.size)]
        for thread in ranks:
            thread.start()
        for thread in ranks:
            thread.join()
        if errors:
            raise next(e for e in errors if not isinstance(e, threading.BrokenBarrierError))
        return results


@pytest.fixture(scope="module")
def examples() -> np.ndarray:
    return nelson.sample(Formula.from_dimacs(STREETS), THETA, 1001, seed=1).to_numpy()


@pytest.fixture(scope="module")
def data(tmp_path_factory, examples) -> Path:
    path = tmp_path_factory.mktemp("data") / "train.npy"
    np.save(path, examples)
    return path


# --- shares -----------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [1, 64])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_spans_hold_everything_once_and_are_even(size, unit):
    for count in (0, 1, 63, 64, 65, 1000, 4096):
        cuts = [span(count, Threads.Rank(Threads(size), rank), unit) for rank in range(size)]
        assert cuts[0][0] == 0
        assert cuts[-1][1] == count
        assert all(a[1] == b[0] for a, b in pairwise(cuts))
        assert all(first % unit == 0 for first, last in cuts if first < last)
        units = [-(-(last - first) // unit) for first, last in cuts]
        assert max(units) - min(units) <= 1


MIXED = [[1, 2, 3], [2, 3, 4], [-1, 4, 5], [6, 7], [8]]  # components, and a fixed variable


@pytest.mark.parametrize(
    ("clauses", "method", "m"),
    [(None, "lovasz", 1000), (None, "prs", 100), (MIXED, "enumerate", 999), (MIXED, "auto", 1000)],
)
def test_shares_are_the_samples_of_one_process(clauses, method, m):
    """The union over the ranks, in their order, is what one process draws; m is no multiple of 64,
    and small enough that some ranks draw nothing."""

    def formula() -> Formula:
        return Formula.from_dimacs(STREETS) if clauses is None else Formula(clauses)

    theta = np.linspace(-1, 1, formula().n_vars)

    def draw(group: Group) -> Draw:
        drawer = Drawer(formula(), method, None, 5, threads=1, group=group)
        drawer.method = method
        return drawer(theta, m, 3)

    alone = draw(ALONE)
    columns = np.arange(len(theta))
    for size in (2, 3, 4):
        drawn = Threads(size).run(draw)
        x = [unpack(d.packed, d.held) for d in drawn]
        np.testing.assert_array_equal(np.concatenate(x), unpack(alone.packed, alone.count))
        assert all(d.mean.tobytes() == alone.mean.tobytes() for d in drawn)
        assert all(d.count == m for d in drawn)
        pairs = Threads(size).run(lambda g, drawn=drawn: _pairs(drawn, g))
        for counts, used in pairs:
            assert used == min(m, 130)
            np.testing.assert_array_equal(counts, alone.pair_counts(columns, 130)[0])


def _pairs(drawn: list[Draw], group: Group) -> tuple[np.ndarray, int]:
    mine = replace(drawn[group.rank], group=group)
    return mine.pair_counts(np.arange(len(mine.mean)), 130)  # 130: cuts a word, and a share


def test_samplers_without_numbers_are_left_to_rank_0():
    def draw(group: Group) -> Draw:
        drawer = Drawer(Formula.from_dimacs(STREETS), "rejection", None, 5, threads=1, group=group)
        return drawer(np.array(THETA), 300, 1)

    alone = draw(ALONE)
    for d in (drawn := Threads(3).run(draw)):
        assert d.mean.tobytes() == alone.mean.tobytes()
    assert [d.held for d in drawn] == [300, 0, 0]


def test_the_spread_is_the_same_bits_for_any_number_of_ranks():
    """A sum of floats, so order matters: ranks hand their terms around, rank 0 adds them up."""
    rng = np.random.default_rng(0)
    x, weights = rng.random((1000, 9)) < 0.3, rng.normal(size=9)
    alone = Draw(x.mean(0), pack(x), 1000, 0, 0.0, "exact")

    def spread(group: Group) -> float:
        first, last = span(1000, group, 64)
        mine = Draw(x.mean(0), pack(x[first:last]), 1000, 0, 0.0, "exact", first, last - first)
        return replace(mine, group=group).spread(weights)

    for size in (2, 3, 5):
        assert set(Threads(size).run(spread)) == {alone.spread(weights)}
    np.testing.assert_allclose(alone.spread(weights), (x @ weights).std(), rtol=1e-12)
    assert alone.spread(weights) != alone.spread(weights[::-1].copy())


@pytest.mark.parametrize("options", [{}, {"preset": "paper", "iterations": 30, "m": 100}])
def test_theta_does_not_depend_on_the_number_of_ranks(data, examples, options, monkeypatch):
    alone = nelson.learn(Formula.from_dimacs(STREETS), examples, seed=3, **options)

    def learn(group: Group):
        formula = Formula.from_dimacs(STREETS)
        share = load_share(formula, str(data), group, "digest")
        assert share.held < 1001 or group.size == 1
        return nelson.learn(formula, share, seed=3, threads=1, group=group, **options)

    for size in (1, 3):
        for fit in Threads(size).run(learn):
            assert fit.theta.tobytes() == alone.theta.tobytes()
            assert fit.why == alone.why
            assert fit.model.metadata["examples"] == 1001

    # The twin: ranks that all draw from the first sample on find something else.
    def from_the_first(m: int, group: Group, unit: int) -> tuple[int, int]:
        first, last = span(m, group, unit)
        return 0, last - first

    monkeypatch.setattr(shares, "span", from_the_first)
    wrong = Threads(3).run(learn)[0]
    assert wrong.theta.tobytes() != alone.theta.tobytes()


def test_a_run_goes_on_with_another_number_of_ranks(tmp_path, data):
    def learn(group: Group, iterations: int, folder: Path):
        formula = Formula.from_dimacs(STREETS)
        share = load_share(formula, str(data), group, file_digest(str(data)))
        return nelson.learn(
            formula,
            share,
            seed=3,
            preset="paper",
            iterations=iterations,
            group=group,
            checkpoint=folder,
        )

    whole = learn(ALONE, 20, tmp_path / "whole")
    Threads(3).run(lambda group: learn(group, 10, tmp_path / "cut"))
    for fit in Threads(2).run(lambda group: learn(group, 20, tmp_path / "cut")):
        assert len(fit.history) == 20
        assert fit.theta.tobytes() == whole.theta.tobytes()
    ten = learn(ALONE, 10, tmp_path / "ten")
    assert ten.theta.tobytes() != whole.theta.tobytes()


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_a_share_on_the_gpu_begins_at_its_first_sample():
    """In Numba's simulator where there is no GPU."""
    from nelson.sampling.device import device as card

    if not card.available():
        pytest.skip("numba-cuda is not installed")

    def draw(group: Group) -> Draw:
        drawer = Drawer(Formula.from_dimacs(STREETS), "lovasz", 0, 5, device="cuda", group=group)
        return drawer(np.array(THETA), 192, 1)

    whole = Drawer(Formula.from_dimacs(STREETS), "lovasz", 0, 5)(np.array(THETA), 192, 1)
    first = replace(draw(rank0 := _Alone(0)), group=ALONE)
    second = draw(_Alone(1))
    assert rank0.size == 2
    np.testing.assert_array_equal(np.concatenate([first.packed, second.packed]), whole.packed)


class _Alone(Group):
    """One of two ranks, with nobody to talk to."""

    size = 2

    def __init__(self, rank: int) -> None:
        self.rank = rank


# --- rows -------------------------------------------------------------------------------------


def _files(folder: Path, samples: nelson.Samples) -> list[Path]:
    """The examples in every format."""
    import gzip
    import lzma

    x = samples.to_numpy()
    np.save(folder / "rows.npy", x.astype(np.uint8))
    np.save(folder / "columns.npy", np.asfortranarray(x))
    np.savez(folder / "plain.npz", x=x, other=np.zeros(3))
    np.savez_compressed(folder / "compressed.npz", only=np.asfortranarray(x))
    for name in ("packed.npz", "packed.parquet"):
        with writing(folder / name) as out:
            kind = "npz" if name.endswith("npz") else "parquet"
            writer = nio.make_writer(kind, out, samples.variables)
            writer.write(samples.packed, len(samples))
            writer.close({})
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({f"x{i + 1}": x[:, i] for i in range(x.shape[1])})
    pq.write_table(table, folder / "table.parquet", row_group_size=77)
    cells = "\n".join(",".join(str(int(v)) for v in row) for row in x)
    (folder / "bare.csv").write_text(cells + "\n")
    with gzip.open(folder / "titled.csv.gz", "wt") as out:
        out.write(",".join(f"edge {i}" for i in range(x.shape[1])) + "\n\n" + cells)
    text = "".join(" ".join(map(str, row)) + " 0\n" for row in samples.literals().tolist())
    (folder / "text.txt").write_text("c a comment\n" + text)
    with lzma.open(folder / "text.xz", "wt") as out:
        out.write(text)
    return sorted(folder.iterdir())


def test_parts_of_every_format_are_the_whole(tmp_path):
    pytest.importorskip("pyarrow", reason="pip install nelson[parquet]")
    formula = Formula.from_dimacs(STREETS)
    samples = nelson.sample(formula, THETA, 203, seed=2)
    paths = _files(tmp_path, samples)
    assert len(paths) == 11
    for path in paths:
        whole = tables.read(str(path))
        for size in (1, 2, 3):
            groups = [Threads.Rank(Threads(size), rank) for rank in range(size)]
            parts = [tables.read_rows(str(path), lambda n, g=group: span(n, g)) for group in groups]
            shares = [table for table, _, _ in parts]
            np.testing.assert_array_equal(np.concatenate([t.x for t in shares]), whole.x)
            assert {total for _, _, total in parts} == {203}
            assert {(t.variables, t.names) for t in shares} == {whole[1:3]}
        share = load_share(formula, str(path), ALONE, file_digest(str(path)))
        assert share.packed.tobytes() == load_examples(formula, str(path)).packed.tobytes()
        assert share.mean().tobytes() == samples.mean().tobytes()


def test_errors_of_a_part_name_the_line_of_the_file(tmp_path, examples):
    second = Threads.Rank(Threads(2), 1)
    cells = [",".join(str(int(v)) for v in row) for row in examples[:10]]
    cells[7] = "0,1,0,1,0,1,maybe"
    (tmp_path / "a.csv").write_text("\n".join(cells))
    with pytest.raises(FormulaError, match=r"a\.csv:8: cell 'maybe'"):
        tables.read_rows(str(tmp_path / "a.csv"), lambda n: span(n, second))
    tables.read_rows(str(tmp_path / "a.csv"), lambda n: (0, 5))  # not its line
    (tmp_path / "b.txt").write_text("c\n" + "1 2 0\n" * 9 + "1 3 0\n")
    with pytest.raises(FormulaError, match=r"b\.txt:11: .* than line 2"):
        tables.read_rows(str(tmp_path / "b.txt"), lambda n: span(n, second))
    np.save(tmp_path / "c.npy", np.array([[0]] * 9 + [[2]]))
    with pytest.raises(FormulaError, match="row 9, column 0"):
        tables.read_rows(str(tmp_path / "c.npy"), lambda n: span(n, second))
    (tmp_path / "d.npz").write_bytes(b"PK no archive")
    with pytest.raises(FormulaError, match="cannot read it"):
        tables.read_rows(str(tmp_path / "d.npz"), lambda n: span(n, second))
    (tmp_path / "e.txt").write_bytes(b"\x1f\x8b broken")
    with pytest.raises(FormulaError, match="broken compressed data"):
        tables.read_rows(str(tmp_path / "e.txt"), lambda n: span(n, second))


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.csv", "a.txt"])
def test_a_rank_holds_its_part_only(tmp_path, name):
    """Memory at its highest while a sixteenth of the rows is read, against all of them."""
    count = 40_000 if name.startswith("a.np") else 4000
    x = np.random.default_rng(0).random((count, 64)) < 0.5
    path = str(tmp_path / name)
    if name == "a.npy":
        np.save(path, x)
    elif name == "a.npz":
        np.savez_compressed(path, x=x)
    elif name == "a.csv":
        Path(path).write_text("\n".join(",".join(str(int(v)) for v in row) for row in x))
    else:
        signed = np.where(x, 1, -1) * np.arange(1, 65)
        Path(path).write_text("".join(" ".join(map(str, r)) + " 0\n" for r in signed.tolist()))

    def highest(size: int) -> int:
        tracemalloc.start()
        tables.read_rows(path, lambda n: (n - n // size, n))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    highest(16)  # imports
    assert highest(16) < highest(1) / 2


def test_invalid_rows_are_counted_over_all_ranks(tmp_path, examples):
    x = examples.copy()
    broken = [1, 500, 501, 777, 900, 1000]
    x[broken] = False
    np.save(tmp_path / "x.npy", x)
    path, formula = str(tmp_path / "x.npy"), Formula.from_dimacs(STREETS)
    for size in (1, 3):
        with pytest.raises(
            FormulaError,
            match=r"6 of 1,001 rows are invalid: row 1 breaks .*; row 900 .*and 1 more",
        ):
            Threads(size).run(lambda g: load_share(formula, path, g, ""))
        whole = load_examples(formula, path, drop_invalid=True)
        for share in Threads(size).run(lambda g: load_share(formula, path, g, "", True)):
            assert (share.count, share.dropped) == (995, 6)
        batches = Threads(size).run(lambda g: _batches(formula, path, g))
        expected = [whole.shuffled(4).batch_mean(k, 300).tobytes() for k in range(5)]
        assert all(found == expected for found in batches)
    x[:] = False
    np.save(path, x)
    with pytest.raises(FormulaError, match="all 1001 rows are invalid"):
        Threads(2).run(lambda g: load_share(formula, path, g, "", True))


def _batches(formula: Formula, path: str, group: Group) -> list[bytes]:
    share = load_share(formula, path, group, "", True).shuffled(4)
    return [share.batch_mean(k, 300).tobytes() for k in range(5)]


def test_errors_that_ranks_find_together(tmp_path, examples):
    np.save(tmp_path / "x.npy", examples[:2])
    path, formula = str(tmp_path / "x.npy"), Formula.from_dimacs(STREETS)
    with pytest.raises(FormulaError, match="2 rows for 3 ranks"):
        Threads(3).run(lambda g: load_share(formula, path, g, ""))
    assert Threads(2).run(lambda g: load_share(formula, path, g, "").held) == [1, 1]
    same = {"FILE": "a", "the options": {"m": 1}}
    Threads(3).run(lambda g: same_everywhere(g, same))
    with pytest.raises(FormulaError, match="FILE: not the same on rank 1, 2 as on rank 0"):
        Threads(3).run(lambda g: same_everywhere(g, same | {"FILE": str(g.rank)}))
    with pytest.raises(FormulaError, match="the options: not the same on rank 2"):
        Threads(3).run(lambda g: same_everywhere(g, same | {"the options": g.rank == 2}))


# --- torchrun -----------------------------------------------------------------------------------

#: Several runs in one launch; rank 0 keeps what they found. CASES is shared with the test.
DRIVER = """
import os, signal, sys
import numpy as np
import nelson
from nelson.cluster.ranks import join
from nelson.cluster.rows import load_share
from tests.test_cluster_train import CASES

group = join()
found = {"ranks": np.array([group.rank, group.size])}
for name, (clauses, path, options) in CASES(sys.argv[1]).items():
    formula = nelson.Formula(clauses)
    share = load_share(formula, path, group, "")
    fit = nelson.learn(formula, share, seed=3, threads=1, group=group, **options)
    found[name], found[name + " why"] = fit.theta, np.array(fit.why)

def interrupt(row):
    if group.rank == 1 and row["iteration"] == 4:
        os.kill(os.getpid(), signal.SIGINT)

with group.listening():
    fit = nelson.learn(
        formula, share, seed=3, preset="paper", group=group, callback=interrupt
    )
assert fit.interrupted
found["interrupted"] = np.array(fit.why)
np.savez(f"{sys.argv[2]}-{group.rank}.npz", **found)
group.leave()
"""


def _random_clauses() -> list[list[int]]:
    """Not extremal, 5-SAT with as many clauses as variables."""
    rng = np.random.default_rng(0)
    pick = [rng.choice(40, 5, replace=False) + 1 for _ in range(40)]
    return [(row * rng.choice([-1, 1], 5)).tolist() for row in pick]


def CASES(folder: str) -> dict[str, tuple[list[list[int]], str, dict]]:
    streets = Formula.from_dimacs(STREETS).clauses()
    return {
        "newton": (streets, f"{folder}/streets.npy", {}),
        "another seed": (streets, f"{folder}/streets.npy", {"theta0": np.full(7, 0.1)}),
        "sweeps": (_random_clauses(), f"{folder}/random.npz", {"sampler": "lovasz"}),
        "parts": (MIXED, f"{folder}/mixed.npy", {"iterations": 12}),
        "minibatches": (MIXED, f"{folder}/mixed.npy", {
            "preset": "adam", "batch": 100, "m": 100, "iterations": 20, "sampler": "enumerate",
        }),
        "rank 0 only": (streets, f"{folder}/streets.npy", {
            "preset": "paper", "sampler": "rejection", "iterations": 5,
        }),
    }  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory, examples) -> Path:
    folder = tmp_path_factory.mktemp("cases")
    np.save(folder / "streets.npy", examples)
    mixed = nelson.sample(Formula(MIXED), np.linspace(-1, 1, 8), 300, seed=1)
    np.save(folder / "mixed.npy", mixed.to_numpy())
    clauses = _random_clauses()
    theta = np.random.default_rng(1).normal(size=40)
    np.savez(folder / "random.npz", x=nelson.sample(Formula(clauses), theta, 500, seed=1))
    (folder / "driver.py").write_text(DRIVER)
    return folder


def launched(ranks: int, *args: object, **options: str) -> subprocess.Popen:
    pytest.importorskip("torch", reason="pip install nelson[torch]")
    source = Path(nelson.__file__).parents[1]
    paths = [str(source), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "MASTER_ADDR": "127.0.0.1",
    }
    launch = ["-m", "torch.distributed.run", "--nnodes", "1", "--rdzv-backend", "c10d"]
    launch += ["--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1"]
    launch += ["--nproc-per-node", str(ranks)]
    return subprocess.Popen(
        [sys.executable, *launch, *map(str, args)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment | options,
    )


def finished(process: subprocess.Popen) -> subprocess.CompletedProcess:
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()  # nothing, if it has ended
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def torchrun(ranks: int, *args: object, **options: str) -> subprocess.CompletedProcess:
    return finished(launched(ranks, *args, **options))


@pytest.mark.slow
def test_two_and_four_ranks_of_torchrun_learn_what_one_process_does(folder):
    alone = {}
    for name, (clauses, path, options) in CASES(str(folder)).items():
        alone[name] = nelson.learn(Formula(clauses), path, seed=3, **options)
    for size in (2, 4):
        done = torchrun(size, folder / "driver.py", folder, folder / f"of-{size}")
        assert done.returncode == 0, done.stderr
        for rank in range(size):
            with np.load(folder / f"of-{size}-{rank}.npz") as found:
                assert found["ranks"].tolist() == [rank, size]
                for name, fit in alone.items():
                    assert found[name].tobytes() == fit.theta.tobytes(), (name, size)
                    assert found[name + " why"] == fit.why, name
                assert str(found["interrupted"]).startswith("interrupted after 4 iterations")
    # The twin: another start is another theta, so equality says something.
    assert alone["newton"].theta.tobytes() != alone["another seed"].theta.tobytes()


TRAIN = ["-m", "nelson.cli.train"]
#: `nelson.cli.train`, but a rank is killed at its 27th iteration, the first time.
KILLED = """
import os, signal
from nelson.cluster import train
from nelson.training import loop

class Watcher(loop.Watcher):
    def row(self, row):
        super().row(row)
        first = os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0"
        if first and os.environ["RANK"] == os.environ["VICTIM"] and row["iteration"] == 27:
            os.kill(os.getpid(), signal.SIGKILL)

loop.Watcher = Watcher
train.main()
"""


@pytest.mark.slow
def test_a_killed_rank_ends_the_job_which_goes_on_from_its_checkpoint(tmp_path, data):
    script, model = tmp_path / "killed.py", tmp_path / "model"
    script.write_text(KILLED)
    args = [STREETS, data, "-o", model, "--seed", 3, "--preset", "paper", "--iterations", 60]
    args += ["--checkpoint-every", 10]
    killed = torchrun(2, script, *args, VICTIM="1")
    assert killed.returncode == 1
    assert "rank 0 of 2 ends the run: the same command goes on from" in killed.stderr
    assert "model.run, iteration 20" in killed.stderr
    assert "contact with another rank was lost" in killed.stderr
    assert "SIGKILL" in killed.stderr  # torchrun's own report
    assert not model.exists()
    again = torchrun(2, *TRAIN, *args)
    assert again.returncode == 0, again.stderr
    assert f"goes on from {model}.run, iteration 20" in again.stderr
    assert not Path(f"{model}.run").exists()  # it has served
    alone = nelson.learn(
        Formula.from_dimacs(STREETS), str(data), seed=3, preset="paper", iterations=60
    )
    whole = load(model)
    assert whole.theta.tobytes() == alone.theta.tobytes()
    assert (whole.metadata["ranks"], whole.metadata["iterations"]) == (2, 60)
    assert len((model / "history.csv").read_text().splitlines()) == 61


@pytest.mark.slow
def test_torchrun_may_restart_by_itself_and_rank_0_may_die(tmp_path, data):
    script, model = tmp_path / "killed.py", tmp_path / "model"
    script.write_text(KILLED)
    args = [STREETS, data, "-o", model, "--seed", 3, "--preset", "paper", "--iterations", 40]
    done = torchrun(2, "--max-restarts", 1, script, *args, VICTIM="0")
    assert done.returncode == 0, done.stderr
    assert "rank 1 of 2 ends the run: the same command goes on from" in done.stderr
    assert f"goes on from {model}.run, iteration 25" in done.stderr
    alone = nelson.learn(
        Formula.from_dimacs(STREETS), str(data), seed=3, preset="paper", iterations=40
    )
    assert load(model).theta.tobytes() == alone.theta.tobytes()


def test_one_rank_with_torchrun_and_without(tmp_path, data):
    alone = nelson.learn(Formula.from_dimacs(STREETS), str(data), seed=3)
    one = torchrun(1, *TRAIN, STREETS, data, "-o", tmp_path / "one", "--seed", 3)
    assert one.returncode == 0, one.stderr
    args = [*TRAIN, STREETS, data, "-o", tmp_path / "plain", "--seed", "3", "-q"]
    plain = subprocess.run(
        [sys.executable, *map(str, args)], capture_output=True, timeout=TIMEOUT, text=True
    )
    assert plain.returncode == 0, plain.stderr
    assert plain.stderr == ""
    for name in ("one", "plain"):
        assert load(tmp_path / name).theta.tobytes() == alone.theta.tobytes()


#: `nelson.cli.train` on "machines" with files of their own.
ELSEWHERE = """
import os
os.chdir(os.environ["RANK"])
from nelson.cluster import train
train.main()
"""


def test_different_files_on_ranks_are_an_error(tmp_path, examples):
    (tmp_path / "elsewhere.py").write_text(ELSEWHERE)
    for rank in (0, 1):
        (tmp_path / str(rank)).mkdir()
        np.save(tmp_path / str(rank) / "x.npy", examples[rank:])
    launch = [tmp_path / "elsewhere.py", STREETS, "x.npy", "-o", "model"]
    os_cwd = os.getcwd()
    os.chdir(tmp_path)
    try:
        done = torchrun(2, *launch)
    finally:
        os.chdir(os_cwd)
    assert done.returncode == 1
    ours = [line for line in done.stderr.splitlines() if line.startswith("nelson: error")]
    assert len(ours) == 1  # one rank speaks for all
    assert "x.npy: not the same on rank 1 as on rank 0" in ours[0]


def test_sigterm_to_torchrun_ends_the_run_between_two_iterations(tmp_path, data):
    """As a scheduler does before it takes a machine away."""
    model = tmp_path / "model"
    args = [STREETS, data, "-o", model, "--preset", "paper", "--iterations", 10**6]
    process = launched(2, *TRAIN, *args, "--checkpoint-every", 1)
    until = time.monotonic() + TIMEOUT
    while not (tmp_path / "model.run" / "checkpoint.json").exists():
        assert time.monotonic() < until
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    process.terminate()
    done = finished(process)
    assert done.returncode != 0
    assert "interrupted after" in done.stderr
    kept = json.loads((tmp_path / "model.run" / "checkpoint.json").read_text())
    assert load(model).metadata["iterations"] == kept["iteration"] > 0


def test_a_budget_that_ends_is_code_3_and_the_model_is_there(tmp_path, data):
    model = tmp_path / "model"
    done = torchrun(2, *TRAIN, STREETS, data, "-o", model, "--iterations", 1)
    assert done.returncode == 1  # torchrun's
    assert "exitcode  : 3" in done.stderr
    ours = [line for line in done.stderr.splitlines() if line.startswith("nelson: budget")]
    assert len(ours) == 1
    assert load(model).metadata["iterations"] == 1
