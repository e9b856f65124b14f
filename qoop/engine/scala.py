"""Scala's values and Spark's plans in Python."""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from py4j.protocol import Py4JError

from qoop.engine.connection import java_class

MAX_FIELDS = 10_000
"""How many columns of an operator Spark prints."""

UNKNOWN_BYTES = 2.0**62
"""Sizes from which on Spark means that it knows none (spark.sql.defaultSizeInBytes)."""

CUT = re.compile(r"(Truncated plan of|\.\.\.) \d+( more)? characters\s*$")
"""How a plan ends that Spark has not printed whole, for spark.sql.maxPlanStringLength."""


def items(sequence: Any) -> Iterator[Any]:
    """The items of a Scala sequence."""
    return (sequence.apply(index) for index in range(sequence.size()))


def sequence(jvm: Any, values: list[Any]) -> Any:
    """A Scala sequence of these values."""
    return java_class(jvm, "org.apache.spark.api.python.PythonUtils").toSeq(values)


def leaves(plan: Any) -> Iterator[Any]:
    """The leaves of a plan, such as its tables, and of the subqueries in its expressions."""
    return (leaf for part in chain((plan,), items(plan.subqueriesAll())) for leaf in items(part.collectLeaves()))


def stored_rows(plan: Any) -> list[Any]:
    """The leaves of a plan that read rows which executors store."""
    return [leaf for leaf in leaves(plan) if str(leaf.getClass().getSimpleName()) == "InMemoryRelation"]


def printed(plan: Any, sizes: bool = False) -> str:
    """A plan as Spark prints it, with all columns; with `sizes` those of the operators that Spark has sized."""
    try:
        return str(plan.treeString(sizes, sizes, MAX_FIELDS, False, False))
    except Py4JError:
        # Spark 4.0 has one parameter less.
        return str(plan.treeString(sizes, sizes, MAX_FIELDS, False))


def is_cut(text: str) -> bool:
    """Whether Spark has not printed a plan to its end, as the user has set."""
    return CUT.search(text, max(len(text) - 100, 0)) is not None


def as_float(value: Any) -> float:
    """A Scala number as a float, whatever type Py4J converted it to."""
    return float(str(value))


def objects_in(value: Any) -> Iterator[dict[str, Any]]:
    """The objects in a plan as JSON, at any depth; outer ones first."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from objects_in(item)
