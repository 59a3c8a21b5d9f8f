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
    told = samplers.about([{"sampler": ours, "original": str(tmp_path / name)}])
    assert told is not None and told.rows[0][:2] == [ours, "its authors'"]
    asked = {cell.key["sampler"] for cell in experiments.get("uniform").cells(False)}
    assert ("spur" in asked) == (name == "spur")


@pytest.mark.process
def test_an_original_program_that_hangs_is_killed(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "KUS.py", "sleep 600 & sleep 600")
    samples = samplers.draw(samplers.get("kus"), nelson.Formula([[1, 2]]), None, 5, 0, 0.05)
    assert len(samples) == 0


@pytest.mark.parametrize("name", ["table1", "table2", "table3", "uniform", "weighted", "bias"])
def test_every_sampler_of_a_page_is_explained_once(name):
    rows = [{**cell.key, "status": "T.O."} for cell in experiments.get(name).cells(False)]
    told = samplers.about(rows)
    assert told is not None
    program = {row[0]: row[1] for row in told.rows}
    assert len(program) == len(told.rows) and all(row[2] for row in told.rows)
    known = {samplers.label(row["sampler"]) for row in rows if row["sampler"] in samplers._ALL}
    assert set(program) == known
    assert program["lovasz (the paper's NELSON)"] == "ours"
    for peer in {"gibbs", "xor", "waps"} & set(program):
        assert program[peer] == "a rewrite"
    assert program.get("unigen", "its authors'") == "its authors'"
