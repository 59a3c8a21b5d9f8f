"""Examples in every form, and what is said of those that cannot be read or are not valid."""

from __future__ import annotations

import numpy as np
import pytest

import nelson
from nelson import Formula, FormulaError
from nelson.learning.data import load_examples
from nelson.learning.learn import learn
from tests.problems import sink_free, weights

SEED = 20230207
FIVE = sink_free([(0, 1), (1, 2), (2, 0), (0, 3), (3, 1)])


def test_minibatches_cover_the_data_once_an_epoch():
    f = Formula([], n_vars=5)
    x = np.random.default_rng(SEED).random((330, 5)) < 0.5
    examples = load_examples(f, x)
    np.testing.assert_allclose(examples.mean(), x.mean(0))
    means = [examples.batch_mean(k, 110) for k in range(3)]
    np.testing.assert_allclose(np.mean(means, axis=0), x.mean(0))
    np.testing.assert_allclose(examples.batch_mean(1, 200), np.r_[x[200:], x[:70]].mean(0))
    np.testing.assert_allclose(examples.batch_mean(7, 1000), x.mean(0))
    again = examples.shuffled(3)
    assert again.packed.tobytes() != examples.packed.tobytes()
    np.testing.assert_allclose(again.mean(), x.mean(0))


class FakeFrame:
    """What a DataFrame looks like from here."""

    def __init__(self, x, columns):
        self.x, self.columns = x, columns

    def to_numpy(self):
        return self.x


def test_every_form_of_data_gives_the_same_examples(tmp_path):
    f = FIVE
    s = nelson.sample(f, weights(f), 100, seed=1)
    x = s.to_numpy()
    order = [3, 1, 5, 2, 4]
    columns = np.array(order) - 1
    np.save(tmp_path / "a.npy", x.astype(np.uint8))
    np.savez(tmp_path / "a.npz", x=x)
    np.savez(tmp_path / "b.npz", packed=s.packed, variables=np.arange(1, 6), count=100, info="{}")
    lines = [" ".join(str(v if r[v - 1] else -v) for v in order) + " 0" for r in x]
    (tmp_path / "a.txt").write_text("c comment\n" + "\n".join(f"v {line}" for line in lines))
    head = ",".join(f"x{v}" for v in order)
    body = "\n".join(",".join(str(int(b)) for b in r[columns]) for r in x)
    (tmp_path / "a.csv").write_text(f"{head}\n{body}\n")
    (tmp_path / "b.csv").write_text("\n".join(",".join(str(bool(b)) for b in r) for r in x))
    forms = [x, x.astype(int), x.astype(float).tolist(), s]
    forms += sorted(map(str, tmp_path.iterdir()))
    forms += [FakeFrame(x, list("abcde")), FakeFrame(x[:, columns], [f"x{v}" for v in order])]
    forms += [FakeFrame(x, range(5))]
    pa = pytest.importorskip("pyarrow", reason="pip install nelson-mrf[parquet]")
    import pyarrow.parquet

    table = pa.table({f"x{v}": x[:, v - 1] for v in order})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    forms += [table, str(tmp_path / "t.parquet")]
    prints = {load_examples(f, form).fingerprint() for form in forms}
    assert len(prints) == 1
    assert load_examples(f, FakeFrame(x, list("abcde"))).names == tuple("abcde")
    assert load_examples(f, FakeFrame(x, range(5))).names is None


def test_a_real_dataframe():
    pandas = pytest.importorskip("pandas", reason="pip install pandas")
    f = FIVE
    x = nelson.sample(f, None, 50, seed=1).to_numpy()
    whole = load_examples(f, x).fingerprint()
    assert load_examples(f, pandas.DataFrame(x)).fingerprint() == whole
    fit = learn(f, pandas.DataFrame(x, columns=list("abcde")), seed=1)
    assert fit.model.names == tuple("abcde")
    assert len(fit.history.to_pandas()) == len(fit.history)


BAD = {
    "a.csv": ("x1,x2\n0,1\n0,2\n", r"a.csv:3: cell '2'"),
    "b.csv": ("0,1\n0\n", r"b.csv:2: 1 cells"),
    "c.txt": ("1 2 0\n1 2\n", r"c.txt:2: a line without its 0"),
    "d.txt": ("1 2 0\n1 3 0\n", r"d.txt:2"),
    "e.txt": ("1 x 0\n", r"e.txt:1"),
    "f.txt": ("", r"no samples"),
    "g.csv": ("0,1,0\n", r"3 columns; expected 2"),
    "h.txt": ("1 0\n", r"no column for variable 2"),
    "i.txt": ("1 2 3 0\n", r"variable 3"),
    "j.npy": ("not numpy", r"cannot read it"),
    "k.csv": ("", r"no rows"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_say_where(tmp_path, name):
    text, message = BAD[name]
    (tmp_path / name).write_text(text)
    with pytest.raises(FormulaError, match=message):
        learn(Formula([[1, 2]]), tmp_path / name)


def test_pickles_are_refused(tmp_path):
    np.save(tmp_path / "p.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(FormulaError, match="cannot read it"):
        learn(Formula([[1, 2]]), tmp_path / "p.npy")


def test_invalid_rows_are_listed_and_counted():
    f = Formula([[1, 2], [-1, 3]], n_vars=3)
    good = np.tile([[0, 1, 0], [1, 0, 1]], (20, 1))
    bad = np.tile([[0, 0, 0], [1, 1, 0]], (4, 1))
    data = np.concatenate([good, bad])
    with pytest.raises(FormulaError) as caught:
        learn(f, data)
    text = str(caught.value)
    assert "8 of 48 rows are invalid" in text
    assert "row 40 breaks clause 1 (1 2)" in text
    assert "row 41 breaks clause 2 (-1 3)" in text
    assert "and 3 more" in text
    fit = learn(f, data, drop_invalid=True, seed=1)
    assert fit.model.metadata["dropped"] == 8
    assert fit.theta.tobytes() == learn(f, good, seed=1).theta.tobytes()
    with pytest.raises(FormulaError, match="all 8 rows"):
        learn(f, bad, drop_invalid=True)
    xor = Formula([], n_vars=3).xor([1, 2, 3])
    with pytest.raises(FormulaError, match="row 0 breaks clause 1"):
        learn(xor, np.zeros((2, 3)))
