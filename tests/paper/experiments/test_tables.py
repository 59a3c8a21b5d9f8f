"""Tables and their sentences, from made-up rows."""

from __future__ import annotations

import pytest

from nelson_paper import experiments
from nelson_paper.experiments import (
    claims,
    samplers,
    show,
    table1,
    verdict,
)
from nelson_paper.experiments.base import Cell, Table
from nelson_paper.experiments.report import markdown
from nelson_paper.experiments.samplers import label
from tests.paper.experiments import TABLES


def cell_of(table: Table, sampler: str, column: str) -> str:
    [row] = [row for row in table.rows if row[0] == sampler]
    return row[list(table.columns).index(column)]


# ------------------------------------------------------------------------- tables of made-up rows


def made(sampler: str, n: int, status: str = "ok", **values) -> dict:
    return {"sampler": sampler, "n": n, "seed": 0, "limit": 3.0, "status": status, **values}


def test_a_margin_is_a_ratio_with_its_interval():
    rows = [
        made("lovasz", 10, seconds=0.001, fastest=0.0009, slowest=0.0012, overhead=0.0),
        made("gibbs", 10, seconds=0.002, fastest=0.0018, slowest=0.0027, overhead=0.0),
        made("xor", 10, "T.O."),
    ]
    assert verdict.margin("lovasz", rows) == pytest.approx((2.0, 1.5, 3.0, "gibbs"))
    assert "that of `lovasz`: n = 10: 2 (1.5 to 3), gibbs." in verdict.fastest(rows)
    assert "an interval that contains 1 decides nothing" in verdict.fastest(rows)
    # The twin: a faster peer gives a ratio below 1, whatever the others do.
    slow = [*rows, made("waps", 10, seconds=0.0005, overhead=0.0)]
    assert verdict.margin("lovasz", slow)[0] == 0.5 and "n = 10: 0.5 (0.42 to 0.56), waps" in (
        verdict.fastest(slow)
    )
    child = [*rows, made("cmsgen", 10, seconds=0.1, overhead=0.0995)]
    assert verdict.margin("lovasz", child)[3] == "gibbs"
    assert verdict.margin("lovasz", child, without_start=True)[::3] == pytest.approx(
        (0.5, "cmsgen")
    )
    assert "Without the start of the peer's process: n = 10: 0.5" in verdict.fastest(child)
    ours = [*rows, made("circuit", 10, seconds=0.0001), made("moser-tardos", 10, seconds=0.0001)]
    assert verdict.margin("lovasz", ours)[3] == "gibbs"  # the others are not peers


def test_the_margins_of_a_page_in_words():
    rows = [
        made("auto", 10, seconds=1.0, count=1000),
        made("gibbs", 10, seconds=3.0, count=1000),
        made("auto", 50, seconds=2.0, count=1000),
        made("gibbs", 50, seconds=3.0, count=1000),
        made("auto", 200, "T.O.", count=1000),
    ]
    table = claims.table({"weighted": rows})
    [[_, sampler, told]] = [row for row in table.rows if row[0].startswith("faster")]
    assert sampler == "auto"
    assert told == (
        "least ratio 1.5, gibbs in Figure 2, 1000 samples, n = 50; largest 3; 2 cells; "
        "Figure 2, 1000 samples, n = 200: T.O."
    )


def test_a_time_shorter_than_the_start_of_the_process_is_not_compared():
    """The start of the process is measured apart, so it may exceed the time of a short draw."""
    rows = [
        made("auto", 10, seconds=0.001, overhead=0.0),
        made("cmsgen", 10, seconds=0.05, overhead=0.06),
    ]
    assert verdict.margin("auto", rows, without_start=True) is None
    told = verdict.fastest(rows)
    assert "n = 10: 50, cmsgen" in told and "0 µs" not in told
    assert "too short to measure, so it is not compared: cmsgen at n = 10." in told


def test_a_claim_fails_where_we_did_not_finish():
    rows = [made("auto", 10, "T.O."), made("gibbs", 10, seconds=1.0, validity=1.0)]
    assert "that of `auto`: n = 10: T.O." in verdict.fastest(rows)
    failed = [made("auto", 10, "failed: an error"), made("auto", 20, seconds=1.0, validity=1.0)]
    assert "1 of 2 cells; NOT in n = 10: failed" in verdict.valid(failed)


@pytest.mark.parametrize("status", ["T.O.", "out of memory"])
def test_a_cell_without_samples_does_not_count_against_validity(status):
    cut = "`auto` has no samples, which does not count, in n = 10: "
    rows = [made("auto", 10, status), made("gibbs", 10, seconds=1.0, validity=1.0)]
    assert verdict.valid(rows) == f"{cut}{status}."
    rows.append(made("auto", 20, seconds=1.0, validity=1.0))
    truth = "`auto` draws only valid samples: true in 1 of 1 cells."
    assert verdict.valid(rows) == f"{truth} {cut}{status}."
    partly = [made("auto", 10, status), made("auto", 10, seconds=1.0, validity=0.5)]
    assert "0 of 1 cells; NOT in n = 10: 50%" in verdict.valid(partly)  # the twin
    assert f"{cut}{status}." in verdict.valid(partly)


def test_the_end_of_a_sampler_has_its_true_reason():
    """Half of the time is a time-out; less is a limit of the sampler, not a failure."""
    ended = samplers.gave_up(samplers.get("circuit"), 2.4, 3.0, "D4; a solver says that it is")
    assert ended == {"status": "T.O.", "reason": "D4"}
    early = samplers.gave_up(samplers.get("circuit"), 0.4, 3.0, "D4 needs more than 4 GiB")
    assert early["status"] == "limit"
    large = samplers.gave_up(samplers.get("enumerate"), 0.1, 3.0, "more than 262144 rows")
    assert large["status"] == "too large"
    table = show.grid("T", [made("enumerate", 50, **large)], lambda _: "")
    assert cell_of(table, "enumerate", "n = 50") == "too large"
    assert "`enumerate`: too large (more than 262144 rows)" in table.note


def test_valid_says_yes_and_no():
    rows = [made("lovasz", n, validity=1.0) for n in (10, 20)]
    assert verdict.valid(rows) == "`lovasz` draws only valid samples: true in 2 of 2 cells."
    rows[1]["validity"] = 0.9999999
    assert verdict.valid(rows) == (
        "`lovasz` draws only valid samples: true in 1 of 2 cells; NOT in n = 20: 99.999%."
    )
    rows[1]["validity"] = None
    assert verdict.valid(rows) == (
        "`lovasz` draws only valid samples: true in 1 of 1 cells. "
        "`lovasz` has no samples, which does not count, in n = 20: no sample in time."
    )


def test_at_floor_says_yes_and_no():
    rows = [made("auto", 10, error=0.11, floor=0.1, floor_sd=0.01) for _ in range(4)]
    assert "in 1 of 1 cells." in verdict.at_floor(rows)  # 0.01 above, at most 0.015
    rows = [{**row, "error": 0.12} for row in rows]
    assert "0 of 1 cells; NOT in n = 10: 0.12, floor 0.1 ± 0.005" in verdict.at_floor(rows)


def test_best_says_yes_and_no():
    def rows(ours: float, theirs: float) -> list[dict]:
        return [
            made("auto", 100, held_out=ours, bar=1.0),
            made("gibbs", 100, held_out=theirs, bar=0.1),
        ]

    assert "1 of 1 cells." in verdict.best(rows(-50.0, -49.5), "held_out", "bar")
    told = verdict.best(rows(-50.0, -48.5), "held_out", "bar")
    assert "0 of 1 cells; NOT in n = 100: gibbs is 1.5 better, error bar 1." in told
    many = [{**row, "seed": k} for k in range(4) for row in rows(-50.0, -49.4)]
    assert "NOT in n = 100: gibbs is 0.6 better" in verdict.best(many, "held_out", "bar")


@pytest.mark.parametrize("name", TABLES)
def test_what_timed_out_is_shown(name):
    """Every cell timed out: T.O. everywhere but in rows of the paper and of the floor."""
    experiment = experiments.get(name)
    rows = [{**cell.key, "status": "T.O.", "cell_seconds": 1.0} for cell in experiment.cells(False)]
    tables = experiment.tables(rows)
    assert tables
    for table in tables:
        assert markdown(table)
        for row in table.rows:
            if not row[0].startswith(("paper", "Monte Carlo floor", "theta = 0")):
                first = 3 if name == "rounds" else 1
                assert table.lead
                assert set(row[first:]) <= {"T.O.", "not run"} and "T.O." in row[first:]
    assert experiment.tables([]) == []


def test_cells_show_what_they_hold():
    rows = [
        made(
            "lovasz", 10, part="learn", seconds=0.0012, first=0.004, validity=1.0, guarantee="exact"
        ),
        made(
            "gibbs", 10, part="learn", seconds=2.0, first=2.5, validity=0.5, guarantee="heuristic"
        ),
        made("xor", 10, "T.O.", part="learn"),
        made("kus", 10, "failed: ValueError: no", part="learn"),
        made("waps", 10, "not installed", part="learn", reason="py_d4"),
    ]
    times, _, shares = table1.tables(rows)
    assert cell_of(times, label("lovasz"), "n = 10") == "1.2 ms"
    assert cell_of(times, "xor", "n = 10") == "T.O."
    assert cell_of(times, "kus", "n = 10") == "failed" and "ValueError: no" in times.note
    assert cell_of(times, "waps", "n = 10") == "not installed" and "py_d4" in times.note
    assert cell_of(times, "paper: NELSON", "n = 10") == "7.8 s"  # 0.13 minutes
    assert cell_of(times, "paper: XOR", "n = 10") == "26.3 min"
    assert cell_of(shares, "gibbs", "n = 10") == "50%"
    assert cell_of(shares, "paper: Gibbs", "n = 10") == "90.58%"


def test_durations_and_shares():
    assert [show.measured_time(s) for s in (2e-6, 0.0012, 0.5, 7.8, 119, 2041, 1e4)] == [
        "2 µs", "1.2 ms", "500 ms", "7.8 s", "119 s", "34 min", "2.78 h",
    ]  # fmt: skip
    assert show.percent(1.0) == "100%" and show.percent(0.99999999) == "99.999%"
    assert show.percent(0.0742) == "7.42%"


def test_quick_cells_fit_into_their_time():
    """What samplers may take at most in quick runs; a cell that is done early gives time back."""
    for name in TABLES:
        cells = experiments.get(name).cells(False)
        assert len(cells) < 120 and all(isinstance(cell, Cell) for cell in cells)
        assert sum(float(cell.key.get("limit", 1.0)) for cell in cells) < 300
