"""Whether computing a plan again gives the same values to the last bit.

Adding floating-point numbers in another order, as Spark does from run to run, changes the last digits of the sum; a
comparison of such sums may then have another result. Of values that are equal under a collation, but not the same,
grouping keeps the one that it meets first.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from qoop.equivalence.aggregates import EXACT, SUMS
from qoop.equivalence.expression import decimal_digits
from qoop.equivalence.spark_tree import Node

KEEP_EXACT = {
    "AttributeReference", "Literal", "Cast", "Add", "Subtract", "Multiply", "UnaryMinus", "Abs", "CaseWhen", "If",
    "Coalesce", "EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual", "And",
    "Or", "Not", "In", "IsNull", "IsNotNull", "Alias", "KnownNotNull", "PromotePrecision", "CheckOverflow",
}  # fmt: skip
"""Expressions that are of a floating-point type only if one of their operands is."""

EXACT_TYPES = {"byte", "short", "boolean", "string", "date", "timestamp", "timestamp_ntz", "void"}

LONG_DIGITS = 11
"""Decimals of at most so many digits are averaged as longs."""

COLLATED = ("string collate ", "__COLLATIONS")
"""What types of collated text have in them, as Spark writes them: within a struct it is a note beside the field."""


def is_exact(plan: Node) -> bool:
    """Whether an analysed plan has the same values, to the last bit, each time that it is computed."""
    return not any(_adds_floats(node) or _is_collated(node) for node in _nodes(plan))


def _adds_floats(node: Node) -> bool:
    if node.kind != "AggregateExpression":
        return False
    function = node.children[0]
    if function.kind in SUMS:
        return not all(_stays_exact(part, function.kind) for child in function.children for part in _nodes(child))
    return function.kind not in EXACT


def _stays_exact(node: Node, within: str) -> bool:
    if node.kind not in KEEP_EXACT:
        return False
    kind = node.fields.get("dataType")
    if kind in ("integer", "long") or _is_short_decimal(kind):
        # Their average is computed by adding doubles, which is exact while the sum is small.
        return within == "Sum"
    return kind is None or kind in EXACT_TYPES or str(kind).startswith("decimal")


def _is_short_decimal(kind: Any) -> bool:
    """Whether Spark averages values of a type as longs (DecimalAggregates)."""
    digits = decimal_digits(kind) if isinstance(kind, str) and kind.startswith("decimal") else None
    return digits is not None and sum(digits) <= LONG_DIGITS


def _is_collated(node: Node) -> bool:
    kind = str(node.fields.get("dataType"))
    return node.kind == "Collate" or any(mark in kind for mark in COLLATED)


def _nodes(value: Any) -> Iterator[Node]:
    """A tree's nodes, also those of trees in fields."""
    if isinstance(value, Node):
        yield value
        for child in value.children:
            yield from _nodes(child)
        value = value.fields
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, tuple):
        for item in value:
            yield from _nodes(item)
