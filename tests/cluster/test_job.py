"""A folder of parts is `nelson.sample`, bit for bit, whoever draws which part; what is refused."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import nelson
from nelson import Formula, NelsonError, cluster
from nelson.cluster import job, parts
from nelson.cluster.store import Store
from nelson.io import atomic, sample_files
from nelson.sampling import shards
from tests.cluster.jobs import LOOSE, QUICK, THETA, TOWN

pytest.importorskip("pyarrow")

#: Few of its assignments become valid at once.
FEW = Formula([[v] + [-u for u in range(1, 13) if u != v] for v in range(1, 13)])


def test_same_samples_whatever_parts_and_shards(tmp_path, ksat):
    n = 5000
    expected = nelson.sample(ksat, n=n, seed=9, **QUICK)
    for number, (rows, shares) in enumerate(((1024, 1), (640, 3), (None, 2), (320, 40))):
        out = tmp_path / str(number)
        for k in range(shares, 0, -1):
            options = {"seed": 9, "part_rows": rows, "shard": f"{k}/{shares}", **QUICK}
            share = cluster.sample(ksat, None, n, out, **options)
            assert share.status == "ok" and len(share) == share.info["requested"]
            if k > 1 and shares <= 3:
                with pytest.raises(NelsonError, match=r"parts are there; .* missing"):
                    nelson.read(out)
        folder = nelson.read(out)
        assert (len(folder), folder.status, folder.guarantee) == (n, "ok", expected.guarantee)
        assert np.array_equal(folder.samples().packed, expected.packed)
        assert len(list(out.glob("part-*"))) == folder.info["parts"]
    assert not np.array_equal(nelson.sample(ksat, n=n, seed=8, **QUICK).packed, expected.packed)


def test_parts_are_the_same_bytes_for_a_sampler_with_a_memory(tmp_path):
    """`cftp` remembers how far it had to go back. Parts drawn in another order, and by a process
    that has drawn other parts, are the same bytes.
    """
    options = {"method": "cftp", "seed": 5, "part_rows": 128}
    for k in (1, 2, 3):
        cluster.sample(LOOSE, None, 1000, tmp_path / "a", shard=f"{k}/3", **options)
        cluster.sample(LOOSE, None, 1000, tmp_path / "b", shard=f"{4 - k}/3", **options)
    cluster.sample(LOOSE, None, 1000, tmp_path / "c", **options | {"seed": 6})
    one, two, other = (
        {path.name: path.read_bytes() for path in (tmp_path / name).glob("part-*")}
        for name in "abc"
    )
    assert one == two and len(one) == 8
    assert one.keys() == other.keys() and all(one[name] != other[name] for name in one)


def test_a_part_says_what_it_is(copy):
    name = "part-000000000000256.parquet"
    told = parts.metadata_of((copy / name).read_bytes())
    assert {key: told[key] for key in ("seed", "method", "guarantee", "first", "count")} == {
        "seed": "3", "method": "lovasz", "guarantee": "exact", "first": "256", "count": "256"
    }  # fmt: skip
    known = parts.read_job(Store(copy))
    assert (told["formula"], told["law"]) == (known["formula"], known["law"])
    x, variables, info = sample_files.read(copy / name)  # one part alone
    assert np.array_equal(x, nelson.sample(TOWN, THETA, 1000, seed=3).to_numpy()[256:512])
    assert (variables, info["guarantee"]) == (tuple(range(1, 8)), "exact")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"n": 1001}, "n is 1000, not 1001"),
        ({"seed": 4}, "seed is 3, not 4"),
        ({"formula": LOOSE, "theta": None}, "formula is"),
        ({"theta": None}, "theta is"),
        ({"method": "prs"}, "asked method is"),
        ({"given": [1]}, "given is"),
        ({"project": [1, 2]}, "variables is"),
        ({"part_rows": 128}, "part_rows is 256, not 128"),
        ({"names": list("abcdefg")}, "names is"),
        ({"columns": True}, "layout is 'packed', not 'columns'"),
        ({"max_rounds": 7}, "max_rounds is 1000, not 7"),
    ],
)
def test_the_folder_of_another_job_is_refused(copy, change, says):
    """The message names the difference, and who began the job in the folder."""
    options = {"formula": TOWN, "theta": THETA, "n": 1000, "seed": 3, "part_rows": 256} | change
    with pytest.raises(NelsonError, match=rf"begun 20.* by process {os.getpid()}: its {says}"):
        cluster.sample(out=copy, **options)


def test_other_folders_and_arguments_that_are_refused(tmp_path, copy):
    (copy / parts.JOB).unlink()
    with pytest.raises(NelsonError, match=r"but no _nelson\.parquet"):
        cluster.sample(TOWN, THETA, 1000, copy, seed=3)
    (tmp_path / "file").write_text("")
    with pytest.raises(NelsonError, match="is a file"):
        cluster.sample(TOWN, THETA, 1000, tmp_path / "file", seed=3)
    for options, says in (
        ({"part_rows": 100}, "multiple of 64"),
        ({"part_rows": 0}, "multiple of 64"),
        ({"shard": "0/3"}, '"1/N" to "N/N"'),
        ({"shard": "4/3"}, '"1/N" to "N/N"'),
        ({"shard": "x"}, '"1/N" to "N/N"'),
        ({"seconds": -1}, "seconds"),
        ({"names": ["a"]}, "1 names"),
        ({"names": ["a"] * 7, "columns": True}, "columns of the same name"),
        ({"theta": np.zeros((2, 7))}, "one theta vector"),
        ({"address": "127.0.0.1:1"}, "no Ray cluster at"),
        ({"out": ""}, "no folder"),
        ({"n": 2**50}, "at most 2"),
        ({"out": "nosuch://bucket/folder"}, "cannot be opened"),
    ):
        with pytest.raises(NelsonError, match=says):
            cluster.sample(**({"formula": TOWN, "n": 10, "out": tmp_path / "new"} | options))
    assert not (tmp_path / "new").exists()


def test_of_two_jobs_that_begin_at_once_one_is_refused(tmp_path):
    """Ten times two jobs with different seeds and one new folder."""

    def begin(out: Path, seed: int) -> int | str:
        gate.wait()
        try:
            return len(cluster.sample(TOWN, THETA, 1000, out, seed=seed, part_rows=64))
        except NelsonError as error:
            return str(error)

    gate = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        for attempt in range(10):
            out = tmp_path / str(attempt)
            told = dict(zip((1, 2), pool.map(begin, (out, out), (1, 2)), strict=True))
            folder = nelson.read(out)
            folder.verify()
            winner = folder.info["seed"]
            assert told[winner] == 1000
            assert "holds another job, begun" in str(told[3 - winner])
            expected = nelson.sample(TOWN, THETA, 1000, seed=winner)
            assert np.array_equal(folder.samples().packed, expected.packed)


def test_the_moment_between_looking_and_creating(tmp_path, monkeypatch):
    """Another process begins after this one has looked, with another seed: refused; without a seed
    of its own, this one joins and draws with the seed of the folder.
    """
    begin, done = Store.begin, []

    def late(store, name, data):
        if not done:
            done.append(1)
            cluster.sample(TOWN, THETA, 1000, store.uri, seed=7, part_rows=256, shard="1/2")
        return begin(store, name, data)

    monkeypatch.setattr(Store, "begin", late)
    with pytest.raises(NelsonError, match="seed is 7, not 8"):
        cluster.sample(TOWN, THETA, 1000, tmp_path / "a", seed=8, part_rows=256)
    done.clear()
    folder = cluster.sample(TOWN, THETA, 1000, tmp_path / "b", part_rows=256)
    assert folder.info["seed"] == 7 and (folder.info["kept"], folder.info["drawn"]) == (2, 2)
    assert np.array_equal(folder.samples().packed, nelson.sample(TOWN, THETA, 1000, seed=7).packed)


def test_files_are_created_once_and_whole(tmp_path, monkeypatch):
    """With files that have no name until they are complete, and without such files."""
    for nameless in (True, False):
        if not nameless:
            monkeypatch.delattr(os, "O_TMPFILE", raising=False)
        path = tmp_path / str(nameless)
        assert atomic.create(path, b"one") and not atomic.create(path, b"two")
        assert path.read_bytes() == b"one"
    assert sorted(os.listdir(tmp_path)) == ["False", "True"]


def test_another_decision_is_not_mixed_in(tmp_path, monkeypatch):
    """Stopped, and gone on with where `auto` would find other starts or circuits: refused."""
    out = tmp_path / "job"
    cluster.sample(TOWN, THETA, 1000, out, seed=3, part_rows=256, seconds=0)
    monkeypatch.setattr(shards.Settled, "digest", property(lambda self: "another"))
    with pytest.raises(NelsonError, match="begun with lovasz"):
        cluster.sample(TOWN, THETA, 1000, out, seed=3, part_rows=256)


def test_parts_that_are_short_say_so(tmp_path):
    """Samples that do not become valid are left out: the name of the part counts the others."""
    some = nelson.sample(FEW, n=2000, seed=1, max_rounds=0, **QUICK)
    assert 0 < len(some) < 2000
    options = {"seed": 1, "max_rounds": 0, "part_rows": 1024, **QUICK}
    for _ in range(2):  # the second time, nothing is drawn
        folder = cluster.sample(FEW, None, 2000, tmp_path, **options)
        assert (folder.status, len(folder), folder.complete) == ("budget", len(some), True)
        assert "became valid within 0 rounds" in folder.info["reason"]
    assert folder.info["drawn"] == 0
    names = sorted(path.name for path in tmp_path.glob("part-*"))
    assert any(name.endswith(f"-{some.guarantee}.parquet") for name in names), names
    again = nelson.read(tmp_path)
    again.verify()
    assert np.array_equal(again.samples().packed, some.packed)


def test_a_sampler_of_others_has_a_seed_a_part(tmp_path):
    options = {"method": "rejection", "seed": 1, "part_rows": 256}
    one = cluster.sample(LOOSE, None, 1000, tmp_path / "a", **options)
    for k in (2, 1):
        two = cluster.sample(LOOSE, None, 1000, tmp_path / "b", shard=f"{k}/2", **options)
    two = nelson.read(tmp_path / "b")
    assert one.job["keyed"] == "part"
    assert np.array_equal(one.samples().packed, two.samples().packed)
    assert LOOSE.satisfied(one.samples().to_numpy()).all()


def test_auto_decides_once_for_all_parts(tmp_path, monkeypatch):
    from nelson.sampling import auto

    calls, decide = [], auto.decide
    monkeypatch.setattr(auto, "decide", lambda *args: calls.append(args) or decide(*args))
    theta = [1, 0, 0, 0, 0]
    formula = nelson.Formula(list(LOOSE))  # nobody has decided anything about it
    folder = cluster.sample(formula, theta, 1000, tmp_path / "job", seed=1, part_rows=128)
    assert len(calls) == 1
    expected = nelson.sample(LOOSE, theta, 1000, seed=1)
    assert (folder.guarantee, folder.job["method"]) == (expected.guarantee, expected.info["method"])
    assert np.array_equal(folder.samples().packed, expected.packed)


@pytest.mark.slow
def test_a_million_parts(tmp_path, monkeypatch):
    """The bookkeeping alone: one listing, one task for each missing part, no other access; no part
    is looked at that is not of this share, and none is parsed twice.
    """
    rows, total = 64, 1_000_000
    n = rows * total
    cluster.sample(TOWN, THETA, n, tmp_path, seed=3, part_rows=rows, seconds=0)
    known = parts.read_job(Store(tmp_path))
    names = [parts.named(first, rows, "exact", known) for first in range(0, n, rows)]
    gone = {500_000, 500_003, total - 1}
    sizes = {name: 1000 for k, name in enumerate(names) if k not in gone}
    monkeypatch.setattr(Store, "sizes", lambda store: {parts.JOB: 1, **sizes})
    reads, read = [], Store.read
    monkeypatch.setattr(
        Store, "read", lambda s, name, **how: reads.append(name) or read(s, name, **how)
    )
    folder = cluster.sample(TOWN, THETA, n, tmp_path, verify=False)
    assert (folder.info["kept"], folder.info["drawn"]) == (total - 3, 3)
    assert reads == [parts.JOB]
    assert sorted(path.name for path in tmp_path.glob("part-*")) == [names[k] for k in sorted(gone)]
    assert len(folder) == n and folder.complete
    whole = nelson.read(tmp_path, partial=True)
    assert (
        len(whole) == n - 3 * rows
        and "samples from 32,000,000 on are missing" in whole.info["reason"]
    )


def test_default_sizes_of_parts():
    wanted = {"variables": range(1000), "n": 10**12, "layout": "packed"}
    assert job._default_rows(wanted, 1) * 125 <= 128 << 20
    assert job._default_rows(wanted | {"n": 10**6}, 1) == 65_536
    assert job._default_rows(wanted | {"n": 10**6}, 100) == 10_048
    assert job._default_rows(wanted | {"n": 0}, 1) == 65_536
