"""Other tools open a folder of samples without a word from us, and read the right bits."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import nelson
from nelson import cluster
from tests.cluster.jobs import THETA, rows_of

pytest.importorskip("pyarrow")

#: Nineteen variables, so that a sample has more than two bytes.
WIDE = nelson.Formula([[v, v + 1] for v in range(1, 19, 2)], n_vars=19)
V = 11  # a variable; its column is V - 1, in byte 1
#: A rule for each tool of docs/cluster.md: the share of samples in which variable V is true.
BYTE, BIT = divmod(V - 1, 8)
PACKED = {
    "pyarrow": f"""
import numpy as np, pyarrow.dataset
table = pyarrow.dataset.dataset(folder).to_table()
rows = np.frombuffer(b"".join(table["x"].to_pylist()), np.uint8).reshape(len(table), -1)
share = np.unpackbits(rows, axis=1, count=19, bitorder="little")[:, {V} - 1].mean()
""",
    "pandas": f"""
import pandas
share = pandas.read_parquet(folder)["x"].map(lambda x: x[{BYTE}] >> {BIT} & 1).mean()
""",
    "duckdb": f"""
import duckdb
v = {V} - 1
share = duckdb.sql(
    f"SELECT avg(get_bit(x::BIT, {{v // 8 * 8 + 7 - v % 8}})) FROM '{{folder}}/*.parquet'"
).fetchall()[0][0]
""",
    "polars": f"""
import polars
octet = polars.col("x").bin.slice({BYTE}, 1).bin.reinterpret(dtype=polars.UInt8)
share = polars.scan_parquet(folder).select(((octet // 2**{BIT}) % 2).mean()).collect().item()
""",
}
COLUMNS = {
    "pyarrow": """
import pyarrow.compute, pyarrow.dataset
share = pyarrow.compute.mean(pyarrow.dataset.dataset(folder).to_table()["x11"]).as_py()
""",
    "pandas": 'import pandas\nshare = pandas.read_parquet(folder)["x11"].mean()\n',
    "duckdb": """
import duckdb
share = duckdb.sql(f"SELECT avg(x11::INT) FROM '{folder}/*.parquet'").fetchall()[0][0]
""",
    "polars": """
import polars
share = polars.scan_parquet(folder).select(polars.col("x11").mean()).collect().item()
""",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Both layouts, with a job that is not finished: the folder is a dataset at any moment."""
    home = tmp_path_factory.mktemp("tools")
    for name, columns in (("packed", False), ("columns", True)):
        options = {"seed": 3, "part_rows": 64, "shard": "1/2", "columns": columns}
        cluster.sample(WIDE, np.linspace(-2, 2, 19), 1000, home / name, **options)
    return home


@pytest.mark.parametrize("layout", ["packed", "columns"])
@pytest.mark.parametrize("tool", PACKED)
def test_a_recipe_for_each_tool(folders, tool, layout):
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f"NO {tool}: its recipe is not run")
    right = nelson.read(folders / layout, partial=True).samples().to_numpy().mean(axis=0)
    assert len(set(right.round(6))) == 19  # no two variables could be mistaken for each other
    names = {"folder": str(folders / layout)}
    exec((PACKED if layout == "packed" else COLUMNS)[tool], names)
    assert names["share"] == pytest.approx(right[V - 1], abs=1e-12)


@pytest.mark.parametrize("tool", ["pyarrow", "pandas", "duckdb", "polars"])
def test_a_folder_with_other_files_would_be_noticed(folders, tmp_path, tool):
    """The twin: a file of rows that is no part changes the share that each tool finds."""
    import shutil

    if importlib.util.find_spec(tool) is None:
        pytest.skip(f"NO {tool}: its recipe is not run")
    copy = shutil.copytree(folders / "columns", tmp_path / "copy")
    part = copy / "part-000000000000000.parquet"
    shutil.copy(part, copy / "part-again.parquet")
    right = nelson.read(folders / "columns", partial=True).mean()[V - 1]
    names = {"folder": str(copy)}
    exec(COLUMNS[tool], names)
    assert abs(names["share"] - right) > 1e-4


def test_rows_of_a_space_have_their_types(tmp_path):
    """The columns of a space, drawn by two shares, are the rows of the plan."""
    pandas = pytest.importorskip("pandas")
    import pyarrow.dataset

    space = nelson.Space()
    length = space.integer("len", 1, 15)
    burst = space.choice("burst", ["FIXED", "INCR", "WRAP"])
    space.flag("write")
    space.require((burst != "WRAP") | (length > 3))
    plan = space.plan(weights={"burst": {"FIXED": 3}})
    for k in (2, 1):
        cluster.sample(plan, n=1000, out=tmp_path / "rows", seed=1, part_rows=128, shard=f"{k}/2")
    folder = nelson.read(tmp_path / "rows")
    folder.verify()
    expected = plan.sample(1000, seed=1).to_pandas()
    pandas.testing.assert_frame_equal(folder.to_pandas(), expected)
    schema = pyarrow.dataset.dataset(tmp_path / "rows").schema
    assert [str(kind) for kind in schema.types][::2] == ["int64", "bool"]
    assert "dictionary" in str(schema.types[1])
    with pytest.raises(nelson.NelsonError, match="to_pandas"):
        folder.samples()
    with pytest.raises(nelson.NelsonError, match="seed is 1, not 2"):
        cluster.sample(plan, n=1000, out=tmp_path / "rows", seed=2)


@pytest.mark.process
@pytest.mark.slow
def test_ray_data_opens_the_folder(head, folders):
    import ray

    right = nelson.read(folders / "columns", partial=True).mean()[V - 1]
    found = ray.data.read_parquet(str(folders / "columns"))
    assert found.count() == 512
    # Not `found.mean`: on two cores its shuffle waits for itself for ever (Ray 2.60).
    assert np.mean([row["x11"] for row in found.take_all()]) == pytest.approx(right, abs=1e-12)


def test_pyarrow_alone_reads_the_samples(finished, folders):
    from tests.cluster.jobs import TOWN

    right = nelson.sample(TOWN, THETA, 1000, seed=3).to_numpy()
    assert np.array_equal(rows_of(finished)[:, :7], right)


def test_a_rule_in_given_holds_in_the_folder(tmp_path):
    """Rows that break it are left out part by part: the same rows by two shards, uniform over the
    legal ones (5 sigma: a false alarm in 10^6), which those of the plan without the rule are not.
    """
    pytest.importorskip("pandas")
    space = nelson.Space()
    space.integer("a", 1, 6)
    space.integer("b", 1, 6)
    plan = space.plan(given="a + b > 6")
    assert "rows that obey" in plan.why
    options = {"n": 8000, "seed": 1, "part_rows": 1024}
    whole = cluster.sample(plan, out=tmp_path / "whole", **options)
    for k in (2, 1):
        cluster.sample(plan, out=tmp_path / "shares", shard=f"{k}/2", **options)
    frame = whole.to_pandas()
    assert nelson.read(tmp_path / "shares").to_pandas().equals(frame)
    assert (len(frame), whole.guarantee, whole.job["keyed"]) == (8000, "exact", "part")
    free = cluster.sample(space.plan(), out=tmp_path / "free", **options).to_pandas()
    for rows, right in ((frame, True), (free, False)):
        counts = rows.groupby(["a", "b"]).size()
        share, n = 1 / 21, len(rows)  # of the 36 pairs
        far = abs(counts / n - share) > 5 * np.sqrt(share * (1 - share) / n)
        assert (len(counts) == 21 and not far.any()) == right
    with pytest.raises(nelson.NelsonError, match="its given is"):
        cluster.sample(space.plan(given="a + b > 5"), out=tmp_path / "whole", **options)


def test_the_guarantee_of_asked_shares_is_that_of_the_plan(tmp_path, monkeypatch):
    """Also where the shares are known less well than the rows are drawn."""
    space = nelson.Space()
    space.integer("a", 1, 6)
    plan = space.plan(shares={"a": {1: 0.5}})
    for name, guarantee in (("one", "exact"), ("two", "heuristic")):
        monkeypatch.setitem(plan.inside[2].info, "shares_guarantee", guarantee)
        folder = cluster.sample(plan, n=100, out=tmp_path / name, seed=1)
        assert folder.guarantee == plan.guarantee == guarantee
