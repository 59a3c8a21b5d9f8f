"""Laws with products of variables in a folder of parts: the law by enumeration, by any shares."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import nelson
from nelson import Formula, NelsonError, cluster
from tests.cli.commands import run

pytest.importorskip("pyarrow")

FORMULA = Formula([[1, 2, 3], [-1, 4], [2, -3, -4]])
THETA = [0.5, -0.3, 0.0, 0.2]
TERMS = {(1, 2): 1.5, (2, 3, 4): -1.0, (3, 4): 0.8}
N, OPTIONS = 16_000, {"seed": 1, "part_rows": 1024}


def law(terms: dict) -> dict[tuple, float]:
    """P of each solution, by enumeration."""
    weights = {}
    for x in product((False, True), repeat=4):
        if FORMULA.satisfied(np.array([x]))[0]:
            phi = sum(c for m, c in terms.items() if all(x[abs(v) - 1] == (v > 0) for v in m))
            weights[x] = np.exp(np.dot(THETA, x) + phi)
    total = sum(weights.values())
    return {x: w / total for x, w in weights.items()}


def far(x: np.ndarray, right: dict[tuple, float]) -> bool:
    """Is the share of a solution more than 5 sigma from its P? A false alarm in 10^5 calls."""
    found = dict.fromkeys(right, 0)
    for row in map(tuple, x.tolist()):
        found[row] += 1
    return any(
        abs(found[s] / len(x) - p) > 5 * np.sqrt(p * (1 - p) / len(x)) for s, p in right.items()
    )


def parts_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("part-*")}


def test_terms_of_single_variables_count(tmp_path):
    """They are no products, and belong to the law all the same."""
    terms = {(1,): 1.0, (-2,): 0.7}
    folder = cluster.sample(FORMULA, THETA, N, tmp_path / "one", terms=terms, **OPTIONS)
    x = folder.samples().to_numpy()
    assert not far(x, law(terms)) and far(x, law({}))
    none = cluster.sample(FORMULA, THETA, N, tmp_path / "none", terms={}, **OPTIONS)
    assert not far(none.samples().to_numpy(), law({}))


@pytest.mark.parametrize("sweeps", [None, 40])
def test_the_law_by_enumeration(tmp_path, sweeps):
    """Exactly, and by chains; three shares in another order are the bytes of one process. The twins
    are the law without terms, and one term with another coefficient.
    """
    options = OPTIONS | {"terms": TERMS, "sweeps": sweeps}
    one = cluster.sample(FORMULA, THETA, N, tmp_path / "one", **options)
    for k in (3, 1, 2):
        cluster.sample(FORMULA, THETA, N, tmp_path / "many", shard=f"{k}/3", **options)
    folder = nelson.read(tmp_path / "many")
    folder.verify()
    assert parts_of(tmp_path / "one") == parts_of(tmp_path / "many")
    assert one.guarantee == ("heuristic" if sweeps else "exact") and one.job["keyed"] == "part"
    x = folder.samples().to_numpy()
    assert len(x) == N and not far(x, law(TERMS))
    assert far(x, law({})) and far(x, law(TERMS | {(3, 4): 0.4}))
    assert not np.array_equal(x[:1024], x[1024:2048])  # parts do not repeat each other
    with pytest.raises(NelsonError, match="its terms is"):
        cluster.sample(FORMULA, THETA, N, tmp_path / "one", **options | {"terms": {(1, 2): 1.0}})


def test_a_learned_model_with_terms_by_the_command_line(tmp_path):
    model = nelson.Model(FORMULA, np.array(THETA), names=tuple("abcd"), terms=TERMS)
    model.save(tmp_path / "model")
    out = f"{tmp_path}/rows/"
    args = ["sample", tmp_path / "model", "-n", N, "--seed", 1, "--part-rows", 1024, "-o", out]
    for k in (2, 1):
        done = run(*args, "--columns", "--shard", f"{k}/2")
        assert done.returncode == 0, done.stderr
    folder = nelson.read(out)
    assert folder.names == tuple("abcd")
    assert not far(folder.to_pandas().to_numpy(), law(TERMS))
