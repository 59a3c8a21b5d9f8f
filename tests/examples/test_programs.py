"""The short programs run, and what they write holds. tests/paper/tasks/test_tour.py and
tests/distribution/test_layer.py run the others.
"""

from __future__ import annotations

import csv
import runpy

import pytest

from tests import ROOT

EXAMPLES = ROOT / "examples"


@pytest.mark.slow
def test_rows_of_the_bus_are_legal_and_cover_all_pairs(tmp_path, capsys):
    paths = [tmp_path / "cover.csv", tmp_path / "random.csv"]
    runpy.run_path(str(EXAMPLES / "bus_tests.py"))["main"](*map(str, paths))
    told = capsys.readouterr().out
    assert "1,081,242 legal rows" in told and "10,000 random rows, exact" in told
    for path in paths:
        for row in csv.DictReader(path.open()):
            address, length = int(row["addr"]), int(row["len"])
            assert address % 4 == 0 and address + length <= 0xFFFF
            assert row["burst"] != "WRAP" or length in (2, 4, 8)
    covered = {(r["burst"], r["write"]) for r in csv.DictReader(paths[0].open())}
    assert covered == {(b, w) for b in ("FIXED", "INCR", "WRAP") for w in ("True", "False")}


@pytest.mark.slow
def test_pairs_of_columns_make_the_score_better(monkeypatch, capsys):
    pytest.importorskip("pandas")
    pytest.importorskip("matplotlib", reason="pip install nelson-mrf[plots]")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    without, with_pairs = runpy.run_path(str(EXAMPLES / "subscriptions.py"))["main"]()
    assert with_pairs > without + 0.1  # all is seeded; dependencies alone explain the rest
    assert "basic plans have 1 seat" in capsys.readouterr().out
