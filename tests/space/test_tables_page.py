"""docs/tables.md runs, and prints what it says."""

from __future__ import annotations

import pytest

from tests import ROOT
from tests.test_readme import outputs

PAGE = (ROOT / "docs" / "tables.md").read_text()


@pytest.mark.slow
def test_the_page_prints_what_it_says():
    pairs = outputs(PAGE)
    assert len(pairs) == PAGE.count("```python") >= 3  # none is left out
    for said, printed in pairs:
        assert printed == said
