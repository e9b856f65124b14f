"""Pydantic's errors in plain English."""

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from yarn_plugin.validation import expectation


class Everything(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(default="x", min_length=1, max_length=3, pattern="^[a-z]*$")
    nodes: int = Field(default=1, ge=1, le=1_000_000)
    scale: float = Field(default=1.0, gt=0, lt=0.5, allow_inf_nan=False)
    pools: list[Annotated[int, Field(gt=0)]] = Field(default=[1], min_length=1, max_length=2)
    mode: Literal["fair", "fifo"] = "fair"
    verbose: bool = False
    weights: dict[str, int] = {}

    @field_validator("mode")
    @classmethod
    def _only_fair(cls, mode: str) -> str:
        if mode != "fair":
            raise ValueError("must be 'fair' on this cluster")
        return mode


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"colour": 1}, "unknown key"),
        ({"nodes": 0}, "must be at least 1"),
        ({"nodes": 2_000_000}, "must be at most 1000000"),
        ({"nodes": "many"}, "must be an integer"),
        ({"nodes": 1.5}, "must be an integer"),
        ({"scale": 0}, "must be above 0"),
        ({"scale": 1}, "must be below 0.5"),
        ({"scale": float("nan")}, "must be a finite number"),
        ({"scale": []}, "must be a number"),
        ({"name": ""}, "must have at least 1 character"),
        ({"name": "long"}, "must have at most 3 characters"),
        ({"name": "A"}, "must match [a-z]*"),
        ({"name": 3}, "must be a string"),
        ({"pools": []}, "must have at least 1 item"),
        ({"pools": [1, 2, 3]}, "must have at most 2 items"),
        ({"pools": 3}, "must be a list"),
        ({"mode": "lottery"}, "must be 'fair' or 'fifo'"),
        ({"mode": "fifo"}, "must be 'fair' on this cluster"),
        ({"verbose": "loud"}, "must be true or false"),
        ({"weights": 3}, "must be a table"),
    ],
)
def test_a_problem_is_described_in_plain_english(values, problem):
    with pytest.raises(ValidationError) as refused:
        Everything.model_validate(values)
    assert [expectation(dict(error)) for error in refused.value.errors()] == [problem]


def test_a_required_key_is_named_so():
    class Required(BaseModel):
        name: str

    with pytest.raises(ValidationError) as refused:
        Required.model_validate({})
    assert expectation(dict(refused.value.errors()[0])) == "required"
