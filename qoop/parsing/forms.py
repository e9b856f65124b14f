"""Translate conditions into the predicate forms that the estimator reads."""

from datetime import date, timedelta

from sqlglot import exp

from qoop.parsing.expressions import as_column
from qoop.plans.predicate import (
    AllOf,
    AnyOf,
    Column,
    Compare,
    CompareColumns,
    Form,
    InList,
    IsNull,
    Like,
    Literal,
    Not,
    Opaque,
)

OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def predicate_form(node: exp.Expr) -> Form:
    """The form of a condition; Opaque if only Spark can evaluate it."""
    match node:
        case exp.Paren():
            return predicate_form(node.this)
        case exp.And():
            return AllOf((predicate_form(node.left), predicate_form(node.right)))
        case exp.Or():
            return AnyOf((predicate_form(node.left), predicate_form(node.right)))
        case exp.Not():
            return _negated(predicate_form(node.this))
        case exp.Between():
            low = _compare(node.this, ">=", node.args["low"])
            return AllOf((low, _compare(node.this, "<=", node.args["high"])))
        case exp.In() if not node.args.get("query"):
            return _among(node)
        case exp.Like() if isinstance(node.this, exp.Column):
            pattern = value_of(node.expression)
            return Like(as_column(node.this), pattern) if isinstance(pattern, str) else Opaque()
        case exp.Is() if isinstance(node.expression, exp.Null) and isinstance(node.this, exp.Column):
            return IsNull(as_column(node.this))
    operator = OPERATORS.get(type(node))
    return _compare(node.this, operator, node.expression) if operator else Opaque()


def value_of(node: exp.Expr) -> Literal | None:
    """The value of a constant expression; None if it is not constant, or NULL."""
    match node:
        case exp.Paren():
            return value_of(node.this)
        case exp.Literal():
            return _literal(node)
        case exp.Boolean():
            return bool(node.this)
        case exp.Neg():
            value = value_of(node.this)
            return -value if isinstance(value, int | float) else None
        case exp.Cast():
            return value_of(node.this)
        case exp.Add() | exp.Sub() | exp.Mul():
            return _arithmetic(node)
        case exp.DateAdd() | exp.TsOrDsAdd() | exp.DateSub():
            return _shifted(node)
    return None


def _literal(node: exp.Literal) -> Literal:
    if node.is_string:
        return str(node.this)
    text = str(node.this)
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _arithmetic(node: exp.Binary) -> Literal | None:
    left = value_of(node.left)
    if isinstance(node.right, exp.Interval) and isinstance(left, str):
        return _shift_date(left, node.right, -1 if isinstance(node, exp.Sub) else 1)
    right = value_of(node.right)
    if isinstance(left, str) and isinstance(right, int):
        return _shift_days(left, -right if isinstance(node, exp.Sub) else right)
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return None
    if isinstance(node, exp.Add):
        return left + right
    return left - right if isinstance(node, exp.Sub) else left * right


def _shifted(node: exp.Expr) -> Literal | None:
    start, amount = value_of(node.this), value_of(node.expression)
    unit = str(node.args.get("unit") or "day").lower()
    if isinstance(start, str) and isinstance(amount, int) and unit.startswith("day"):
        return _shift_days(start, -amount if isinstance(node, exp.DateSub) else amount)
    return None


def _shift_date(text: str, interval: exp.Interval, sign: int) -> str | None:
    amount = value_of(interval.this) if interval.this is not None else None
    if isinstance(amount, str) and amount.lstrip("-").isdigit():
        amount = int(amount)
    if not isinstance(amount, int) or not str(interval.unit or "").lower().startswith("day"):
        return None
    return _shift_days(text, sign * amount)


def _shift_days(text: str, days: int) -> str | None:
    try:
        return (date.fromisoformat(text[:10]) + timedelta(days=days)).isoformat()
    except (ValueError, OverflowError):
        return None


def _compare(left: exp.Expr, operator: str, right: exp.Expr) -> Form:
    if not isinstance(left, exp.Column) and isinstance(right, exp.Column):
        left, operator, right = right, MIRRORED[operator], left
    left_column, left_offset = _shifted_column(left)
    right_column, right_offset = _shifted_column(right)
    if left_column and right_column:
        return CompareColumns(left_column, operator, right_column, right_offset - left_offset)
    value = value_of(right)
    if isinstance(left, exp.Column) and value is not None:
        return Compare(as_column(left), operator, value)
    return Opaque()


def _shifted_column(node: exp.Expr) -> tuple[Column | None, float]:
    """Split `column + 5` into column and offset."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Column):
        return as_column(node), 0.0
    if isinstance(node, exp.Add | exp.Sub) and isinstance(node.left, exp.Column):
        offset = value_of(node.right)
        if isinstance(offset, int | float):
            return as_column(node.left), -offset if isinstance(node, exp.Sub) else offset
    return None, 0.0


def _among(node: exp.In) -> Form:
    values = [value_of(value) for value in node.expressions]
    if not isinstance(node.this, exp.Column) or any(value is None for value in values):
        return Opaque()
    return InList(as_column(node.this), tuple(value for value in values if value is not None))


def _negated(form: Form) -> Form:
    return Opaque() if isinstance(form, Opaque) else Not(form)
