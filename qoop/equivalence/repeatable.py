"""Whether a query's parts have the same rows each time that they are computed.

Spark calls some expressions deterministic whose result depends on the order of rows, which differs from run to run.
Within one job that is harmless. A stage's output, however, may be computed again when a part of it is lost, after
others have read it.
"""

from collections.abc import Iterator
from typing import Any

from qoop.equivalence.aggregates import WITHOUT_ORDER
from qoop.equivalence.expression import Expr
from qoop.equivalence.relation import Block, Relation, Source

LIMITS = {"GlobalLimit", "LocalLimit", "Offset", "Tail", "Deduplicate"}
"""Operators that choose rows by their order."""

ON_TOP = {"Sort", "Window", *LIMITS} - {"Deduplicate"}
"""Operators that the last stage evaluates when nothing but such operators is above them."""

BY_RANK = {"Rank", "DenseRank", "PercentRank", "CumeDist"}
"""Window functions with one result for all rows that are equal by the window's order."""


def unrepeatable_part(relation: Relation) -> str | None:
    """What in a query could have other rows when computed again; None if nothing has."""
    lower, skipped = _below_top(relation)
    pending = [lower, *(subquery for one in skipped for subquery in one.subqueries())]
    while pending:
        relation = pending.pop()
        for source in relation.block.sources:
            reason = _reason(source)
            if reason is not None:
                return reason
            pending += source.inputs
        pending += [side.relation for side in relation.block.sides]
        pending += relation.subqueries()
    return None


def _below_top(relation: Relation) -> tuple[Relation, list[Relation]]:
    """A relation without the operators that only the last stage evaluates, grouping at last; and what was skipped."""
    skipped: list[Relation] = []
    while _is_one_source(relation.block) and relation.block.sources[0].kind in ON_TOP:
        skipped.append(relation)
        relation = relation.block.sources[0].inputs[0]
    if _is_one_source(relation.block) and relation.block.sources[0].kind == "aggregate":
        skipped.append(relation)
        relation = relation.block.sources[0].inputs[0]
    return relation, skipped


def _is_one_source(block: Block) -> bool:
    return len(block.sources) == 1 and not block.sides and bool(block.sources[0].inputs)


def _reason(source: Source) -> str | None:
    if source.kind in LIMITS:
        return "a LIMIT or OFFSET inside the query may choose other rows each time"
    if source.kind == "aggregate" and any(_aggregates_in_order(function) for function in source.functions):
        return "an aggregate inside the query depends on the order of rows"
    depends = source.kind == "Window" and any(_depends_on_order(window) for window in source.functions)
    if depends and not _orders_all_rows(source):
        return "a window function inside the query depends on the order of rows that its ORDER BY leaves open"
    return None


def _depends_on_order(window: Expr) -> bool:
    """Whether a window function has different results for rows that are equal by the window's order."""
    names = set(_names(window))
    if _aggregates_in_order(window):
        return True
    if names & BY_RANK:
        return False
    by_rows = any(part == ("frameType", (("object", ROW_FRAME),)) for part in _parts(window))
    is_bounded = not names >= {"UnboundedPreceding", "UnboundedFollowing"}
    return "AggregateExpression" not in names or (by_rows and is_bounded)


def _aggregates_in_order(expr: Expr) -> bool:
    """Whether an aggregate function in an expression depends on the order of rows, or may do so."""
    aggregates = (part[3][0] for part in _parts(expr) if part[:2] == ("call", "AggregateExpression"))
    return any(function[:1] != ("call",) or function[1] not in WITHOUT_ORDER for function in aggregates)


ROW_FRAME = "org.apache.spark.sql.catalyst.expressions.RowFrame$"


def _orders_all_rows(source: Source) -> bool:
    """Whether partition and order together hold all keys that the input is grouped by: then no two rows are equal."""
    block = source.inputs[0].block
    if len(block.sources) != 1 or block.sides or block.sources[0].kind != "aggregate":
        return False
    fields = dict(source.key)
    ordered = {*fields.get("partitionSpec", ()), *(order[3][0] for order in fields.get("orderSpec", ()))}
    (keys,) = block.sources[0].key
    return all(any(part[0] == "column" and part[2] == ("group", key) for part in ordered) for key in keys)


def _names(expr: Any) -> Iterator[str]:
    return (part[1] for part in _parts(expr) if part and part[0] == "call")


def _parts(expr: Any) -> Iterator[tuple[Any, ...]]:
    """The tuples in an expression, without those in subqueries and in the columns of other operators."""
    if isinstance(expr, tuple):
        yield expr
        if not expr or expr[0] != "column":
            for part in expr:
                yield from _parts(part)
    elif isinstance(expr, frozenset):
        for part in expr:
            yield from _parts(part)
