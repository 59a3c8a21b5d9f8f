"""The audit's table: each claim stands on its page and names tests that exist."""

from __future__ import annotations

import re

import pytest

from lab import audit
from tests import ROOT

#: Words that promise something for all cases.
ABSOLUTE = re.compile(r"\b(always|never|nothing|every|each|any|all of them)\b", re.IGNORECASE)
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


def unproved(text: str, claims: list[str]) -> list[str]:
    """Lines with an absolute word that neither a claim nor an ordinary sentence covers."""
    flat = [" ".join(claim.split()) for claim in claims] + list(ORDINARY)
    sentences = re.split(r"(?<=[.;!?])\s|\n\n|\n\||\|", text)
    out = []
    for sentence in sentences:
        told = " ".join(sentence.split())
        if ABSOLUTE.search(told) and not any(known in told or told in known for known in flat):
            out.append(told)
    return out


def test_each_claim_stands_on_its_page_and_names_tests():
    assert len(audit.claims()) >= 45
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
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(), flags=re.M | re.S)
    text = re.sub(r"^:::+.*$|^:\w.*$", "", text, flags=re.M)  # cards of the site
    assert unproved(text, claims) == []


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
