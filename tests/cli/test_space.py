"""Spaces on the command line: rows in every format, and count, marginals, map, info of a space."""

from __future__ import annotations

import csv
import io
import itertools
import json
import signal
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from nelson.cli.output import drawn_rows
from nelson.space import Space
from tests import ROOT
from tests.cli.commands import NELSON, TIMEOUT, Done, run, run_process
from tests.paper.experiments.toy_runs import wait

BUS = ROOT / "examples" / "bus.toml"
SMALL = """
rules = ["a + b <= 4", 'implies(c == "x", f)']
[fields]
a = { integer = [0, 3] }
b = { choice = [1, 2, 5] }
c = { choice = ["x", "y, z"] }
f = "flag"
"""
WRONG = """
rules = [
  "a > 2",
  "b",
  "a < 2",
]
[fields]
a = { integer = [0, 9] }
b = "flag"
"""


@pytest.fixture
def small(tmp_path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def good(done: Done) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- sample --------------------------------------------------------------------------------------


def test_rows_go_to_stdout_as_csv():
    done = run("sample", BUS, "-n", 200, "--seed", 3)
    rows = rows_of(good(done))
    assert len(rows) == 200
    assert list(rows[0]) == ["addr", "len", "burst", "write"]
    table = {
        "addr": [int(r["addr"]) for r in rows],
        "len": [int(r["len"]) for r in rows],
        "burst": [r["burst"] for r in rows],
        "write": [r["write"] == "True" for r in rows],
    }
    space = Space.load(BUS)
    assert space.satisfied(table).all()
    expected = space.sample(200, seed=3)
    assert table == {name: expected[name].tolist() for name in expected.columns}
    assert "200 rows · exact" in done.stderr and "seed 3" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["r.csv", "r.npz", "r.parquet", "r.arrow", "r.feather"])
@pytest.mark.parametrize("n", [0, 70_000])
def test_files_hold_the_rows_of_the_same_seed(small, tmp_path, name, n):
    """More than one block, and none at all."""
    if not name.endswith(("csv", "npz")):
        pytest.importorskip("pyarrow", reason="pip install nelson-mrf[parquet]")
    out = tmp_path / name
    done = run("sample", small, "-n", n, "--seed", 5, "-o", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    expected = Space.load(small).sample(n, seed=5)
    columns, info = read_back(out)
    assert list(columns) == ["a", "b", "c", "f"]
    for key, column in columns.items():
        assert list(column) == [str(v) if name == "r.csv" else v for v in expected[key].tolist()]
    if info is not None:
        assert info["samples"] == n and (not n or info["seed"] == 5)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([name, "small.toml"])


def read_back(path: Path) -> tuple[dict[str, list], dict | None]:
    if path.suffix == ".csv":
        lines = list(csv.reader(io.StringIO(path.read_text())))
        return {name: [row[k] for row in lines[1:]] for k, name in enumerate(lines[0])}, None
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as data:
            rows, info = data["rows"], json.loads(str(data["info"]))
        return {name: rows[name].tolist() for name in rows.dtype.names}, info
    if path.suffix == ".parquet":
        from pyarrow import parquet

        table = parquet.read_table(path)
        meta = parquet.ParquetFile(path).metadata.metadata
        return table.to_pydict(), json.loads(meta[b"nelson.info"])
    from pyarrow import ipc

    return ipc.open_file(path).read_all().to_pydict(), None


def test_the_stream_is_cut_into_blocks():
    """No block holds all rows: memory does not grow with -n."""
    sizes = [len(block) for block in drawn_rows(Space.load(BUS), {"n": 200_000, "seed": 1})]
    assert sum(sizes) == 200_000
    assert max(sizes) <= 65_536


@pytest.mark.slow
def test_given_takes_values_ranges_and_rules(small):
    rows = rows_of(good(run("sample", small, "-n", 50, "--given", "c=y, z", "--given", "f=false")))
    assert {(r["c"], r["f"]) for r in rows} == {("y, z", "False")}
    rows = rows_of(good(run("sample", small, "-n", 50, "--given", "b=2", "--given", "a > 0")))
    assert {(r["b"], int(r["a"]) > 0) for r in rows} == {("2", True)}
    rows = rows_of(good(run("sample", small, "-n", 50, "--given", "a=0x1..2", "--given", "not f")))
    assert {r["a"] for r in rows} <= {"1", "2"} and {r["f"] for r in rows} == {"False"}


@pytest.mark.slow
def test_unique_rows_end_when_all_are_drawn(small):
    legal = int(good(run("count", small)))
    done = run("sample", small, "-n", 1000, "--unique")
    assert done.returncode == 3
    assert f"{legal} of 1,000 rows" in done.stderr
    rows = Counter(tuple(r.values()) for r in rows_of(done.stdout))
    assert len(rows) == legal and set(rows.values()) == {1}
    assert len(rows_of(good(run("sample", small, "-n", legal, "--unique")))) == legal
    every = rows_of(good(run("sample", small, "-n", "inf", "--unique")))
    assert {tuple(r.values()) for r in every} == set(rows) and len(every) == legal


@pytest.mark.parametrize(
    ("options", "share"),
    [
        (["--share", "burst.FIXED=0.6", "--share", "burst.INCR=0.3"], 0.6),
        (["--first", "burst"], 1 / 3),
        (["--weight", "burst.FIXED=2", "--weight", "burst.INCR=1"], 10 / 16),
    ],
)
def test_shares_first_and_weights(options, share):
    """20,000 rows: 5 sigma of a share are below 0.018. False alarms: fewer than 1 in a million."""
    done = run("sample", BUS, "-n", 20_000, "--seed", 2, *options)
    found = Counter(r["burst"] for r in rows_of(good(done)))
    assert abs(found["FIXED"] / 20_000 - share) < 0.018
    exact = json.loads(good(run("marginals", BUS, "--json", *options)))
    shares = {r["value"]: r["share"] for r in exact if r["field"] == "burst"}
    assert shares["FIXED"] == pytest.approx(share, abs=2e-4)
    if "--share" in options:
        assert "shares reached (burst == 'FIXED': 0.6" in done.stderr


def test_numbers_of_the_file_are_defaults(small):
    """`--weights none` ignores them; a field that an option names takes nothing from the file."""
    small.write_text(SMALL + "[shares.c]\nx = 0.9\n[weights]\nf = 3\n")

    def share(*options: object) -> float:
        table = json.loads(good(run("marginals", small, "--json", *options)))
        return next(r["share"] for r in table if (r["field"], r["value"]) == ("c", "x"))

    plain = Space.from_toml(SMALL)
    assert share() == pytest.approx(0.9, abs=1e-6)
    assert share("--share", "c.x=0.25") == pytest.approx(0.25, abs=1e-6)
    assert share("--weights", "none") == pytest.approx(plain.marginals()["c"]["x"])
    weighted = plain.marginals(weights={"c": {"x": 5}, "f": 2})["c"]["x"]
    options = ("--weights", "none", "--weight", "c.x=5", "--weight", "f=2")
    assert share(*options) == pytest.approx(weighted)


# --- the other commands --------------------------------------------------------------------------


@pytest.mark.slow
def test_count_is_exact():
    legal = sum(4 * a + n <= 0xFFFF for n in range(1, 16) for a in range(1 << 14)) * 4
    legal += sum(4 * a + n <= 0xFFFF for n in (2, 4, 8) for a in range(1 << 14)) * 2
    assert good(run("count", BUS)) == f"{legal}\n"
    assert json.loads(good(run("count", BUS, "--json", "--given", "addr=4"))) == {"count": 66}
    assert good(run("count", BUS, "--given", "burst=WRAP", "--given", "len=3")) == "0\n"


@pytest.mark.slow
def test_counts_of_any_size_are_printed(tmp_path):
    """2^20000 has more digits than Python prints by default."""
    path = tmp_path / "wide.toml"
    flags = ", ".join(f'"f{k}"' for k in range(20_000))
    path.write_text(f"[fields]\ns = {{ flags = [{flags}] }}\n")
    done = run("count", path)
    assert int(good(done)[:6]) == 398027 and len(done.stdout) == 6022
    assert len(json.dumps(None)) == 4  # the limit of Python is back where it was
    with pytest.raises(ValueError, match="4300"):
        str(2**20_000)


def test_marginals_in_files(tmp_path):
    for name in ("m.csv", "m.json"):
        done = run("marginals", BUS, "--given", "burst=WRAP", "-o", tmp_path / name)
        assert good(done) == "" and done.stderr == "nelson: exact\n"
    rows = rows_of((tmp_path / "m.csv").read_text())
    objects = json.loads((tmp_path / "m.json").read_text())
    assert [r["share"] for r in rows] == [str(r["share"]) for r in objects]
    wrap = {r["value"]: float(r["share"]) for r in rows if r["field"] == "len"}
    assert wrap["3"] == 0 and sum(wrap.values()) == pytest.approx(1)
    assert [r["value"] for r in rows][:2] == ["0..4095", "4096..8191"]
    text = good(run("marginals", BUS, "-q"))
    assert text.splitlines()[0].split() == ["field", "value", "share"]
    assert "burst  WRAP" in text


@pytest.mark.slow
def test_map_is_a_legal_row_of_greatest_weight(tmp_path):
    options = ["--weight", "burst.WRAP=10", "--weight", "len > 4=2", "--weight", "write=3"]
    row = json.loads(good(run("mode", BUS, "--json", *options)))
    assert row["burst"] == "WRAP" and row["len"] == 8 and row["write"] is True
    assert good(run("mode", BUS, *options)).splitlines()[0].split() == ["field", "value"]
    assert run("mode", BUS, *options, "-o", tmp_path / "m.csv").returncode == 0
    assert rows_of((tmp_path / "m.csv").read_text()) == [{k: str(v) for k, v in row.items()}]
    done = run("mode", BUS, "--given", "addr=8")
    assert "addr   8" in good(done)
    assert "equally likely" in done.stderr


@pytest.mark.slow
def test_info_shows_fields_rules_counts_and_shares():
    text = good(run("report", BUS))
    for piece in ("Space bus", "addr   0..65535", "bus.toml:5", "legal rows  1081242", "clauses"):
        assert piece in text
    assert "WRAP" in text.split("share of each value")[1]
    parsed = json.loads(good(run("report", BUS, "--json", "--given", "burst=INCR")))
    assert parsed["legal_rows"] == Space.load(BUS).count({"burst": "INCR"})
    assert {r["value"]: r["share"] for r in parsed["shares"] if r["field"] == "burst"} == {
        "FIXED": 0,
        "INCR": 1,
        "WRAP": 0,
    }


@pytest.mark.slow
@pytest.mark.parametrize("command", ["sample", "report", "marginals", "mode"])
def test_a_contradiction_is_named(tmp_path, command):
    path = tmp_path / "wrong.toml"
    path.write_text(WRONG)
    done = run(command, path)
    assert done.returncode == 20
    assert "cannot hold together" in done.stderr
    assert "wrong.toml:3" in done.stderr and "wrong.toml:5" in done.stderr
    assert "wrong.toml:4" not in done.stderr  # `b` has no part in it
    done = run(command, BUS, "--given", "burst=WRAP", "--given", "len=3")
    assert done.returncode == 20 and "given: burst == 'WRAP'" in done.stderr


@pytest.mark.slow
def test_cover_has_every_legal_pair(small, tmp_path):
    done = run("cover", small, "-o", tmp_path / "t.csv", "--seed", 1)
    assert good(done) == ""
    rows = rows_of((tmp_path / "t.csv").read_text())
    space = Space.load(small)
    every = space.sample(10_000, unique=True, seed=0)
    for a, b in itertools.combinations(space.fields, 2):
        legal = {(str(r[a]), str(r[b])) for r in every}
        assert {(r[a], r[b]) for r in rows} == legal
    assert len(rows) < len(every)
    assert f"{len(rows)} rows" in done.stderr


@pytest.mark.slow
def test_cover_takes_fields_bins_and_conditions():
    done = run("cover", BUS, "--given", "write=true", "--bins", "addr=4", "--seed", 1)
    rows = rows_of(good(done))
    assert {r["write"] for r in rows} == {"True"}
    assert {(int(r["addr"]) // 2**14, r["burst"]) for r in rows} == {
        (k, b) for k in range(4) for b in ("FIXED", "INCR", "WRAP")
    }
    done = run("cover", BUS, "--field", "burst", "--field", "write")
    assert len(rows_of(good(done))) == 6
    assert "addr has too many values" in run("cover", BUS).stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["x.cnf"], 1),
        ([BUS, "--bins", "addr"], 2),
        ([BUS, "--bins", "addr=4", "--field", "len"], 2),
        ([BUS, "--bins", "adr=4"], 1),
        ([BUS, "-t", "9"], 1),
        ([BUS, "--given", "burst=WRAP", "--given", "len=3"], 20),
    ],
)
def test_what_cover_refuses(arguments, code):
    done = run("cover", *arguments)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--given", "brust=WRAP"], 1, "'burst'?"),
        (["--given", "burst=WRAPPED"], 1, "'WRAP'?"),
        (["--given", "len=99"], 1, "1..15"),
        (["--given", "len=many"], 1, "a whole number"),
        (["--given", "write=perhaps"], 1, "true or false"),
        (["--given", "len >"], 1, "cannot be read"),
        (["--weight", "burst.FIXED"], 2, "burst.FIXED=60"),
        (["--weight", "burst=3"], 1, "a number for each value"),
        (["--weight", "burst.FIXED=-3"], 1, "0 or more"),
        (["--share", "burst.FIXED=1.5"], 1, "at most 1"),
        (["--share", "burst.FIXED=0.5", "--first", "burst"], 1, "both shares= and first="),
        (["--first", "nothing"], 1, "no field is called 'nothing'"),
        (["--weights", "theta.npy"], 2, "--weight name.value=3"),
        (["--project", "1"], 2, "DIMACS files only"),
        (["--cluster"], 2, "only with a folder"),
        (["--method", "no-such"], 1, "no-such"),
        (["-o", "rows.txt"], 1, "use .csv"),
        (["-o", "rows"], 1, "use .csv"),
        (["-o", "no-such-folder/x.csv"], 1, "no-such-folder"),
        (["-n", "many"], 2, "many"),
    ],
)
def test_bad_options_of_sample(options, code, words):
    done = run("sample", BUS, *options)
    assert done.returncode == code, done.stderr
    assert words in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr and done.stdout == ""


@pytest.mark.parametrize("command", ["sample", "report", "count", "marginals", "mode", "cover"])
def test_bad_files_are_one_line_with_file_and_line(tmp_path, command):
    path = tmp_path / "bad.toml"
    path.write_text('rules = [\n  "a <",\n]\n[fields]\na = "flag"\n')
    for name, words in ((path, "bad.toml:2: the rule `a <`"), ("missing.toml", "missing.toml")):
        done = run(command, name)
        assert done.returncode == 1
        assert words in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["count", "marginals", "mode", "cover"])
def test_help_shows_an_example(command):
    assert f"nelson {command} bus.toml" in run(command, "--help").stdout.split("Examples:")[1]


def test_tables_have_two_formats(tmp_path):
    for command in ("marginals", "mode"):
        done = run(command, BUS, "-o", tmp_path / "x.parquet")
        assert done.returncode == 1 and ".csv or .json" in done.stderr
    assert not list(tmp_path.iterdir())


def test_wide_values_do_not_fit_in_npz(tmp_path):
    path = tmp_path / "wide.toml"
    path.write_text("[fields]\nw = { integer = [0, 0xFFFFFFFFFFFFFFFFFFFF] }\n")
    done = run("sample", path, "-n", 2, "-o", tmp_path / "x.npz")
    assert done.returncode == 1 and "use .csv" in done.stderr
    assert run("sample", path, "-n", 2, "-o", tmp_path / "x.csv").returncode == 0


# --- in a shell ----------------------------------------------------------------------------------


@pytest.mark.process
def test_in_a_process():
    done = run_process("sample", BUS, "-n", 3, "--seed", 1)
    assert done.returncode == 0 and len(rows_of(done.stdout)) == 3


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "number"),  # test_signals.py has every format with both signals
    [("x.csv", signal.SIGINT), ("x.npz", signal.SIGTERM), ("x.parquet", signal.SIGINT)],
)
def test_a_signal_leaves_a_complete_file(tmp_path, name, number):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow", reason="pip install nelson-mrf[parquet]")
    path = tmp_path / name
    process = subprocess.Popen(
        [*NELSON, "sample", BUS, "-n", "inf", "-o", path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    wait(lambda: has_drawn(process.pid, tmp_path) or process.poll() is not None)
    process.send_signal(number)
    _, error = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 128 + number, error
    assert b"interrupted: all finished rows are written" in error
    assert [p.name for p in tmp_path.iterdir()] == [name]
    columns, info = read_back(path)
    count = len(columns["addr"])
    assert count > 0 and (info is None or info["samples"] == count)
    tail = {k: v[-1000:] for k, v in columns.items()}
    if name == "x.csv":
        tail = {k: [int(x) for x in tail[k]] for k in ("addr", "len")} | {
            "burst": tail["burst"],
            "write": [x == "True" for x in tail["write"]],
        }
    assert Space.load(BUS).satisfied(tail).all()


def has_drawn(pid: int, folder: Path) -> bool:
    """Is the first block written, here or in a scratch file without a name?"""
    if not any(folder.iterdir()):  # the output is not open yet
        return False
    for file in [*folder.iterdir(), *Path(f"/proc/{pid}/fd").glob("*")]:
        try:
            named = file.parent == folder or "(deleted)" in str(file.readlink())
            if named and file.is_file() and file.stat().st_size > 100_000:
                return True
        except OSError:
            continue
    return False


def test_commands_say_what_a_space_needs(tmp_path):
    done = run("learn", BUS, "-o", tmp_path / "m")
    assert done.returncode == 2 and "a space needs a table as well" in done.stderr
    done = run("learn", BUS, tmp_path / "data.csv", "-o", tmp_path / "m")
    assert done.returncode == 1 and "data.csv: No such file" in done.stderr
    assert not (tmp_path / "m").exists()
    assert run("judge", "--method", "auto", BUS).returncode == 2


def test_feature_models_are_spaces(tmp_path):
    path = tmp_path / "car.uvl"
    path.write_text("features\n\tCar\n\t\toptional\n\t\t\tRadio\n\t\t\tTowbar\n")
    assert good(run("count", path)) == "4\n"
    rows = rows_of(good(run("sample", path, "-n", 20, "--given", "Radio=true")))
    assert {(r["Car"], r["Radio"]) for r in rows} == {("True", "True")}
