"""Tasks that several files share, learned once."""

from __future__ import annotations

import pytest

from nelson_paper.tasks import KSat, Orientations


@pytest.fixture(scope="session", params=[KSat, Orientations], ids=lambda cls: cls.name)
def learned(request):
    """A small task, learned: (task, examples, held-out examples, result)."""
    if request.param is Orientations:
        pytest.importorskip("networkx", reason="pip install nelson-mrf[plots]")
    task = request.param.small()
    data, held_out = task.examples(1000, seed=0), task.examples(1000, seed=1)
    return task, data, held_out, task.learn(data, seed=0)
