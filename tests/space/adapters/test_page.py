"""docs/adapters.md: its Python runs, and prints what the page says.

`python -m tests.space.adapters.test_page` writes the real output into the page.
"""

from __future__ import annotations

import os
import tempfile

import pytest

from tests import ROOT
from tests.test_readme import EXAMPLE, outputs

PAGE = ROOT / "docs" / "adapters.md"


def test_the_page_prints_what_it_says(tmp_path, monkeypatch):
    pytest.importorskip("cpmpy", reason="NO CPMPY: docs/adapters.md is not run")
    pytest.importorskip("ConfigSpace", reason="NO CONFIGSPACE: docs/adapters.md is not run")
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text()
    pairs = outputs(text)
    assert len(pairs) == text.count("```python") == 4
    for said, printed in pairs:
        assert printed == said


if __name__ == "__main__":
    content = PAGE.read_text()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        real = iter(outputs(content))
    PAGE.write_text(
        EXAMPLE.sub(lambda m: f"```python\n{m[1]}```\n\n```text\n{next(real)[1]}```", content)
    )
