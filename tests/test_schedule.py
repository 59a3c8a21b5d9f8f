"""Which tests share a process, and which start first: see `schedule.py`."""

from __future__ import annotations

from tests import ROOT, schedule


def test_the_files_that_are_named_exist():
    for path in (*schedule.DIVIDED, *schedule.LONG):
        assert (ROOT / path).exists(), path


def test_tests_with_a_fixture_in_common_stay_together():
    job, read = "tests/cluster/test_job.py::test_a", "tests/cluster/test_read.py::test_b[x/y]"
    assert schedule.scope(job) == schedule.scope(read) == "tests/cluster/"
    assert schedule.scope("tests/test_site.py::test_a") == schedule.scope("tests/test_site.py::b")
    assert schedule.scope("tests/io/test_atomic.py::a") != schedule.scope(
        "tests/io/test_tables.py::a"
    )


def test_long_tests_are_divided_and_start_first():
    kills = [f"tests/test_kills.py::{name}" for name in ("test_learn", "test_bench")]
    assert schedule.scope(kills[0]) != schedule.scope(kills[1])
    order = [*kills, "tests/cluster/test_job.py::a", "tests/test_site.py::a", "tests/cli/x.py::a"]
    ranks = [schedule.rank(test) for test in order]
    assert ranks[0] == ranks[1] == 0 and ranks == sorted(ranks)
