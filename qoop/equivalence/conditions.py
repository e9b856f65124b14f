"""The conditions of blocks in normal form: equality classes, and no condition that others imply."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from qoop.equivalence.expression import (
    Expr,
    columns,
    conjuncts,
    decimal_digits,
    has_subquery,
    is_not_null,
    is_transitive,
    subqueries,
    substitute,
    type_of,
    without_implied,
)
from qoop.equivalence.relation import Block, Relation, Source

MAX_DIGITS = 38
"""Digits of Spark's decimals: numbers that need more are rounded before they are compared."""

PUSHED_THROUGH = {"aggregate": "group", "Distinct": "passed", "Sort": "passed"}
"""Operators below which a condition on such columns is equivalent."""


@dataclass(frozen=True)
class Conditions:
    """What the rows of a block meet. `classes`: sets of columns, and of casts of columns, that are equal; `others`: all
    other conditions."""

    classes: tuple[frozenset[Expr], ...]
    others: frozenset[Expr]

    def same(self, member: Expr) -> frozenset[Expr]:
        """The members that have the same value in every row and the same type, the given one among them."""
        members = next((members for members in self.classes if member in members), frozenset({member}))
        kind = type_of(member)
        return frozenset(other for other in members if type_of(other) == kind)


def settle(relation: Relation) -> dict[int, Conditions]:
    """Settle the conditions of a relation and of all relations in it.

    A condition on the columns of a source is copied to the source's own block where that is equivalent.

    Returns:
        The conditions of each block, by the block's `id`.
    """
    found: dict[int, Conditions] = {}
    pending = [relation]
    while pending:
        relation = pending.pop()
        block = relation.block
        if id(block) in found:
            continue
        pending += subqueries(relation.outputs)
        conditions = _settled(block)
        found[id(block)] = conditions
        for source in block.sources:
            _copy_into(source, conditions)
            pending += source.inputs
            pending += subqueries(source.key)
        for side in block.sides:
            pending.append(side.relation)
            pending += subqueries(side.condition)
        pending += subqueries(tuple(conditions.others))
    return found


def _settled(block: Block) -> Conditions:
    own = {source.identity for source in block.sources}
    classes: list[frozenset[Expr]] = []
    others: set[Expr] = set()
    for condition in frozenset().union(*(conjuncts(one) for one in block.conditions)):
        pair = _equality(condition, own)
        if pair is None:
            others.add(condition)
            continue
        touching = [members for members in classes if members & pair]
        classes = [members for members in classes if not members & pair]
        classes.append(pair.union(*touching))
    known = frozenset().union(*classes)
    others = {_not_null(condition) for condition in others if not _is_reflexive(condition, known)}
    made = Conditions(tuple(classes), frozenset())
    rewritten = frozenset().union(*(conjuncts(_with_classes(condition, made)) for condition in others))
    return Conditions(made.classes, without_implied(rewritten))


def _equality(condition: Expr, own: set[int]) -> frozenset[Expr] | None:
    """The two columns of the block's sources, or casts of them, that a condition equates, if equality of their types
    is transitive."""
    if condition[0] != "=" or not all(_is_column(part, own) for part in condition[1]):
        return None
    kinds = {type_of(part) for part in condition[1]}
    if len(condition[1]) != 2:
        return None
    digits = [decimal_digits(kind) for kind in kinds]
    exact = all(digits) and sum(max(places) for places in zip(*filter(None, digits), strict=True)) <= MAX_DIGITS
    same = len(kinds) == 1 and is_transitive(next(iter(kinds)))
    return frozenset(condition[1]) if exact or same else None


def _is_column(expr: Expr, own: set[int]) -> bool:
    while expr[0] == "cast":
        expr = expr[2]
    return expr[0] == "column" and expr[1] in own


def _is_reflexive(condition: Expr, known: frozenset[Expr]) -> bool:
    """Whether a condition is `x = x` for a column that is not NULL, as it equals another one."""
    return condition[0] == "=" and condition[1] <= known and len(condition[1]) == 1


def _not_null(condition: Expr) -> Expr:
    """`x = x` holds for the rows in which x is not NULL; other conditions as they are."""
    if condition[0] != "=" or len(condition[1]) != 1:
        return condition
    (operand,) = condition[1]
    return is_not_null(operand)


def _with_classes(expr: Any, made: Conditions) -> Any:
    """An expression in which members of an equality class are the class: comparisons with constants mean all members,
    other expressions those of the same type."""
    if isinstance(expr, frozenset):
        return frozenset(_with_classes(part, made) for part in expr)
    if not isinstance(expr, tuple) or not expr or expr[0] == "subquery":
        return expr
    if expr[0] in ("column", "cast") and len(same := made.same(expr)) > 1:
        return ("one of", same)
    if expr[0] == "column":
        return expr
    if expr[0] in ("=", "<", "<="):
        sides = expr[1] if expr[0] == "=" else expr[1:]
        if any(not any(columns(side)) and not has_subquery(side) for side in sides):
            replaced = [_class_of(side, made) for side in sides]
            return ("=", frozenset(replaced)) if expr[0] == "=" else (expr[0], *replaced)
    return tuple(_with_classes(part, made) for part in expr)


def _class_of(side: Expr, made: Conditions) -> Any:
    members = next((members for members in made.classes if side in members), None)
    return ("one of", members) if members is not None else _with_classes(side, made)


def _copy_into(source: Source, conditions: Conditions) -> None:
    """Copy conditions that read this source alone to its inputs."""
    for condition in conditions.others:
        if has_subquery(condition):
            continue
        own = _over_source(condition, source.identity)
        if own is None:
            continue
        if source.kind in PUSHED_THROUGH and all(part[2][0] == PUSHED_THROUGH[source.kind] for part in columns(own)):
            source.inputs[0].block.conditions.add(substitute(own, lambda column: column[2][1]))
        elif source.kind == "union":
            for branch in source.inputs:
                branch.block.conditions.add(substitute(own, _output_of(branch)))


def _output_of(branch: Relation) -> Callable[[Expr], Expr]:
    """What a branch has in the place of a union's column."""
    return lambda column: branch.outputs[column[2][1]]


def _over_source(condition: Expr, identity: int) -> Any:
    """The condition over the columns of one source; None if it reads others, or no column."""
    are_own: list[bool] = []

    def own(expr: Any) -> Any:
        if isinstance(expr, frozenset):
            return frozenset(own(part) for part in expr)
        if not isinstance(expr, tuple) or not expr:
            return expr
        if expr[0] == "one of":
            members = [member for member in expr[1] if all(column[1] == identity for column in columns(member))]
            are_own.append(len(members) == 1)
            return members[0] if len(members) == 1 else expr
        if expr[0] == "column":
            are_own.append(expr[1] == identity)
            return expr
        return tuple(own(part) for part in expr)

    result = own(condition)
    return result if are_own and all(are_own) else None
