"""Which tests `pytest -n` keeps in one process, and which it starts first.

The tests of a file stay together: what its fixtures build is built once. So do those of
`tests/cluster`, which share one Ray cluster. Files of few and long tests are divided, and all that
is long starts first: no process is left alone with it at the end.

(`xdist_group` marks would do the same, but pytest-xdist 3.8 ignores them under pytest 9.2.)
"""

from __future__ import annotations

from typing import Any

#: Files of long tests that share no fixture: their tests go to any process.
DIVIDED = (
    "tests/test_kills.py",
    "tests/lab/test_labels.py",
    "tests/learning/test_torchrun.py",
    "tests/log_z/test_bounds.py",
)
#: Folders and files that take long as a whole.
LONG = ("tests/cluster/", "tests/test_site.py", "tests/test_package.py")


def scope(nodeid: str) -> str:
    """Tests of the same scope run in the same process, one after the other."""
    file = nodeid.partition("::")[0]
    if file in DIVIDED:
        return nodeid
    return "tests/cluster/" if file.startswith("tests/cluster/") else file


def rank(nodeid: str) -> int:
    """Tests of lower rank start first."""
    first = (*DIVIDED, *LONG)
    return next((k for k, start in enumerate(first) if nodeid.startswith(start)), len(first))


def scheduler(config: Any, log: Any) -> Any:
    """Of pytest-xdist, which is imported here: pytest alone needs it not."""
    from xdist.scheduler import LoadScopeScheduling

    class Schedule(LoadScopeScheduling):
        _split_scope = staticmethod(scope)

    config.option.loadscopereorder = False  # keep the order of `rank`
    return Schedule(config, log)
