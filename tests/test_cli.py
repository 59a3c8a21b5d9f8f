"""The command line from outside: a shell's view of exit codes, streams, files and signals."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from nelson import Formula
from nelson.io import sample_files as nio
from nelson.kernels.core.bits import unpack

NELSON = [sys.executable, "-m", "nelson.cli"]
DATA = Path(str(resources.files("nelson.tasks") / "data"))
STREETS, KSAT = DATA / "streets.cnf", DATA / "ksat-1000.cnf"
UNSAT = "p cnf 2 4\n1 2 0\n-1 2 0\n1 -2 0\n-1 -2 0\n"
TIMEOUT = 240  # seconds; the first call may have to compile


def run(*args: object, stdin: bytes | str | None = None, **options) -> subprocess.CompletedProcess:
    data = stdin.encode() if isinstance(stdin, str) else stdin
    return subprocess.run(
        [*NELSON, *map(str, args)],
        input=data,
        stdin=None if data is not None else subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT,
        **options,
    )


def said(stderr: bytes) -> str:
    """What the command said, less the note that a kernel is compiled for the first time."""
    lines = stderr.decode().splitlines(keepends=True)
    return "".join(line for line in lines if "compiling kernels" not in line)


def literals(text: bytes) -> np.ndarray:
    """SAT-sampler text -> `(m, n)` int; every line must be whole."""
    assert text == b"" or text.endswith(b" 0\n")
    rows = [[int(t) for t in line.split()] for line in text.splitlines()]
    assert all(row[-1] == 0 for row in rows)
    return np.array([row[:-1] for row in rows], dtype=int)


def assert_valid(path: Path, x: np.ndarray) -> None:
    assert Formula.from_dimacs(path).satisfied(x).all()


# ------------------------------------------------------------------------------------------ output


def test_sample_prints_valid_samples_and_nothing_else():
    done = run("sample", STREETS, "-n", 100, "--seed", 1)
    assert done.returncode == 0, done.stderr
    x = literals(done.stdout)
    assert x.shape == (100, 7)
    np.testing.assert_array_equal(np.abs(x), np.broadcast_to(np.arange(1, 8), x.shape))
    assert_valid(STREETS, x > 0)
    summary = done.stderr.decode()
    assert "100 samples" in summary
    assert "exact" in summary
    assert "seed 1" in summary


def test_same_seed_same_samples_on_any_number_of_threads():
    texts = [
        run("sample", KSAT, "-n", 130, "--seed", 5, "--threads", t, "-q").stdout for t in (1, 2)
    ]
    assert texts[0] == texts[1]
    other = run("sample", KSAT, "-n", 130, "--seed", 6, "-q").stdout
    assert other != texts[0]


def test_quiet_says_nothing():
    assert said(run("sample", STREETS, "-n", 3, "-q", "--seed", 1).stderr) == ""


def test_a_seed_is_drawn_and_told_when_none_is_given():
    first = run("sample", STREETS, "-n", 200)
    seed = first.stderr.decode().rsplit("seed ", 1)[1].split()[0]
    again = run("sample", STREETS, "-n", 200, "--seed", seed)
    assert again.stdout == first.stdout


def test_stdin_and_compressed_files(tmp_path):
    plain = run("sample", STREETS, "-n", 5, "--seed", 2)
    piped = run("sample", "-", "-n", 5, "--seed", 2, stdin=STREETS.read_bytes())
    packed = tmp_path / "s.cnf.gz"
    packed.write_bytes(gzip.compress(STREETS.read_bytes()))
    zipped = run("sample", packed, "-n", 5, "--seed", 2)
    assert plain.stdout == piped.stdout == zipped.stdout != b""


@pytest.mark.parametrize("name", ["out.txt", "out.npz", "out.parquet"])
def test_files_hold_what_stdout_shows(tmp_path, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow", reason="pip install nelson[parquet]")
    shown = run("sample", KSAT, "-n", 100, "--seed", 3)
    done = run("sample", KSAT, "-n", 100, "--seed", 3, "-o", tmp_path / name)
    assert done.returncode == 0, done.stderr
    assert done.stdout == b""
    x, variables, info = nio.read(tmp_path / name)
    np.testing.assert_array_equal(x, literals(shown.stdout) > 0)
    assert variables == tuple(range(1, 1001))
    if not name.endswith("txt"):
        assert info["seed"] == 3
        assert info["samples"] == 100
        assert info["guarantee"] in ("exact", "asymptotic", "heuristic")
    assert [p.name for p in tmp_path.iterdir()] == [name]  # no temporary file is left


def test_given_project_unique():
    done = run("sample", STREETS, "-n", 50, "--given", "-1,4", "-q")
    x = literals(done.stdout)
    assert (x[:, 0] < 0).all()
    assert (x[:, 3] > 0).all()
    done = run("sample", STREETS, "-n", 50, "--project", "2,7", "-q")
    assert set(np.abs(literals(done.stdout)).ravel()) == {2, 7}
    done = run("sample", STREETS, "-n", 14, "--unique", "-q")
    assert done.returncode == 0, done.stderr
    assert len(np.unique(literals(done.stdout), axis=0)) == 14  # all there are


def test_projection_in_the_file_is_the_default():
    text = "c ind 1 3 0\np cnf 3 1\n1 2 3 0\n"
    assert literals(run("sample", "-", stdin=text).stdout).shape == (1, 2)
    assert literals(run("sample", "-", "--project", "all", stdin=text).stdout).shape == (1, 3)


def test_weights_come_from_the_file_a_vector_or_nowhere(tmp_path):
    """One free variable with odds 3:1. Bands: 5 sigma of 4,000 draws, false alarms 1 in 10^6."""
    text = "p cnf 1 0\nc p weight 1 3 0\nc p weight -1 1 0\n"
    theta = tmp_path / "theta.npy"
    np.save(theta, np.array([-np.log(9.0)]))
    (tmp_path / "theta.txt").write_text("inf\n")
    m = 4000
    for options, p in (
        ([], 0.75),
        (["--weights", "file"], 0.75),
        (["--weights", "none"], 0.5),
        (["--weights", theta], 0.1),
        (["--weights", tmp_path / "theta.txt"], 1.0),
    ):
        x = literals(run("sample", "-", "-n", m, "--seed", 4, *options, stdin=text).stdout) > 0
        assert abs(x.mean() - p) <= 5 * np.sqrt(p * (1 - p) / m), (options, x.mean())


@pytest.mark.parametrize("count", ["1e2", "1_00", "100"])
def test_ways_to_write_a_count(count):
    assert len(literals(run("sample", STREETS, "-n", count).stdout)) == 100


def test_zero_samples_is_an_empty_success(tmp_path):
    done = run("sample", STREETS, "-n", 0)
    assert (done.returncode, done.stdout) == (0, b"")
    assert run("sample", STREETS, "-n", 0, "-o", tmp_path / "x.npz").returncode == 0
    assert nio.read(tmp_path / "x.npz")[0].shape == (0, 7)


# -------------------------------------------------------------------------------------- exit codes


def one_line(done: subprocess.CompletedProcess, code: int) -> str:
    text = said(done.stderr)
    assert done.returncode == code, text
    assert "Traceback" not in text
    assert done.stdout == b""
    return text


def test_missing_file():
    text = one_line(run("sample", "no-such-file.cnf"), 1)
    assert "no-such-file.cnf" in text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("p cnf 2 1\n1 two 0\n", ":2:"),
        ("p cnf x 1\n1 0\n", ":1:"),
        ("\x7fELF\x00\x01", ""),
        ("hello, world\n", ":1:"),
    ],
)
def test_wrong_file_names_the_line(tmp_path, text, line):
    path = tmp_path / "bad.cnf"
    path.write_text(text)
    for command in ("sample", "info"):
        message = one_line(run(command, path), 1)
        assert f"bad.cnf{line}" in message
        assert len(message.splitlines()) == 1


def test_folder_as_file(tmp_path):
    one_line(run("sample", tmp_path), 1)


@pytest.mark.parametrize(
    "options",
    [
        ["--given", "99"],
        ["--project", "99"],
        ["--method", "no-such-method"],
        ["--weights", "no-such-file.npy"],
        ["--weights", STREETS],
        ["-o", "no-such-folder/x.txt"],
        ["-o", "x.csv"],
    ],
)
def test_bad_input_is_one_line_and_exit_1(options):
    assert len(one_line(run("sample", STREETS, *options), 1).splitlines()) == 1


def test_theta_of_the_wrong_length_and_nan(tmp_path):
    for value in (np.zeros(3), np.full(7, np.nan)):
        np.save(tmp_path / "t.npy", value)
        one_line(run("sample", STREETS, "--weights", tmp_path / "t.npy"), 1)


@pytest.mark.parametrize("options", [["-n", "many"], ["-n", "-3"], ["--given", "a,b"], ["--nope"]])
def test_wrong_usage_is_exit_2(options):
    one_line(run("sample", STREETS, *options), 2)


def test_unsatisfiable_is_exit_20(tmp_path):
    text = one_line(run("sample", "-", "-n", 10, stdin=UNSAT), 20)
    assert "unsatisfiable" in text
    (tmp_path / "x.txt").write_text("keep me")
    assert run("sample", "-", "-o", tmp_path / "x.txt", stdin=UNSAT).returncode == 20
    assert (tmp_path / "x.txt").read_text() == "keep me"


def test_given_that_contradicts_is_exit_20():
    one_line(run("sample", STREETS, "--given", "-1,-3"), 20)


def test_budget_reached_is_exit_3():
    """x1 = ... = x40: satisfiable, but one round of drawing does not get there."""
    chain = "".join(f"-{i} {i + 1} 0\n{i} -{i + 1} 0\n" for i in range(1, 40))
    text = "p cnf 40 78\n" + chain
    done = run("sample", "-", "-n", 64, "--method", "lovasz", "--max-rounds", 1, stdin=text)
    assert done.returncode == 3, done.stderr
    assert b"budget reached" in done.stderr
    x = literals(done.stdout).reshape(-1, 40)
    assert Formula.from_string(text).satisfied(x > 0).all()


def test_seconds_end_a_finite_request_with_3_and_an_endless_one_with_0():
    done = run("sample", KSAT, "-n", "1e12", "--seconds", 0.5, "-o", os.devnull)
    assert done.returncode == 3, done.stderr
    assert b"budget reached" in done.stderr
    done = run("sample", KSAT, "-n", "inf", "--seconds", 0.5, "-o", os.devnull)
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------------------ terminals, signals


def on_terminal(*args: object) -> tuple[int, bytes]:
    """Run with stderr on a pseudo-terminal; exit code and what was shown there."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*NELSON, *map(str, args)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=slave,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"},
    )
    os.close(slave)
    shown = b""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        if select.select([master], [], [], 0.1)[0]:
            try:
                data = os.read(master, 65536)
            except OSError:  # Linux: the other end is closed
                break
            if not data:
                break
            shown += data
    os.close(master)
    return process.wait(TIMEOUT), shown


def test_progress_bar_only_on_a_terminal(tmp_path):
    args = ("sample", KSAT, "-n", "inf", "--seconds", 2, "-o", tmp_path / "x.npz")
    code, shown = on_terminal(*args)
    assert code == 0
    assert b"\x1b[" in shown
    assert b"samples/s" in shown
    assert b"sampling" in shown
    piped = run(*args).stderr
    assert b"\x1b[" not in piped
    assert b"sampling" not in piped
    code, shown = on_terminal(*args, "-q")
    assert code == 0
    assert said(shown) == ""


def has_written(pid: int, folder: Path) -> bool:
    """Is the first block written? The words of an .npz wait in a file without a name."""
    files = [*folder.iterdir(), *Path(f"/proc/{pid}/fd").glob("*")]
    for file in files:
        with contextlib.suppress(OSError):  # closed meanwhile
            named = file.parent == folder or "(deleted)" in os.readlink(file)
            if named and file.is_file() and file.stat().st_size:
                return True
    return False


@pytest.mark.parametrize("name", ["x.txt", "x.npz", "x.parquet"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_complete_valid_file(tmp_path, name, number):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow", reason="pip install nelson[parquet]")
    if name.endswith("npz") and not Path("/proc/self/fd").is_dir():
        pytest.skip("finds the scratch file in /proc")
    path = tmp_path / name
    process = subprocess.Popen(
        [*NELSON, "sample", KSAT, "-n", "inf", "-o", path],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + TIMEOUT
    while not has_written(process.pid, tmp_path):
        assert process.poll() is None, process.stderr and process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.2)
    process.send_signal(number)
    _, error = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 128 + number, error
    assert b"Traceback" not in error
    assert b"interrupted" in error
    assert [p.name for p in tmp_path.iterdir()] == [name]
    for x in first_and_last(path):
        assert len(x) > 0
        assert_valid(KSAT, x)


def first_and_last(path: Path) -> list[np.ndarray]:
    """A few samples from both ends of a file that may be large; its counts must agree."""
    if path.suffix == ".txt":
        with path.open("rb") as file:
            head = b"".join(file.readline() for _ in range(100))
            file.seek(max(0, path.stat().st_size - 100_000))
            file.readline()
            return [literals(head) > 0, literals(file.read()) > 0]
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as data:
            packed, count, info = data["packed"], int(data["count"]), json.loads(str(data["info"]))
        assert info["samples"] == count
        assert len(packed) == -(-count // 64)
        tail = unpack(packed[-1:], count - 64 * (len(packed) - 1))
        return [unpack(packed[:1], min(64, count)), tail]
    from pyarrow import parquet

    file = parquet.ParquetFile(path)
    assert json.loads(file.metadata.metadata[b"nelson.info"])["samples"] == file.metadata.num_rows
    ends = []
    for group in (0, file.num_row_groups - 1):
        rows = file.read_row_group(group).column("x").to_pylist()[:100]
        octets = np.array([list(row) for row in rows], dtype=np.uint8)
        ends.append(np.unpackbits(octets, axis=1, count=1000, bitorder="little").astype(bool))
    return ends


def test_the_reader_may_leave_early():
    process = subprocess.Popen(
        [*NELSON, "sample", KSAT, "-n", "inf"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.endswith(b" 0\n")
    process.stdout.close()
    assert process.wait(TIMEOUT) == 141
    assert process.stderr is not None
    assert said(process.stderr.read()) == ""
    process.stderr.close()


# ------------------------------------------------------------------------------------ help, others


@pytest.mark.parametrize("command", ["sample", "info", "demo"])
def test_help_shows_an_example(command):
    done = run(command, "--help")
    assert done.returncode == 0
    assert f"nelson {command} ".encode().strip() in done.stdout.split(b"Examples:")[1]


def test_version():
    from nelson._version import __version__

    assert run("--version").stdout.decode().strip() == f"nelson {__version__}"


def test_info_prints_a_table_or_json():
    done = run("info", STREETS)
    assert done.returncode == 0, done.stderr
    assert b"7" in done.stdout
    parsed = json.loads(run("info", STREETS, "--json").stdout)
    assert parsed["n_vars"] == 7
    assert parsed["n_clauses"] == 6


def test_info_of_an_unsatisfiable_formula_does_not_hang():
    done = run("info", "-", stdin=UNSAT)
    assert done.returncode in (0, 20)
    assert b"Traceback" not in done.stderr


def test_start_up_imports_nothing_heavy():
    """`nelson sample` must start fast: not even numba before a formula is read."""
    code = "import sys, nelson.cli; print(*(m for m in sys.argv[1:] if m in sys.modules))"
    heavy = ("numba", "numpy", "torch", "ray", "pysat", "scipy", "rich.progress", "matplotlib")
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""
