"""Conditions as conjuncts: taken apart, factored, and followed through equalities."""

from collections.abc import Iterator
from functools import reduce

from sqlglot import exp

from qoop.parsing.dialect import DIALECT


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """The parts that must all hold, with what all arms of an OR have in common taken out of it."""
    if condition is None:
        return []
    condition = _bare(condition)
    if isinstance(condition, exp.And):
        return [*conjuncts(condition.left), *conjuncts(condition.right)]
    if isinstance(condition, exp.Or):
        return _factored(condition)
    return [condition]


def alternatives(condition: exp.Expr) -> list[list[exp.Expr]]:
    """The arms of an OR, each as its conjuncts; empty when the condition is no OR."""
    condition = _bare(condition)
    return [conjuncts(arm) for arm in _arms(condition)] if isinstance(condition, exp.Or) else []


def all_of(parts: list[exp.Expr]) -> exp.Expr | None:
    """One condition from parts that must all hold."""
    return reduce(lambda a, b: exp.and_(a, b, copy=False), parts) if parts else None


def any_of(parts: list[exp.Expr]) -> exp.Expr:
    """One condition from parts of which one must hold."""
    return reduce(lambda a, b: exp.or_(a, b, copy=False), parts)


def _factored(condition: exp.Or) -> list[exp.Expr]:
    """(a AND b) OR (a AND c) is a AND (b OR c), also where something is NULL."""
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
