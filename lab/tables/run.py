"""Run all tools on all tables, measure their rows, print the tables of the page.

python -m lab tables --peers PYTHON --adult FOLDER --statsmodels WHEEL -o RESULTS.json
python -m lab tables --show RESULTS.json
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
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
#: Seconds on the clock for each tool and table.
SECONDS = 400
#: Columns of the page: (key, heading, digits, is more better?); None: nearest to 0.5 is best.
COLUMNS: list[tuple[str, str, int, bool | None]] = [
    ("rules", "rules kept", 4, True),
    ("one_way", "one-way", 3, False),
    ("two_way", "two-way", 3, False),
    ("correlation", "correlation", 3, False),
    ("detection", "detection AUC", 3, None),
    ("utility", "utility", 3, True),
    ("closer", "closer", 3, None),
    ("copies", "copies", 4, None),
    ("fit", "fit, CPU s", 1, False),
    ("fit_mb", "fit, MB", 0, False),
    ("draw", "10^5 rows, CPU s", 1, False),
]


def tables(adult: str | None, wheel: str | None) -> Iterator[Callable[[], data.Data]]:
    yield from (data.people, data.diabetes, data.breast)
    if wheel:
        yield lambda: data.fair(Path(wheel))
    if adult:
        yield lambda: data.adult(Path(adult))


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
    told = compare(found.test, new, found.train)
    how = Measures(found.train)
    score = utility(how.encoded(new), how.encoded(found.test), found.target)
    return {
        "rules": kept(found, new),
        "one_way": told.one_way,
        "two_way": told.two_way,
        "correlation": told.correlation,
        "detection": told.detection,
        "utility": score,
        "copies": told.copies,
        "closer": told.closer,
    }


def run(names: list[str], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Peers first on all tables, then ours: one tool at a time."""
    chosen = [make() for make in tables(arguments.adult, arguments.statsmodels)]
    chosen = [found for found in chosen if not names or found.name in names]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for tool in arguments.tools.split(",") if arguments.tools else [REAL, *PEERS, OURS]:
            for found in chosen:
                at = Path(folder) / found.name
                if not at.exists():
                    _write(found, at)
                told = _real(found) if tool == REAL else _one(found, tool, at, arguments.peers)
                rows.append(_about(found) | {"tool": tool} | told)
                print(rows[-1], flush=True)
                if arguments.output:
                    Path(arguments.output).write_text(json.dumps(rows, indent=1))
    return rows


def _about(found: data.Data) -> dict[str, Any]:
    about = {"table": found.name, "origin": found.origin, "target": found.target}
    return about | {"rows": len(found.train), "columns": found.train.shape[1]}


def _real(found: data.Data) -> dict[str, Any]:
    """The training rows themselves: what noise alone gives."""
    told = measured(found, found.train.copy())
    return told | {"copies": None, "closer": None}


def _write(found: data.Data, folder: Path) -> None:
    folder.mkdir()
    found.train.to_csv(folder / "train.csv", index=False)
    asked = {"dates": found.dates, "choices": found.choices, "rules": found.rules}
    (folder / "asked.json").write_text(json.dumps(asked | {"rows": len(found.test)}))


def _one(found: data.Data, tool: str, folder: Path, peers: str) -> dict[str, Any]:
    python = sys.executable if tool == OURS else peers
    command = [python, method.__file__, tool, str(folder)]
    started = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        said = done.stderr.strip().splitlines()[-1:] or [""]
        failed = "" if done.returncode == 0 else said[0][:200]
    except subprocess.TimeoutExpired:
        failed = f"not done in {SECONDS} s"
    told: dict[str, Any] = {"wall": time.monotonic() - started}
    if (path := folder / f"told.{tool}.json").exists():
        told |= json.loads(path.read_text())
    if (path := folder / f"new.{tool}.csv").exists():
        told |= measured(found, pd.read_csv(path))
    return told | ({"failed": failed} if failed else {})


# --- the page -------------------------------------------------------------------------------------


def shown(rows: list[dict[str, Any]]) -> str:
    parts = []
    for name in dict.fromkeys(row["table"] for row in rows):
        mine = [row for row in rows if row["table"] == name]
        first = mine[0]
        parts.append(
            f"**{name}**: {first['rows']:,} rows to learn from, {first['columns']} columns; "
            f"target of the utility: `{first['target']}`; {first['origin']}\n"
        )
        columns = [c for c in COLUMNS if any(row.get(c[0]) is not None for row in mine)]
        parts.append("| | " + " | ".join(heading for _, heading, *_ in columns) + " |")
        parts.append("|---|" + "--:|" * len(columns))
        for row in mine:
            label = {OURS: "**nelson**", REAL: "*real rows*"}.get(row["tool"]) or PEERS[row["tool"]]
            cells = [_cell(row, mine, *column) for column in columns]
            failed = f" ({row['failed']})" if "failed" in row else ""
            parts.append(f"| {label}{failed} | " + " | ".join(cells) + " |")
        parts.append("")
    return "\n".join(parts)


def _cell(row: Any, rows: Any, key: str, _: str, digits: int, more: bool | None) -> str:
    value = row.get(key)
    if value is None:
        return "–"
    text = f"{value:,.{digits}f}"
    others = [r[key] for r in rows if r["tool"] != REAL and r.get(key) is not None]

    def worth(v: float) -> float:
        return -abs(v - 0.5) if more is None else v if more else -v

    best = row["tool"] != REAL and key != "copies" and worth(value) >= max(map(worth, others))
    return f"**{text}**" if best else text


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m lab tables")
    parser.add_argument("names", nargs="*", help="tables (default: all)")
    parser.add_argument("--peers", help="the Python of an environment with sdv and dpmm")
    parser.add_argument("--adult", help="a folder with adult.train.data.xz and adult.valid.data.xz")
    parser.add_argument("--statsmodels", help="a wheel of statsmodels, for its tables")
    parser.add_argument("--tools", help="some of real rows,copula,ctgan,mst,aim,nelson")
    parser.add_argument("-o", "--output", help="the results as JSON")
    parser.add_argument("--show", help="print the tables of such files, and measure nothing")
    arguments = parser.parse_args(words)
    rows = (
        [row for path in arguments.show.split(",") for row in json.loads(Path(path).read_text())]
        if arguments.show
        else run(arguments.names, arguments)
    )
    print(shown(rows))
    return 0
