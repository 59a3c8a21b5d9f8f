"""Files whose content contradicts itself: refused with one error, before a kernel trusts a size."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest

import nelson
from nelson.errors import FormulaError, NelsonError
from nelson.io import sample_files, tables
from nelson.kernels.core.bits import pack
from nelson.learning.data import load_examples
from nelson.learning.model import Model
from nelson.sampling.samples import Samples
from tests.cli.commands import run

FORMULA = nelson.Formula([[1, 2], [-1, 3]], n_vars=3)
SAMPLES = nelson.sample(FORMULA, None, 500, seed=1)
WHOLE = {
    "packed": SAMPLES.packed,
    "variables": np.arange(1, 4),
    "count": np.int64(500),
    "info": np.array("{}"),
}


def saved(path, **changes):
    np.savez(path, **(WHOLE | changes))
    return path


def test_the_whole_file_is_read(tmp_path):
    """The twin of all refusals below: the same file without a change."""
    np.testing.assert_array_equal(tables.read(saved(tmp_path / "x.npz")).x, SAMPLES.to_numpy())


#: Words by columns are read whole: a reader that counts bytes does not see that some are missing.
BY_COLUMNS = np.asfortranarray(SAMPLES.packed)
WRONG = {
    "count far beyond the words, by columns": {"count": np.int64(10**9), "packed": BY_COLUMNS},
    "count beyond the words, by columns": {"count": np.int64(600), "packed": BY_COLUMNS},
    "count far beyond the words": {"count": np.int64(10**9)},
    "count beyond the words": {"count": np.int64(600)},
    "count below the words": {"count": np.int64(300)},
    "count within the last word": {"count": np.int64(490)},
    "count 0": {"count": np.int64(0)},
    "count negative": {"count": np.int64(-1)},
    "count above int64": {"count": np.uint64(2**64 - 1)},
    "count a float": {"count": np.float64(500)},
    "count a list": {"count": np.array([500, 500])},
    "packed int64": {"packed": SAMPLES.packed.astype(np.int64)},
    "packed uint32": {"packed": SAMPLES.packed.astype(np.uint32)},
    "packed float": {"packed": SAMPLES.packed.astype(np.float64)},
    "packed 1-D": {"packed": SAMPLES.packed[:, 0]},
    "packed 3-D": {"packed": SAMPLES.packed[None]},
    "packed of objects": {"packed": np.array([[None] * 3] * 8)},
    "a column less": {"packed": SAMPLES.packed[:, :2]},
    "a variable twice": {"variables": np.array([1, 2, 2])},
    "variable 0": {"variables": np.array([0, 1, 2])},
    "variable negative": {"variables": np.array([-1, 2, 3])},
    "variable too large": {"variables": np.array([1, 2, 2**62])},
    "variables of floats": {"variables": np.array([1.0, 2.0, 3.0])},
    "variables 2-D": {"variables": np.array([[1, 2, 3]])},
    "variables one number": {"variables": np.int64(3)},
    "info a list": {"info": np.array("[1]")},
    "info no JSON": {"info": np.array("{")},
    "info nested deeply": {"info": np.array("[" * 100_000)},
}


@pytest.mark.parametrize("name", WRONG)
def test_sizes_in_a_sample_file_must_agree(tmp_path, name):
    """`count` = 10**9 was a segmentation fault; 600 read memory behind the array."""
    path = saved(tmp_path / "x.npz", **WRONG[name])
    with pytest.raises(FormulaError, match=r"x\.npz: "):
        tables.read(path)
    with pytest.raises(FormulaError, match=r"x\.npz: "):
        sample_files.read(path)
    with pytest.raises(FormulaError, match=r"x\.npz: "):
        tables.read_rows(path, lambda total: (total // 3, total))


def test_a_window_is_checked_against_the_words_as_well(tmp_path):
    path = saved(tmp_path / "x.npz", count=np.int64(10**9))
    with pytest.raises(FormulaError, match="expected 15625000 words"):
        tables.read_rows(path, lambda total: (0, 10))
    good = tables.read_rows(saved(tmp_path / "y.npz"), lambda total: (70, 460))
    np.testing.assert_array_equal(good.table.x, SAMPLES.to_numpy()[70:460])


@pytest.mark.parametrize("order", ["<u8", ">u8"])
def test_the_byte_order_of_words_does_not_matter(tmp_path, order):
    path = saved(tmp_path / "x.npz", packed=SAMPLES.packed.astype(order))
    np.testing.assert_array_equal(tables.read(path).x, SAMPLES.to_numpy())


@pytest.mark.parametrize("command", ["learn", "evaluate", "judge"])
def test_a_wrong_count_is_one_line_for_every_command(tmp_path, command):
    path = saved(tmp_path / "x.npz", count=np.int64(10**9), packed=BY_COLUMNS)
    FORMULA.to_dimacs(tmp_path / "f.cnf")
    Model(FORMULA, np.zeros(3)).save(tmp_path / "m")
    arguments = {
        "learn": ["learn", tmp_path / "f.cnf", path, "-o", tmp_path / "new"],
        "evaluate": ["evaluate", tmp_path / "m", path],
        "judge": ["judge", tmp_path / "f.cnf", "--samples", path],
    }
    done = run(*arguments[command])
    assert done.returncode == (2 if command == "judge" else 1), done.stderr
    assert len(done.stderr.splitlines()) == 1 and "x.npz" in done.stderr


def member(name, header: dict, data: bytes = b"") -> bytes:
    """A zip archive with one `.npy` member of any header."""
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, header)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(name, out.getvalue() + data)
    return archive.getvalue()


@pytest.mark.parametrize(
    "shape", [(10**15, 3), (2**62, 2**62), (-1, 3), (3, -1), (5, 3), (10**18, 0), (2**63, 2)]
)
@pytest.mark.parametrize("kind", ["|b1", "<f8", "|O", "|S0"])
def test_an_array_that_is_not_there_is_not_allocated(tmp_path, shape, kind):
    header = {"descr": kind, "fortran_order": False, "shape": shape}
    path = tmp_path / "x.npz"
    path.write_bytes(member("x.npy", header, b"\0" * 12))
    with pytest.raises(FormulaError):
        tables.read(path)
    with zipfile.ZipFile(path) as archive:
        (tmp_path / "x.npy").write_bytes(archive.read("x.npy"))
    with pytest.raises(FormulaError):
        tables.read(tmp_path / "x.npy")


def test_truncated_archives_are_refused_at_every_length(tmp_path):
    whole = saved(tmp_path / "x.npz").read_bytes()
    path = tmp_path / "cut.npz"
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(FormulaError, match=r"cut\.npz: "):
            tables.read(path)


def test_an_archive_of_several_disks_is_refused(tmp_path):
    """zipfile raises BadZipFile for it already in `is_zipfile`."""
    path = saved(tmp_path / "x.npz")
    end = b"PK\x06\x07" + b"\0" * 12 + b"\x02\0\0\0"  # a ZIP64 locator: two disks
    whole = path.read_bytes()
    at = whole.rindex(b"PK\x05\x06")
    path.write_bytes(whole[:at] + end + whole[at:])
    with pytest.raises(FormulaError, match="cannot read it"):
        tables.read(path)


# --- text and CSV --------------------------------------------------------------------------------


def test_lone_carriage_returns_end_a_line(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b"x1,x2\r0,1\r1,1\r")
    np.testing.assert_array_equal(tables.read(path).x, [[0, 1], [1, 1]])


@pytest.mark.parametrize(
    "text", [b"x1,x2\n0," + b"1" * 200_000 + b"\n", b'x1,x2\n0,"' + b"1\n" * 100_000]
)
def test_a_field_beyond_the_limit_of_csv_is_refused_with_its_line(tmp_path, text):
    path = tmp_path / "x.csv"
    path.write_bytes(text)
    with pytest.raises(FormulaError, match=r"x\.csv:\d+: not CSV"):
        tables.read(path)


def test_csv_rows_of_other_lengths_take_no_memory(tmp_path):
    """100,000 titles and 100,000 rows of one cell: a matrix of both would take 10 GB."""
    path = tmp_path / "x.csv"
    path.write_text(",".join(["0"] * 100_000) + "\n" + "0\n" * 100_000)
    with pytest.raises(FormulaError, match=r"x\.csv:2: 1 cells"):
        tables.read(path)


@pytest.mark.parametrize(
    "text",
    [
        "999999999: 1 2 3 0\n",
        "9" * 5000 + ": 1 2 3 0\n",
        "1 2 3 0: " + "9" * 5000 + "\n",
        "1 2 3 0: -1\n",
        "1 2 -9223372036854775808 0\n",
        "1 2 99999999999 0\n",
        "1:" + " " * 200_000 + "x\n",
    ],
)
def test_counts_and_literals_of_a_text_are_bounded(tmp_path, text):
    path = tmp_path / "x.txt"
    path.write_text(text)
    with pytest.raises(FormulaError, match=r"x\.txt"):
        tables.read(path)


@pytest.mark.parametrize("title", ["x99999999999", "x" + "9" * 5000, "x4294967296"])
def test_a_title_beyond_all_variables_is_refused(tmp_path, title):
    path = tmp_path / "x.csv"
    path.write_text(f"x1,{title}\n0,1\n")
    with pytest.raises(FormulaError, match="wrong numbers of variables"):
        tables.read(path)


# --- Parquet -------------------------------------------------------------------------------------


def parquet(path, columns: dict, metadata: dict | None = None):
    pa = pytest.importorskip("pyarrow", reason="pip install nelson-mrf[parquet]")
    import pyarrow.parquet

    table = pa.table(columns)
    if metadata is not None:
        table = table.replace_schema_metadata(metadata)
    pyarrow.parquet.write_table(table, path)
    return path


def test_parquet_columns_of_other_types_are_refused(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="pip install nelson-mrf[parquet]")
    others = [
        pa.array(["0", "1"]),
        pa.array([[0], [1, 1]]),
        pa.array([0, 1], pa.timestamp("ns", "Europe/Nowhere")),
        pa.array([b"0", b"1"]),
        pa.array([{"a": 1}, {"a": 0}]),
        pa.array(["0", "1"]).dictionary_encode(),
        pa.array([0, None]),
        pa.array([None, None]),
        pa.array([0, 2]),
        pa.array([0.5, 1]),
    ]
    for column in others:
        with pytest.raises(FormulaError, match=r"x\.parquet"):
            tables.read(parquet(tmp_path / "x.parquet", {"a": column}))
    for column in (pa.array([0, 1]), pa.array([False, True]), pa.array([0.0, 1.0])):
        path = parquet(tmp_path / "x.parquet", {"a": column})
        np.testing.assert_array_equal(tables.read(path).x, [[0], [1]])


def test_parquet_of_samples_must_agree_with_its_metadata(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="pip install nelson-mrf[parquet]")

    def refused(column, variables, info="{}"):
        metadata = {"nelson.variables": variables, "nelson.info": info}
        with pytest.raises(FormulaError, match=r"x\.parquet"):
            tables.read(parquet(tmp_path / "x.parquet", column, metadata))

    rows = pa.array([b"\x05", b"\x02"], pa.binary(1))
    metadata = {"nelson.variables": "[1, 2, 3]"}
    good = tables.read(parquet(tmp_path / "x.parquet", {"x": rows}, metadata))
    np.testing.assert_array_equal(good.x, [[1, 0, 1], [0, 1, 0]])
    refused({"x": rows}, "[1, 2, 3, 4, 5, 6, 7, 8, 9]")  # was padded with zeros
    for variables in (
        "[1, 2, 2]",
        "[0, 1, 2]",
        "[1.0, 2]",
        "3",
        "null",
        "[[1]]",
        "{}",
        "[",
        '["1"]',
    ):
        refused({"x": rows}, variables)
    refused({"x": rows}, "[1, 2, 3]", "[]")
    refused({"y": rows}, "[1, 2, 3]")
    refused({"x": pa.array([b"\x05", None], pa.binary(1))}, "[1, 2, 3]")
    refused({"x": pa.array([b"\x05", b"\x02"])}, "[1, 2, 3]")
    refused({"x": pa.array([5, 2])}, "[1, 2, 3]")


# --- objects -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("packed", "count", "variables"),
    [
        (np.zeros((1, 3), np.uint64), 65, (1, 2, 3)),
        (np.zeros((1, 3), np.uint64), -1, (1, 2, 3)),
        (np.zeros((1, 3), np.uint64), 10**9, (1, 2, 3)),
        (np.zeros((1, 3), np.int64), 5, (1, 2, 3)),
        (np.zeros((1, 3), np.uint64), 5, (1, 2)),
        (np.zeros(3, np.uint64), 5, (1, 2, 3)),
        (np.zeros((2, 1, 3), np.uint64), 65, (1, 2, 3)),
    ],
)
def test_samples_refuse_a_count_beyond_their_words(packed, count, variables):
    with pytest.raises(FormulaError, match="64 samples in a word"):
        Samples(packed, count, variables, "exact")
    assert len(Samples(np.zeros((2, 1, 3), np.uint64), 64, (1, 2, 3), "exact")) == 64


def test_examples_of_hostile_samples_never_reach_a_kernel(tmp_path):
    with pytest.raises(NelsonError):
        load_examples(FORMULA, saved(tmp_path / "x.npz", count=np.int64(10**9)))
    examples = load_examples(FORMULA, saved(tmp_path / "y.npz"))
    np.testing.assert_array_equal(examples.packed, pack(SAMPLES.to_numpy()))


# --- --weights -----------------------------------------------------------------------------------


def test_a_broken_file_of_weights_is_one_line(tmp_path):
    FORMULA.to_dimacs(tmp_path / "f.cnf")
    np.savez(tmp_path / "z", a=np.zeros(3))
    whole = (tmp_path / "z.npz").read_bytes()
    np.save(tmp_path / "text.npy", np.array(["a", "b", "c"]))
    broken = {"cut.npy": whole[: len(whole) // 2], "zip.npy": whole, "w.gz": b"\x1f\x8b\x08broken"}
    for name, data in broken.items():
        (tmp_path / name).write_bytes(data)
    for name in (*broken, "text.npy"):
        done = run("sample", tmp_path / "f.cnf", "--weights", tmp_path / name)
        assert done.returncode == 1, done.stderr
        assert len(done.stderr.splitlines()) == 1 and name in done.stderr


# --- folders of cluster jobs ---------------------------------------------------------------------


@pytest.mark.parametrize("check", [True, False])
def test_a_job_with_more_variables_than_bits_is_refused(tmp_path, check):
    """The kernel that turns rows into words would read behind the rows. Checksums are valid."""
    fuzz = pytest.importorskip("tests.io.fuzz", reason="pip install nelson-mrf[parquet]")
    for name, data in fuzz.job_examples()[0].items():
        (tmp_path / name).write_bytes(data)
    assert len(fuzz.read_job(tmp_path, check=check).samples()) == 100  # the twin
    job = fuzz.parts.read_job(fuzz.parts.Store(tmp_path))
    for wrong in (list(range(1, 2000)), [1, 1, 2], [0, 1, 2], 3, None, ["1"]):
        text = json.dumps(job | {"variables": wrong})
        schema = fuzz.pyarrow.schema([("x", fuzz.pyarrow.binary(1))])
        file = fuzz.parts._encoded(schema, (), {"job": text, "guarantee": "exact"}, True)[0]
        (tmp_path / fuzz.parts.JOB).write_bytes(file)
        says = "not 250 bytes for 1999 variables" if str(wrong).count(",") > 9 else ""
        with pytest.raises(NelsonError, match=says):
            fuzz.read_job(tmp_path, check=check).samples()
