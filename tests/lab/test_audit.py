"""The audit's table: each claim stands on its page and names tests that exist."""

from __future__ import annotations

import re

import pytest

from lab import audit
from tests import ROOT

#: Words that promise something for all cases: on the pages that are read first, and on the others.
STRICT = re.compile(r"\b(always|never|nothing|every|each|any|all of them)\b", re.IGNORECASE)
ABSOLUTE = re.compile(r"\b(always|never|nothing|every)\b", re.IGNORECASE)
#: Sentences of README with such a word that promise nothing about results.
ORDINARY = (
    "a small case of each of five tasks",
    "everything else is installed, then all tests run",
    "A clause per crossing",
    "nothing is known about the law",
    "the objections of each field",
    "once for each method",
)
#: The pages that a reader sees first. They repeat some sentences of each other.
FIRST = ("README.md", "docs/index.md", "docs/start.md")
#: Made by `nelson bench`, whose claims are counted there.
MADE = "docs/results.md"
#: The others.
PAGES = sorted(
    page
    for path in (ROOT / "docs").rglob("*.md")
    if (page := path.relative_to(ROOT).as_posix()) not in (*FIRST, MADE) and "_build" not in page
)


def unproved(text: str, known: list[str], words: re.Pattern[str] = STRICT) -> list[str]:
    """Sentences with an absolute word that neither a claim nor a statement covers."""
    flat = [" ".join(claim.split()) for claim in known]
    out = []
    for sentence in re.split(r"(?<=[.;!?])\s|\n\n|\n\||\||\n- ", prose(text)):
        told = " ".join(sentence.split())
        if words.search(told) and not any(one in told or told in one for one in flat):
            out.append(told)
    return out


def prose(text: str) -> str:
    """A page without its code and without the cards of the site."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    return re.sub(r"^:::+.*$|^:\w.*$", "", text, flags=re.M)


def test_each_claim_stands_on_its_page_and_names_tests():
    assert len(audit.claims()) >= 160
    for claim in audit.claims():
        assert claim.stands(), claim.text
        assert claim.tests, claim.text
        for test in claim.tests:
            file, _, name = test.partition("::")
            text = (ROOT / file).read_text()
            assert not name or re.search(rf"^def {name}\(", text, re.MULTILINE), test


@pytest.mark.parametrize("page", FIRST)
def test_the_first_pages_promise_nothing_without_a_test(page):
    claims = [claim.text for claim in audit.claims() if claim.page in FIRST]
    assert unproved((ROOT / page).read_text(), [*claims, *ORDINARY]) == []


@pytest.mark.parametrize("page", PAGES)
def test_the_other_pages_promise_nothing_without_a_test(page):
    """Write another sentence; or add a claim to lab/audit.toml, with the test that shows it; or, if
    it promises nothing about a result, a line to lab/statements.toml.
    """
    known = [claim.text for claim in audit.claims() if claim.page == page]
    known += audit.statements().get(page, [])
    assert unproved((ROOT / page).read_text(), known, ABSOLUTE) == []


def test_a_promise_without_a_test_is_found():
    assert unproved("It never fails. It is small.", []) == ["It never fails."]


def test_a_claim_without_its_test_fails(monkeypatch):
    claim = audit.Claim("README.md", "never on this page", ("tests/a.py::test_a",))
    assert not claim.stands()
    lines = "PASSED tests/a.py::test_a[1]\nFAILED tests/a.py::test_a[2] - no\n"
    done = type("Done", (), {"stdout": lines})
    monkeypatch.setattr(audit.subprocess, "run", lambda *_, **__: done)
    assert audit.outcomes(["tests/a.py::test_a"]) == {"tests/a.py::test_a": "failed"}
    assert audit.table([claim]).rows[0][-1] == "FAILS"
    assert audit.judged(["PASSED", "SKIPPED"]) == "1 passed" and audit.judged([]) == "not run"


@pytest.mark.parametrize("word", ["always", "Every", "never"])
def test_absolute_words_are_found(word):
    assert unproved(f"{word} so.", []) == [f"{word} so."]
