"""What only a GPU can show: large formulas, torch beside the kernels, and no copies."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nelson
from tests.conftest import HAS_GPU
from tests.problems import complete_edges, random_ksat, sink_free, weights

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not HAS_GPU, reason="no NVIDIA GPU")]


@pytest.mark.parametrize(
    ("n", "count"),
    [(50, 100_000), (1000, 20_000), (3000, 3000), (6000, 1000), (30_000, 500), (200_000, 130)],
)
@pytest.mark.parametrize("options", [{}, {"sweeps": 2}], ids=["draw", "sweeps"])
def test_the_same_bits_at_every_size(n, count, options):
    """From many copies in shared memory to one word in global memory."""
    f = random_ksat(n, n, 5, seed=n)
    theta = np.random.default_rng(n).normal(size=n)
    options = {"method": "lovasz", "sweeps": 0, "seed": 5} | options
    host = nelson.sample(f, theta, count, **options)
    card = nelson.sample(f, theta, count, device="cuda", **options)
    assert np.array_equal(card.host().packed, host.packed)
    assert np.allclose(card.mean(), host.mean())
    assert card.info["resampled"] == host.info["resampled"]


def test_a_million_variables():
    f = random_ksat(1_000_000, 1_000_000, 5, seed=1)
    s = nelson.sample(f, None, 256, method="lovasz", sweeps=0, seed=1, device="cuda")
    assert s.status == "ok"
    assert f.satisfied(s.to_numpy()).all()


def test_hubs_and_long_clauses():
    edges = [(0, k) for k in range(1, 2000)] + [(k, k + 1) for k in range(1, 1999)]
    f = sink_free(edges)
    host = nelson.sample(f, None, 500, seed=3)
    card = nelson.sample(f, None, 500, seed=3, device="cuda")
    assert (host.guarantee, card.guarantee) == ("exact", "exact")
    assert np.array_equal(card.host().packed, host.packed)


def test_partial_rejection_sampling():
    f = sink_free(complete_edges(30))
    theta = weights(f)
    host = nelson.sample(f, theta, 5000, method="prs", seed=3)
    card = nelson.sample(f, theta, 5000, method="prs", seed=3, device="cuda")
    assert np.array_equal(card.host().packed, host.packed)


@pytest.mark.parametrize(
    ("n", "clauses", "k", "count"),
    [(30, 18, 3, 20_000), (100, 70, 5, 20_000), (1000, 1000, 5, 3000), (1000, 900, 4, 3000),
     (1000, 700, 7, 700), (3000, 1800, 5, 1000), (6000, 3600, 5, 500), (30_000, 15_000, 5, 200)],
)  # fmt: skip
@pytest.mark.parametrize("scale", [0.0, 1.0], ids=["uniform", "weighted"])
def test_coupling_from_the_past_gives_the_same_bits(n, clauses, k, count, scale):
    f = random_ksat(n, clauses, k, seed=n)
    theta = scale * np.random.default_rng(n).normal(size=n)
    options = {"method": "cftp", "seed": 5, "max_rounds": 4096}
    host = nelson.sample(f, theta, count, **options)
    card = nelson.sample(f, theta, count, device="cuda", **options)
    assert len(host) == count
    rounded = scale * n > 10_000  # their rounding adds up to more than 1e-6
    assert (card.guarantee, card.status) == ("approximate" if rounded else "exact", "ok")
    assert host.guarantee == card.guarantee
    assert np.array_equal(card.host().packed, host.packed)


def test_auto_is_exact_where_clauses_are_as_many_as_variables():
    f = random_ksat(1000, 1000, 5, seed=1)
    host = nelson.sample(f, None, 1000, seed=5)
    card = nelson.sample(f, None, 1000, seed=5, device="cuda")
    assert (card.info["method"], card.guarantee) == ("cftp", "exact")
    assert "drawn on" not in card.info
    assert np.array_equal(card.host().packed, host.packed)


def test_coupled_chains_that_do_not_meet():
    f = random_ksat(1000, 1500, 5, seed=1)
    card = nelson.sample(f, None, 100_000, method="cftp", max_rounds=64, seed=1, device="cuda")
    assert (len(card), card.status) == (0, "budget")
    assert "did not meet" in card.info["reason"]


def test_many_contexts():
    f = random_ksat(60, 50, 5, seed=2)
    theta = np.random.default_rng(0).normal(size=(300, 60))
    options = {"method": "lovasz", "sweeps": 1, "seed": 2}
    host = nelson.sample(f, theta, 100, **options)
    card = nelson.sample(f, theta, 100, device="cuda", **options)
    assert np.array_equal(card.host().packed, host.packed)


def test_threads_do_not_disturb_each_other():
    """Each thread keeps its own buffers from call to call."""
    f = random_ksat(60, 50, 5, seed=2)
    thetas = np.random.default_rng(0).normal(size=(4, 60))

    def many(theta):
        drawn = [nelson.sample(f, theta, 700, method="lovasz", sweeps=1, seed=k, device="cuda")
                 for k in range(30)]  # fmt: skip
        return [s.host().packed for s in drawn], [s.mean() for s in drawn]

    many(thetas[0])  # compiled once
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(many, thetas))
    for theta, (packed, means) in zip(thetas, results, strict=True):
        for k in range(30):
            host = nelson.sample(f, theta, 700, method="lovasz", sweeps=1, seed=k)
            assert np.array_equal(packed[k], host.packed)
            assert np.allclose(means[k], host.mean())


def test_torch_sees_the_words_without_a_copy():
    import torch

    f = random_ksat(100, 80, 5, seed=2)
    s = nelson.sample(f, None, 1000, seed=2, device="cuda", method="lovasz", sweeps=0)
    words = torch.as_tensor(s, device="cuda")
    assert words.data_ptr() == s.__cuda_array_interface__["data"][0]
    assert words.shape == (16, 100)
    assert torch.from_dlpack(s).data_ptr() == words.data_ptr()
    for dtype in (torch.uint8, torch.float32, torch.bfloat16, torch.bool):
        x = s.to_torch(dtype)
        assert x.dtype == dtype
        assert x.is_cuda
        assert np.array_equal(x.float().cpu().numpy().astype(bool), s.to_numpy())


def test_work_goes_to_torchs_stream():
    import torch

    f = random_ksat(100, 80, 5, seed=2)
    with torch.cuda.stream(torch.cuda.Stream()):
        s = nelson.sample(f, None, 100_000, seed=2, device="cuda", method="lovasz", sweeps=0)
        total = s.to_torch(torch.float32).sum()
    with torch.cuda.stream(torch.cuda.Stream()):  # another one
        again, mean = s.to_torch(torch.float32).sum(), s.mean()
    host = nelson.sample(f, None, 100_000, seed=2, method="lovasz", sweeps=0)
    assert int(total) == int(again) == int(np.bitwise_count(host.packed).sum())
    assert np.allclose(mean, host.mean())


def test_distribution_and_layer_draw_on_the_card():
    import torch

    f = random_ksat(300, 250, 5, seed=2)
    logits = torch.randn(300, device="cuda", requires_grad=True)
    law = nelson.ConstrainedMRF(f, logits=logits, method="lovasz", sweeps=2)
    torch.manual_seed(0)
    x = law.sample((500,))
    assert x.is_cuda
    assert law.info["sample"]["device"] == "cuda:0"
    assert f.satisfied(x.cpu().numpy().astype(bool)).all()
    torch.manual_seed(0)
    same = nelson.ConstrainedMRF(f, logits=logits.cpu(), method="lovasz", sweeps=2).sample((500,))
    assert torch.equal(same, x.cpu())
    layer = nelson.LovaszLayer(f, 64, method="lovasz", sweeps=2)
    value = layer.expectation(lambda x: x.sum(-1), logits)
    value.backward()
    assert layer.info["device"] == "cuda:0"
    assert logits.grad is not None
    assert logits.grad.is_cuda


def test_too_little_memory_says_what_to_do():
    f = random_ksat(1000, 10, 5, seed=2)
    with pytest.raises(nelson.NelsonError, match="stream"):
        nelson.sample(f, None, 10**11, seed=2, device="cuda", method="lovasz", sweeps=0)
