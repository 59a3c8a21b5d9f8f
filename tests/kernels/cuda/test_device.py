"""`device="cuda"` in the public functions: the samples of the CPU, and errors that help."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import nelson
from nelson.learning import Newton
from nelson.sampling.device.gpu import Gpu
from tests.kernels.cuda.compare import MARKS, SIMULATED
from tests.problems import example1, pigeonhole, random_ksat, weights

pytestmark = MARKS


OPTIONS = [
    {"method": "prs"},
    {"method": "lovasz", "sweeps": 2},
    {"method": "lovasz", "given": [1, -3]},
    {"method": "lovasz", "project": [3, 1]},
    {"method": "lovasz", "sweeps": 0, "max_rounds": 1},
]


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_device_gives_the_same_samples(options):
    f = random_ksat(12, 10, 3, seed=1)
    theta = weights(f)
    host = nelson.sample(f, theta, 100, seed=4, **options)
    card = nelson.sample(f, theta, 100, seed=4, device="cuda", **options)
    assert np.array_equal(card.to_numpy(), host.to_numpy())
    assert np.array_equal(card.host().packed, host.packed)
    assert np.allclose(card.mean(), host.mean())
    assert (card.guarantee, card.status, len(card)) == (host.guarantee, host.status, len(host))
    assert card.info["rounds"] == host.info["rounds"]
    assert card.info["device"] == "cuda:0"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clauses", "method", "guarantee"), [(18, "lovasz", "diagnosed"), (6, "cftp", "exact")]
)
def test_auto_resamples_or_couples_on_the_card(clauses, method, guarantee):
    pytest.importorskip("pysat")  # without a solver chains are heuristic, and the host enumerates
    f = random_ksat(12, clauses, 3, seed=1)
    s = nelson.sample(f, None, 100, seed=4, device="cuda")
    assert (s.info["method"], s.guarantee) == (method, guarantee)
    assert f.satisfied(s.to_numpy()).all() and "drawn on" not in s.info


def test_auto_draws_extremal_formulas_on_the_card():
    assert nelson.sample(example1(), None, 100, seed=4, device="cuda").guarantee == "exact"


@pytest.mark.slow
def test_a_card_gives_no_less_than_the_host():
    """Where resampling does not converge the host draws, and the samples move to the card."""
    f = nelson.Formula([], n_vars=12).exactly(range(1, 13), 2)
    host = nelson.sample(f, None, 100, seed=4)
    card = nelson.sample(f, None, 100, seed=4, device="cuda")
    assert card.status == "ok" and card.guarantee == host.guarantee == "exact"
    assert np.array_equal(card.to_numpy(), host.to_numpy())
    assert np.allclose(card.mean(), host.mean())
    assert card.info["device"] == "cuda:0" and "CPU" in card.info["drawn on"]
    blocks = list(nelson.stream(f, None, 100, block=64, seed=4, device="cuda"))
    assert [len(block) for block in blocks] == [64, 36]
    assert "drawn on" not in nelson.sample(example1(), None, 64, seed=1, device="cuda").info


@pytest.mark.parametrize("method", ["moser-tardos", "rejection"])
def test_methods_of_the_host_move_to_the_card(method):
    host = nelson.sample(example1(), None, 70, method=method, seed=4)
    card = nelson.sample(example1(), None, 70, method=method, seed=4, device="cuda")
    assert np.array_equal(card.to_numpy(), host.to_numpy())
    assert card.guarantee == host.guarantee and "CPU" in card.info["drawn on"]


def test_contexts_with_different_evidence():
    theta = np.array([[np.inf, 0.0, 0.0], [0.0, 0.0, 0.0]])
    host = nelson.sample(example1(), theta, 70, seed=4)
    card = nelson.sample(example1(), theta, 70, seed=4, device="cuda")
    assert np.array_equal(card.to_numpy(), host.to_numpy())


@pytest.mark.slow
def test_one_theta_row_a_context():
    f = example1()
    theta = np.array([[0.3, -1.0, 2.0], [0.0, 0.0, 0.0], [-2.0, 1.0, 0.5]])
    host = nelson.sample(f, theta, 70, seed=4)
    card = nelson.sample(f, theta, 70, seed=4, device="cuda")
    assert card.contexts == 3
    assert np.array_equal(card.to_numpy(), host.to_numpy())
    assert np.allclose(card.mean(), host.mean())


def test_a_stream_is_the_same_samples_in_blocks():
    f = example1()
    blocks = list(nelson.stream(f, None, 300, block=128, seed=1, device="cuda"))
    assert [len(block) for block in blocks] == [128, 128, 44]
    x = np.concatenate([block.to_numpy() for block in blocks])
    assert np.array_equal(x, nelson.sample(f, None, 300, seed=1).to_numpy())


def test_nothing_asked_for():
    assert len(nelson.sample(example1(), None, 0, device="cuda")) == 0


@pytest.mark.slow
def test_a_deadline_leaves_whole_samples():
    f = random_ksat(12, 10, 3, seed=1)
    s = nelson.sample(f, None, 2_000, seconds=0.2, seed=4, device="cuda", method="lovasz", sweeps=0)
    assert f.satisfied(s.to_numpy()).all()
    assert (s.status == "ok") == (len(s) == 2_000)
    first = nelson.sample(f, None, 64, seed=4, method="lovasz", sweeps=0).to_numpy()
    assert np.array_equal(s.to_numpy()[:64], first[: len(s)])


@pytest.mark.process
def test_unsatisfiable_is_proved():
    pytest.importorskip("pysat")
    with pytest.raises(nelson.Unsatisfiable):
        nelson.sample(pigeonhole(3), None, 10, device="cuda", max_rounds=20)


@pytest.mark.slow
def test_learning_is_the_same_on_the_card():
    f = example1()
    data = nelson.sample(f, [1.0, 0.5, -0.5], 256, seed=1).to_numpy()
    options = {"seed": 2, "optimizer": Newton(m=128, iterations=2, stop=False)}
    one = nelson.learn(f, data, **options).theta
    two = nelson.learn(f, data, device="cuda", **options).theta
    assert np.array_equal(one, two)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"device": "gpu"}, "cuda"),
        ({"device": "cuda:x"}, "cuda"),
        ({"device": "cuda", "unique": True}, "unique"),
    ],
)
def test_what_cannot_be_done_is_said(options, said):
    with pytest.raises(nelson.FormulaError, match=said):
        nelson.sample(example1(), None, 10, **options)


def _python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    plain = {key: value for key, value in os.environ.items() if key != "NUMBA_ENABLE_CUDASIM"}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=plain | environment
    )


@pytest.mark.process
def test_without_a_gpu_the_error_says_what_to_do():
    code = "import nelson; nelson.sample(nelson.Formula([[1, 2]]), None, 4, device='cuda')"
    done = _python(code, CUDA_VISIBLE_DEVICES="")
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert "NelsonError" in last
    assert 'device="cpu"' in last or "nelson-mrf[cuda]" in last


@pytest.mark.process
def test_import_never_touches_cuda():
    code = (
        "import sys, nelson, nelson.sampling.sample_stream;"
        "nelson.sample(nelson.Formula([[1, 2]]), None, 4);"
        "assert not [m for m in sys.modules if m.startswith(('nelson.kernels.cuda', 'cuda.'))]"
    )
    done = _python(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not SIMULATED, reason="torch is replaced")
def test_work_goes_to_the_stream_that_is_current():
    """Also for samples that were drawn on another stream."""
    card, current = Gpu(0), SimpleNamespace(cuda_stream=7)
    card.torch = SimpleNamespace(cuda=SimpleNamespace(current_stream=lambda index: current))
    card.cuda = SimpleNamespace(external_stream=lambda handle: f"stream {handle}")
    assert card.stream == "stream 7"
    current.cuda_stream = 8
    assert card.stream == "stream 8"
    current.cuda_stream = 0  # the default stream
    assert card.stream == 0
