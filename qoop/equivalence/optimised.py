"""Where the values of a query depend on what Spark's optimiser sees of it.

Spark replaces some expressions of expressions by simpler ones that have other values now and then (`lower(upper(s))` by
`lower(s)`, which differ for `ß`), and takes what is equal for the same, which -0.0 and 0.0, or `A` and `a` under a
collation, are not: it moves filters below groupings and copies them from one side of a join to the other. It does so
within one query, and not where a stage stores what is between. Neither answer is wrong, but they are different.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from qoop.equivalence.exact import COLLATED
from qoop.equivalence.expression import INTEGERS, Expr, type_of
from qoop.equivalence.relation import Relation, Source

REPLACED = {
    "Lower": {"Upper"},
    "Upper": {"Lower"},
    "GetMapValue": {"CreateMap"},
    "GetTimestamp": {"DateFormatClass"},
    "DateFormatClass": {"GetTimestamp", "ParseToTimestamp"},
}
"""Functions that Spark takes to undo others, by class.

The rules are SimplifyCaseConversionExpressions, SimplifyExtractValueOps and SimplifyDateTimeConversions.
"""

COARSE = {
    "Abs", "Add", "CaseWhen", "Ceil", "Contains", "CreateNamedStruct", "Divide", "EndsWith", "EqualNullSafe", "Floor",
    "GetArrayItem", "GetStructField", "Greatest", "If", "In", "InSet", "InSubquery", "IsNaN", "IsNull", "Least", "Like",
    "Multiply", "Pmod", "Remainder", "Round", "Sqrt", "StartsWith", "StringRPad", "Subtract", "UnaryMinus",
}  # fmt: skip
"""Functions that have equal results for values that are equal."""

PADDING = ("functionName", "readSidePadding")
"""What calls have by which Spark pads values of CHAR."""

PASSING = {"CaseWhen", "CreateNamedStruct", "GetStructField", "If"}
"""Functions that return a part of what they are given, so that Spark may filter that in files instead."""

NUMBERS = {*INTEGERS, "float", "double", "boolean"}
"""Types to which a cast has equal results for values that are equal; decimals are others."""

GROUPING = {"aggregate", "Window", "Distinct", "Deduplicate", "intersect", "except"}
"""Operators that put equal rows together."""

IN_FILES = " in files"
"""What the names of tables end with that are files."""


def changed_by_optimiser(relation: Relation) -> str | None:
    """What in a query could have other values in one piece than in stages; None if nothing has."""
    relations = [*_relations(relation)]
    sources = {source.identity: source for one in relations for source in one.block.sources}
    if any(_is_replaced(part, sources) for part in _parts([one.expressions() for one in relations])):
        return "Spark simplifies a function of another one's result, with other values now and then"
    conditions = [part for one in relations for part in _conditions(one)]
    if any(_finds_zero(part, sources) for part in _parts(conditions)):
        return "Spark may not find -0.0 in files by a comparison with zero"
    keys = [part for source in sources.values() for part in _keys(source)]
    if any(map(_tells_apart, conditions)) and (any(map(_equals, conditions)) or any(map(_has_loose, keys))):
        return "a filter tells values apart that are equal (0.0 and -0.0, or texts under a collation)"
    return None


def _conditions(relation: Relation) -> Iterator[Any]:
    """What rows of a relation must meet, one by one or joined."""
    block = relation.block
    yield from block.conditions
    for side in block.sides:
        yield from side.condition
    for source in block.sources:
        if source.kind == "FullOuter":
            yield from source.key[0]


def _keys(source: Source) -> Iterator[Any]:
    """What an operator finds equal rows by."""
    if source.kind in GROUPING:
        yield source.key
        yield from (inner.outputs for inner in source.inputs)


def _relations(relation: Relation) -> Iterator[Relation]:
    """A relation, and those that it is made of."""
    pending, seen = [relation], set[int]()
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        for source in one.block.sources:
            pending += source.inputs
        pending += [side.relation for side in one.block.sides]
        pending += one.subqueries()


def _parts(expr: Any) -> Iterator[tuple[Any, ...]]:
    """The tuples in an expression, each once; of a column also those in what it stands for."""
    pending, seen = [expr], set[int]()
    while pending:
        part = pending.pop()
        if not isinstance(part, tuple | frozenset | list) or id(part) in seen:
            continue
        # Expressions share their parts, and live as long as this does.
        seen.add(id(part))
        pending += part
        if isinstance(part, tuple):
            yield part


def _is_replaced(part: tuple[Any, ...], sources: dict[int, Source]) -> bool:
    """Whether Spark replaces an expression, if it sees what its operand is."""
    if part[:1] == ("call",) and part[1] in REPLACED and part[3]:
        return any(made[:1] == ("call",) and made[1] in REPLACED[part[1]] for made in _meanings(part[3][0], sources))
    if part[:1] == ("cast",) and part[1] == "double":
        return any(map(_is_rounded, _meanings(part[2], sources)))
    return False


def _is_rounded(expr: Expr) -> bool:
    """Whether an expression is an integer as a FLOAT, which Spark takes for a number without loss."""
    return expr[:2] == ("cast", "float") and type_of(expr[2]) in (None, "integer", "long")


def _meanings(expr: Expr, sources: dict[int, Source]) -> Iterator[Expr]:
    """What an expression may stand for below groupings, joins and unions, without casts to text."""
    pending = [expr]
    while pending:
        one = pending.pop()
        if one[:1] == ("column",):
            source, key = sources.get(one[1]), one[2]
            if not isinstance(key, tuple):
                yield one
            elif key[0] == "place":
                pending += [branch.outputs[key[1]] for branch in source.inputs] if source is not None else []
            elif key[0] == "expanded":
                pending += key[1]
            else:
                pending.append(key[-1])
        elif one[:2] == ("cast", "string") or (one[:1] == ("cast",) and type_of(one[2]) is None and one[1] != "float"):
            pending.append(one[2])
        else:
            yield one


def _is_loose(part: tuple[Any, ...]) -> bool:
    """Whether an expression has values that are equal and not the same."""
    if part[:2] == ("call", "Collate"):
        return True
    kind = type_of(part) if part[:1] in (("column",), ("cast",), ("literal",)) else None
    return kind is not None and (kind in ("float", "double") or any(mark in kind for mark in COLLATED))


def _equals(condition: Expr) -> bool:
    """Whether a condition takes such expressions for equal."""
    for part in _parts(condition):
        sides = part[1] if part[:1] == ("=",) else part[3] if part[:2] == ("call", "EqualNullSafe") else ()
        if _has_loose(sides):
            return True
    return False


def _has_loose(expr: Any) -> bool:
    """Whether such expressions are in an expression, but for those that it casts to others."""
    if not isinstance(expr, tuple | frozenset):
        return False
    if isinstance(expr, tuple) and expr and (_is_loose(expr) or expr[0] in ("column", "literal", "cast")):
        return _is_loose(expr)
    return any(map(_has_loose, expr))


def _finds_zero(part: tuple[Any, ...], sources: dict[int, Source]) -> bool:
    """Whether a comparison takes -0.0 for 0.0, and Spark may give it to readers of files, which do not."""
    zeros = {"0", "-0"}
    sides: Iterable[Expr] = ()
    match part:
        case ("=", equal):
            sides = equal
        case ("call", "EqualNullSafe", _, operands):
            sides = operands
        case ("<=", ("literal", *_) as constant, other):
            zeros, sides = {"0"}, (constant, other)
        case ("<=", other, ("literal", *_) as constant):
            zeros, sides = {"-0"}, (constant, other)
    has_zero = any(side[:1] == ("literal",) and side[1] in ("float", "double") and side[2] in zeros for side in sides)
    return has_zero and any(_is_in_files(side, sources) for side in sides)


def _is_in_files(expr: Expr, sources: dict[int, Source]) -> bool:
    """Whether an expression may stand for a column of a table of files, or for a field of one."""
    pending: list[Expr] = [expr]
    while pending:
        for one in _meanings(pending.pop(), sources):
            match one:
                case ("column", identity, *_):
                    source = sources.get(identity)
                    if source is not None and source.kind == "table" and str(source.key[0]).endswith(IN_FILES):
                        return True
                case ("call", kind, _, operands) if kind in PASSING:
                    pending += operands
                case ("cast", _, operand, _):
                    pending.append(operand)
                case ("coalesce", operands):
                    pending += operands
    return False


def _tells_apart(expr: Any) -> bool:
    """Whether an expression may differ for values that are equal."""
    match expr:
        case ("column" | "literal", *_):
            return False
        case ("call", kind, details, operands) if kind in COARSE or PADDING in details:
            return any(map(_tells_apart, operands))
        case ("cast", kind, operand, _) if kind in NUMBERS or kind.startswith("decimal"):
            return _tells_apart(operand)
        case ("and" | "or" | "not" | "=" | "<" | "<=" | "coalesce" | "struct", *operands):
            return any(map(_tells_apart, operands))
        case (str(), *_):
            return any(map(_is_loose, _parts(expr)))
    return isinstance(expr, tuple | frozenset) and any(map(_tells_apart, expr))
