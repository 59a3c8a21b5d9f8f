"""The measures of new tables tell right tables from wrong ones."""

from __future__ import annotations

import numpy as np
import pytest

from lab.tables.utility import utility
from nelson.space.tables.comparison import Measures, compare
from tests.space.tables.people import people

pytest.importorskip("sklearn", reason="NO SCIKIT-LEARN: detection is not tested")
pytestmark = pytest.mark.slow


def test_rows_of_the_same_law_are_near_and_others_are_not():
    """An AUC of 1,500 + 1,500 rows of one law has a standard error of 0.01."""
    train, real, same = (people(1500, seed=k) for k in range(3))
    rng = np.random.default_rng(0)
    alone = same.apply(lambda column: rng.permutation(column))  # right columns, wrong pairs
    good, bad = compare(real, same, train), compare(real, alone, train)
    assert abs(good.detection - 0.5) < 0.05 < 0.2 < bad.detection - 0.5
    assert bad.one_way == pytest.approx(good.one_way) and bad.two_way > 1.1 * good.two_way
    assert good.correlation < 0.05 < bad.correlation
    assert good.copies == 0.0 and abs(good.closer - 0.5) < 4 * 0.5 / np.sqrt(1000)
    copied = compare(real, train, train, detect=False)
    assert copied.copies == 1.0 and copied.closer > 0.95
    assert "AUC" in str(good) and "AUC" not in str(copied)


def test_utility_of_the_right_law_and_of_shuffled_columns():
    real, same = people(1500, seed=1), people(1500, seed=2)
    rng = np.random.default_rng(0)
    alone = same.apply(lambda column: rng.permutation(column))
    how = Measures(real, leave_out=["band"])
    a, b, c = (how.encoded(table) for table in (real, same, alone))
    for target, gap in (("income", 0.3), ("marital", 0.05)):
        assert utility(b, a, target) > utility(c, a, target) + gap
