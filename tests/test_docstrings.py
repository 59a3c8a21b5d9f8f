"""Every public name has a docstring with an example, and the example prints what it says.

An example is a doctest (`>>>`) that finds `nelson` and `np` imported. `tests/cluster` runs those
that write folders.
"""

from __future__ import annotations

import doctest
import inspect

import numpy as np
import pytest

import nelson

NAMES = sorted(set(nelson.__all__) - {"__version__"})
#: Names whose example needs a package that is not always there.
TORCH = ("CircuitLayer", "ConstrainedMRF", "ContrastiveLoss", "LovaszLayer")
NEEDS = {**dict.fromkeys(TORCH, "torch"), "TableEstimator": "pandas"}
IN_A_FOLDER = ["cluster", "read"]


def example_of(text: str | None, name: str) -> doctest.DocTest:
    """The example in a docstring: its own names, with `nelson` and `np`."""
    names = {"nelson": nelson, "np": np}
    return doctest.DocTestParser().get_doctest(inspect.cleandoc(text or ""), names, name, None, 0)


def failures(example: doctest.DocTest) -> list[str]:
    """What running an example prints that the docstring does not say."""
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    runner.run(example, out=said.append)
    return said


def run_example(name: str) -> None:
    said = failures(example_of(getattr(nelson, name).__doc__, name))
    assert not said, "".join(said)


def without_example(docs: dict[str, str | None]) -> list[str]:
    return [name for name, text in docs.items() if not example_of(text, name).examples]


def test_every_public_name_has_an_example():
    assert without_example({name: getattr(nelson, name).__doc__ for name in NAMES}) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(NAMES) - set(IN_A_FOLDER)))
def test_the_example_of_a_name_runs(name, tmp_path, monkeypatch):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"NO {NEEDS[name]}: the example is not run")
    monkeypatch.chdir(tmp_path)
    run_example(name)


def test_a_missing_or_wrong_example_would_be_noticed():
    assert without_example({"a": "Text.", "b": None, "c": "Text.\n\n>>> 1 + 1\n2\n"}) == ["a", "b"]
    assert failures(example_of(">>> 1 + 1\n3\n", "c"))
    assert not failures(example_of(">>> 1 + 1\n2\n", "c"))
