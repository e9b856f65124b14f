"""The space of a search: its dimensions, as the file describes them, and the values that they have."""

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from yarn_plugin.toml_files import Section

Value = bool | int | float | str
"""A value of a parameter."""

Parameters = dict[str, Value]

MAX_TRIALS = 10_000
"""Of a search: no more combinations are looked at."""


class Dimension(Section):
    """What every parameter of a space may have. `when`: it exists only if these others have these values."""

    when: Mapping[str, Value] = Field(default={})


class FloatDimension(Dimension):
    """A number from `low` to `high`; `log`: drawn evenly on a logarithmic scale."""

    type: Literal["float"]
    low: float
    high: float
    log: bool = False

    @model_validator(mode="after")
    def _is_range(self) -> Self:
        _check_range(self.low, self.high, self.log)
        return self


class IntDimension(Dimension):
    """An integer from `low` to `high`, both included."""

    type: Literal["int"]
    low: int
    high: int
    log: bool = False

    @model_validator(mode="after")
    def _is_range(self) -> Self:
        _check_range(self.low, self.high, self.log)
        return self


class CategoricalDimension(Dimension):
    """One of these choices."""

    type: Literal["categorical"]
    choices: Annotated[list[Value], Field(min_length=1)]


AnyDimension = Annotated[FloatDimension | IntDimension | CategoricalDimension, Field(discriminator="type")]


def combinations(space: Mapping[str, AnyDimension]) -> list[Parameters]:
    """All that a space without floats has, in order: a parameter whose condition does not hold is left out."""
    found: list[Parameters] = [{}]
    for name in in_order(space):
        dimension, longer = space[name], []
        for one in found:
            if all(other in one and one[other] == value for other, value in dimension.when.items()):
                longer += [{**one, name: value} for value in _values(dimension)]
            else:
                longer.append(one)
        found = longer[:MAX_TRIALS]
    return found


def _values(dimension: AnyDimension) -> list[Value]:
    match dimension:
        case CategoricalDimension():
            return dimension.choices
        case IntDimension():
            return list(range(dimension.low, dimension.high + 1)[:MAX_TRIALS])
        case FloatDimension():
            raise ValueError("a float has too many values")


def in_order(space: Mapping[str, AnyDimension]) -> list[str]:
    """The parameters of a space, each after those that its condition looks at."""
    ordered: list[str] = []

    def add(names: Iterable[str]) -> None:
        for name in names:
            if name not in ordered:
                add(space[name].when)
                ordered.append(name)

    add(space)
    return ordered


def is_in(value: object, dimension: Mapping[str, Any]) -> bool:
    """Whether a value is one of a dimension (its fields as in the file; an invalid one takes every value)."""
    if dimension.get("type") == "categorical":
        choices = dimension.get("choices")
        return not isinstance(choices, list) or any(value == one and type(value) is type(one) for one in choices)
    low, high = dimension.get("low"), dimension.get("high")
    if not isinstance(low, int | float) or not isinstance(high, int | float):
        return True
    numbers = int if dimension.get("type") == "int" else int | float
    return isinstance(value, numbers) and not isinstance(value, bool) and low <= value <= high


def range_of(dimension: Mapping[str, Any]) -> str:
    """What a value of a dimension must be."""
    if dimension.get("type") == "categorical":
        return f"must be one of {', '.join(map(repr, dimension['choices']))}"
    kind = "an integer" if dimension.get("type") == "int" else "a number"
    return f"must be {kind} from {dimension['low']} to {dimension['high']}"


def _check_range(low: float, high: float, log: bool) -> None:
    if not low <= high or math.isinf(high - low):
        raise ValueError(f"low {low} and high {high}: low must be at most high")
    if log and low <= 0:
        raise ValueError(f"low {low}: must be above 0 with log = true")
