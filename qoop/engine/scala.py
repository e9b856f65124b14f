"""Scala's values and Spark's plans in Python."""

from collections.abc import Iterator
from itertools import chain
from typing import Any


def items(sequence: Any) -> Iterator[Any]:
    """The items of a Scala sequence."""
    return (sequence.apply(index) for index in range(sequence.size()))


def leaves(plan: Any) -> Iterator[Any]:
    """The leaves of a plan, such as its tables, and of the subqueries in its expressions."""
    return (leaf for part in chain((plan,), items(plan.subqueriesAll())) for leaf in items(part.collectLeaves()))


def as_float(value: Any) -> float:
    """A Scala number as a float, whatever type Py4J converted it to."""
    return float(str(value))
