"""Ranks share the rows of a file: every format, errors, memory."""

from __future__ import annotations

import gzip
import lzma
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import nelson
from nelson import Formula, FormulaError
from nelson.cli.train import same_everywhere
from nelson.io import atomic, sample_files, tables
from nelson.learning.data import load_examples
from nelson.learning.group import ALONE, ProcessGroup, span
from nelson.learning.rank_examples import file_digest, load_share
from tests.learning.ranks import STREETS, THETA, Threads


def _files(folder: Path, samples: nelson.Samples) -> list[Path]:
    """The examples in every format."""
    x = samples.to_numpy()
    np.save(folder / "rows.npy", x.astype(np.uint8))
    np.save(folder / "columns.npy", np.asfortranarray(x))
    np.savez(folder / "plain.npz", x=x, other=np.zeros(3))
    np.savez_compressed(folder / "compressed.npz", only=np.asfortranarray(x))
    for name in ("packed.npz", "packed.parquet"):
        with atomic.writing(folder / name) as out:
            kind = "npz" if name.endswith("npz") else "parquet"
            writer = sample_files.make_writer(kind, out, samples.variables)
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


@pytest.mark.slow
def test_parts_of_every_format_are_the_whole(tmp_path):
    pytest.importorskip("pyarrow", reason="pip install nelson-mrf[parquet]")
    formula = Formula.from_dimacs(STREETS)
    samples = nelson.sample(formula, THETA, 203, seed=2)
    paths = _files(tmp_path, samples)
    assert len(paths) == 11
    for path in paths:
        whole = tables.read(str(path))
        for size in (1, 2, 3):
            groups = [Threads.Rank(Threads(size), rank) for rank in range(size)]
            parts = [tables.read_rows(str(path), lambda n, g=group: span(n, g)) for group in groups]
            slices = [table for table, _, _ in parts]
            np.testing.assert_array_equal(np.concatenate([t.x for t in slices]), whole.x)
            assert {total for _, _, total in parts} == {203}
            assert {(t.variables, t.names) for t in slices} == {whole[1:3]}
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


@pytest.mark.slow
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
        assert all(means == expected for means in batches)
    x[:] = False
    np.save(path, x)
    with pytest.raises(FormulaError, match="all 1001 rows are invalid"):
        Threads(2).run(lambda g: load_share(formula, path, g, "", True))


def _batches(formula: Formula, path: str, group: ProcessGroup) -> list[bytes]:
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
