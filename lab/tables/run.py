"""Run all tools on all tables, measure their rows, print the tables of the page.

python -m lab tables --peers PYTHON --bits FOLDER --statsmodels WHEEL --seeds 3 -o RESULTS.json
python -m lab tables --show RESULTS.json
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pandas as pd

from lab.tables import data, method
from lab.tables.utility import utility
from nelson.space.tables.comparison import Measures, compare

OURS, REAL = "nelson", "real rows"
PEERS = {
    "copula": "GaussianCopula (SDV)",
    "ctgan": "CTGAN (SDV)",
    "mst": "MST (dpmm)",
    "aim": "AIM (dpmm)",
}
#: Columns of the page: (key, heading, digits, is more better?); None: nearest to 0.5 is best.
COLUMNS: list[tuple[str, str, int, bool | None]] = [
    ("rules", "rules kept", 4, True),
    ("one_way", "one-way", 3, False),
    ("two_way", "two-way", 3, False),
    ("log_p", "log P", 2, True),
    ("impossible", "P = 0", 4, False),
    ("correlation", "correlation", 3, False),
    ("detection", "detection AUC", 3, None),
    ("utility", "utility", 3, True),
    ("closer", "closer", 3, None),
    ("copies", "copies", 4, None),
    ("fit", "fit, CPU s", 1, False),
    ("fit_mb", "fit, MB", 0, False),
    ("draw", "10^5 rows, CPU s", 1, False),
]


def tables(bits: str | None, wheel: str | None) -> Iterator[tuple[str, Callable[[int], data.Data]]]:
    yield from (
        ("people", data.people),
        ("diabetes", data.diabetes),
        ("breast cancer", data.breast),
    )
    if wheel:
        yield "fair", lambda seed: data.fair(Path(wheel), seed)
    for name in ("adult", "connect4") if bits else ():
        yield name, partial(data.bits, name, Path(bits or ""))


def kept(found: data.Data, new: pd.DataFrame) -> float | None:
    """The share of rows that obey the rules of the table, and the dependencies that hold in it."""
    from nelson.space import Space

    if not found.rules and found.name != "people":
        return None
    space = Space.from_frame(found.train, rules=found.rules)
    return float(space.satisfied(new).mean())


def measured(found: data.Data, new: pd.DataFrame) -> dict[str, Any]:
    for name in found.dates:
        new[name] = pd.to_datetime(new[name])
    figures = compare(found.test, new, found.train)
    how = Measures(found.train)
    score = utility(how.encoded(new), how.encoded(found.test), found.target)
    return {
        "rules": kept(found, new),
        "one_way": figures.one_way,
        "two_way": figures.two_way,
        "correlation": figures.correlation,
        "detection": figures.detection,
        "utility": score,
        "copies": figures.copies,
        "closer": figures.closer,
    }


def run(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Seed by seed all tools on all tables, one at a time."""
    rows: list[dict[str, Any]] = []
    chosen = [
        (name, make)
        for name, make in tables(arguments.bits, arguments.statsmodels)
        if not arguments.names or name in arguments.names
    ]
    tools = arguments.tools.split(",") if arguments.tools else [REAL, *PEERS, OURS]
    for seed in range(arguments.seeds):
        for _, make in chosen:
            found = make(seed)
            with tempfile.TemporaryDirectory() as folder:
                at = Path(folder)
                _write(found, at, seed, arguments.seconds)
                for tool in tools:
                    figures = _real(found) if tool == REAL else _one(found, tool, at, arguments)
                    rows.append(_about(found) | {"tool": tool, "seed": seed} | figures)
                    print(rows[-1], flush=True)
                    if arguments.output:
                        Path(arguments.output).write_text(json.dumps(rows, indent=1))
    return rows


def _about(found: data.Data) -> dict[str, Any]:
    about = {"table": found.name, "origin": found.origin, "target": found.target}
    return about | {"rows": len(found.train), "columns": found.train.shape[1]}


def _real(found: data.Data) -> dict[str, Any]:
    """The training rows themselves: what noise alone gives."""
    figures = measured(found, found.train.copy())
    return figures | {"copies": None, "closer": None}


def _write(found: data.Data, folder: Path, seed: int, seconds: float) -> None:
    found.test.to_csv(folder / "test.csv", index=False)
    found.train.to_csv(folder / "train.csv", index=False)
    asked = {"dates": found.dates, "choices": found.choices, "rules": found.rules, "seed": seed}
    asked |= {"after": found.after, "combinations": found.combinations}
    asked |= {"rows": len(found.test), "cpu_seconds": seconds}
    (folder / "asked.json").write_text(json.dumps(asked))


def _one(
    found: data.Data, tool: str, folder: Path, arguments: argparse.Namespace
) -> dict[str, Any]:
    python = sys.executable if tool == OURS else arguments.peers
    command = [python, method.__file__, tool, str(folder)]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    said = done.stderr.strip().splitlines()[-1:] or [""]
    failed = "" if done.returncode == 0 else said[0][:200]
    if done.returncode == -signal.SIGXCPU:
        failed = f"not done in {arguments.seconds:g} CPU s"
    figures: dict[str, Any] = {"wall": time.monotonic() - started}
    if (path := folder / f"figures.{tool}.json").exists():
        figures |= json.loads(path.read_text())
    if (path := folder / f"new.{tool}.csv").exists():
        figures |= measured(found, pd.read_csv(path))
    return figures | ({"failed": failed} if failed else {})


# --- the page -------------------------------------------------------------------------------------


def shown(rows: list[dict[str, Any]]) -> str:
    """A table for each table: means over the seeds, with the standard deviation of one seed."""
    parts = []
    for name in dict.fromkeys(row["table"] for row in rows):
        mine: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            if row["table"] == name:
                mine.setdefault(row["tool"], []).append(row)
        first = next(iter(mine.values()))[0]
        parts.append(
            f"**{name}**: {first['rows']:,} rows to learn from, {first['columns']} columns; "
            f"target of the utility: `{first['target']}`; {first['origin']}\n"
        )
        columns = [c for c in COLUMNS if any(_values(some, c[0]) for some in mine.values())]
        parts.append("| | seeds | " + " | ".join(heading for _, heading, *_ in columns) + " |")
        parts.append("|---|--:|" + "--:|" * len(columns))
        for tool, some in mine.items():
            label = {OURS: "**nelson**", REAL: "*real rows*"}.get(tool) or PEERS[tool]
            reasons = dict.fromkeys(row["failed"] for row in some if "failed" in row)
            failed = f" ({'; '.join(reasons)})" if reasons else ""
            done = sum("failed" not in row for row in some)
            cells = " | ".join(_cell(tool, mine, *column) for column in columns)
            parts.append(f"| {label}{failed} | {done} | {cells} |")
        parts.append("")
    return "\n".join(parts)


def _values(rows: list[dict[str, Any]], key: str) -> list[float]:
    return [row[key] for row in rows if row.get(key) is not None]


def _cell(tool: str, mine: Any, key: str, _: str, digits: int, more: bool | None) -> str:
    values = _values(mine[tool], key)
    if not values:
        return "–"
    text = f"{mean(values):,.{digits}f}"
    if len(values) > 1 and digits > 1 and key not in ("rules", "copies"):
        text += f" ± {stdev(values):.{digits}f}"
    others = [_values(some, key) for name, some in mine.items() if name != REAL]

    def worth(v: list[float]) -> float:
        return -abs(mean(v) - 0.5) if more is None else mean(v) if more else -mean(v)

    best = tool != REAL and key != "copies" and worth(values) >= max(worth(v) for v in others if v)
    return f"**{text}**" if best else text


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m lab tables")
    parser.add_argument("names", nargs="*", help="tables (default: all)")
    parser.add_argument("--peers", help="the Python of an environment with sdv and dpmm")
    parser.add_argument("--bits", help="a folder with {adult,connect4}.{train,valid}.data.xz")
    parser.add_argument("--statsmodels", help="a wheel of statsmodels, for its tables")
    parser.add_argument("--tools", help="some of real rows,copula,ctgan,mst,aim,nelson")
    parser.add_argument("--seeds", type=int, default=1, help="splits of the rows")
    parser.add_argument(
        "--seconds", type=float, default=400, help="CPU seconds of a tool on a table, at most"
    )
    parser.add_argument("-o", "--output", help="the results as JSON")
    parser.add_argument("--show", help="print the tables of such files, and measure nothing")
    arguments = parser.parse_args(words)
    rows = (
        [row for path in arguments.show.split(",") for row in json.loads(Path(path).read_text())]
        if arguments.show
        else run(arguments)
    )
    print(shown(rows))
    return 0
