"""Pages of docs/ with figures of a run, so that none is typed by hand. `python -m lab page NAME`:

    fifty            `auto` on its formulas (docs/fifty.md); about half an hour
    log-z            log Z of the same formulas (docs/fifty.md); about as long
    density FOLDER   the folder of `python -m lab density` (docs/density.md)
    prediction FOLDER  the folder of `python -m lab prediction` (docs/prediction.md)
    results FOLDER   the folder of `nelson bench all` (docs/results.md)
    formulas FOLDER  folders of `nelson bench --formulas` (docs/experiments.md)
    routes           the picture of docs/routes.md; about a minute
    cards            the small pictures of docs/index.md; ten seconds
    reach            one row for each kind of formula (docs/reach.md); about ten minutes
    gpu [FILE]       tables and picture of docs/gpu.md and lab-gpu.md, from the file of
                     `python -m lab.gpu` (default: gpu-figures.json)
    verilator        eight problems, Verilator's protocol (docs/verification.md); 8 minutes.
                     NELSON_VERILATOR_PEERS: where the other solvers are (lab/verilator/run.py)
    overruns FOLDER  idle*.txt and loaded*.txt of `python -m lab overruns` (docs/limits.md)
    cluster          the plan of large jobs, from cluster-figures.json (docs/cluster.md)

From the root of the repository. A page keeps what stands outside of its two marks.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

from lab import (
    auto,
    auto_truth,
    cards,
    cluster_plan,
    gpu_page,
    log_z_truth,
    overruns,
    published_formulas,
    reach,
)
from lab.cluster import FIGURES
from lab.prediction import picture
from lab.prediction.tables import tables
from lab.verilator import run as verilator
from nelson_paper.experiments.machine import machine
from nelson_paper.experiments.report import markdown
from nelson_paper.tasks import Routes
from tests.structured import public_suite, suite

DOCS = Path(__file__).parents[1] / "docs"
#: Parts of pages -> their files. `results` is a whole page.
PAGES = {
    "fifty": "fifty.md",
    "log-z": "fifty.md",
    "density": "density.md",
    "prediction": "prediction.md",
    "cluster": "cluster.md",
    "gpu": "gpu.md",
    "gpu-batches": "lab-gpu.md",
    "reach": "reach.md",
    "formulas": "experiments.md",
    "verilator": "verification.md",
    "overruns": "limits.md",
}
NAMES = (*PAGES, "results", "routes", "cards")
#: Titles of the tables that the page of densities shows.
DENSITY = (
    "Log-likelihood of held-out rows",
    "What was learned, and how long it took",
    "Sushi: rankings of ten items",
)
#: Plots of a run that the page of results shows: file there -> (file in docs, text).
PLOTS = {
    "table1-time.svg": ("results-time.svg", "time of a training iteration"),
    "bias-ours.svg": ("results-bias.svg", "bias over the density of clauses"),
}


def write(name: str, folder: Path = Path()) -> None:
    """Write the page of this name. folder: that of the run, for `density` and `results`."""
    if name == "fifty":
        write_fifty(list(auto.outcomes([*suite(), *public_suite()])), list(auto_truth.lines()))
    elif name == "log-z":
        write_log_z(list(log_z_truth.lines()))
    elif name == "formulas":
        rows = published_formulas.rows_below(folder)
        tables = published_formulas.sampling(rows), published_formulas.learning(rows)
        replace("formulas", [markdown(table) for table in tables])
    elif name == "routes":
        draw_routes()
    elif name == "cards":
        cards.draw(DOCS / "_static" / "cards")
    elif name == "reach":
        replace("reach", [_dated(machine()), markdown(reach.table())])
    elif name in ("gpu", "gpu-batches"):
        write_gpu(gpu_page.FIGURES if folder == Path() else folder)
    elif name == "density":
        write_density(folder)
    elif name == "prediction":
        write_prediction(folder)
    elif name == "verilator":
        write_verilator()
    elif name == "overruns":
        replace("overruns", [_dated(machine()), *overruns.page(folder)])
    elif name == "cluster":
        replace("cluster", [cluster_plan.markdown(json.loads(FIGURES.read_text()))])
    else:
        write_results(folder)


def write_gpu(file: Path) -> None:
    found = json.loads(file.read_text())
    replace("gpu", gpu_page.parts(found))
    replace("gpu-batches", [markdown(gpu_page.batches(found))])
    gpu_page.picture(found, DOCS / "gpu.svg")


def write_verilator() -> None:
    begun, found = _dated(machine()), []
    for each in verilator.measured():
        found.append(each)
        print(each.place, each.case.name, each.solver, each.cell, flush=True)
    replace("verilator", [begun, *map(markdown, verilator.tables(found))])


def draw_routes() -> None:
    task = Routes()
    data = task.examples(1000, seed=0)
    fit = task.learn(data, seed=0)
    task.picture(data, fit.theta, task.sample(fit.theta, 1000, seed=1).x, DOCS / "routes.svg")


def marks(name: str) -> tuple[str, str]:
    return f"<!-- {name}: python -m lab page {name} -->", f"<!-- end of {name} -->"


def replace(name: str, parts: Sequence[str]) -> None:
    """Replace what stands between the two marks of a part."""
    page, (first, last) = DOCS / PAGES[name], marks(name)
    text = page.read_text()
    before, after = text.split(first)[0], text.split(last)[1]
    page.write_text(before + "\n\n".join([first, *(p.strip() for p in parts), last]) + after)


# ------------------------------------------------------------------------------ formulas of `auto`


def write_fifty(fifty: Sequence[auto.Outcome], labels: Sequence[auto_truth.Line]) -> None:
    parts = [
        _dated(machine()),
        "## Before and after",
        f"Now: {auto.counts(list(fifty))}.",
        markdown(auto.table(list(fifty))),
        "## Are the labels true?",
        f"{len(labels)} formulas, of which {sum(one.lie for one in labels)} have a wrong label.",
        markdown(auto_truth.table(list(labels))),
    ]
    replace("fifty", parts)


def write_log_z(found: Sequence[log_z_truth.Line]) -> None:
    wrong, poor = sum(one.wrong for one in found), sum(one.poor for one in found)
    told = f"{log_z_truth.counts(list(found))}. {wrong} of all values are wrong, {poor} are poor."
    replace("log-z", [_dated(machine()), told, markdown(log_z_truth.table(list(found)))])


def _dated(here: dict[str, str]) -> str:
    return (
        f"{date.today():%-d %B %Y}, on {here['cores']} cores of {here['processor']}; programs that "
        f"ran beside it at the start: {float(here['load'].split()[0]):.0f}."
    )


# ---------------------------------------------------------------------- folders of `nelson bench`


def runs_of(folder: Path) -> list[dict[str, Any]]:
    """When a folder's run was started, continued and ended."""
    runs: list[dict[str, Any]] = []
    for line in (folder / "cells.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if "run" in entry:
            runs.append(entry["run"])
        elif "end" in entry:
            runs[-1] |= entry["end"]
    return runs


def _computed(command: str, runs: list[dict[str, Any]]) -> str:
    first = runs[0]
    day, here = datetime.fromisoformat(first["started"]), first["machine"]
    minutes = sum(run.get("seconds", 0.0) for run in runs) / 60
    return (
        f"`{command}` computed these tables on {day.day} {day:%B %Y}, on {here['cores']} cores of "
        f"{here['processor']}, in {minutes:.0f} minutes."
    )


def write_density(folder: Path) -> None:
    blocks = (folder / "table.md").read_text().strip().split("\n\n")
    chosen = []
    for k, block in enumerate(blocks):
        if block.strip("*") in DENSITY:
            chosen += blocks[k : blocks.index("</details>", k) + 1]  # title, table, note
    lead = _computed("python -m lab density", runs_of(folder))
    replace("density", [f"{lead} All log-likelihoods are in nats for one row.", *chosen])


def write_prediction(folder: Path) -> None:
    """folder: holds files rows.jsonl of one or more runs."""
    files = sorted(folder.rglob("rows.jsonl"))
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    ends = [row for row in rows if row["kind"] == "end"]
    minutes = sum(row["seconds"] for row in ends) / 60
    lead = (
        f"`python -m lab prediction` computed these tables on {ends[0]['started']}, on "
        f"{ends[0]['device']} with {ends[0]['cores']} cores, torch {ends[0]['torch']}, in "
        f"{minutes:.0f} minutes."
    )
    picture.draw(rows, DOCS / "prediction.svg")
    words = "exact match of six ways to predict on 14 tasks, against constrained decoding"
    first, *others = [markdown(table) for table in tables(rows)]
    caption = "Marks are means over ten seeds, bars their standard deviations."
    replace("prediction", [lead, f"![{words}](prediction.svg)", caption, first, *others])


def write_results(folder: Path) -> None:
    body = (folder / "table.md").read_text().split("\n", 1)[1].strip()
    claims, rest = body, ""
    if "\n## " in body.partition("## What we claim")[2]:
        at = body.index("\n## ", body.index("## What we claim") + 1)
        claims, rest = body[:at].strip(), body[at:].strip()
    pictures = []
    for name, (target, text) in PLOTS.items():
        if (folder / name).exists():
            shutil.copyfile(folder / name, DOCS / target)
            pictures.append(f"![{text}]({target})")
    parts = ["# Results", _results_lead(runs_of(folder)), claims, *pictures, rest]
    (DOCS / "results.md").write_text("\n\n".join(parts) + "\n")


def _results_lead(runs: list[dict[str, Any]]) -> str:
    command = re.sub(r" (-o|--output)[ =]\S+", "", runs[0]["command"])
    load = max(float(run["machine"].get("load", "0").split()[0]) for run in runs)
    busy = (
        f" Other programs were running ({load:.0f} at the start), so all times are longer than on "
        "an idle machine, and cells may have timed out that would finish there."
    )
    return (
        f"{_computed(command, runs)}{busy if load > 1 else ''} Each size "
        "has one formula (ten in Tables 1(c) and 3(c)), so a time can differ on another formula of "
        "the same size; `nelson bench all --full` uses 100 formulas, as the paper does. Whether a "
        "table measures the same as the paper's is in the last column of [the paper, item by "
        "item](paper.md#experiments). Values in bold are the best of their column; the *Monte "
        "Carlo floor* is the mean error of as many exact and independent samples. "
        "[Experiments](experiments.md) says how to run them."
    )
