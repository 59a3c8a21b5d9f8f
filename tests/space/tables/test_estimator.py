"""The estimator keeps scikit-learn's protocol, with scikit-learn and without it."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pandas as pd
import pytest

from nelson.errors import FormulaError
from nelson.space import Space, estimator
from nelson.space.estimator import TableEstimator

sklearn = pytest.importorskip("sklearn", reason="scikit-learn is not installed: NOT TESTED")
from sklearn.base import clone  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.utils.estimator_checks import estimator_checks_generator  # noqa: E402

pytestmark = pytest.mark.slow

#: No check fails. scikit-learn itself skips this one unless SCIPY_ARRAY_API is set.
SKIPPED = {"check_array_api_input"}


def small() -> tuple[Space, pd.DataFrame]:
    space = Space()
    kind = space.choice("kind", ["a", "b", "c"])
    on = space.flag("on")
    space.require((kind == "c").implies(~on))
    frame = space.sample(300, weights={kind == "a": 3.0, (kind == "b") & on: 4.0}, seed=0)
    return space, frame.to_pandas()


def checks():
    """scikit-learn feeds random floats."""
    for made, check in estimator_checks_generator(TableEstimator(random_state=0)):
        name = getattr(check, "func", check).__name__
        if name not in SKIPPED:
            yield pytest.param(made, check, id=name)


@pytest.mark.parametrize(("made", "check"), list(checks()))
@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_scikit_learn(made, check):
    check(made)


def test_fit_sample_and_score():
    space, frame = small()
    model = TableEstimator(space, pairs=[("kind", "on")], random_state=0).fit(frame)
    drawn = model.sample(200, random_state=1)
    assert drawn.dtypes.equals(frame.dtypes) and space.satisfied(drawn).all()
    assert drawn.equals(model.sample(200, random_state=1))
    scores = model.score_samples(frame)
    assert np.array_equal(scores, model.model_.log_prob(frame))
    assert model.score(frame) == pytest.approx(scores.mean())
    assert set(model.sample(50, given={"kind": "b"})["kind"]) == {"b"}
    assert list(model.feature_names_in_) == ["kind", "on"] and model.n_features_in_ == 2
    alone = TableEstimator(space, pairs=None, random_state=0).fit(frame)
    assert alone.score(frame) < model.score(frame)


def test_arrays_in_arrays_out():
    space, frame = small()
    array = frame.to_numpy()
    model = TableEstimator(space, pairs=None, random_state=0).fit(array)
    assert np.array_equal(
        model.score_samples(array),
        TableEstimator(space, pairs=None, random_state=0).fit(frame).score_samples(frame),
    )
    drawn = model.sample(20, random_state=0)
    assert drawn.shape == (20, 2) and set(drawn[:, 0]) <= {"a", "b", "c"}
    with pytest.raises(ValueError, match="3 features, but TableEstimator is expecting 2"):
        model.score_samples(np.zeros((4, 3)))
    numbers = np.random.default_rng(0).integers(0, 3, (100, 2))
    declared = TableEstimator(random_state=np.random.RandomState(0)).fit(numbers)
    assert list(declared.space_.fields) == ["x0", "x1"]
    assert set(np.unique(declared.sample(100, random_state=0))) <= {0, 1, 2}


def test_scikit_learn_can_use_it():
    space, frame = small()
    made = TableEstimator(space, pairs=None, random_state=0)
    copied = clone(made.fit(frame))
    assert not hasattr(copied, "model_") and copied.get_params().keys() == made.get_params().keys()
    copied.fit(frame)
    assert copied.score(frame) == pytest.approx(made.score(frame))
    search = GridSearchCV(made, {"pairs": [None, [("kind", "on")]], "prior": [1.0, 50.0]}, cv=3)
    search.fit(frame)
    assert search.best_params_["pairs"] == [("kind", "on")]
    assert make_pipeline(made).fit(frame).score(frame) == pytest.approx(made.score(frame))
    with pytest.raises(NotFittedError, match="not fitted yet"):
        clone(made).sample(1)
    with pytest.raises(FormulaError, match="random_state"):
        clone(made).set_params(random_state="x").fit(frame)


def test_without_scikit_learn_the_protocol_is_the_same(monkeypatch):
    for name in [*sys.modules]:
        if name == "sklearn" or name.startswith("sklearn."):
            monkeypatch.setitem(sys.modules, name, None)
    spec = importlib.util.spec_from_file_location("estimator_alone", estimator.__file__)
    alone = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(alone)
    assert not issubclass(alone.TableEstimator, sklearn.base.BaseEstimator)
    space, frame = small()
    made = alone.TableEstimator(space, pairs=None, random_state=0)
    assert made.get_params() == TableEstimator(space, pairs=None, random_state=0).get_params()
    with pytest.raises(alone.NelsonError, match="not fitted yet"):
        made.sample()
    assert made.set_params(prior=2.0).prior == 2.0
    with pytest.raises(ValueError, match="no parameter 'nothing'"):
        made.set_params(nothing=1)
    assert made.fit(frame).score(frame) == pytest.approx(
        TableEstimator(space, pairs=None, prior=2.0, random_state=0).fit(frame).score(frame)
    )
    assert made.fit(frame.to_numpy()).sample(3).shape == (3, 2)
    with pytest.raises(ValueError, match="Expected 2D"):
        made.fit(np.zeros(3))
