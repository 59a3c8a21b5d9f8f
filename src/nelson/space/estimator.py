"""A scikit-learn style estimator of tables: fit, sample, score_samples, score.

    TableEstimator(space, pairs="auto").fit(frame).sample(1000)

scikit-learn is not needed. If it is installed, the class inherits from its `BaseEstimator`, so that
`clone`, `GridSearchCV` and `Pipeline` know it.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from nelson.errors import NelsonError
from nelson.space.language.expressions import refuse
from nelson.space.space import Space
from nelson.space.tables.columns import load_pandas
from nelson.space.tables.frames import as_frame, is_file, is_frame

_Base: Any
_NotFitted: Any
_matrix: Any
try:
    from sklearn.base import BaseEstimator, DensityMixin
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_array

    _Base = type("_Base", (DensityMixin, BaseEstimator), {})
    _NotFitted, _matrix = NotFittedError, check_array
except ImportError:

    class _Parameters:
        """The protocol of scikit-learn's parameters, by hand."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            names = list(inspect.signature(type(self).__init__).parameters)[1:]
            return {name: getattr(self, name) for name in names}

        def set_params(self, **params: Any) -> Any:
            known = self.get_params()
            for name, value in params.items():
                if name not in known:
                    raise ValueError(f"no parameter {name!r}; known: {', '.join(known)}")
                setattr(self, name, value)
            return self

    def _two_dimensions(array: Any, **options: Any) -> np.ndarray:
        matrix = np.asarray(array)
        if matrix.ndim != 2:
            raise ValueError(f"Expected 2D array, got an array with {matrix.ndim} dimensions")
        return matrix

    _Base, _NotFitted, _matrix = _Parameters, NelsonError, _two_dimensions


class TableEstimator(_Base):
    """A law over the rows of a table, and over the legal rows of a space if there is one.

    space         the fields and rules; None: fields are declared from the table.
    columns, rules, bins   see `Space.from_frame`: what the table does not say by itself, rules that
                  hold in every new row. With a space: `bins` of `Space.learn`.
    random_state  a number, or a numpy RandomState.
    The others are those of `Space.learn`.

    Tables: DataFrames of pandas and Polars, Arrow tables, records, arrays, names of files.
    Fitted: `model_` is the `TableModel`, `space_` its space, and `columns_` what each column was
    taken for: print it.

    >>> import pandas
    >>> sizes, gifts = ["S", "S", "L", "L"] * 50, [True, False, False, False] * 50
    >>> frame = pandas.DataFrame({"size": sizes, "gift": gifts})
    >>> space = nelson.Space()
    >>> size, gift = space.choice("size", ["S", "L"]), space.flag("gift")
    >>> space.require(gift.implies(size == "S"))
    >>> estimator = nelson.TableEstimator(space, random_state=0).fit(frame)
    >>> rows = estimator.sample(1000, random_state=1)
    >>> bool((rows["size"][rows["gift"]] == "S").all())
    True
    """

    def __init__(
        self,
        space: Space | None = None,
        *,
        columns: Any = None,
        rules: Any = (),
        pairs: Any = "auto",
        bins: Any = None,
        drop_invalid: bool = False,
        prior: float = 1.0,
        pair_prior: float = 10.0,
        validation: Any = 0.2,
        random_state: Any = None,
        seconds: float | None = None,
    ) -> None:
        self.space = space
        self.columns = columns
        self.rules = rules
        self.pairs = pairs
        self.bins = bins
        self.drop_invalid = drop_invalid
        self.prior = prior
        self.pair_prior = pair_prior
        self.validation = validation
        self.random_state = random_state
        self.seconds = seconds

    def fit(self, X: Any, y: Any = None) -> TableEstimator:
        """Learn from a table, or from an array of rows. y is ignored."""
        self._array = not _is_table(X)
        table = self._table(X, self.space)
        declared = self.space is None
        if self.space is None:
            self.space_ = Space.from_frame(
                table, columns=self.columns, rules=self.rules, bins=self.bins
            )
        elif self.columns is not None or self.rules not in (None, (), []):
            refuse("columns or rules beside a space", "fields and rules of the space alone")
        else:
            self.space_ = self.space
        frame = as_frame(table)[0]
        self.n_features_in_ = frame.shape[1]
        if not self._array and "labels" not in frame.attrs:
            self.feature_names_in_ = np.array(frame.columns, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.model_ = self.space_.learn(
            table,
            self.pairs,
            bins=None if declared else self.bins,
            drop_invalid=self.drop_invalid,
            prior=self.prior,
            pair_prior=self.pair_prior,
            validation=self.validation,
            seed=_seed(self.random_state),
            seconds=self.seconds,
        )
        self.columns_ = self.model_.columns
        return self

    def sample(self, n_samples: int = 1, random_state: Any = None, given: Any = None) -> Any:
        """New legal rows: a DataFrame if the model was fitted to one, else an array of rows."""
        self._check_fitted()
        frame = self.model_.sample(n_samples, given=given, seed=_seed(random_state))
        return frame.to_numpy() if self._array else frame

    def score_samples(self, X: Any) -> np.ndarray:
        """log P of each row; -inf for a row that is not legal."""
        self._check_fitted()
        table = self._table(X, self.space_)
        if self._array and table.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {table.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        return self.model_.log_prob(table)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of log P of the rows. y is ignored."""
        return float(self.score_samples(X).mean())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.allow_nan = True
        return tags

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise _NotFitted(f"this {type(self).__name__} is not fitted yet: call fit first")

    def _table(self, X: Any, space: Space | None) -> Any:
        """X as a DataFrame; the columns of an array are the fields in order, or x0, x1, ..."""
        if _is_table(X):
            return as_frame(X)[0] if is_file(X) else X
        kind = np.asarray(X).dtype if hasattr(X, "dtype") else None
        numeric = kind is None or kind.kind in "biufc"
        array = _matrix(X, dtype="numeric" if numeric else None, ensure_all_finite="allow-nan")
        if space is None:
            names = [f"x{k}" for k in range(array.shape[1])]
        else:
            names = list(space.fields)
            if len(names) != array.shape[1]:
                raise ValueError(
                    f"X has {array.shape[1]} features, but {type(self).__name__} is expecting "
                    f"{len(names)} features as input"
                )
        return load_pandas().DataFrame(array, columns=names)


def _is_table(X: Any) -> bool:
    """A table with names of columns, rather than an array of rows?"""
    records = type(X) is dict or (isinstance(X, list) and len(X) > 0 and isinstance(X[0], dict))
    return is_frame(X) or is_file(X) or hasattr(X, "to_pandas") or records


def _seed(random_state: Any) -> int | None:
    if random_state is None:
        return None
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool):
        return int(random_state)
    return refuse(f"random_state = {random_state!r}", "a whole number or None")
