"""The measurements of the GPU page, tiny and in the simulator: every figure is there, and drawn."""

from __future__ import annotations

import json
import os

import pytest

pytest.importorskip("torch")

from lab import gpu, gpu_page

pytestmark = pytest.mark.slow

simulated = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") != "1", reason="the launches are simulated"
)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    target = tmp_path_factory.mktemp("gpu") / "gpu.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu, "_ENOUGH", 0.0)  # two repetitions of each
        gpu.Measurements(gpu.TINY, target, "cpu", seconds=600.0).run()
    return json.loads(target.read_text())


@simulated
def test_nothing_is_left_out_and_bits_are_those_of_the_cpu(found):
    assert found["skipped"] == []
    assert len(found["same bits"]) == 2 and all(one["same"] for one in found["same bits"])
    cases = {case["case"] for case in found["cases"]}
    assert {"weighted", "uniform", "sink-free", "large", "cftp, L = 16, uniform"} <= cases
    assert {(one["precision"], one["compact"]) for one in found["dense"]} == {
        ("float32", True), ("float32", False), ("TF32", True), ("TF32", False),
    }  # fmt: skip


@simulated
def test_the_page_and_its_picture_name_precision_law_and_batch(found, tmp_path):
    text = "\n\n".join(gpu_page.parts(found))
    text += gpu_page.markdown(gpu_page.batches(found))
    weighted = next(c for c in found["cases"] if c["case"] == "weighted" and c["n"] == 12)
    for precision in gpu_page.PRECISIONS:
        rate = gpu_page.best_dense(found, 12, precision)["rate"]
        assert f"faster than dense, {precision}" in text
        assert f" {weighted['rate'] / rate:,.0f} x (" in text
    assert "2⁶" in text and "the paper's loop" in text and "Not measured" not in text
    gpu_page.picture(found, tmp_path / "gpu.svg")
    drawn = (tmp_path / "gpu.svg").read_text()
    assert drawn.startswith("<?xml") and len(drawn) > 10_000


def test_what_there_was_no_time_for_is_named(tmp_path):
    measured = gpu.Measurements(gpu.TINY, tmp_path / "gpu.json", "cpu", seconds=-1.0)
    measured.run()
    skipped = json.loads((tmp_path / "gpu.json").read_text())["skipped"]
    assert "million: no time was left" in skipped
    assert "n = 12: no time was left" in "; ".join(gpu_page.parts(measured.found)[-1:])
