"""For all tests: Hypothesis draws the same examples in every run and has no deadline; compiled
circuits are kept in a folder of this run, not of the user; without a GPU, CUDA kernels run in
Numba's simulator; Ctrl-C interrupts, also if a shell started the tests in the background.
"""

import os
import shutil
import signal

import pytest
from hypothesis import settings

from tests import schedule

HAS_GPU = shutil.which("nvidia-smi") is not None
if not HAS_GPU:  # before Numba is imported
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"

# A shell without job control makes its background jobs ignore SIGINT, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("nelson", derandomize=True, deadline=None)
settings.load_profile("nelson")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: schedule.rank(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return schedule.scheduler(config, log)


@pytest.fixture(autouse=True, scope="session")
def _circuits(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("NELSON_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    patch.delenv("NELSON_CACHE_BYTES", raising=False)
    yield
    patch.undo()


@pytest.fixture
def compilations(monkeypatch):
    """A list that grows by one each time a compiler is started."""
    from nelson.exact.circuit import build

    calls, run_child = [], build.run_child

    def counted(*args, **options):
        calls.append(args)
        return run_child(*args, **options)

    monkeypatch.setattr(build, "run_child", counted)
    return calls
