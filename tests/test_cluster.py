"""Sampling on Ray: a real cluster on the loopback interface, real processes killed, real files.

One cluster of two workers serves the whole file (`ray`); calls without an address use the one that
the process is connected to. Samples are compared bit for bit with those of `nelson.sample`.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import nelson
from nelson import Formula, NelsonError, cluster
from nelson.cluster import bench, engine, job, part_files, parts, shards
from nelson.cluster.read import Folder
from nelson.kernels.core.bits import concatenate, pack
from nelson.kernels.cpu.rows import from_rows, to_rows
from nelson.sampling import shards as span
from nelson.sampling.plan import make_plan
from tests import ROOT, cluster_cells

pytest.importorskip("ray")
pytest.importorskip("pyarrow")

DATA = Path(str(resources.files("nelson.tasks") / "data"))
STREETS, KSAT = DATA / "streets.cnf", DATA / "ksat-1000.cnf"
TOWN = Formula([[1, 3], [-1, 2, 4], [-2, 5], [-3, 6], [-4, -6, 7], [-5, -7]])
THETA = [0.7, 0.7, 0, -0.4, 0, 0, 0]
LOOSE = Formula([[1, 2, 3], [2, 3, 4], [-1, 4, 5]])  # not extremal
QUICK = {"method": "lovasz", "sweeps": 0}
TIMEOUT = 240


@pytest.fixture(scope="module")
def ray():
    """A cluster whose workers find the modules beside this file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        with engine.cluster(None, workers=2) as found:
            yield found


@pytest.fixture(scope="module")
def ksat() -> Formula:
    return Formula.from_dimacs(KSAT)


@pytest.fixture(scope="module")
def finished(ray, tmp_path_factory) -> Path:
    """A finished job of five parts; tests copy it."""
    out = tmp_path_factory.mktemp("done") / "job"
    cluster.sample(TOWN, THETA, 1000, out, seed=3, shard=256)
    return out


@pytest.fixture
def copy(finished, tmp_path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def rows_of(samples) -> np.ndarray:
    return samples.to_numpy()


# -------------------------------------------------------------------------------- bits into rows


@pytest.mark.parametrize("n", [0, 1, 8, 63, 65, 130, 1000, 1025, 2100])
@pytest.mark.parametrize("m", [0, 1, 64, 65, 200])
def test_rows_are_packed_bits(n, m):
    """Against NumPy's own packing, and back."""
    x = np.random.default_rng(n + m).integers(0, 2, (m, n)).astype(bool)
    rows = to_rows(pack(x), m)
    assert rows.shape == (m, max(1, -(-n // 8)))
    assert np.array_equal(rows[:, : -(-n // 8)], np.packbits(x, axis=1, bitorder="little"))
    assert np.array_equal(from_rows(rows, n), pack(x))


# ----------------------------------------------------------------------- samples a .. b of a seed


def settled(formula, n, method="auto", **options) -> span.Settled:
    known = dict.fromkeys(("sweeps", "given", "project", "seconds", "width"))
    known |= {"seed": 5, "threads": 1, "max_rounds": 1000, "check": True} | options
    plan = make_plan(formula, known.pop("theta", None), n, method=method, **known)
    return pickle.loads(pickle.dumps(span.settle(plan)))  # as a worker gets it


def in_spans(whole: span.Settled, n: int, size: int, block: int = 128) -> np.ndarray:
    found = []
    for first in range(0, n, size):
        for samples in span.blocks(whole, first, min(size, n - first), block):
            found.append((samples.packed, len(samples)))
    return concatenate(found, len(whole.plan.variables))[0]


@pytest.mark.parametrize(
    ("method", "formula", "options"),
    [
        ("auto", TOWN, {"theta": THETA}),
        ("auto", TOWN, {"given": [4], "project": [2, 1]}),
        ("auto", LOOSE, {}),
        ("lovasz", LOOSE, {"sweeps": 3}),
        ("prs", LOOSE, {}),
        ("moser-tardos", LOOSE, {}),
        ("enumerate", LOOSE, {"given": [-2]}),
        ("circuit", LOOSE, {"theta": [1, 0, 0, 0, -1]}),
        ("circuit", LOOSE, {"given": [-2]}),
        ("gibbs", LOOSE, {"check": False, "sweeps": 4}),
    ],
)
def test_spans_are_the_samples_of_one_call(method, formula, options):
    if method == "circuit" and find_spec("py_d4") is None:
        pytest.skip("no D4")
    n = 700
    whole = settled(formula, n, method, **options)
    assert whole.numbered
    drawn = nelson.sample(formula, n=n, method=method, seed=5, **options).packed
    for size in (64, 320, 704):
        assert np.array_equal(in_spans(whole, n, size), drawn)
    other = settled(formula, n, method, **(options | {"seed": 6}))
    assert not np.array_equal(in_spans(other, n, 320), drawn)


def test_starts_of_chains_are_found_once(monkeypatch):
    """`auto` on a formula that it gives to a solver: workers look for no starts of their own."""
    from nelson.sampling import auto, plan
    from nelson.sampling.auto import starts

    terms, find, calls = auto.Terms, starts.find, []
    skip = frozenset(("enumerate", "circuit", "resampling"))
    monkeypatch.setattr(plan, "_cores", lambda: 1)
    monkeypatch.setattr(auto, "Terms", lambda *args: terms(*args, skip=skip))

    def counted(*args):
        calls.append(args)
        return find(*args)

    monkeypatch.setattr(starts, "find", counted)
    whole = settled(LOOSE, 500)
    assert "cdcl" in whole.plan.sampler.name and whole.numbered
    before = len(calls)
    assert before
    drawn = in_spans(whole, 500, 128)
    assert len(calls) == before
    assert np.array_equal(drawn, nelson.sample(LOOSE, n=500, seed=5).packed)
    assert whole.digest != settled(LOOSE, 500, seed=6).digest


def test_what_is_not_keyed_by_the_sample_is_keyed_by_the_span():
    whole = settled(LOOSE, 640, "rejection")
    assert not whole.numbered
    first, again = in_spans(whole, 640, 320), in_spans(whole, 640, 320)
    assert np.array_equal(first, again)
    assert not np.array_equal(first[:5], first[5:])  # the second span does not repeat the first


def test_span_refuses():
    whole = settled(TOWN, 100)
    with pytest.raises(nelson.FormulaError, match="multiple of 64"):
        list(span.blocks(whole, 1, 64, 64))
    with pytest.raises(nelson.FormulaError, match="one theta vector"):
        settled(TOWN, 100, theta=np.zeros((2, 7)))


def test_a_span_without_a_sample_raises(ksat):
    """Without a round of resampling, a draw of 1000 variables satisfies 1000 clauses of five with
    probability (31/32)^1000 = 2e-14.
    """
    with pytest.raises(nelson.BudgetExceeded, match="samples 0 to 64: no sample became valid"):
        list(span.blocks(settled(ksat, 64, max_rounds=0, **QUICK), 0, 64, 64))


# ------------------------------------------------------------------------------------- on a cluster


def test_same_samples_whatever_workers_and_shards(ray, ksat, tmp_path):
    n = 5000
    expected = nelson.sample(ksat, n=n, seed=9, **QUICK)
    for workers, shard in ((1, 1024), (2, 640), (2, None)):
        out = tmp_path / f"{workers}-{shard}"
        found = cluster.sample(ksat, None, n, out, seed=9, workers=workers, shard=shard, **QUICK)
        assert (len(found), found.status, found.guarantee) == (n, "ok", expected.guarantee)
        assert found.info["workers"] == workers
        assert np.array_equal(found.samples().packed, expected.packed)
        assert len(list(out.glob("*.parquet"))) == found.info["parts"]
    assert not np.array_equal(nelson.sample(ksat, n=n, seed=8, **QUICK).packed, expected.packed)


def test_auto_decides_once(ray, tmp_path, monkeypatch):
    from nelson.sampling import auto

    calls, decide = [], auto.decide
    monkeypatch.setattr(auto, "decide", lambda *args: calls.append(args) or decide(*args))
    found = cluster.sample(LOOSE, [1, 0, 0, 0, 0], 1000, tmp_path / "job", seed=1, shard=128)
    expected = nelson.sample(LOOSE, [1, 0, 0, 0, 0], 1000, seed=1)
    assert len(calls) == 2  # one for the job, one for the line above
    assert (found.guarantee, found.job["method"]) == (expected.guarantee, expected.info["method"])
    assert np.array_equal(found.samples().packed, expected.packed)


def test_what_a_part_says_of_itself(copy):
    import pyarrow.parquet as pq

    file = pq.ParquetFile(copy / parts.part_name(256))
    meta = {key.decode(): value.decode() for key, value in file.metadata.metadata.items()}
    assert json.loads(meta["nelson.variables"]) == list(range(1, 8))
    assert (
        meta["nelson.formula"] == json.loads((copy / parts.JOB).read_text())["content"]["formula"]
    )
    told = [meta[f"nelson.{key}"] for key in ("seed", "method", "guarantee", "first", "count")]
    assert told == ["3", "lovasz", "exact", "256", "256"]
    assert file.schema_arrow.field("x").type.byte_width == 1
    x, variables, info = nelson.io.read(copy / parts.part_name(256))  # one part alone
    assert np.array_equal(x, rows_of(nelson.sample(TOWN, THETA, 1000, seed=3))[256:512])
    assert (variables, info["guarantee"]) == (tuple(range(1, 8)), "exact")


def workers_of(ray, title: str) -> list[int]:
    """Processes of the cluster of this test that are busy with `title`: children of its raylet."""
    from ray._private.worker import _global_node

    raylet = _global_node.all_processes["raylet"][0].process.pid
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                named = title.encode() in (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if parent == raylet and named:
                found.append(int(folder.name))
    return found


@pytest.fixture
def deadly(tmp_path, monkeypatch):
    """deadly(shards): workers die while they write those, once for each; -> the folder of graves,
    a file for each shard that holds the process id.
    """
    graves = tmp_path / "graves"
    graves.mkdir()

    def set_up(*firsts: int) -> Path:
        names = [parts.part_name(first) for first in firsts]
        monkeypatch.setattr(job, "store", lambda out: cluster_cells.Deadly(out, graves, names))
        return graves

    return set_up


def test_killed_workers_lose_nothing(ray, ksat, tmp_path, deadly):
    """SIGKILL to a worker in the middle of a shard, three times: n rows, each once."""
    n, shard, out = 600_000, 30_016, tmp_path / "job"
    graves = deadly(2 * shard, 7 * shard, 19 * shard)
    found = cluster.sample(ksat, None, n, out, seed=2, shard=shard, **QUICK)
    assert len({grave.read_text() for grave in graves.iterdir()}) == 3  # different processes
    assert (len(found), found.info["drawn"], found.info["parts"]) == (n, 20, 20)
    assert not list(out.glob(".tmp-*"))  # what they left behind is gone
    expected = nelson.stream(ksat, n=n, seed=2, block=65536, **QUICK)
    for block, right in zip(found.blocks(65536), expected, strict=True):
        assert np.array_equal(block.packed, right.packed)


def test_a_shard_that_is_lost_too_often_is_an_error(ray, ksat, tmp_path, deadly):
    """No retries, and one worker killed: it says so, and what is finished stays."""
    options = {"seed": 2, "shard": 30_016, **QUICK}
    graves = deadly(10 * 30_016)
    with pytest.raises(NelsonError, match="was lost with its worker"):
        cluster.sample(ksat, None, 600_000, tmp_path / "job", retries=0, **options)
    assert len(list(graves.iterdir())) == 1
    assert list((tmp_path / "job").glob(".tmp-*"))  # it was in the middle of it
    found = cluster.sample(ksat, None, 600_000, tmp_path / "job", **options)
    assert found.info["kept"] and found.info["kept"] + found.info["drawn"] == 20
    found.verify()
    assert len(found) == 600_000


def test_goes_on_where_it_was_stopped(ray, tmp_path):
    out, n = tmp_path / "job", 4000

    def stop(safe: int) -> None:
        if safe >= 1000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cluster.sample(TOWN, THETA, n, out, seed=4, shard=256, progress=stop)
    with pytest.raises(NelsonError, match="not finished"):
        nelson.read(out)
    kept = nelson.read(out, partial=True)
    assert 1000 <= len(kept) < n
    assert (kept.status, kept.complete) == ("budget", False)
    complete = [path.with_suffix(".parquet") for path in out.glob("part-*.json")]
    before = {path: path.stat().st_mtime_ns for path in complete}
    assert before

    steps: list[int] = []
    found = cluster.sample(TOWN, THETA, n, out, shard=256, progress=steps.append)  # the same seed
    assert found.info["kept"] >= len(kept) // 256
    assert found.info["kept"] + found.info["drawn"] == 16
    assert steps[0] == 256 * found.info["kept"] and steps[-1] == n and steps == sorted(steps)
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())  # not touched
    expected = nelson.sample(TOWN, THETA, n, seed=4)
    assert np.array_equal(found.samples().packed, expected.packed)
    assert cluster.sample(TOWN, THETA, n, out).info["drawn"] == 0


def test_time_that_is_up_and_parts_that_are_gone(ray, copy, tmp_path):
    found = cluster.sample(TOWN, THETA, 1000, tmp_path / "new", seed=3, shard=256, seconds=0)
    assert (len(found), found.status) == (0, "budget")
    (copy / parts.part_name(256)).unlink()
    with (copy / parts.part_name(512)).open("ab") as file:
        file.write(b"more")
    found = cluster.sample(TOWN, THETA, 1000, copy, seed=3)
    assert (found.info["kept"], found.info["drawn"]) == (2, 2)
    assert np.array_equal(found.samples().packed, nelson.sample(TOWN, THETA, 1000, seed=3).packed)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"n": 1001}, "number of samples is 1000, not 1001"),
        ({"seed": 4}, "seed is 3, not 4"),
        ({"formula": LOOSE, "theta": None}, "its formula is"),
        ({"theta": None}, "its theta is"),
        ({"method": "prs"}, "method and sweeps are"),
        ({"given": [1]}, "evidence is"),
        ({"project": [1, 2]}, "variables are"),
        ({"shard": 128}, "shards hold 256, not 128"),
        ({"names": list("abcdefg")}, "names are"),
        ({"max_rounds": 7}, "max_rounds is 1000, not 7"),
    ],
)
def test_the_folder_of_another_job_is_refused(copy, change, says):
    """No cluster is started for it."""
    options = {"formula": TOWN, "theta": THETA, "n": 1000, "seed": 3, "shard": 256} | change
    with pytest.raises(NelsonError, match=says):
        cluster.sample(out=copy, **options)


def test_other_folders_that_are_refused(tmp_path, copy):
    (copy / parts.JOB).unlink()
    with pytest.raises(NelsonError, match=r"but no job\.json"):
        cluster.sample(TOWN, THETA, 1000, copy, seed=3)
    (tmp_path / "file").write_text("")
    with pytest.raises(NelsonError, match="is a file"):
        cluster.sample(TOWN, THETA, 1000, tmp_path / "file", seed=3)
    for options, says in (
        ({"shard": 100}, "multiple of 64"),
        ({"workers": 0}, "workers = 0"),
        ({"seconds": -1}, "seconds"),
        ({"names": ["a"]}, "1 names"),
        ({"theta": np.zeros((2, 7))}, "one theta vector"),
        ({"address": "127.0.0.1:1"}, "no Ray cluster at"),
        ({"out": ""}, "no folder"),
    ):
        with pytest.raises(NelsonError, match=says):
            cluster.sample(**({"formula": TOWN, "n": 10, "out": tmp_path / "new"} | options))
    assert not (tmp_path / "new").exists()


def test_another_decision_is_not_mixed_in(ray, tmp_path, monkeypatch):
    """Stopped, and gone on with where `auto` would find other starts or circuits: refused."""
    out = tmp_path / "job"
    cluster.sample(TOWN, THETA, 1000, out, seed=3, shard=256, seconds=0)
    monkeypatch.setattr(span.Settled, "digest", property(lambda self: "another"))
    with pytest.raises(NelsonError, match="begun with lovasz"):
        cluster.sample(TOWN, THETA, 1000, out, seed=3, shard=256)


def test_errors_of_workers_arrive_as_they_are(ray, tmp_path):
    unsatisfiable = Formula([[a, b, c] for a in (1, -1) for b in (2, -2) for c in (3, -3)])
    with pytest.raises(nelson.Unsatisfiable):
        cluster.sample(unsatisfiable, None, 100, tmp_path / "a", method="lovasz", seed=0)
    few = Formula([[v] + [-u for u in range(1, 13) if u != v] for v in range(1, 13)])
    some = nelson.sample(few, n=2000, seed=1, max_rounds=0, **QUICK)
    assert 0 < len(some) < 2000
    options = {"seed": 1, "max_rounds": 0, "shard": 1024, **QUICK}
    found = cluster.sample(few, None, 2000, tmp_path / "b", **options)
    assert (found.status, len(found), found.complete) == ("budget", len(some), True)
    assert "became valid within 0 rounds" in found.info["reason"]
    assert np.array_equal(found.samples().packed, some.packed)


def test_a_sampler_of_others_has_a_seed_a_shard(ray, tmp_path):
    options = {"method": "rejection", "seed": 1, "shard": 256}
    one = cluster.sample(LOOSE, None, 1000, tmp_path / "a", workers=1, **options)
    two = cluster.sample(LOOSE, None, 1000, tmp_path / "b", workers=2, **options)
    assert one.job["keyed"] == "shard"
    assert np.array_equal(one.samples().packed, two.samples().packed)
    assert LOOSE.satisfied(rows_of(one.samples())).all()


def test_memory_of_a_worker_is_constant_in_n(ray, ksat, tmp_path):
    """Eight times the samples, in shards eight times as long: the same blocks are held at a time.

    Peaks only grow, and both jobs run in the same processes.
    """
    peaks = []
    for n in (131_072, 8 * 131_072):
        options = {"seed": 1, "shard": n // 2, **QUICK}
        found = cluster.sample(ksat, None, n, tmp_path / str(n), **options)
        peaks.append(found.info["peak_mb"])
        assert found.info["bytes"] > 125 * n
        shutil.rmtree(tmp_path / str(n))
    assert peaks[1] - peaks[0] < 30  # MB; the shards differ by 57 MB


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="finds sockets in /proc")
def test_the_embedded_cluster_listens_on_the_loopback_interface_only(ray):
    from ray._private.worker import _global_node

    pids = {p.process.pid for some in _global_node.all_processes.values() for p in some}
    pids |= {os.getpid(), *workers_of(ray, "ray::")}
    sockets = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                target = os.readlink(link)
            except OSError:
                continue
            if target.startswith("socket:["):
                sockets.add(target[8:-1])
    listening = []
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            field = line.split()
            if field[3] == "0A" and field[9] in sockets:
                listening.append(field[1].rpartition(":")[0])
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "0" * 24 + "01000000"}
    assert listening and set(listening) <= loopback


# ------------------------------------------------------------------------------------ reading back


def test_read_is_the_same_samples(finished):
    x = rows_of(nelson.sample(TOWN, THETA, 1000, seed=3))
    found = nelson.read(finished)
    assert len(found) == 1000 and found.complete
    assert repr(found).endswith("1000 x 7, exact, ok, method='lovasz')")
    for start, stop in ((0, None), (0, 0), (250, 260), (999, 5000), (-3, None), (512, 100)):
        assert np.array_equal(rows_of(found.samples(start, stop)), x[start:stop])
    assert [len(block) for block in found.blocks(300)] == [300, 300, 300, 100]
    assert np.array_equal(np.concatenate([rows_of(block) for block in found]), x)
    assert found.samples().info["seed"] == 3
    assert found.dataset.count_rows() == 1000
    frame = found.to_pandas(10, 20)
    assert list(frame.columns) == [f"x{v}" for v in range(1, 8)]
    assert np.array_equal(frame.to_numpy(), x[10:20])


def test_read_as_torch_batches(finished):
    torch = pytest.importorskip("torch")
    x = rows_of(nelson.sample(TOWN, THETA, 1000, seed=3))
    found = nelson.read(finished)
    batches = list(found.torch(300))
    assert [tuple(batch.shape) for batch in batches] == [(300, 7)] * 3 + [(100, 7)]
    assert batches[0].dtype == torch.uint8
    assert np.array_equal(torch.cat(batches).numpy(), x)
    assert len(list(found.torch(300, torch.float32, drop_last=True))) == 3
    with pytest.raises(nelson.FormulaError):
        found.torch(0)


def test_names_and_projection(ray, tmp_path):
    names = [f"street {c}" for c in "abcdefg"]
    out = tmp_path / "job"
    found = cluster.sample(TOWN, THETA, 100, out, seed=3, project=[6, 2], names=names)
    assert found.variables == (6, 2)
    assert list(found.to_pandas().columns) == ["street f", "street b"]
    assert np.array_equal(
        rows_of(found.samples()), rows_of(nelson.sample(TOWN, THETA, 100, seed=3))[:, [5, 1]]
    )


def test_nothing_at_all(ray, tmp_path):
    found = cluster.sample(TOWN, THETA, 0, tmp_path / "job", seed=3)
    assert (len(found), found.status, list(found)) == (0, "ok", [])
    assert rows_of(nelson.read(tmp_path / "job").samples()).shape == (0, 7)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


PART, NEXT = parts.part_name(256), parts.part_name(512)
DAMAGE = {
    "truncated": (lambda f: (f / PART).write_bytes((f / PART).read_bytes()[:-1]), "its manifest"),
    "a bit of a row": (lambda f: flip(f / PART, 100), "checksum does not fit"),
    "a bit of the footer": (lambda f: flip(f / PART, -100), "checksum does not fit"),
    "missing": (lambda f: (f / PART).unlink(), "is missing"),
    "a second copy": (lambda f: shutil.copy(f / PART, f / "part-x.parquet"), "no part of the job"),
    "in another's place": (
        lambda f: shutil.copy(f / NEXT, f / PART),
        "checksum does not fit|bytes",
    ),
    "manifest": (lambda f: flip(f / parts.MANIFEST, 60), "is damaged"),
    "manifest cut": (lambda f: (f / parts.MANIFEST).write_bytes(b"{"), "is damaged"),
    "job": (lambda f: flip(f / parts.JOB, 60), "is damaged"),
    "no job": (lambda f: (f / parts.JOB).unlink(), r"no job\.json"),
}


@pytest.mark.parametrize("how", [None, *DAMAGE])
def test_damage_is_seen(copy, how):
    """None: what was not damaged is read."""
    if how is None:
        nelson.read(copy).verify()
        return
    damage, says = DAMAGE[how]
    damage(copy)
    with pytest.raises(NelsonError, match=says):
        nelson.read(copy).samples(300, 301)


def test_damage_elsewhere_is_seen_by_verify(copy):
    flip(copy / PART, 100)
    found = nelson.read(copy)
    assert len(found.samples(0, 10)) == 10  # another part: not looked at
    with pytest.raises(NelsonError, match=f"{PART} is damaged"):
        found.verify()
    assert len(nelson.read(copy, check=False).samples(300, 310)) == 10


def test_a_duplicate_in_the_manifest_is_seen(copy):
    found = part_files.Local(copy)
    whole = parts.read_json(found, parts.MANIFEST)
    for values in whole["parts"].values():
        values.insert(1, values[0])
    parts.write_json(found, parts.MANIFEST, whole)
    with pytest.raises(NelsonError, match="there twice"):
        nelson.read(copy)
    for values in whole["parts"].values():
        del values[1:3]
    parts.write_json(found, parts.MANIFEST, whole)
    with pytest.raises(NelsonError, match="samples 256 to 512 are missing"):
        nelson.read(copy)


def test_no_folder_of_ours(tmp_path):
    with pytest.raises(NelsonError, match=r"no job\.json"):
        nelson.read(tmp_path)
    with pytest.raises(NelsonError, match=r"no job\.json"):
        nelson.read(tmp_path / "none")


# ------------------------------------------------------------------------------------------- stores


def half(place: part_files.Store) -> None:
    with place.writing("b") as sink:
        sink.write(b"half")
        raise RuntimeError


def test_a_file_appears_when_it_is_complete(tmp_path):
    place = part_files.Local(tmp_path)
    with place.writing("a") as sink:
        sink.write(b"half")
        assert place.sizes() == {} and len(list(tmp_path.iterdir())) == 1
        sink.write(b" and half")
    assert place.sizes() == {"a": 13}
    with pytest.raises(RuntimeError):
        half(place)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    (tmp_path / ".tmp-left").write_text("by somebody who was killed")
    place.tidy()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_job_through_a_file_system_of_pyarrow(tmp_path):
    """What s3:// would do, on the one such file system that is at hand."""
    from pyarrow import fs

    place = part_files.Remote("test://job", fs.LocalFileSystem(), str(tmp_path / "job"))
    place.make()
    told = job.described(TOWN, THETA, 1000, "auto", None, None, None, 1000, True, None)
    whole = settled(TOWN, 1000, theta=THETA, seed=3)
    told |= {"seed": 3, "shard": 256, **job._decided(whole)}
    parts.write_json(place, parts.JOB, told)
    work = shards.Work(place, told, whole).pickled()
    manifests = [shards.draw_shard(work, one)[0] for one in job.shards(1000, 256).items()]
    assert parts.finished_parts(place, place.sizes()).keys() == {0, 256, 512, 768}
    parts.write_manifest(place, told, manifests)
    found = Folder(place)
    found.verify()
    expected = nelson.sample(TOWN, THETA, 1000, seed=3)
    assert np.array_equal(found.samples().packed, expected.packed)
    assert found.dataset.count_rows() == 1000
    with pytest.raises(RuntimeError):
        half(place)
    assert "b" not in place.sizes()
    with pytest.raises(NelsonError, match="cannot be opened"):
        part_files.store("nosuch://bucket/folder")
    assert isinstance(part_files.store(f"file://{tmp_path}"), part_files.Local)


# ------------------------------------------------------------------------------------------- sweeps


def test_sweep_with_limits(ray, monkeypatch):
    """Cells that hang, eat memory, raise, or take their worker with them: each has its row, and the
    others are run.
    """
    from nelson.experiments.base import Cell

    monkeypatch.setattr(bench, "RETRIES", 1)
    keys = [{"what": what, "x": 0} for what in ("hang", "hog", "raise", "shoot")]
    keys += [{"what": "fine", "x": x} for x in range(1, 4)]
    cells = [
        Cell(key, 5.0 if key["what"] == "hang" else 60.0, 256 << 20, cluster_cells.NAME)
        for key in keys
    ]
    rows = {}
    for cell, found in bench.executor(iter(cells)):
        assert len(found) == 1
        assert found[0].items() >= {**cell.key, "experiment": cluster_cells.NAME}.items()
        rows[cell.key["what"], cell.key["x"]] = found[0]
    assert len(rows) == len(cells)
    assert [rows["fine", x].get("square", rows["fine", x]) for x in (1, 2, 3)] == [1, 4, 9]
    status = {what: rows[what, 0]["status"] for what in ("hang", "hog", "raise", "shoot")}
    assert (status["hang"], status["hog"]) == ("T.O.", "out of memory")
    assert status["raise"].startswith("failed: ") and "this cell raises" in status["raise"]
    assert status["shoot"].startswith("failed: lost with its worker")


# ------------------------------------------------------------------------------------- command line


def start(*args: object) -> subprocess.Popen:
    command = [sys.executable, "-m", "nelson.cli", *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def command(*args: object) -> tuple[int, str, str]:
    out, errors = (child := start(*args)).communicate(timeout=TIMEOUT)
    errors = "".join(
        line for line in errors.splitlines(keepends=True) if "compiling kernels" not in line
    )
    return child.returncode, out, errors


def test_bench_runs_its_cells_on_the_cluster(ray, tmp_path):
    """`nelson bench --cluster ADDRESS`: the sweep goes on past cells that exceed their limits; run
    again, nothing is left to do.
    """
    address = ray.get_runtime_context().gcs_address
    args = ["bench", "tests.toy_experiment:PLAIN", "--cluster", address, "-o", tmp_path / "run"]
    code, out, errors = command(*args)
    assert code == 0, errors
    told = {row.split("|")[1].strip(): row for row in out.splitlines() if row.startswith("| ")}
    assert "0.200" in told["works"] and "0.050" in told["works"]
    assert "T.O." in told["stalls"] and "out of memory" in told["eats"]
    assert "failed: died" in told["dies"] and "failed: ValueError" in told["raises"]
    code, again, errors = command(*args)
    assert code == 0 and again == out
    assert "cells were finished before" in errors


def test_the_command_line_is_interrupted_and_goes_on(ray, tmp_path):
    """The first run has a cluster of its own; the second is a guest at the address of ours."""
    out = tmp_path / "many"
    args = ["sample", KSAT, "-n", "3e6", "--method", "lovasz", "--sweeps", "0", "--seed", "1"]
    args += ["--shard", "64000", "-o", f"{out}/"]
    child = start(*args, "--cluster", "--workers", "1")
    until = time.monotonic() + TIMEOUT
    while not list(out.glob("part-*.json")) and time.monotonic() < until and child.poll() is None:
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    errors = child.communicate(timeout=TIMEOUT)[1]
    assert child.returncode == 130, errors
    assert "run the command again to go on" in errors
    assert not list(out.glob(".tmp-*"))
    safe = len(list(out.glob("part-*.json")))
    assert 0 < safe < 47
    address = ray.get_runtime_context().gcs_address
    code, _, said = command(*args, "--cluster", address)
    assert code == 0, said
    assert "3,000,000 samples · heuristic (lovasz) · 47 parts, " in said
    assert f"{safe} of them from before" in said and "seed 1" in said


def test_the_command_line_reads_back(copy):
    code, text, errors = command("read", copy, "--from", "998")
    assert (code, errors) == (0, "")
    expected = nelson.sample(TOWN, THETA, 1000, seed=3).literals()[998:]
    assert [[int(t) for t in line.split()[:-1]] for line in text.splitlines()] == expected.tolist()
    code, text, _ = command("read", copy, "--info")
    assert code == 0 and "guarantee  exact" in text and "samples    1,000\n" in text
    assert command("read", copy, "-o", copy / "all.npz")[0] == 0
    x, _, info = nelson.io.read(copy / "all.npz")
    assert len(x) == 1000 and info["guarantee"] == "exact"
    flip(copy / PART, 100)
    code, _, errors = command("read", copy, "--verify")
    assert code == 1 and "is damaged" in errors


def test_the_command_line_refuses(tmp_path):
    for args, says in (
        (["--cluster"], "is no folder"),
        (["--cluster", "-o", tmp_path / "x.npz"], "is no folder"),
        (["--cluster", "-o", "x/", "-n", "inf"], "not with --cluster"),
        (["--cluster", "-o", "x/", "--unique"], "not with --cluster"),
        (["--workers", "2"], "not without --cluster"),
        (["-o", "x/"], "what --cluster writes"),
    ):
        code, _, errors = command("sample", STREETS, *args)
        assert code == 2 and says in errors


# -------------------------------------------------------------------------------------- the plan


def test_the_plan_of_a_large_job():
    """By hand: a core draws 10^6/s, so 10^12 samples are 10^6 core seconds, and one to decide; 100
    bytes each at 1 GB/s are 10^5 s.
    """
    from benchmarks import cluster_plan

    figures = {"rate": 1e6, "plain": 2e6, "bytes": 100.0, "decide": 0.5, "job": 0.5, "scaling": 1.9}
    figures |= {"guarantee": "asymptotic", "plain_guarantee": "heuristic", "disk_mb_s": 200.0}
    figures |= {"quick": False, "cores": 2, "nelson": "1"}
    large, formulas, _ = cluster_plan.JOBS
    slow, fast = cluster_plan.Machine(8, 1000.0), cluster_plan.Machine(64, 1000.0)
    for job_, machines, machine, seconds, what in (
        (large, 1, slow, (1e6 + 1) / 8, "cores"),
        (large, 10, fast, 1e5 / 10, "writing"),
        (formulas, 1, slow, 2e4 / 8, "cores"),  # 10^4 s of drawing, as much of deciding
    ):
        took, waits = cluster_plan.hours(figures, job_, machines, machine)
        assert (took, waits) == (pytest.approx(seconds / 3600), what)
    text = cluster_plan.markdown(figures)
    assert "| 10^12 samples of one formula | 100 TB |" in text and "too small" not in text
    page = cluster_plan.PAGE.read_text()
    assert all(page.count(mark) == 1 for mark in cluster_plan.MARKS)
