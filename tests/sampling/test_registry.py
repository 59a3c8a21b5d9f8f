"""What every sampler says about itself: in the registry, in docs/samplers.md, in the command."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

import nelson
from nelson.chains.guarantee import GUARANTEES
from nelson.chains.problem import prepare
from nelson.cli import app
from nelson.errors import NelsonError
from nelson.sampling import registry
from nelson.sampling.registry import describe, get
from tests import ROOT
from tests.problems import extremal, non_extremal
from tests.sampling.contract import NAMES

DOCS = ROOT / "docs" / "samplers.md"


@pytest.mark.parametrize("key", NAMES)
def test_declaration(key):
    sampler = get(key)
    assert sampler.name == key
    assert sampler.summary and sampler.citation and sampler.promise
    # `circuit` draws from narrow formulas without its extra, so that no module has to be there.
    assert sampler.needs is not None or not sampler.modules
    for formula in (*extremal().values(), *non_extremal().values()):
        assert sampler.guarantee(prepare(formula), 0) in GUARANTEES
    assert not sampler.may_be_invalid or sampler.guarantee(prepare(formula), 9) == "heuristic"


def test_the_table_holds_every_sampler():
    rows = describe()
    assert [row.name for row in rows] == nelson.samplers()
    assert {row.name for row in rows if not row.weighted} >= {"unigen"}
    assert all(row.installed for row in rows if row.needs is None)


def test_peers_of_the_paper_are_named_only_where_nelson_paper_is_installed(monkeypatch):
    peers = {"kus", "waps", "weightgen", "xor", "quicksampler"}
    assert peers <= set(nelson.samplers())
    monkeypatch.setattr(registry, "_is_installed", lambda module: module != "nelson_paper")
    assert not peers & set(nelson.samplers())
    for name in peers:
        with pytest.raises(NelsonError, match="pip install nelson-paper"):
            get(name)


def test_docs_hold_the_same_table():
    """docs/samplers.md between its marks; `python -m tests.sampling.test_registry` writes it."""
    for part in PARTS.values():
        assert part() in DOCS.read_text()


def table() -> str:
    lines = ["| method | draws by | weights | guarantee | needs |", "|---|---|---|---|---|"]
    for row in describe():
        needs = row.needs or ""
        kind = "any" if row.weighted else "uniform only"
        how = row.summary.replace("|", "\\|")
        lines.append(f"| `{row.name}` | {how} | {kind} | {row.guarantee} | {needs} |")
    return "\n".join(lines) + "\n"


def sources() -> str:
    return "".join(f"- `{row.name}`: {row.citation}\n" for row in describe())


#: Parts of the page between marks.
PARTS = {"table": table, "sources": sources}


def test_the_docs_name_no_sampler_that_is_not_there():
    entries = re.findall(r"^\*\*(`.*?`)\*\*", DOCS.read_text(), re.MULTILINE)
    named = [name.strip("`") for entry in entries for name in entry.split(", ")]
    assert len(named) == len(set(named)) >= 8 and set(named) <= set(NAMES)


def test_the_command_prints_it():
    def said(*arguments):
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert done.exit_code == 0
        return done.stdout

    assert [line.split()[0] for line in said("samplers").splitlines()] == ["name", *NAMES]
    rows = json.loads(said("samplers", "--json"))
    assert rows == [row._asdict() for row in describe()]
    assert all(row["citation"] in said("samplers", "--long") for row in rows[:2])
    assert "nelson samplers --json |" in said("samplers", "--help")


if __name__ == "__main__":
    for name, part in PARTS.items():
        before, rest = DOCS.read_text().split(f"<!-- {name} -->\n")
        end = f"<!-- end of {name} -->"
        DOCS.write_text(f"{before}<!-- {name} -->\n{part()}{end}{rest.split(end)[1]}")
