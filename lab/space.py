"""Named fields with rules, against other tools: rows a second, validity, distance from the law.

Peers run in environments of their own (`space_peers/environments.py`); a peer that does not install
or cannot do a problem is shown as missing, with the reason. Each gets PEER_SECONDS for a problem,
at most ROWS rows, and one process. The problems, and the statistics, are explained in
`space_peers/problems.py`, the table in `space_peers/table.py`. Every row of every peer is checked
by the same function. Speeds are rows per second of CPU time of all threads, ours as well as theirs,
because other work on the machine hardly changes them. Our first row is timed on the wall: a child
process compiles the circuit.

"NumPy by hand" is no tool: somebody wrote ten lines for each problem. It shows what is possible
where rejection is fast (bus, bus32, four), and what is left of it where it is not (eight).
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import nelson
from lab import space_ours as ours
from lab.common import Row
from lab.space_ours import ROWS
from lab.space_peers import environments, table
from lab.space_peers.environments import PeerMissing
from lab.space_peers.problems import PROBLEMS, Deviation, Problem
from nelson_paper.experiments.base import Table
from nelson_paper.experiments.report import markdown

#: CPU time of a peer after its first row, and the time on the wall after which it is stopped.
PEER_SECONDS, PATIENCE_SECONDS = 6.0, 120.0
TABLE_ROWS, TABLE_SECONDS = 10_000, 300.0
#: A call of ours that takes less time is repeated, and the median counts.
SHORT_SECONDS = 1.0
SEED = 0
OURS = "nelson.Space"
CPU = time.process_time


class Peer(NamedTuple):
    title: str
    program: str  # draw_PROGRAM.py, in the environment PROGRAM
    option: str = ""
    tool: bool = True  # otherwise a program that somebody wrote for one problem


PEERS = (
    Peer("PyVSC, boolector", "pyvsc", "boolector"),
    Peer("PyVSC, dv-solve", "pyvsc", "dv-solve"),
    Peer("constrainedrandom", "constrainedrandom"),
    Peer("CPMpy, new seeds", "cpmpy", "seeds"),
    Peer("CPMpy, solveAll", "cpmpy", "all"),
    Peer("z3, blocking clauses", "z3"),
    Peer("python-constraint2, list", "constraint"),
    Peer("NumPy by hand, list", "numpy", "list", tool=False),
    Peer("NumPy by hand, reject", "numpy", "reject", tool=False),
)


@dataclass
class Cell:
    """One sampler on one problem: a row of a table."""

    title: str
    remark: str = ""
    rows: int = 0
    first: float = math.nan  # seconds until the first row
    rate: float = 0.0  # rows per second of CPU time
    valid: float = math.nan
    distinct: int = 0
    deviation: Deviation | None = None
    tool: bool = True

    @property
    def uniform(self) -> bool:
        return self.valid == 1 and self.deviation is not None and self.deviation.fine

    def judge(self, problem: Problem, rows: np.ndarray) -> None:
        legal = problem.legal(rows)
        self.rows, self.valid = len(rows), float(legal.mean())
        self.distinct = len(np.unique(np.ascontiguousarray(rows).view(f"V{8 * rows.shape[1]}")))
        if legal.any():
            self.deviation = problem.deviation(rows[legal])

    def cells(self) -> list[str]:
        if not self.rows:
            return [self.title, "", "", "", "", "", "", "", "", self.remark]
        shown = [f"{x:,.3g}" for x in self.deviation] if self.deviation else [""] * 3
        return [
            self.title,
            f"{self.rate:,.0f}" if self.rate >= 10 else f"{self.rate:.2g}",
            f"{self.first:.2g} s",
            f"{self.rows:,}",
            f"{self.valid:.2%}".replace("100.00%", "all"),
            f"{self.distinct:,}",
            *shown,
            self.remark or ("" if self.uniform else "not this law"),
        ]


COLUMNS = ("sampler", "rows/CPU s", "first row", "rows", "valid", "distinct rows")
COLUMNS += ("X²/(k-1)", "z", "error of a share", "remark")


def peer_cell(peer: Peer, problem: Problem, where: Path) -> Cell:
    cell = Cell(peer.title, tool=peer.tool)
    with tempfile.NamedTemporaryFile() as out:
        limits = [str(PEER_SECONDS), str(ROWS), str(SEED)]
        arguments = [problem.name, *limits, out.name, peer.option]
        try:
            answer = environments.run(peer.program, where, arguments, PATIENCE_SECONDS)
        except PeerMissing as why:
            cell.remark = f"missing: {why}"
            return cell
        rows = np.fromfile(out.name, np.int64).reshape(-1, len(problem.columns))
    if not answer["rows"]:
        cell.remark = f"no row in {answer['seconds']:.0f} s"
        return cell
    cell.first, cell.rate = answer["first"], answer["rows"] / answer["seconds"]
    cell.judge(problem, rows)
    return cell


def our_cell(problem: Problem) -> Cell:
    """A new space: one row (which builds and compiles), then ROWS rows, all columns read."""
    cell = Cell(OURS)
    space, options = ours.space_of(problem.name), ours.options_of(problem.name)

    def draw(seed: int) -> tuple[Any, list[np.ndarray]]:
        rows = space.sample(ROWS, seed=seed, **options)
        return rows, [rows[column] for column in problem.columns]

    _, cell.first = ours.clocked(lambda: space.sample(1, seed=SEED, **options))
    (rows, _), seconds = ours.clocked(lambda: draw(SEED + 1), CPU)
    times = [seconds]
    if seconds < SHORT_SECONDS:  # one short call is too noisy
        times += [ours.clocked(lambda k=k: draw(k), CPU)[1] for k in range(4)]
    cell.rate = len(rows) / statistics.median(times)
    cell.judge(problem, ours.numbers_of(rows, problem.columns))
    cell.remark = rows.guarantee + ("" if cell.uniform else ", NOT THIS LAW")
    return cell


def measured(problem: Problem, where: Path) -> list[Cell]:
    cells = [peer_cell(peer, problem, where) for peer in PEERS]
    if hasattr(nelson, "Space"):
        cells.insert(0, our_cell(problem))
    print(markdown(Table(problem.name, COLUMNS, [cell.cells() for cell in cells])), end="\n\n")
    return cells


def against_peers(found: dict[str, list[Cell]]) -> Iterator[Row]:
    """Our speed as a ratio to the fastest peer, where both draw from the law."""
    for name, cells in found.items():
        own = next((cell for cell in cells if cell.title == OURS), None)
        for tools in (True, False):
            fine = [c for c in cells if c is not own and c.uniform and c.tool >= tools]
            best = max(fine, key=lambda cell: cell.rate, default=None)
            kind = "tool" if tools else "program written by hand"
            title = f"{name}: nelson / fastest {kind} with this law"
            if own is None or not own.uniform or best is None or (not tools and best.tool):
                continue
            note = f"{own.rate:,.0f} rows/CPU s, {best.title} {best.rate:,.0f}"
            goal = 100 if tools and name == "bus32" else None  # where listing is impossible
            yield Row(title, own.rate / best.rate, goal, goal, note=note)


# The table ----------------------------------------------------------------------------------------


def named_frame(rows: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(
        {
            column: [table.name(column, value) for value in rows[:, k]]
            for k, column in enumerate(table.NAMES)
        }
    )


def table_numbers(frame: pd.DataFrame) -> np.ndarray:
    columns = [frame[c].astype(str).str.rsplit("_").str[-1].astype(int) for c in table.NAMES]
    return np.stack(columns, axis=1)


def table_line(title: str, frame: pd.DataFrame, fit: float, seconds: float) -> list[str]:
    rows = table_numbers(frame)
    distance = table.two_way_distance(rows, table.train_and_test()[1])
    valid = f"{table.legal(rows).mean():.1%}".replace("100.0%", "all")
    return [title, f"{fit:.3g} s", f"{len(rows) / seconds:,.0f}", valid, f"{distance:.4f}"]


def learned_table(where: Path) -> Iterator[Row]:
    train, test = table.train_and_test()
    floor = table.two_way_distance(train, test)
    shown = []
    truth = table.log_prob(test).mean()
    shown.append(["the data themselves", "", "", "all", f"{floor:.4f}", f"log-lik. {truth:.3f}"])
    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder) / "train.csv", Path(folder) / "rows.csv"
        named_frame(train).to_csv(given, index=False)
        for title, option in (
            ("SDV GaussianCopula", "plain"),
            ("SDV GaussianCopula, FixedCombinations", "constraints"),
        ):
            arguments = [str(given), str(TABLE_ROWS), str(SEED), str(out), option]
            try:
                answer = environments.run("sdv", where, arguments, TABLE_SECONDS)
            except PeerMissing as why:
                shown.append([title, "", "", "", "", f"missing: {why}"])
                continue
            frame = pd.read_csv(out)
            shown.append([*table_line(title, frame, answer["fit"], answer["seconds"]), ""])
    distance = None
    if hasattr(getattr(nelson, "Space", None), "learn"):
        space = ours.table_space()
        model, fit = ours.clocked(lambda: space.learn(named_frame(train), pairs="auto"), CPU)
        model.sample(1, seed=SEED)
        drawn, seconds = ours.clocked(lambda: model.sample(TABLE_ROWS, seed=SEED), CPU)
        frame = drawn if isinstance(drawn, pd.DataFrame) else drawn.to_pandas()
        remark = f"log-lik. {np.mean(model.log_prob(named_frame(test))):.3f}"
        shown.append([*table_line("nelson.Space.learn", frame, fit, seconds), remark])
        distance = table.two_way_distance(table_numbers(frame), test)
    columns = "learner", "fit, CPU", "rows/CPU s", "valid", "mean two-way distance", "remark"
    title = "table: ten columns, six rules, 10,000 rows to learn"
    print(markdown(Table(title, columns, shown)), end="\n\n")
    if distance is not None:
        note = f"two-way distance {distance:.4f}; train against test {floor:.4f}"
        yield Row("table: distance / that of the data", distance / floor, 1.5, 1.1, "x", True, note)


def rows() -> Iterator[Row]:
    where = environments.folder()
    print(f"environments of the peers: {where}")
    if not hasattr(nelson, "Space"):
        print("nelson.Space is missing in this version: only the peers are measured.")
    found = {name: measured(PROBLEMS[name], where) for name in PROBLEMS}
    yield from against_peers(found)
    yield from learned_table(where)
    if not hasattr(nelson, "Space"):
        return
    four = next(cell for cell in found["four"] if cell.title == OURS)
    if four.deviation:
        note = f"{four.remark}; {four.rows:,} rows, X²/(k-1) = {four.deviation.ratio:.3f}"
        yield Row("four transactions: |z|", abs(four.deviation.z), 5, 4, "", True, note)
        exact = float(four.remark == "exact")
        yield Row("four transactions: guarantee is exact", exact, 1, 1, "", note=four.remark)
    yield from ours.goals()
