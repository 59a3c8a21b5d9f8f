"""Ours: are the labels of samples earned? Families of formulas with known truth, for and against.

An *adversarial* family is made so that chains, or their diagnostics, are led astray; a label above
"heuristic" together with a wrong quantity is a false label. An *honest* family is one on which
chains mix; it should keep its label.

    nelson bench labels                  every family once (with --full: five seeds)
    python -m lab.labels alone-small kab-star       prints line by line

`case.py` says what counts as wrong, `draw.py` how samples are drawn; the families themselves are in
`switches.py`, `phases.py`, `sets.py`, `conserved.py`, `sectors.py` (adversarial) and `honest.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lab.labels import conserved, honest, phases, sectors, sets, switches
from lab.labels.case import FAMILIES
from lab.labels.draw import measure
from nelson.errors import FormulaError
from nelson_paper.experiments.base import OK, Cell, Experiment, Row, Rows, Table

#: Seeds of a full run. A seed gives another formula as well, where the family is random.
FULL_SEEDS = 5
#: Wall-clock limit of a cell, in seconds.
LIMIT = 300.0
#: The modules that register families; they are imported for that.
SOURCES = (switches, phases, sets, conserved, sectors, honest)
_COLUMNS = (
    "family", "kind", "n", "clauses", "label", "samples", "quantity", "estimate", "truth", "sigmas",
    "seconds",
)  # fmt: skip


def run_family(name: str, seed: int = 0) -> Row:
    """One row: the label of a family's samples, and their worst error."""
    if name not in FAMILIES:
        raise FormulaError(f"no family {name!r}", expected=f"one of {', '.join(FAMILIES)}")
    started = time.perf_counter()
    family = FAMILIES[name]
    case = family.build(seed)
    built = time.perf_counter() - started
    outcome = measure(case, seed)
    row: Row = {
        "kind": family.kind,
        "n": case.formula.n_vars,
        "clauses": case.formula.n_clauses,
        "call": case.call,
        "label": outcome.label,
        "false": outcome.false_label,
        "kept": outcome.claims,
        "seconds": outcome.seconds,
        "truth_seconds": built,
        "why": outcome.why,
    }
    if (error := outcome.error) is not None:
        row |= {
            "wrong": error.wrong,
            "quantity": error.quantity,
            "estimate": error.estimate,
            "truth": error.truth,
            "sigmas": error.sigmas,
        }
    return row


def run_all(names: Iterable[str] | None = None, seeds: Sequence[int] = (0,)) -> list[Row]:
    """Run families and print a line for each as it ends, then the two rates."""
    rows: list[Row] = []
    names = list(FAMILIES) if names is None else list(names)
    for seed in seeds:
        for name in names:
            row = {"family": name, "seed": seed, "status": OK, **run_family(name, seed)}
            rows.append(row)
            told = "FALSE" if row["false"] else "LOST" if _lost(row) else ""
            texts = _texts(row)
            print(
                f"{texts[0]:28} {texts[1]:11} {texts[2]:>6} {texts[3]:>6} {texts[4]:10} {told:5} "
                f"{texts[5]:6} {texts[6]:>12} {texts[7]:>9} {texts[8]:>9} {texts[9]:>7} "
                f"{texts[10]:>6} s",
                flush=True,
            )
    print(*summary(rows), sep="\n", flush=True)
    return rows


def cells(full: bool) -> list[Cell]:
    return [
        Cell({"family": name, "seed": seed}, LIMIT)
        for seed in range(FULL_SEEDS if full else 1)
        for name in FAMILIES
    ]


def run(cell: Cell) -> list[Row]:
    return [run_family(str(cell.key["family"]), int(cell.key["seed"]))]


def _lost(row: Mapping[str, Any]) -> bool:
    return row["kind"] == "honest" and not row["kept"]


def _texts(row: Mapping[str, Any]) -> list[str]:
    def number(name: str, digits: int) -> str:
        return "" if row.get(name) is None else f"{row[name]:.{digits}g}"

    return [
        str(row["family"]),
        str(row["kind"]),
        str(row["n"]),
        str(row["clauses"]),
        str(row["label"]),
        "" if row.get("wrong") is None else "wrong" if row["wrong"] else "right",
        str(row.get("quantity", "")),
        number("estimate", 4),
        number("truth", 4),
        number("sigmas", 3),
        f"{row['seconds']:.1f}",
    ]


def summary(rows: Rows) -> list[str]:
    """The two rates, and the time."""
    done = [row for row in rows if row["status"] == OK]
    lines = []
    attacks = [row for row in done if row["kind"] == "adversarial"]
    honest_rows = [row for row in done if row["kind"] == "honest"]
    if done:
        false = [row for row in done if row["false"]]
        wrong = sum(bool(row.get("wrong")) for row in attacks)
        lines.append(
            f"False labels: {len(false)} of {len(done)} cases. The samples of {wrong} of "
            f"{len(attacks)} adversarial cases are wrong." + _named("False", false)
        )
    if honest_rows:
        lost = [row for row in honest_rows if _lost(row)]
        kept = len(honest_rows) - len(lost)
        lines.append(
            f"Labels kept: {kept} of {len(honest_rows)} honest cases "
            f"({100 * kept / len(honest_rows):.0f}%)." + _named("Lost", lost)
        )
    if done:
        seconds = [row["seconds"] for row in done]
        lines.append(f"Seconds of all calls: {sum(seconds):.0f}; the longest: {max(seconds):.1f}.")
    if failed := [row for row in rows if row["status"] != OK]:
        lines.append(f"Not finished: {len(failed)} cases.")
    return lines


def _named(word: str, rows: Rows) -> str:
    names = ", ".join(dict.fromkeys(str(row["family"]) for row in rows))
    return f" {word}: {names}." if names else ""


def tables(rows: Rows) -> list[Table]:
    note = "\n\n".join(summary(rows))
    lines = [
        _texts(row) if row["status"] == OK else [str(row["family"]), *[str(row["status"])] * 10]
        for row in rows
    ]
    return [Table("Labels of families with known truth", _COLUMNS, lines, note)] if lines else []


EXPERIMENT = Experiment(
    name="labels",
    title="Are the labels of samples earned",
    reproduces="ours: false labels on adversarial formulas, labels kept on honest ones",
    cells=cells,
    run=run,
    tables=tables,
)
