"""`LogPartition.shifted`: log Z of a potential that is larger by a constant."""

from __future__ import annotations

import pytest

from nelson.log_z.result import LogPartition


def test_a_shift_moves_value_bounds_and_estimate():
    info = {"bounds": (8.0, 10.0), "estimate": 9.0, "log_probability": -2.0}
    result = LogPartition(9.0, 1.0, "bridge", "", 0.0, False, info).shifted(5.0)
    assert result.value == 14.0 and result.interval == (13.0, 15.0)
    assert result.info == {"bounds": (13.0, 15.0), "estimate": 14.0, "log_probability": -2.0}


@pytest.mark.parametrize("info", [{}, {"seed": 1}])
def test_a_shift_of_an_exact_value_leaves_the_rest(info):
    result = LogPartition(2.0, 0.0, "circuit", "why", 0.5, True, info).shifted(-1.5)
    assert result == LogPartition(0.5, 0.0, "circuit", "why", 0.5, True, info)


def test_what_is_not_exact_has_a_half_width() -> None:
    """Bounds that meet are sums of rounded numbers. The twin is exact."""
    assert LogPartition(-1e4, 0.0, "bridge", "", 0.0, False).half_width == pytest.approx(1e-5)
    assert LogPartition(-1e4, 0.0, "tables", "", 0.0, True).half_width == 0.0
    assert LogPartition(-1e4, 0.3, "bridge", "", 0.0, False).half_width == 0.3
