"""Pages with figures of a run, and the plan of large jobs."""

from __future__ import annotations

import json

import pytest

from lab import cluster_plan, pages


def test_the_page_of_results_is_made_from_a_run(tmp_path, monkeypatch):
    """Date, duration and machine come from the run; the claims stand before the pictures."""
    folder, docs = tmp_path / "run", tmp_path / "docs"
    folder.mkdir()
    docs.mkdir()
    monkeypatch.setattr(pages, "DOCS", docs)
    machine_ = {"cores": "2 of 2", "processor": "a processor", "load": "7.1 (programs)"}
    begun = {"started": "2026-11-16T20:00:00+00:00", "command": "nelson bench all -o /home/me/run"}
    lines = [{"run": begun | {"machine": machine_}}, {"end": {"seconds": 600.0}}]
    (folder / "cells.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "table.md").write_text("# Results\n\nL\n\n## What we claim\n\nC\n\n## Table 1\n\nT\n")
    (folder / "table1-time.svg").write_bytes(b"png")
    pages.write_results(folder)
    page = (docs / "results.md").read_text()
    assert "`nelson bench all` computed these tables on 16 November 2026" in page
    assert "on 2 of 2 cores of a processor, in 10 minutes. Other programs were running (7" in page
    assert page.index("\nC\n") < page.index("results-time.svg") < page.index("## Table 1")
    assert (docs / "results-time.svg").read_bytes() == b"png"


def test_the_plan_of_a_large_job():
    """By hand: a core draws 10^6/s, so 10^12 samples are 10^6 core seconds, and one to decide; 100
    bytes each at 1 GB/s are 10^5 s.
    """
    figures = {"rate": 1e6, "bytes": 100.0, "decide": 0.5, "job": 0.5, "disk_mb_s": 200.0}
    figures |= {"quick": False, "cores": 2, "nelson": "1", "n": 10, "variables": 800}
    figures |= {"method": "lovasz", "guarantee": "exact", "engines": [], "start": 1.0}
    figures |= {"wide_rate": 1e5, "wide_bytes": 125.0, "wide_rows": 10**6, "wide_part": 3e-6}
    large, formulas, _ = cluster_plan.JOBS
    slow, fast = cluster_plan.Machine(8, 1000.0), cluster_plan.Machine(64, 1000.0)
    for job, machines, machine, seconds, what in (
        (large, 1, slow, (1e6 + 1) / 8, "cores"),
        (large, 10, fast, 1e5 / 10, "writing"),
        (formulas, 1, slow, 2e4 / 8, "cores"),  # 10^4 s of drawing, as much of deciding
    ):
        took, waits = cluster_plan.hours(figures, job, machines, machine)
        assert (took, waits) == (pytest.approx(seconds / 3600), what)
    text = cluster_plan.markdown(figures)
    assert "| 10^12 samples of one formula | 100 TB |" in text and "--quick" not in text
    assert "(125 TB, 1,000,000 parts)" in text and "parts cost 3.0 CPU seconds" in text
    # 10^12 / 10^5 / 64 s of drawing are 43.4 h; 125 TB at 1 GB/s are 34.7 h.
    assert text.index("takes 43.4 hours") < text.index("takes 34.7 hours")
