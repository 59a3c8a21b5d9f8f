"""Rows of the model of a table in a folder of parts: its columns, its law, whoever draws them."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import nelson
from nelson import NelsonError, cluster
from tests.cli.commands import run

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

N, OPTIONS = 6000, {"n": 6000, "seed": 1, "part_rows": 1024}


@pytest.fixture(scope="module")
def table():
    """Every 1,499th row has a value of `rare`: the first rows of a part may have none."""
    rng, n = np.random.default_rng(0), 3000
    city = rng.choice(["Bern", "Oslo", "Rome"], n, p=[0.2, 0.3, 0.5])
    columns = {
        "id": np.arange(n) + 1000,
        "age": rng.integers(18, 90, n),
        "city": city,
        "member": rng.random(n) < np.where(city == "Rome", 0.8, 0.1),
        "income": np.round(rng.lognormal(10, 1, n), 2),
        "when": pandas.Timestamp("2024-01-01") + pandas.to_timedelta(rng.integers(0, 365, n), "D"),
        "rare": [None if k % 1499 else "x" for k in range(n)],
        "maybe": pandas.array([None if k % 3 else k % 7 for k in range(n)], dtype="Int64"),
        "price": [Decimal(int(v)) / 100 for v in rng.integers(1, 100_000, n)],
    }
    return pandas.DataFrame(columns)


@pytest.fixture(scope="module")
def model(table):
    return nelson.Space.from_frame(table).learn(table, seed=0)


def parts_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("part-*")}


def far(frame, shares: dict) -> list:
    """The values whose share is more than 5 sigma from the law: a false alarm in 10^6 each."""
    found = []
    for value, share in shares.items():
        seen = float((frame["city"] == value).mean())
        if abs(seen - share) > 5 * math.sqrt(max(share * (1 - share), 1e-9) / len(frame)):
            found.append(value)
    return found


def test_rows_of_a_model(model, table, tmp_path):
    model.save(tmp_path / "model")
    one = cluster.sample(model, out=tmp_path / "one", **OPTIONS)
    loaded = nelson.load(tmp_path / "model")
    for k in (3, 1, 2):  # in another order, by a model that was read from a file
        cluster.sample(loaded, out=tmp_path / "many", shard=f"{k}/3", **OPTIONS)
    folder = nelson.read(tmp_path / "many")
    folder.verify()
    assert parts_of(tmp_path / "one") == parts_of(tmp_path / "many")
    assert (one.guarantee, one.job["keyed"], len(folder)) == (model.guarantee, "part", N)
    frame = folder.to_pandas()
    assert frame.dtypes.to_dict() == model.sample(10).dtypes.to_dict()
    assert list(frame.columns) == list(table.columns) == list(folder.names)
    assert frame["id"].is_unique and frame["id"].min() > table["id"].max()
    assert set(frame["rare"].dropna()) == {"x"}
    assert not frame.iloc[:1024, 1:].equals(frame.iloc[1024:2048, 1:].reset_index(drop=True))
    shares = dict(model.marginals()["city"])
    assert not far(frame, shares)
    assert np.all(np.isfinite(model.log_prob(frame)))
    # Twins: a condition moves the shares, and another seed is another folder.
    given = cluster.sample(model, out=tmp_path / "given", given={"member": True}, **OPTIONS)
    assert far(given.to_pandas(), shares) and given.to_pandas()["member"].all()
    with pytest.raises(NelsonError, match="its given is"):
        cluster.sample(model, out=tmp_path / "one", given={"member": True}, **OPTIONS)
    other = cluster.sample(model, out=tmp_path / "other", **OPTIONS | {"seed": 2})
    assert not other.to_pandas().equals(frame)
    less = nelson.Space.from_frame(table[:500]).learn(table[:500], seed=0)
    with pytest.raises(NelsonError, match="its formula is"):
        cluster.sample(less, out=tmp_path / "one", **OPTIONS)


def test_other_tools_read_rows_of_a_model(model, tmp_path):
    import pyarrow.dataset

    folder = cluster.sample(model, out=tmp_path / "rows", **OPTIONS)
    right = folder.to_pandas()["income"].mean()
    dataset = pyarrow.dataset.dataset(tmp_path / "rows")
    assert dataset.to_table()["income"].to_pandas().mean() == pytest.approx(right)
    if polars := pytest.importorskip("polars"):
        found = polars.scan_parquet(tmp_path / "rows").select(polars.col("income").mean())
        assert found.collect().item() == pytest.approx(right)


@pytest.mark.slow
def test_a_model_of_rows_of_a_space(tmp_path):
    """Learned from rows, without a frame: the columns are those of the space."""
    space = nelson.Space()
    length, _ = space.integer("len", 1, 15), space.flag("write")
    space.require(length != 7)
    rows = space.sample(500, seed=0)
    model = space.learn(rows, seed=0)
    folder = cluster.sample(model, n=1000, out=tmp_path / "a", seed=3, part_rows=256)
    lengths = folder.to_pandas()["len"]
    assert lengths.between(1, 15).all() and not (lengths == 7).any()
    with pytest.raises(NelsonError, match="a formula, the plan of a space, or the model"):
        cluster.sample(rows, n=10, out=tmp_path / "b")


@pytest.mark.slow
def test_the_command_line_draws_a_model_into_a_folder(model, tmp_path):
    model.save(tmp_path / "model")
    args = ["sample", tmp_path / "model", "-n", 500, "--seed", 4, "-o", f"{tmp_path}/rows/"]
    args += ["--part-rows", 256, "--given", "city=Rome"]
    for k in (1, 2):
        done = run(*args, "--shard", f"{k}/2")
        assert done.returncode == 0, done.stderr
    frame = nelson.read(tmp_path / "rows").to_pandas()
    assert (len(frame), set(frame["city"])) == (500, {"Rome"})
    done = run("read", f"{tmp_path}/rows/", "--info")
    assert "columns    9" in done.stdout and "seed       4, keyed by part" in done.stdout
