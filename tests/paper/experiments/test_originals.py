"""Their authors' programs: found on the path, run, and marked as the originals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nelson
from nelson_paper import experiments
from nelson_paper.experiments import originals, run_cell, samplers

FOLDER = str(Path(__file__).parent / "formulas")


def install(folder: Path, monkeypatch, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


FAKES = {
    # arguments: -n M -t SECONDS FILE; variable 2 is in no clause, so lines have two bits
    "quicksampler": 'printf "0: 11\\n1: 10\\n" > "$5.samples"',
    # arguments: -s M -out OUT -t SECONDS -cnf FILE
    "spur": 'printf "#START_SAMPLES\\n1,1*1\\n1,1*0\\n#END_SAMPLES\\n" > "$4"',
    # arguments: --samples M --outputfile OUT FILE
    "KUS.py": 'printf "1, 1 -2 3 \\n2, 1 2 -3 \\n" > "$4"',
    "waps.py": 'grep -q "^w 3 0.73" "$5" && printf "1, 1 -2 3\\n2, 1 2 -3\\n" > "$4"',
}


@pytest.mark.process
@pytest.mark.parametrize("name", FAKES)
def test_an_original_program_on_the_path_is_run_and_marked(name, tmp_path, monkeypatch):
    """A stand-in writes the format of the original. Without it our own sampler runs."""
    ours = {"KUS.py": "kus", "waps.py": "waps"}.get(name, name)
    assert originals.find(ours) is None
    install(tmp_path, monkeypatch, name, FAKES[name])
    assert originals.find(ours) == str(tmp_path / name)
    formula, entry = nelson.Formula([[1, 3]], n_vars=3), samplers.get(ours)
    samples = samplers.draw(entry, formula, np.array([0.0, 0.0, 1.0]), 2, 0, 20.0)
    x = samples.to_numpy()
    assert samplers.lacking(entry) == [] and len(samples) == 2
    assert sorted(x[:, [0, 2]].tolist()) == [[True, False], [True, True]]
    few = samplers.draw(entry, formula, None, 5, 0, 20.0)
    assert len(few) == (2 if ours != "waps" else 0) and few.status == "budget"
    if ours != "waps":  # the stand-in wants the weights of this formula
        key = {"sampler": ours, "n": 12, "seed": 0, "limit": 20.0, "count": 2}
        [row] = run_cell("uniform", key | {"formulas": FOLDER})
        assert row["original"] == str(tmp_path / name)
    assert f"Their authors' programs: `{ours}`." in samplers.programs(
        [{"sampler": ours, "original": str(tmp_path / name)}]
    )
    asked = {cell.key["sampler"] for cell in experiments.get("uniform").cells(False)}
    assert ("spur" in asked) == (name == "spur")


@pytest.mark.process
def test_an_original_program_that_hangs_is_killed(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "KUS.py", "sleep 600 & sleep 600")
    samples = samplers.draw(samplers.get("kus"), nelson.Formula([[1, 2]]), None, 5, 0, 0.05)
    assert len(samples) == 0


def test_rewrites_are_named_under_every_table_that_has_them():
    for name in ("table1", "table2", "table3", "uniform", "weighted", "bias"):
        experiment = experiments.get(name)
        rows = [
            {**cell.key, "status": "T.O.", "cell_seconds": 1.0} for cell in experiment.cells(False)
        ]
        for table in experiment.tables(rows):
            shown = {row[0] for row in table.rows}
            if "xor" in shown:
                told = "Rewrites of this package, not their authors' programs: `gibbs`"
                assert told in table.note and "`xor`" in table.note, table.title
                assert "Their authors' programs: `cmsgen`" in table.note
