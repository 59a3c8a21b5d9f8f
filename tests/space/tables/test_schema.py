"""Schemas of pandera and pydantic as rules of a table."""

from __future__ import annotations

import enum
from typing import Annotated, Literal, Optional

import pandas as pd
import pytest

from nelson import FormulaError
from nelson.space import Space
from nelson.space.adapters.schema import rules_of

FRAME = pd.DataFrame(
    {
        "age": [18, 25, 40, 90, 33, 61] * 20,
        "income": [1.5, 2.25, 9.0, 3.75, None, 5.5] * 20,
        "state": ["CA", "NY", "TX"] * 40,
        "day": pd.to_datetime(["2024-01-01", "2024-03-05", "2024-02-01"] * 40),
    }
)


def test_a_pydantic_model_as_rules():
    pydantic = pytest.importorskip("pydantic", reason="NO PYDANTIC: its schemas are not tested")

    class State(enum.Enum):
        CA, NY, TX = "CA", "NY", "TX"

    class Person(pydantic.BaseModel):
        age: Annotated[int, pydantic.Field(ge=18, lt=91)]
        income: Optional[Annotated[float, pydantic.Field(gt=0)]] = pydantic.Field(None, le=10)  # noqa: UP045
        state: State
        other: Literal["a"] = "a"

    assert rules_of(Person, FRAME) == [
        "age >= 18", "age < 91", "income <= 10", "income > 0",
    ]  # fmt: skip
    space = Space.from_frame(FRAME, rules=Person)
    new = space.learn(FRAME, None, seed=0).sample(300, seed=1)
    assert new["age"].between(18, 90).all() and not (new["income"] > 10).any()
    with pytest.raises(FormulaError, match="row 1 has state = 'XX'"):
        Space.from_frame(FRAME.replace("NY", "XX"), rules=["age > 1", Person])


def test_a_pandera_schema_as_rules():
    pandera = pytest.importorskip("pandera.pandas", reason="NO PANDERA: its schemas are not tested")
    check = pandera.Check
    columns = {
        "age": pandera.Column(int, [check.in_range(18, 90), check.ne(17)]),
        "income": pandera.Column(float, check.gt(0), nullable=True),
        "state": pandera.Column(str, [check.isin(["CA", "NY", "TX"]), check.str_length(2, 2)]),
        "day": pandera.Column("datetime64[ns]", check.ge(pd.Timestamp("2024-01-01")), coerce=True),
    }
    schema = pandera.DataFrameSchema(columns)
    said = ["age >= 18", "age <= 90", "income > 0", "day >= '2024-01-01T00:00:00'"]
    assert rules_of(schema, FRAME) == said
    new = Space.from_frame(FRAME, rules=[schema]).learn(FRAME, None, seed=0).sample(300, seed=1)
    assert len(schema.validate(new)) == 300
    own = pandera.DataFrameSchema({"age": pandera.Column(int, check(lambda v: v > 0, name="own"))})
    with pytest.raises(FormulaError, match="the check 'own' of age"):
        Space.from_frame(FRAME, rules=own)


def test_checks_of_a_schema_without_the_packages():
    """What pydantic has, as plain objects: the reader asks for attributes only."""

    class Said:
        def __init__(self, **has):
            self.__dict__.update(has)

    def model(*metadata, kind=int):
        return Said(model_fields={"age": Said(annotation=kind, metadata=[*metadata])})

    assert rules_of(model(Said(ge=18), Said(multiple_of=1)), FRAME) == ["age >= 18"]
    assert rules_of(model(kind=Literal[18, 25, 40, 90, 33, 61]), FRAME) == []
    with pytest.raises(FormulaError, match=r"row 2 has age = .*40"):
        rules_of(model(kind=Literal[18, 25]), FRAME)
    with pytest.raises(FormulaError, match="of age in a schema"):
        rules_of(model(Said(unheard=1)), FRAME)
