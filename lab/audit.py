"""The audit: bold and absolute sentences of README and docs, each with the test that shows it.

    python -m lab.audit                 runs every test once, prints claim, file, command, verdict
    python -m lab.audit --only paper    claims whose text or page contains this word

A claim holds if all of its tests pass. `tests/lab/test_audit.py` checks that each text is on its
page, that each test exists, and that no sentence of README or docs says "always", "never",
"nothing" or "every" unless it is a claim or statements.toml says why it promises nothing.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nelson_paper.experiments.base import Table
from nelson_paper.experiments.report import markdown

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Claim:
    """A text of a page, and the tests that show it: "tests/file.py::test_name"."""

    page: str
    text: str
    tests: tuple[str, ...]

    def stands(self) -> bool:
        """Is the text still on its page?"""
        return _flat(self.text) in _flat((ROOT / self.page).read_text())


def _flat(text: str) -> str:
    return " ".join(text.split())


def claims() -> list[Claim]:
    listed = tomllib.loads((Path(__file__).parent / "audit.toml").read_text())["claim"]
    return [Claim(one["page"], one["text"], tuple(one["tests"])) for one in listed]


def statements() -> dict[str, list[str]]:
    """Page -> texts with an absolute word that promise nothing about a result."""
    reasons = tomllib.loads((Path(__file__).parent / "statements.toml").read_text()).values()
    out: dict[str, list[str]] = {}
    for pages in reasons:
        for page, texts in pages.items():
            out.setdefault(page, []).extend(texts)
    return out


def outcomes(nodes: Sequence[str]) -> dict[str, str]:
    """Test -> "passed", "failed" or "skipped"; a test with parameters passes if all of them do."""
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-n", "0", "-p", "no:cacheprovider"]
    text = subprocess.run(
        [*command, *nodes], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    lines = re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED) (?:\[\d+\] )?(\S+)", text, re.MULTILINE)
    return {node: judged([word for word, name in lines if _belongs(name, node)]) for node in nodes}


def _belongs(name: str, node: str) -> bool:
    return name == node or name.startswith((f"{node}[", f"{node}::", f"{node}:"))


def judged(words: Sequence[str]) -> str:
    if not words or any(word in ("FAILED", "ERROR") for word in words):
        return "failed" if words else "not run"
    return f"{words.count('PASSED')} passed" if "PASSED" in words else "skipped"


def table(chosen: Sequence[Claim]) -> Table:
    seen = outcomes(sorted({test for claim in chosen for test in claim.tests}))
    rows, holding = [], 0
    for claim in chosen:
        results = [seen[test] for test in claim.tests]
        holds = claim.stands() and all(word.endswith("passed") for word in results)
        holding += holds
        tests = ", ".join(f"`{test}`" for test in claim.tests)
        verdict = "holds" if holds else "FAILS"
        rows.append([claim.text, claim.page, tests, ", ".join(results), verdict])
    columns = ["claim", "file", "command (pytest)", "measured", "verdict"]
    return Table(f"{holding} of {len(chosen)} claims hold", columns, rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.audit")
    parser.add_argument("--only", default="", help="claims whose text or page contains this")
    word = parser.parse_args().only
    chosen = [claim for claim in claims() if word in claim.text or word in claim.page]
    made = table(chosen)
    print(markdown(made))
    return 0 if all(row[-1] == "holds" for row in made.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
