"""`python -m lab prediction`: the data as published, the rules, the measures, and a whole cell."""

from __future__ import annotations

import io
import lzma
import tarfile
from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import nelson  # noqa: E402
from lab.prediction import (  # noqa: E402
    METHODS,
    cells,
    hierarchies,
    run,
    small,
    tasks,
    training,
)
from lab.prediction.methods import MaxConstraint, method  # noqa: E402
from lab.prediction.tables import tables  # noqa: E402
from nelson_paper.experiments.base import Cell  # noqa: E402

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
    task = hierarchies.load(str(tmp_path), "enron", 0)
    assert [len(p.x) for p in (task.train, task.valid, task.test)] == [28, 12, 40]
    both = np.concatenate([task.train.x, task.valid.x])
    np.testing.assert_allclose(both.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(both.std(0), 1, atol=1e-6)
    with pytest.raises(nelson.FormulaError, match=r"without .*Diatoms"):
        hierarchies.load(str(tmp_path), "diatoms", 0)


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
    task = small.paths(str(tmp_path), 0)
    assert len(task.train.x) == 6 and task.outputs == 24
    assert task.formula.satisfied(task.train.y).all()
    assert set(task.train.x[:, :24].sum(1)) <= {21, 23} and (task.train.x[:, 24:].sum(1) == 2).all()
    head = ["10", *(f"{k},item" for k in range(1, 11)), "5,5,2"]
    orders = ["3,5,1,2,3,4,6,7,8,9,10", "2,10,9,8,7,6,5,4,3,2,1"]
    (tmp_path / "sushi.soc.xz").write_bytes(lzma.compress("\n".join([*head, *orders, ""]).encode()))
    task = small.sushi(str(tmp_path), 0)
    whole = np.concatenate([task.train.y, task.valid.y, task.test.y])
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
    part = tasks.Part(np.zeros((1, 3), np.float32), np.zeros((1, 4), bool))
    task = tasks.Task("tiny", formula, 4, part, part, part, 8, 0.0, ancestors)
    one = method("max-constraint", task)
    assert isinstance(one, MaxConstraint)
    out, y = torch.tensor([[-1.0, 0.5, 2.0, -0.5]]), torch.tensor([[1.0, 0, 1, 0]])
    p = out.sigmoid()[0]
    expected = torch.stack([p[2], p[1], p[2], p[3]])
    torch.testing.assert_close(one.scores(out)[0], expected)
    made = one.predict("threshold", out)
    assert formula.satisfied(made.numpy()).all()
    assert not formula.satisfied((out > 0).numpy()).all()  # the twin: without the maxima
    right = -(p[2].log() * 2 + (1 - p[1]).log() + (1 - p[3]).log()) / 4
    torch.testing.assert_close(one.loss(out, y), right)


@pytest.mark.slow
def test_cells_run_and_make_tables(tmp_path):
    """All methods of one set, 20 epochs: the input tells the label, so all get it right."""
    archive(tmp_path)
    rows = []
    ours = [c for c in cells(False, str(tmp_path)) if c.key["task"] == "enron"]
    planned = {str(cell.key["method"]): cell for cell in ours}
    assert set(planned) == set(METHODS)
    for name, cell in planned.items():
        short = Cell({**cell.key, "epochs": 20}, cell.seconds)
        rows += [{**short.key, **row, "status": "ok"} for row in run(short)]
        assert rows[-1]["exact"] > 90, name
        if rows[-1]["predictor"] == "mode":
            assert rows[-1]["valid"] == 100
    (table,) = tables(rows)
    assert len(table.rows) == 8 and "AU(PRC) 0.756" in table.note
    assert not tables([{**rows[0], "status": "T.O."}])
