"""`python -m lab prediction`: the data as published, the rules, the measures, and a whole cell."""

from __future__ import annotations

import io
import lzma
import tarfile
from argparse import Namespace
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import nelson  # noqa: E402
from lab.prediction import hierarchies, run, small, stack, tasks, training  # noqa: E402
from lab.prediction.methods import METHODS, MaxConstraint, Setting  # noqa: E402
from lab.prediction.tables import tables  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    """Two threads wait for each other on a busy machine, for minutes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


ARFF = """% a comment
@RELATION small
@ATTRIBUTE size numeric
@ATTRIBUTE kind {red,blue}
@ATTRIBUTE class hierarchical 1,1/1,1/2,2,2/1/3
@DATA
1.0,red,1/1@2
?,blue,2/1/3
3.0,red,1 % 7
"""


def archive(folder, rows=40):
    """enron's two files, with rows of which the input tells the label."""
    kinds = (("blue", "1/1"), ("red", "2/1/3"))
    lines = [f"{k % 5}.0,{kinds[k % 2][0]},{kinds[k % 2][1]}" for k in range(rows)]
    text = ARFF.split("@DATA")[0] + "@DATA\n" + "\n".join(lines) + "\n"
    with tarfile.open(folder / hierarchies.ARCHIVE, "w:xz") as tar:
        for name in ("Enron_corr_trainvalid", "Enron_corr_test"):
            info = tarfile.TarInfo(f"hmc/{name}.arff")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))


def test_a_hierarchy_as_published():
    arff = hierarchies.read_arff(ARFF.splitlines())
    assert arff.labels == ["1", "2", "1/1", "1/2", "2/1", "2/1/3"]
    x, y = hierarchies.inputs_of(arff), hierarchies.targets_of(arff, arff.labels)
    np.testing.assert_array_equal(x, [[1, 1, 0], [np.nan, 0, 1], [3, 1, 0]])
    assert y.astype(int).tolist() == [[1, 1, 1, 0, 0, 0], [0, 1, 0, 0, 1, 1], [1, 0, 0, 0, 0, 0]]
    formula, ancestors = hierarchies.rules(arff.labels)
    assert formula.satisfied(y).all() and formula.satisfied(~y).tolist() == [False, True, False]
    assert ancestors.sum(1).tolist() == [1, 1, 2, 2, 2, 3] and ancestors[5, [1, 4, 5]].all()


def test_parts_of_a_set(tmp_path):
    archive(tmp_path)
    task = hierarchies.load(str(tmp_path), "enron")
    parts = task.parts(0)
    assert [len(rows) for rows in parts] == [28, 12, 40]
    assert sorted(np.concatenate(parts).tolist()) == list(range(80))
    assert not np.array_equal(parts.valid, task.parts(1).valid)
    np.testing.assert_array_equal(parts.test, task.parts(1).test)
    both = task.x[parts.learned]
    np.testing.assert_allclose(both.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(both.std(0), 1, atol=1e-6)
    with pytest.raises(nelson.FormulaError, match=r"without .*Diatoms"):
        hierarchies.load(str(tmp_path), "diatoms")


@pytest.mark.slow
def test_simple_paths_are_those_of_a_walk():
    """All simple paths of the grid by depth-first search; the formula has no other solution."""
    number = {frozenset(nodes): e for e, nodes in enumerate(small.EDGES)}
    found = set()

    def walk(path):
        for nodes in small.EDGES:
            if path[-1] in nodes:
                after = sum(nodes) - path[-1]
                if after not in path:
                    walk([*path, after])
        if len(path) > 1:
            found.add(frozenset(number[frozenset(pair)] for pair in pairwise(path)))

    for v in range(small.SIDE**2):
        walk([v])
    y = np.zeros((len(found), 24), bool)
    for row, edges in zip(y, found, strict=True):
        row[list(edges)] = True
    formula = small.simple_paths()
    assert formula.satisfied(np.concatenate([y, small.degree_one(y)], 1)).all()
    assert nelson.count(formula) == len(found) == 14_248


def test_small_tasks(tmp_path):
    lines = ["21-12-6,13-1,17-16-15", "0,0-2,12-3-4-18"] * 5
    (tmp_path / "grid-paths.data.xz").write_bytes(lzma.compress("\n".join([*lines, ""]).encode()))
    task = small.paths(str(tmp_path))
    assert len(task.parts(0).train) == 6 and task.outputs == 24
    assert task.formula.satisfied(task.y).all()
    assert set(task.x[:, :24].sum(1)) <= {21, 23} and (task.x[:, 24:].sum(1) == 2).all()
    given = small.paths(str(tmp_path), given=True).given
    assert (given[:, :24] == np.where(task.x[:, :24] > 0, 0, -small.SURE)).all()
    assert (given[:, 24:] * (2 * task.y[:, 24:] - 1) == small.SURE).all()  # targets agree
    head = ["10", *(f"{k},item" for k in range(1, 11)), "5,5,2"]
    orders = ["3,5,1,2,3,4,6,7,8,9,10", "2,10,9,8,7,6,5,4,3,2,1"]
    (tmp_path / "sushi.soc.xz").write_bytes(lzma.compress("\n".join([*head, *orders, ""]).encode()))
    task = small.sushi(str(tmp_path))
    whole = task.y
    assert len(whole) == 5 and task.formula.satisfied(whole).all()
    assert nelson.count(task.formula) == 24
    assert np.trace(whole.reshape(5, 4, 4).sum(0)) == 3 * 4  # the first ranking is in their order


def test_average_precision_by_hand():
    y = np.array([[1, 0], [0, 1]], bool)
    assert training.average_precision(np.array([[0.9, 0.2], [0.5, 0.1]]), y) == pytest.approx(0.75)
    assert training.average_precision(y.astype(float), y) == 1.0
    assert training.average_precision(np.zeros((2, 2)), y) == 0.5  # ties are one step


def test_max_constraint_is_that_of_its_authors():
    labels = ["1", "2", "1/1", "1/1/2"]
    formula, ancestors = hierarchies.rules(labels)
    x, y = np.zeros((1, 3), np.float32), np.zeros((1, 4), bool)
    task = tasks.Task("tiny", formula, 4, x, y, lambda seed: None, 8, 0.0, ancestors=ancestors)
    one = MaxConstraint(task, nelson.CircuitLayer(formula), Setting())
    out, y = torch.tensor([[-1.0, 0.5, 2.0, -0.5]]), torch.tensor([[1.0, 0, 1, 0]])
    p = out.sigmoid()[0]
    expected = torch.stack([p[2], p[1], p[2], p[3]])
    torch.testing.assert_close(one.scores(out)[0], expected)
    made = one.predict("threshold", out, None)
    assert formula.satisfied(made.numpy()).all()
    assert not formula.satisfied((out > 0).numpy()).all()  # the twin: without the maxima
    right = -(p[2].log() * 2 + (1 - p[1]).log() + (1 - p[3]).log()) / 4
    torch.testing.assert_close(one.loss(out, y, None)[0], right)


def test_a_mixture_is_that_of_the_library():
    """Log P, marginals and mode of the batched mixture against `ConstrainedMRF(mix=)`."""
    formula, ancestors = hierarchies.rules(["1", "2", "1/1", "1/2", "2/1"])
    x, y = np.zeros((1, 3), np.float32), np.zeros((1, 5), bool)
    task = tasks.Task("tiny", formula, 5, x, y, lambda seed: None, 8, 0.0, ancestors=ancestors)
    one = METHODS["mixture"](task, nelson.CircuitLayer(formula), Setting(components=3))
    out = 2 * torch.randn(40, one.width, generator=torch.Generator().manual_seed(0))
    logits = out[:, 3:].reshape(40, 3, 5)
    law = nelson.ConstrainedMRF(formula, logits, mix=out[:, :3])
    made = one.predict("mode", out, None)
    assert formula.satisfied(made.numpy()).all()
    assert (made == (law.mode > 0.5)).all(-1).float().mean() > 0.9  # the ascent may end elsewhere
    y = made.float()
    torch.testing.assert_close(one.log_likelihood(out, y, None), law.log_prob(y))
    torch.testing.assert_close(one.marginals(out, None), law.mean)


def test_members_of_a_stack_learn_as_if_alone():
    """Ten steps of Adam: a stack of two against torch's own, without dropout."""
    x, y = torch.randn(2, 16, 3), torch.randn(2, 16, 1)
    two = stack.Stack([3, 8, 1], (0,), [5, 6], [1e-2, 1e-3], [0.0, 0.0], torch.device("cpu"))
    begun = [p.detach().clone() for p in two.parameters]
    for _ in range(10):
        two.descend((two(x, training=True) - y).square().mean((1, 2)).sum())
    for k, rate in enumerate((1e-2, 1e-3)):
        own = [p[k].clone().requires_grad_() for p in begun]
        adam = torch.optim.Adam(own, lr=rate, weight_decay=stack.WEIGHT_DECAY)
        for _ in range(10):
            adam.zero_grad()
            out = torch.relu(x[k] @ own[0] + own[1]) @ own[2] + own[3]
            (out - y[k]).square().mean().backward()
            adam.step()
        for ours, theirs in zip(two.parameters, own, strict=True):
            torch.testing.assert_close(ours[k], theirs, rtol=1e-3, atol=1e-5)
    kept = two(x, training=False)
    two.dropouts += 0.5
    torch.testing.assert_close(two(x), kept)
    assert not torch.equal(two(x, training=True), kept)  # the twin: dropout does something


def test_every_row_is_learned_once_in_an_epoch():
    rows = torch.stack([torch.randperm(300), torch.randperm(300) + 300])
    steps = training._shuffled(rows)
    assert steps.shape == (3, 2, 128)
    for k in range(2):
        found = steps[:, k].flatten()
        assert set(found.tolist()) == set(rows[k].tolist())
        assert len(found[:300].unique()) == 300


def test_tuning_takes_the_best_of_a_smooth_curve():
    low = {"predictor": "mode", "every": 5, "setting": {"rate": 1e-3}}
    low["valid_exact"] = [0, 9, 0, 5, 6, 5]  # the peak of one look is noise
    high = {**low, "setting": {"rate": 3e-4}, "valid_exact": [1, 2, 3, 3, 3, 3]}
    ((setting, epochs),) = run.chosen([low, high]).values()
    assert setting.rate == 1e-3 and epochs == 25
    assert sum(len(g) for g in run.groups(run.SETTINGS["mixture"])) == 6
    assert {len(settings) for settings in run.SETTINGS.values()} == {6}  # the same budget


@pytest.mark.slow
def test_all_methods_of_a_set(tmp_path, monkeypatch):
    """20 epochs where the input tells the label: all get it right, and a second run has nothing
    left to do.
    """
    archive(tmp_path)
    monkeypatch.setattr(run, "SEEDS", 2)
    few = {name: settings[:2] for name, settings in run.SETTINGS.items()}
    monkeypatch.setattr(run, "SETTINGS", few)
    small_net = replace(run.load(str(tmp_path), "enron"), hidden=256, dropout=0.1)
    monkeypatch.setattr(run, "load", lambda *_: small_net)
    rows = []
    for name in METHODS:
        job = run.Job(small_net, name, torch.device("cpu"), float("inf"))
        run.run_job(job, [], rows.extend, epochs=20)
        again = []
        run.run_job(job, [r for r in rows if r["method"] == name], again.extend, epochs=20)
        assert not again
    finals = [row for row in rows if row["kind"] == "final"]
    assert len(finals) == 2 * 8
    assert min(row["exact"] for row in finals) > 90
    assert {row["valid"] for row in finals if row["predictor"] == "mode"} == {100}
    options = Namespace(task=["enron"], data=str(tmp_path), device="cpu", deadline=float("inf"))
    timed = run.times(options, rows)
    assert [row["method"] for row in timed] == list(METHODS) and not run.times(options, timed)
    everything, table = tables([*rows, *timed])
    assert len(table.rows) == 8 and "AU(PRC) 0.756" in table.lead
    assert "SPL 8.18" in everything.rows[0][-1]
    assert not tables([])
