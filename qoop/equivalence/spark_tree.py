"""Spark's plans and expressions as plain trees, read from the JSON that `TreeNode.toJSON` writes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from qoop.errors import QoopError

UNREAD = {
    "class", "num-children", "exprId", "resultId", "metadata", "qualifier", "nonInheritableMetadataKeys",
    "explicitMetadata", "outerAttrs", "evalContext", "sameOrderExpressions", "desc",
}  # fmt: skip
"""Fields that identify or annotate, apart from `exprId`, of which the number is read."""


class UnverifiableError(QoopError):
    """A plan has a part whose meaning the normal form does not cover."""


@dataclass(frozen=True, slots=True)
class Node:
    """A plan operator or an expression.

    `kind`: its class without the package. `children`: its children in Spark's order. `fields`: its other constructor
    arguments; trees in them are nodes, an index of a child stays a number, and what Spark does not write is None.
    `exprId` is the number of a column.
    """

    kind: str
    children: tuple["Node", ...]
    fields: Mapping[str, Any]


def read_tree(nodes: list[dict[str, Any]]) -> Node:
    """The tree of nodes that Spark lists in pre-order, each with the number of its children.

    Raises:
        UnverifiableError: the list is not a tree.
    """
    pending = iter(nodes)
    try:
        root = _next_node(pending)
    except (StopIteration, KeyError, TypeError, RecursionError) as problem:
        raise UnverifiableError(f"Spark's plan cannot be read ({type(problem).__name__})") from None
    if next(pending, None) is not None:
        raise UnverifiableError("Spark's plan cannot be read (several roots)")
    return root


def _next_node(pending: Iterator[dict[str, Any]]) -> Node:
    entry = next(pending)
    children = tuple(_next_node(pending) for _ in range(entry["num-children"]))
    fields = {name: _value(value) for name, value in entry.items() if name not in UNREAD}
    if "exprId" in entry:
        fields["exprId"] = entry["exprId"]["id"]
    return Node(str(entry["class"]).rpartition(".")[2].rstrip("$"), children, fields)


def _value(value: Any) -> Any:
    """A field's value: a list that starts with a node is a tree, other lists and objects hold values."""
    if isinstance(value, list):
        if value and isinstance(value[0], dict) and "num-children" in value[0]:
            return read_tree(value)
        return tuple(_value(item) for item in value)
    if isinstance(value, dict):
        return {name: _value(item) for name, item in value.items()}
    return value
