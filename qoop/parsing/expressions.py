"""Expressions: the columns that they read, and conditions as lists of conjuncts."""

from collections.abc import Iterator
from functools import reduce

from sqlglot import exp

from qoop.parsing.spark_sql import DIALECT
from qoop.plans.predicate import Column


def columns_of(node: exp.Expr, aliases: frozenset[str]) -> Iterator[exp.Column]:
    """The columns of these aliases that an expression reads; a subquery's own alias of the same name shadows them."""
    if isinstance(node, exp.Column):
        if node.table in aliases:
            yield node
        return
    if isinstance(node, exp.Select):
        aliases = aliases - aliases_defined_by(node)
    if aliases:
        for child in node.iter_expressions():
            yield from columns_of(child, aliases)


def columns_read_outside(rest: exp.Select, aliases: frozenset[str]) -> Iterator[exp.Column]:
    """The columns of these aliases that a SELECT still reads after their relations were extracted from it."""
    for part in rest.iter_expressions():
        yield from columns_of(part, aliases)


def aliases_defined_by(select: exp.Select) -> frozenset[str]:
    """The aliases that a SELECT defines itself."""
    clause = select.args.get("from_")
    found = [clause.this] if clause is not None else []
    found += [join.this for join in select.args.get("joins") or []]
    found += select.args.get("laterals") or []
    return frozenset(node.alias_or_name for node in found)


def as_column(node: exp.Column) -> Column:
    """The planner's name of a column."""
    return Column(node.table, node.name)


def with_output_names(node: exp.Expr, aliases: frozenset[str]) -> exp.Expr:
    """A copy in which each column of these aliases has its output name."""
    holder = exp.Paren(this=node.copy())
    for column in list(columns_of(holder, aliases)):
        column.replace(exp.column(exp.to_identifier(as_column(column).output, quoted=True)))
    result: exp.Expr = holder.this
    return result


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """The conjuncts of a condition, with the conjuncts that all arms of an OR share factored out."""
    if condition is None:
        return []
    condition = _bare(condition)
    if isinstance(condition, exp.And):
        return [*conjuncts(condition.left), *conjuncts(condition.right)]
    if isinstance(condition, exp.Or):
        return _factored(condition)
    return [condition]


def alternatives(condition: exp.Expr) -> list[list[exp.Expr]]:
    """The arms of an OR, each as its conjuncts; empty if the condition is not an OR."""
    condition = _bare(condition)
    return [conjuncts(arm) for arm in _arms(condition)] if isinstance(condition, exp.Or) else []


def all_of(parts: list[exp.Expr]) -> exp.Expr | None:
    """The conjunction of these conditions; None if there are none."""
    return reduce(lambda a, b: exp.and_(a, b, copy=False), parts) if parts else None


def any_of(parts: list[exp.Expr]) -> exp.Expr:
    """The disjunction of these conditions."""
    return reduce(lambda a, b: exp.or_(a, b, copy=False), parts)


def _factored(condition: exp.Or) -> list[exp.Expr]:
    """(a AND b) OR (a AND c) is a AND (b OR c), with NULLs too."""
    arms = [{part.sql(DIALECT): part for part in conjuncts(arm)} for arm in _arms(condition)]
    common = [text for text in arms[0] if all(text in arm for arm in arms)]
    if not common:
        return [condition]
    rests = [[part for text, part in arm.items() if text not in common] for arm in arms]
    taken = [arms[0][text] for text in common]
    if not all(rests):
        return taken
    remaining = [rest_condition for rest in rests if (rest_condition := all_of(rest)) is not None]
    return [*taken, any_of(remaining)]


def _arms(condition: exp.Expr) -> Iterator[exp.Expr]:
    condition = _bare(condition)
    if isinstance(condition, exp.Or):
        yield from _arms(condition.left)
        yield from _arms(condition.right)
    else:
        yield condition


def _bare(condition: exp.Expr) -> exp.Expr:
    while isinstance(condition, exp.Paren):
        condition = condition.this
    return condition
