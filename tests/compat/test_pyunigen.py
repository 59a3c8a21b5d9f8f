"""`nelson.compat.pyunigen.Sampler` beside pyunigen's own, call by call; the law of its samples."""

from __future__ import annotations

import pytest
from scipy.stats import chisquare

from nelson.compat import pyunigen
from nelson.compat.pyunigen import Sampler

CLAUSES = [[1, 5], [10, 11, 12]]


def both():
    theirs = pytest.importorskip("pyunigen", reason="NO PYUNIGEN: calls are not compared")
    return Sampler, theirs.Sampler


def error(call):
    try:
        call()
    except (TypeError, ValueError, SystemError) as caught:
        return type(caught), "" if "keyword" in str(caught) else str(caught)
    return None


def filled(cls, clauses=CLAUSES, **asked):
    sampler = cls(**asked)
    for clause in clauses:
        sampler.add_clause(clause)
    return sampler


@pytest.mark.parametrize("shown", [range(1, 5), [11, 1, 10], None])
def test_counts_and_forms_are_those_of_the_original(shown):
    asked = {} if shown is None else {"sampling_set": shown}
    found = [filled(cls, seed=7).sample(num=3, **asked) for cls in both()]
    counts = {cells << hashes for cells, hashes, _ in found}
    assert len(counts) == 1 or shown is None  # of many solutions theirs is an estimate
    for _, _, samples in found:
        assert len(samples) == 3
        assert [list(map(abs, row)) for row in samples] == [list(shown or range(1, 13))] * 3
    assert found[0][0] << found[0][1] == {5: 16, 4: 8, 13: 3 * 7 * 2**7}[len(shown or [0] * 12) + 1]


def test_errors_are_those_of_the_original():
    ours, theirs = both()
    for asked in ({"verbosity": -1}, {"epsilon": 0.0}, {"delta": 2.0}, {"kappa": 1.0}, {"a": 1}):
        # The original loses the ValueError on its way: SystemError "... with an exception set".
        assert error(lambda asked=asked: theirs(**asked))[0] is SystemError
        assert error(lambda asked=asked: ours(**asked))[0] in (ValueError, TypeError)
    wrong = [
        lambda cls: cls().add_clause([0]),
        lambda cls: cls().add_clause(7),
        lambda cls: cls().add_clause(["x"]),
        lambda cls: cls().add_clause([2**33]),
        lambda cls: filled(cls).sample(sampling_set=[13]),
    ]
    for call in wrong:
        found = error(lambda call=call: call(ours))
        assert found is not None
        assert found == error(lambda call=call: call(theirs))
    sampler = filled(ours)
    sampler.sample(num=1)
    assert error(sampler.sample) == (SystemError, "You can only call sample() once")


def test_a_given_count_is_returned():
    assert filled(Sampler).sample(num=1, cell_hash_count=(5, 2))[:2] == (5, 2)


def test_no_solution_is_no_sample():
    assert filled(Sampler, [[1], [-1]]).sample() == (0, 0, [])


def test_projected_solutions_are_uniform():
    """x2 and x3 extend x1 = false three times as often: over x1 alone both values are equal."""
    clauses, n = [[-1, 2], [-1, 3], [1, 2, 3]], 2000
    _, _, samples = filled(Sampler, clauses, seed=3).sample(num=n, sampling_set=[1])
    true = sum(row == [1] for row in samples)
    assert chisquare([true, n - true]).pvalue > 1e-6
    assert chisquare([true, n - true], [n / 4, 3 * n / 4]).pvalue < 1e-6  # the marginal law


def test_an_approximate_count_warns(monkeypatch):
    """A twin of exact counts: the limit of nelson.count is said to be reached."""
    from nelson.errors import BudgetExceeded

    pytest.importorskip("pyunigen", reason="NO PYUNIGEN: nothing counts")

    def never(*_, **__):
        raise BudgetExceeded("too hard")

    monkeypatch.setattr("nelson.sampling.solution_count.count", never)
    clauses = [[v, v + 1, v + 2] for v in range(1, 12)]
    with pytest.warns(UserWarning, match="ApproxMC's: too hard"):
        cells, hashes, _ = filled(Sampler, clauses).sample(num=1)
    from nelson import Formula, count

    exact = count(Formula(clauses))
    assert exact / 1.8 <= cells << hashes <= 1.8 * exact
    assert pyunigen.VERSION
