"""Scala's values in Python."""

from collections.abc import Iterator
from typing import Any


def items(sequence: Any) -> Iterator[Any]:
    """The items of a Scala sequence."""
    return (sequence.apply(index) for index in range(sequence.size()))


def as_float(value: Any) -> float:
    """A Scala number as a float, whatever type Py4J converted it to."""
    return float(str(value))
