"""Every reader on damaged files: the right result or a NelsonError. `tests/io/fuzz.py` explains.

A crash of a kernel kills this process: a loud failure. NELSON_FUZZ_CASES sets the number of cases
for each kind of file; `make fuzz` runs a million and prints its seed.
"""

from __future__ import annotations

import ast
import operator
import os
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="pip install nelson-mrf[parquet]")
pytest.importorskip("safetensors", reason="pip install nelson-mrf[torch]")

from nelson.space.adapters import uvl_reader
from nelson.space.language import parse
from nelson.space.language.expressions import rule
from tests.io.fuzz import TARGETS, examples_of, one_case, rng_of, scratch

SEED = 20261115
CASES = int(os.environ.get("NELSON_FUZZ_CASES", "200"))


@pytest.fixture
def folder():
    with scratch() as place:
        yield place / "files"


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_whole_files_are_read(name, folder):
    """The twin: without damage no file is refused, whatever is drawn in reading it."""
    for case in range(3 * len(examples_of(name))):
        assert one_case(name, rng_of(SEED, name, case), folder, damage=False), case


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files_are_read_rightly_or_refused(name, folder):
    counts = [0, 0]
    for case in range(CASES):
        try:
            counts[one_case(name, rng_of(SEED, name, case), folder)] += 1
        except Exception:
            print(f"python -m tests.io.fuzz --seed {SEED} --only '{name}' --case {case}")
            raise
    # The damage must lead to both ends, or the test shows nothing.
    assert min(counts) > CASES // 50, counts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "table", "word", "wrong"),
    [
        ("rules", parse._FUNCTIONS, "implies", (lambda a, b: rule(b).implies(a), 2, 2, "")),
        ("rules", parse._BINARY, ast.Mod, operator.floordiv),
        ("rules", parse._FUNCTIONS, "at_most", (lambda k, *rules: rules.none, 2, 9, "")),
        ("uvl programs", uvl_reader._GROUPS, "alternative", (1, None)),
        ("uvl programs", uvl_reader._LEVEL, "=>", 4),
    ],
)
def test_a_wrong_meaning_of_a_program_is_noticed(folder, monkeypatch, name, table, word, wrong):
    """The twin: another meaning of one word, or an error that is none of ours."""
    monkeypatch.setitem(table, word, wrong)
    with pytest.raises((AssertionError, AttributeError)):  # noqa: PT012 - which case, is not known
        for case in range(400):
            one_case(name, rng_of(SEED, name, case), folder)


@pytest.mark.slow
@settings(max_examples=CASES, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from(sorted(TARGETS)),
    rng=st.randoms(use_true_random=False),
)
def test_damage_that_hypothesis_draws(name, rng: random.Random):
    """The same, where Hypothesis chooses the damage and makes it smaller after a failure."""
    with scratch() as place:
        one_case(name, rng, place / "files")
