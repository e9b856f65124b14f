"""Expressions in normal form, as nested tuples that start with a tag.

Conditions are normalised by equivalences that hold under SQL's three-valued logic; where a condition filters rows, only
whether it is true matters.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import date
from decimal import Context, Decimal, InvalidOperation
from functools import reduce
from typing import Any

Expr = tuple[Any, ...]
"""A tag and its operands. `("column", source, key, type)`: a column of a block's source; `("literal", type, value)`;
`("and", set)`, `("or", set)`, `("not", operand)`; `("=", set)`, `("<", left, right)`, `("<=", left, right)`,
`("cast", type, operand, time zone)`; `("subquery", kind, relation)`;
`("coalesce", operands)`, `("struct", operands)`, `("call", kind, details, operands)`."""

INTEGERS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
"""Integer types, with the number of digits that hold all their values."""

EXACT = Context(prec=100)
"""More digits than any decimal of Spark has."""

TRANSITIVE = {*INTEGERS, "string", "date", "timestamp", "timestamp_ntz", "boolean"}
"""Types besides decimals of which equal values are the same value."""


def type_of(expr: Expr) -> str | None:
    """The type of a column, literal or cast; None for other expressions."""
    match expr:
        case ("column", _, _, kind) | ("literal", kind, _) | ("cast", kind, *_):
            return None if kind is None else str(kind)
    return None


def decimal_digits(kind: str | None) -> tuple[int, int] | None:
    """The digits before and after the point that a type of exact numbers has; None for other types."""
    if kind is None:
        return None
    if kind in INTEGERS:
        return INTEGERS[kind], 0
    if kind.startswith("decimal(") and kind.endswith(")"):
        precision, _, scale = kind[len("decimal(") : -1].partition(",")
        return int(precision) - int(scale), int(scale)
    return None


def is_number(kind: str | None) -> bool:
    """Whether a type is numeric."""
    return kind in ("float", "double") or decimal_digits(kind) is not None


def is_plain_date(text: Any) -> bool:
    """Whether a text is a date as Spark writes it, such as 2000-01-31."""
    try:
        return isinstance(text, str) and date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def comparable(expr: Expr) -> Expr:
    """An operand of a comparison without what comparisons do not depend on.

    That is casts between exact number types that keep every value, the types of such literals, and names of fields.
    """
    while expr[0] == "cast":
        given = type_of(expr[2])
        narrow = decimal_digits(given) if expr[1] in INTEGERS else _digits(expr[2])
        wide = decimal_digits(expr[1])
        if wide is None or narrow is None or wide[0] < narrow[0] or wide[1] < narrow[1]:
            break
        if expr[1] in INTEGERS and given not in INTEGERS and wide[0] == narrow[0]:
            # Not all numbers of so many digits are integers of that type.
            break
        expr = expr[2]
    if expr[0] == "call" and expr[1] == "CreateNamedStruct":
        # Structs are compared by the places of their fields.
        return ("struct", expr[3][1::2])
    return _number(expr)


def _digits(expr: Expr) -> tuple[int, int] | None:
    """The digits before and after the point: those that a literal has, or that an exact number type can have."""
    digits = decimal_digits(type_of(expr))
    if digits is None or expr[0] != "literal" or expr[2] is None:
        return digits
    try:
        _, written, exponent = EXACT.normalize(Decimal(expr[2])).as_tuple()
    except InvalidOperation:
        return digits
    before = len(written) + int(exponent) if any(written) else 0
    return max(before, 0), max(-int(exponent), 0)


def _number(expr: Expr) -> Expr:
    """A literal of an exact number type by its value alone."""
    if expr[0] == "literal" and decimal_digits(expr[1]) is not None and expr[2] is not None:
        try:
            return ("literal", "number", str(EXACT.normalize(Decimal(expr[2]))))
        except InvalidOperation:
            return expr
    return expr


def is_transitive(kind: str | None) -> bool:
    """Whether equal values of a type are the same value, so that one can stand for the other."""
    return kind in TRANSITIVE or (kind or "").startswith("decimal(")


TRUE: Expr = ("literal", "boolean", "true")
FALSE: Expr = ("literal", "boolean", "false")


def equal(left: Expr, right: Expr) -> Expr:
    """left = right"""
    sides = frozenset({comparable(left), comparable(right)})
    if all(side[0] == "literal" and side[1] in ("number", "string") and side[2] is not None for side in sides):
        return TRUE if len(sides) == 1 else FALSE
    return ("=", sides)


def less(left: Expr, right: Expr, or_equal: bool) -> Expr:
    """left < right, or left <= right"""
    return ("<=" if or_equal else "<", comparable(left), comparable(right))


def among(value: Expr, options: Iterable[Expr]) -> Expr:
    """value IN (options)"""
    value = comparable(value)
    return any_of(equal(value, option) for option in options)


def all_of(parts: Iterable[Expr]) -> Expr:
    """The conjunction of conditions."""
    return _joined("and", parts)


def any_of(parts: Iterable[Expr]) -> Expr:
    """The disjunction of conditions."""
    return _joined("or", parts)


def _joined(tag: str, parts: Iterable[Expr]) -> Expr:
    neutral, absorbing = (TRUE, FALSE) if tag == "and" else (FALSE, TRUE)
    flat = frozenset(part for outer in parts for part in (outer[1] if outer[0] == tag else (outer,))) - {neutral}
    if absorbing in flat:
        return absorbing
    if len(flat) < 2:
        return next(iter(flat), neutral)
    return (tag, flat)


def integer_sum(kind: str, left: Expr, right: Expr) -> Expr | None:
    """The sum, difference or product of two integer literals; None if they are anything else, or it overflows."""
    if left[0] != "literal" or right[0] != "literal" or left[1] != right[1] or left[1] not in ("integer", "long"):
        return None
    if left[2] is None or right[2] is None:
        return None
    one, other = int(left[2]), int(right[2])
    value = {"Add": one + other, "Subtract": one - other, "Multiply": one * other}[kind]
    return ("literal", left[1], str(value)) if fits(value, left[1]) else None


def number_literal(kind: str | None, operand: Expr) -> Expr | None:
    """CAST(operand AS kind), of an exact number literal, as the literal with a suffix that it stands for: 1.5D, 2L.

    None: the operand is anything else, or may have another value as such a literal.
    """
    if operand[0] != "literal" or operand[2] is None or decimal_digits(operand[1]) is None:
        return None
    if kind in ("float", "double"):
        return ("literal", kind, floating_text(operand[2]))
    if kind in INTEGERS and operand[1] in INTEGERS and fits(int(operand[2]), kind):
        return ("literal", kind, operand[2])
    return None


def minus(operand: Expr) -> Expr | None:
    """The literal that -operand is; None if the operand is no number literal, or that is out of range."""
    if operand[0] != "literal" or operand[2] is None:
        return None
    kind, value = operand[1], operand[2]
    if kind in ("float", "double"):
        return ("literal", kind, floating_text(value[1:] if value.startswith("-") else f"-{value}"))
    if kind in INTEGERS and fits(-int(value), kind):
        return ("literal", kind, str(-int(value)))
    return None


def floating_text(value: str) -> str:
    """A floating-point literal's value by its digits: those of Java and those of SQL differ in zeros and exponents."""
    try:
        return str(EXACT.normalize(Decimal(value)))
    except InvalidOperation:
        return value


BYTES = {"byte": 1, "short": 2, "integer": 4, "long": 8}
"""The sizes of integer types."""


def fits(value: int, kind: str) -> bool:
    """Whether an integer type has a value."""
    limit = 1 << (8 * BYTES[kind] - 1)
    return -limit <= value < limit


def negated(expr: Expr) -> Expr:
    """NOT expr, with the negation moved inwards."""
    match expr:
        case ("and", parts):
            return any_of(negated(part) for part in parts)
        case ("or", parts):
            return all_of(negated(part) for part in parts)
        case ("not", operand):
            return tuple(operand)
        case ("<", left, right):
            return ("<=", right, left)
        case ("<=", left, right):
            return ("<", right, left)
    return ("not", expr)


def is_not_null(expr: Expr) -> Expr:
    """expr IS NOT NULL"""
    return negated(("call", "IsNull", (("child", 0),), (expr,)))


def conjuncts(expr: Expr) -> frozenset[Expr]:
    """The conjuncts of a condition; those that all arms of a disjunction share are factored out."""
    if expr == TRUE:
        return frozenset()
    if expr[0] == "and":
        return frozenset().union(*(conjuncts(part) for part in expr[1]))
    if expr[0] != "or":
        return frozenset({expr})
    arms = [conjuncts(arm) for arm in expr[1]]
    shared = reduce(frozenset.intersection, arms)
    rests = [arm - shared for arm in arms]
    if not all(rests):
        return shared
    return shared | {any_of(all_of(rest) for rest in rests)}


MAX_COMPARED = 250_000
"""How many pairs of conditions are compared with each other: each takes microseconds."""


def without_implied(conditions: Iterable[Expr]) -> frozenset[Expr]:
    """The conditions without those that another one implies; all of them if there are very many."""
    found = frozenset(conditions)
    weak = {one: _Disjunction(one) for one in found if one[0] == "or"}
    if len(weak) * len(found) > MAX_COMPARED:
        return found

    def implies(strong: Expr, one: Expr) -> bool:
        return one in weak and weak[one].is_implied_by(strong)

    return frozenset(
        one for one in found if not any(implies(other, one) and not implies(one, other) for other in found - {one})
    )


class _Disjunction:
    """A disjunction by its arms. `single`: those of one conjunct each, apart: a list of values has thousands."""

    def __init__(self, whole: Expr) -> None:
        arms = [conjuncts(arm) for arm in whole[1]]
        self.single = frozenset().union(*(arm for arm in arms if len(arm) == 1))
        self.longer = [arm for arm in arms if len(arm) > 1]

    def is_implied_by(self, strong: Expr) -> bool:
        return _all_imply(frozenset({strong}), self.single, self.longer)


def _all_imply(parts: frozenset[Expr], single: frozenset[Expr], longer: list[frozenset[Expr]]) -> bool:
    """Whether conjuncts imply one of the arms: they contain one, or hold a disjunction whose arms all imply one.

    `single`: the arms of one conjunct each, apart, as a list of values has thousands.
    """
    if parts & single or any(arm <= parts for arm in longer):
        return True
    disjunctions = [part for part in parts if part[0] == "or"]
    return any(all(_all_imply(conjuncts(arm), single, longer) for arm in part[1]) for part in disjunctions)


def columns(expr: Any) -> Iterator[Expr]:
    """The columns that an expression reads directly; a subquery's are `relation.free_columns()`."""
    if isinstance(expr, tuple):
        if expr and expr[0] == "column":
            yield expr
            return
        for part in expr:
            yield from columns(part)
    elif isinstance(expr, frozenset):
        for part in expr:
            yield from columns(part)
    elif hasattr(expr, "free_columns"):
        yield from expr.free_columns()


def is_constant(expr: Expr) -> bool:
    """Whether an expression reads no column, so that it has one value for all rows."""
    return next(columns(expr), None) is None


def compared(expr: Expr) -> tuple[Expr, ...]:
    """The sides of a comparison; nothing if it is none."""
    match expr:
        case ("=", sides) | ("call", "EqualNullSafe", _, sides):
            return tuple(sides)
        case ("<" | "<=", left, right):
            return left, right
    return ()


def subqueries(expr: Any) -> Iterator[Any]:
    """The relations of the subqueries in an expression."""
    if isinstance(expr, tuple | frozenset):
        for part in expr:
            yield from subqueries(part)
    elif hasattr(expr, "free_columns"):
        yield expr


def has_subquery(expr: Any) -> bool:
    """Whether an expression contains a subquery."""
    return next(subqueries(expr), None) is not None


def substitute(expr: Any, replacement: Callable[[Expr], Expr]) -> Any:
    """An expression without subqueries, with every column replaced."""
    if isinstance(expr, frozenset):
        return frozenset(substitute(part, replacement) for part in expr)
    if not isinstance(expr, tuple) or not expr:
        return expr
    match expr:
        case ("column", *_):
            return replacement(expr)
        case ("and", parts):
            return all_of(substitute(part, replacement) for part in parts)
        case ("or", parts):
            return any_of(substitute(part, replacement) for part in parts)
        case ("=", sides) if len(sides) == 2:
            left, right = (substitute(side, replacement) for side in sides)
            return equal(left, right)
        case ("<" | "<=" as tag, left, right):
            return less(substitute(left, replacement), substitute(right, replacement), tag == "<=")
        case ("not", operand):
            return negated(substitute(operand, replacement))
    return tuple(substitute(part, replacement) for part in expr)
