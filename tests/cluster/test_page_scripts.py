"""The scripts of docs/cluster.md for `xargs`, Slurm and Kubernetes, as they stand on the page.

A small runner does what Slurm and Kubernetes do: it reads how many tasks the script asks for, and
starts the script once for each index, with the variables that they set. `nelson` in these scripts
writes down its arguments; the commands are then run here, with fewer samples.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import nelson
from nelson import NelsonError
from nelson.io import sample_files
from tests import ROOT
from tests.cli.commands import STREETS, TIMEOUT, run

pytest.importorskip("pyarrow")

N = 5120


def script(language: str, word: str) -> str:
    """The block of the page in this language with this word."""
    blocks = re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs/cluster.md").read_text(), re.S)
    return next(block for block in blocks if word in block)


def xargs(start) -> None:
    start(["sh", "-c", script("sh", "xargs")], {})


def slurm(start) -> None:
    """`sbatch`: options stand in comments before the first command."""
    text = script("bash", "SBATCH")
    head = re.match(r"#!/bin/bash\n((?:#SBATCH --[a-z-]+(?:=\S+)?\n)+)", text)[1]
    options = dict(re.findall(r"#SBATCH --([a-z-]+)=?(\S*)", head))
    first, last = map(int, options["array"].split("-"))
    Path("samples.sh").write_text(text)
    for task in range(last, first - 1, -1):
        known = {"SLURM_ARRAY_TASK_ID": task, "SLURM_CPUS_PER_TASK": options["cpus-per-task"]}
        start(["bash", "samples.sh"], known)


def kubernetes(start) -> None:
    """An indexed job: pods 0 to completions - 1, each runs its container's command."""
    yaml = pytest.importorskip("yaml", reason="NO yaml: the job of Kubernetes is not read")
    job = yaml.safe_load(script("yaml", "kind: Job"))
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    assert job["spec"]["completionMode"] == "Indexed"
    pod = job["spec"]["template"]["spec"]
    assert pod["restartPolicy"] in ("OnFailure", "Never")  # no other is allowed
    for index in reversed(range(job["spec"]["completions"])):
        start(pod["containers"][0]["command"], {"JOB_COMPLETION_INDEX": index})


@pytest.mark.slow
@pytest.mark.parametrize("runner", [xargs, slurm, kubernetes])
def test_a_script_of_the_page_draws_all_samples(runner, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    shutil.copy(STREETS, "puzzle.cnf")
    written = tmp_path / "commands"
    Path("bin").mkdir()
    Path("bin/nelson").write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {written}\n')
    Path("bin/nelson").chmod(0o755)
    known = os.environ | {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}

    def start(command: list[str], variables: dict[str, object]) -> None:
        more = {name: str(value) for name, value in variables.items()}
        subprocess.run(command, env=known | more, check=True, timeout=TIMEOUT)

    runner(start)
    commands = [line.split() for line in written.read_text().splitlines()]
    assert len(commands) == 20 and all(words[3] == "1e9" for words in commands)
    folder = commands[0][commands[0].index("-o") + 1]
    if folder.startswith("s3://"):
        request.getfixturevalue("bucket")
        known_place = folder.replace("s3://bucket", "s3://nelson")
        commands = [[word.replace(folder, known_place) for word in words] for words in commands]
        folder = known_place
    for number, words in enumerate(commands):
        if number == 19:  # the twin: without one of them, samples are missing
            with pytest.raises(NelsonError, match="19 of 20 parts are there"):
                nelson.read(folder)
        done = run(*words[:3], N, *words[4:])
        assert done.returncode == 0, (words, done.stderr)
    found = nelson.read(folder)
    found.verify()
    run("sample", "puzzle.cnf", "-n", N, "--seed", found.info["seed"], "-o", "one.npz")
    assert np.array_equal(found.samples().to_numpy(), sample_files.read("one.npz")[0])
