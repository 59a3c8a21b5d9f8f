"""Runs of the toy experiment, in this process or by the command line, and what they left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

PLAIN = "tests.paper.toy_experiment:PLAIN"  # without plots: quick
PREPARED = "tests.paper.toy_experiment:PREPARED"
BROKEN = "tests.paper.toy_experiment:BROKEN"


def rows_of(folder):
    import pyarrow.parquet as pq

    return pq.read_table(folder / "results.parquet").to_pylist()


def by_cell(folder):
    return {(row["sampler"], row["n"]): row for row in rows_of(folder)}


def alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def pids(lines, word):
    return [int(line.rpartition("pid=")[2]) for line in lines if word in line]


def wait(condition):
    """Until the condition holds; the limit only ends a test that hangs."""
    until = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def cli(*arguments, **options):
    return [sys.executable, "-m", "nelson.cli", "bench", *map(str, arguments)], {
        "env": os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)} | options,
        "text": True,
    }


def call(*arguments, **options):
    command, more = cli(*arguments, **options)
    return subprocess.run(command, capture_output=True, timeout=300, check=False, **more)
