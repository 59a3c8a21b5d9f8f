"""ConfigurationSpaces of ConfigSpace as spaces, judged by ConfigSpace's own check.

The truth: all combinations of values, with each conditional hyperparameter also left out, that
ConfigSpace accepts as a Configuration.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import itertools
import random
import re
from typing import Any

import pytest

import nelson
from nelson.errors import FormulaError
from nelson.space.adapters.configspace import MAX_NONE, configurations
from tests.space.adapters.every_row import every_row

CS = pytest.importorskip("ConfigSpace", reason="NO CONFIGSPACE: its adapter is not tested")
from ConfigSpace import conditions as condition_module  # noqa: E402
from ConfigSpace import forbidden as forbidden_module  # noqa: E402
from ConfigSpace.exceptions import (  # noqa: E402
    ActiveHyperparameterNotSetError,
    ForbiddenValueError,
)

MISSING = object()
ORDERS = ["LessThan", "LessThanEquals", "GreaterThan", "GreaterThanEquals"]
Row = frozenset[tuple[str, Any]]


def legal(cs: Any, bins: dict[str, list[float]]) -> set[Row]:
    """All configurations that ConfigSpace accepts."""
    conditional = set(cs.conditional_hyperparameters)
    columns = []
    for name, hp in cs.items():
        values = bins.get(name)
        for attribute in ("choices", "sequence"):
            values = values or list(getattr(hp, attribute, ()))
        if not values:
            values = [hp.value] if hasattr(hp, "value") else list(range(hp.lower, hp.upper + 1))
        columns.append([*values, *([MISSING] if name in conditional else [])])
    found = set()
    for row in itertools.product(*columns):
        values = {n: v for n, v in zip(cs, row, strict=True) if v is not MISSING}
        with contextlib.suppress(ValueError, ForbiddenValueError), quiet():
            CS.Configuration(cs, values=values)
            found.add(frozenset(values.items()))
    return found


def quiet() -> Any:
    """One of ConfigSpace's checks prints what it compares."""
    return contextlib.redirect_stdout(io.StringIO())


def kept(cs: Any, rows: Any) -> list[Row]:
    """The active hyperparameters of each row."""
    return [
        frozenset((n, row[n]) for n in cs if row[n] is not None and row.get(f"{n}.active", True))
        for row in rows
    ]


def agrees(cs: Any, bins: dict[str, list[float]] | None = None) -> nelson.Space:
    """A space with one row for each legal configuration."""
    space = nelson.Space.from_configspace(cs, bins=bins)
    rows = kept(cs, every_row(space))
    assert len(set(rows)) == len(rows), "a configuration has two rows"
    assert set(rows) == legal(cs, bins or {})
    return space


def examples() -> list[tuple[str, str]]:
    """The runnable examples in the docstrings of ConfigSpace."""
    found = []
    for module in (CS, condition_module, forbidden_module):
        for name, item in inspect.getmembers(module, inspect.isclass):
            texts = {inspect.getdoc(item) or "", inspect.getdoc(item.__init__) or ""}
            for text in sorted(texts):
                for code in re.findall(r"^```python[^\n]*\n(.*?)^```", text, re.M | re.S):
                    if "cs = ConfigurationSpace(" in code and (name, code) not in found:
                        found.append((name, code))
    return found


@pytest.mark.parametrize(("name", "code"), examples(), ids=[name for name, _ in examples()])
def test_examples_of_the_package(name, code):
    names: dict[str, Any] = {}
    with quiet():
        exec(code, names)
    cs = names["cs"]
    floats = {n: hp for n, hp in cs.items() if "Float" in type(hp).__name__}
    for n in floats:
        with pytest.raises(FormulaError, match=f"continuous hyperparameter '{n}'.*bins="):
            nelson.Space.from_configspace(cs)
    agrees(cs, {n: [hp.lower, hp.upper] for n, hp in floats.items()})


def test_there_are_examples_of_every_condition_and_clause():
    kinds = {name for name, _ in examples()}
    for word in ("EqualsCondition", "InCondition", "AndConjunction", "ForbiddenEqualsClause"):
        assert word in kinds
    assert len(kinds) > 12


def random_space(seed: int) -> Any:
    r = random.Random(seed)
    made: list[Any] = []
    for name in "abcd"[: r.randint(2, 4)]:
        kind = r.choice(["cat", "numbers", "ord", "int", "wide", "const"])
        if kind == "wide" and any(getattr(hp, "upper", 0) > 9 for hp in made):
            kind = "int"
        made.append(
            {
                "cat": lambda n: CS.Categorical(n, ["u", "v", "w"]),
                "numbers": lambda n: CS.Categorical(n, [1, 5, 3]),
                "ord": lambda n: CS.Categorical(n, [3, 1, 2], ordered=True),
                "int": lambda n: CS.Integer(n, (0, 3)),
                "wide": lambda n: CS.Integer(n, (-2, MAX_NONE), default=0),
                "const": lambda n: CS.Constant(n, "k"),
            }[kind](name)
        )
    cs = CS.ConfigurationSpace()
    cs.add(*made)

    def extended(cs: Any, extra: Any) -> Any:
        """With one condition or clause more, unless the default configuration breaks it."""
        trial = CS.ConfigurationSpace()
        with contextlib.suppress(ForbiddenValueError, ActiveHyperparameterNotSetError), quiet():
            trial.add(*made, *cs.conditions, *cs.forbidden_clauses, extra)
            return trial
        return cs

    def value(hp: Any) -> Any:
        values = getattr(hp, "choices", None) or getattr(hp, "sequence", None)
        return r.choice(values) if values else getattr(hp, "value", None) or r.randint(0, 3)

    def condition(child: Any, parents: list[Any]) -> Any:
        parent = r.choice(parents)
        kinds = [CS.EqualsCondition, CS.NotEqualsCondition, CS.InCondition]
        if parent.ORDERABLE:
            kinds += [CS.LessThanCondition, CS.GreaterThanCondition]
        kind = r.choice(kinds)
        if kind is CS.InCondition:
            return kind(child, parent, [value(parent), value(parent)])
        return kind(child, parent, value(parent))

    for k in range(1, len(made)):
        if r.random() < 0.6:
            parts = [condition(made[k], made[:k]) for _ in range(r.choice([1, 1, 2]))]
            join = r.choice([CS.AndConjunction, CS.OrConjunction])
            cs = extended(cs, parts[0] if len(parts) == 1 else join(*parts))

    def clause() -> Any:
        hp, other = r.sample(made, 2)
        numeric = [x for x in made if x.ORDERABLE or type(getattr(x, "choices", "x")[0]) is int]
        kinds = ["eq", "in", "and", "rel"] + (["lt", "le", "gt", "ge"] if hp.ORDERABLE else [])
        kind = r.choice(kinds)
        if kind == "eq":
            return CS.ForbiddenEqualsClause(hp, value(hp))
        if kind == "in":
            return CS.ForbiddenInClause(hp, [value(hp), value(hp)])
        if kind == "and":
            join = r.choice([CS.ForbiddenAndConjunction, forbidden_module.ForbiddenOrConjunction])
            return join(
                CS.ForbiddenEqualsClause(hp, value(hp)), CS.ForbiddenInClause(other, [value(other)])
            )
        if kind == "rel":
            if len(numeric) < 2:
                return CS.ForbiddenEqualsRelation(hp, other)
            which = ["Equals", *ORDERS]
            made_of = getattr(forbidden_module, f"Forbidden{r.choice(which)}Relation")
            return made_of(*r.sample(numeric, 2))
        names = {
            "lt": "LessThan",
            "le": "LessThanEquals",
            "gt": "GreaterThan",
            "ge": "GreaterThanEquals",
        }
        return getattr(forbidden_module, f"Forbidden{names[kind]}Clause")(hp, value(hp))

    for _ in range(r.randint(0, 3)):
        cs = extended(cs, clause())
    return cs


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_random_spaces(seed):
    agrees(random_space(seed))


def tree_space() -> Any:
    cs = CS.ConfigurationSpace(
        {
            "kernel": ["linear", "rbf", "poly"],
            "degree": (2, 5),
            "steps": (1, 500),
            "shrink": [True, False],
        }
    )
    cs.add(CS.EqualsCondition(cs["degree"], cs["kernel"], "poly"))
    cs.add(CS.InCondition(cs["steps"], cs["kernel"], ["rbf", "poly"]))
    return cs


def test_an_inactive_hyperparameter_is_none_or_pinned():
    cs = tree_space()
    space = nelson.Space.from_configspace(cs)
    # linear: 2; rbf: 500 * 2; poly: 4 * 500 * 2
    assert space.count() == 2 + 1000 + 4000
    rows = space.sample(500, seed=3)
    off = rows["kernel"] != "poly"
    assert (rows["degree"][off] == None).all() and off.any()  # noqa: E711
    assert not rows["steps.active"][rows["kernel"] == "linear"].any()
    assert (rows["steps"][~rows["steps.active"]] == 1).all()


def test_rows_become_configurations_that_configspace_accepts():
    cs = tree_space()
    space = nelson.Space.from_configspace(cs)
    rows = space.sample(100, seed=1)
    made = list(configurations(cs, rows))
    assert len(made) == 100
    assert {frozenset(dict(c).items()) for c in made} <= set(kept(cs, rows))
    for configuration in cs.sample_configuration(20):
        row = {n: configuration.get(n) for n in cs}
        row["steps.active"] = row["steps"] is not None
        row["steps"] = row["steps"] if row["steps.active"] else 1
        assert space.satisfied({n: [v] for n, v in row.items()}).all()


def test_weights_of_categoricals_are_kept_and_used_when_asked_for():
    cs = CS.ConfigurationSpace()
    cs.add(CS.Categorical("c", ["a", "b"], weights=[3, 1]))
    space = nelson.Space.from_configspace(cs)
    assert space.marginals()["c"]["a"] == pytest.approx(0.5)
    assert space.marginals(weights=space.weights)["c"]["a"] == pytest.approx(0.75)


def test_bins_by_number_follow_the_scale_of_the_hyperparameter():
    cs = CS.ConfigurationSpace()
    cs.add(CS.Float("lr", (1e-4, 1.0), log=True), CS.Float("p", (0.0, 1.0)))
    space = nelson.Space.from_configspace(cs, bins={"lr": 4, "p": [0.25, 0.75, 0.5]})
    ratios = [b / a for a, b in itertools.pairwise(space["lr"].values)]
    assert ratios == pytest.approx([10, 10, 10])
    assert space["p"].values == (0.25, 0.5, 0.75)
    assert len(list(configurations(cs, space.sample(12, unique=True, seed=0)))) == 12


@pytest.mark.parametrize(
    ("bins", "said"),
    [
        ({}, "continuous hyperparameter 'lr'.*bins="),
        ({"lr": 0}, "1 or more"),
        ({"lr": []}, "one or more"),
        ({"lr": [7.0]}, "7.0 in the bins of 'lr'"),
        ({"rate": 3}, "bins of 'rate'.*names of hyperparameters"),
        ({"lr": 2, "n": 2}, "continuous hyperparameters only"),
    ],
)
def test_bad_bins(bins, said):
    cs = CS.ConfigurationSpace({"lr": (0.1, 1.0), "n": (1, 3)})
    with pytest.raises(FormulaError, match=said):
        nelson.Space.from_configspace(cs, bins=bins)


def test_another_object_is_refused():
    with pytest.raises(FormulaError, match=r"dict.*ConfigurationSpace"):
        nelson.Space.from_configspace({"a": [1, 2]})
