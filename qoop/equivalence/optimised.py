"""Where the values of a query depend on what Spark's optimiser sees of it.

Spark replaces some expressions of expressions by simpler ones that have other values now and then (`lower(upper(s))` by
`lower(s)`, which differ for `ß`), and takes what is equal for the same, which -0.0 and 0.0, or `A` and `a` under a
collation, are not: it moves filters below groupings, copies them from one side of a join to the other, and leaves out
groupings of groups. It does so within one query, and not where a stage stores what is between.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from qoop.equivalence.exact import COLLATED
from qoop.equivalence.expression import INTEGERS, Expr, columns, integer_sum, type_of
from qoop.equivalence.relation import Relation, Source

REPLACED = {
    "Lower": {"Upper"},
    "Upper": {"Lower"},
    "ILike": {"Upper"},
    "GetMapValue": {"CreateMap"},
    "GetTimestamp": {"DateFormatClass"},
    "DateFormatClass": {"GetTimestamp", "ParseToTimestamp"},
}
"""Functions that Spark takes to undo others, by class; ILIKE compares in lower case.

The rules are SimplifyCaseConversionExpressions, SimplifyExtractValueOps and SimplifyDateTimeConversions.
"""

REORDERED = {"Add": "Add", "TryAdd": "Add", "Multiply": "Multiply", "TryMultiply": "Multiply"}
"""Functions of which Spark puts the constants together (ReorderAssociativeOperator), by class: what they compute."""

TIMES = {"timestamp", "timestamp_ntz"}

FIXED_ZONE = re.compile(r"(Etc/)?(UTC|GMT|Z|UCT|Zulu)?([+-]\d{1,2}(:\d\d)*)?")
"""Time zones whose clocks are never changed."""

COARSE = {
    "Abs", "Add", "CaseWhen", "Ceil", "Contains", "CreateNamedStruct", "Divide", "EndsWith", "EqualNullSafe", "Floor",
    "GetArrayItem", "GetStructField", "Greatest", "If", "In", "InSet", "InSubquery", "IsNaN", "IsNull", "Least", "Like",
    "Multiply", "Pmod", "Remainder", "Round", "Sqrt", "StartsWith", "StringRPad", "Subtract", "UnaryMinus",
    "AggregateExpression", "Average", "Count", "Max", "Min", "Sum",
    "DenseRank", "Rank", "RowNumber", "SortOrder", "SpecifiedWindowFrame", "WindowExpression", "WindowSpecDefinition",
}  # fmt: skip
"""Functions that have equal results for values that are equal."""

PADDING = ("functionName", "readSidePadding")
"""What calls have by which Spark pads values of CHAR."""

PASSING = {
    "CaseWhen", "CreateArray", "CreateMap", "CreateNamedStruct", "ElementAt", "GetArrayItem", "GetMapValue",
    "GetStructField", "If",
}  # fmt: skip
"""Functions that return what they are given, or a part of it: Spark sees through them."""

OPAQUE = {"PythonUDF", "ScalaUDF", "VariantGet"}
"""Functions that may return floating-point numbers whatever they are given."""

NUMBERS = {*INTEGERS, "float", "double", "boolean"}
"""Types to which a cast has equal results for values that are equal; decimals are others."""

FLOATS = re.compile(r"\b(float|double)\b")
"""A floating-point type, or one with a part that is."""

GROUPING = {"aggregate", "Distinct", "Deduplicate", "intersect", "except"}
"""Operators that make one row of equal ones."""

IN_FILES = " in files"
"""What the names of tables end with that are files."""


def changed_by_optimiser(relation: Relation) -> str | None:
    """What in a query could have other values in one piece than in stages; None if nothing has."""
    relations = [*_relations(relation)]
    sources = {source.identity: source for one in relations for source in one.block.sources}
    parts = [*_parts([one.expressions() for one in relations])]
    if any(_is_replaced(part, sources) for part in parts):
        return "Spark simplifies a function of another one's result, with other values now and then"
    if any(_is_reordered(part, sources) for part in parts):
        return "Spark puts constants together that a query adds or multiplies, where one of the results may overflow"
    if any(_compares_clocks(part, sources) for part in parts):
        return "Spark compares timestamps with those without a time zone as if no clock was ever changed"
    conditions = [part for one in relations for part in _conditions(one)]
    if any(_finds_zero(part, sources) for part in _parts(conditions)):
        return "Spark may not find -0.0 in files by a comparison with zero"
    loose = {source.kind for source in sources.values() if _has_loose(_keys(source))}
    found = any(map(_tells_apart, conditions)) and (bool(loose) or any(map(_equals, conditions)))
    if found or (loose & GROUPING and any(map(_tells_apart, map(_computed, relations)))):
        return "an expression tells values apart that are equal (0.0 and -0.0, or texts under a collation)"
    if any(map(_is_filter, sources.values())):
        return "Spark makes a filter of EXCEPT between the rows of the same tables"
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


def _computed(relation: Relation) -> tuple[Any, ...]:
    """What is computed of rows, and what they are grouped by."""
    groups = [source.key for source in relation.block.sources if source.kind == "aggregate"]
    return (relation.outputs, *(source.functions for source in relation.block.sources), *groups)


def _keys(source: Source) -> tuple[Any, ...]:
    """What an operator finds equal rows by; nothing if it does not."""
    if source.kind not in GROUPING and source.kind != "Window":
        return ()
    return (source.key, *(inner.outputs for inner in source.inputs))


def _is_filter(source: Source) -> bool:
    """Whether Spark may take EXCEPT for a filter: it does so by the names of columns (ReplaceExceptWithFilter)."""
    return source.kind == "except" and source.key == (False,) and len({*map(_tables, source.inputs)}) == 1


def _tables(relation: Relation) -> tuple[str, ...]:
    """The tables that a relation reads, each as often as it is read."""
    read = [source for one in _relations(relation) for source in one.block.sources if source.kind == "table"]
    return tuple(sorted(str(source.key[0]) for source in read))


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
    """Whether Spark replaces an expression, if it sees what its operands are."""
    if part[:1] == ("call",) and part[1] in REPLACED:
        return any(made[:1] == ("call",) and made[1] in REPLACED[part[1]] for made in _meanings(part[3], sources))
    if part[:2] == ("cast", "double"):
        return any(map(_is_rounded, _meanings([part[2]], sources)))
    return False


def _is_rounded(expr: Expr) -> bool:
    """Whether an expression is an integer as a FLOAT, which Spark takes for a number without loss."""
    return expr[:2] == ("cast", "float") and type_of(expr[2]) in (None, "integer", "long")


def _is_reordered(part: tuple[Any, ...], sources: dict[int, Source]) -> bool:
    """Whether a sum has a constant and a sum with a constant, and it matters in which order they are added.

    So it is if one of the sums may be NULL for being too large, or the constants by themselves are.
    """
    constant, others, tried = _sum(part)
    if constant is None:
        return False
    for made in _meanings(others, sources):
        if made[:1] == ("call",) and REORDERED.get(made[1]) == REORDERED[part[1]]:
            other, _, also_tried = _sum(made)
            overflows = other is not None and integer_sum(REORDERED[part[1]], constant, other) is None
            if other is not None and (tried or also_tried or (overflows and constant[0] == other[0] == "literal")):
                return True
    return False


def _sum(expr: Any) -> tuple[Expr | None, tuple[Expr, ...], bool]:
    """A constant that an expression adds, if it is a sum, or multiplies; what it adds it to; whether it may fail."""
    tried = False
    while expr[:1] == ("call",) and expr[1] in REORDERED and len(expr[3]) == 1:
        expr, tried = expr[3][0], True
    if expr[:1] != ("call",) or expr[1] not in REORDERED:
        return None, (), tried
    constant = next((one for one in expr[3] if _is_constant(one)), None)
    return constant, tuple(one for one in expr[3] if one is not constant), tried


def _is_constant(expr: Expr) -> bool:
    """Whether an expression has one value for all rows; that of a subquery is known only as the query runs."""
    return next(columns(expr), None) is None


def _compares_clocks(part: tuple[Any, ...], sources: dict[int, Source]) -> bool:
    """Whether a timestamp is compared with one without a time zone, in a zone where some hours occur twice or never."""
    return any(
        one[:1] == ("cast",)
        and one[1] in TIMES
        and type_of(one[2]) in (None, *(TIMES - {one[1]}))
        and FIXED_ZONE.fullmatch(one[3] or "") is None
        for one in _meanings([side for pair in _compared(part) for side in pair], sources)
    )


def _compared(part: tuple[Any, ...]) -> Iterator[tuple[Expr, Expr]]:
    """The two sides of a comparison, the other way round too."""
    match part:
        case ("=", sides) | ("call", "EqualNullSafe", _, sides) if len(sides) == 2:
            left, right = sides
            yield left, right
            yield right, left
        case ("<" | "<=", left, right):
            yield left, right
            yield right, left


def _meanings(exprs: Iterable[Expr], sources: dict[int, Source]) -> Iterator[Expr]:
    """What expressions may stand for below groupings, joins, unions and functions that return a part of something."""
    pending = [*exprs]
    while pending:
        one = pending.pop()
        match one:
            case ("column", identity, tuple() as key, *_):
                source = sources.get(identity)
                if key[0] == "place":
                    pending += [branch.outputs[key[1]] for branch in source.inputs] if source is not None else []
                elif key[0] == "expanded":
                    pending += key[1]
                else:
                    pending.append(key[-1])
                continue
            case ("cast", kind, operand, _) if kind == "string" or type_of(operand) is None:
                pending.append(operand)
            case ("call", kind, _, operands) if kind in PASSING:
                pending += operands
            case ("coalesce" | "struct", operands):
                pending += operands
        yield one


def _is_loose(part: tuple[Any, ...]) -> bool:
    """Whether an expression has values that are equal and not the same."""
    if part[:1] == ("call",) and (part[1] == "Collate" or part[1] in OPAQUE):
        return True
    kind = type_of(part) if part[:1] in (("column",), ("cast",), ("literal",)) else None
    return kind is not None and (FLOATS.search(kind) is not None or any(mark in kind for mark in COLLATED))


def _equals(condition: Expr) -> bool:
    """Whether a condition takes such expressions for equal."""
    for part in _parts(condition):
        sides = part[1] if part[:1] == ("=",) else part[3] if part[:2] == ("call", "EqualNullSafe") else ()
        if _has_loose(sides):
            return True
    return False


def _has_loose(expr: Any) -> bool:
    """Whether such expressions are in an expression, but for those that it casts to others, or compares."""
    if not isinstance(expr, tuple | frozenset):
        return False
    if isinstance(expr, tuple) and expr:
        if _is_loose(expr) or expr[0] in ("column", "literal", "cast"):
            return _is_loose(expr)
        if expr[0] in ("and", "or", "not", "=", "<", "<="):
            return False
        if expr[0] == "subquery":
            return any(map(_has_loose, expr[2].outputs))
    return any(map(_has_loose, expr))


def _finds_zero(part: tuple[Any, ...], sources: dict[int, Source]) -> bool:
    """Whether a comparison takes -0.0 for 0.0, and Spark may give it to readers of files, which do not."""
    for place, (constant, other) in enumerate(_compared(part)):
        zeros = {"0", "-0"}
        if part[0] == "<":
            continue
        if part[0] == "<=":
            zeros = {"-0"} if place else {"0"}
        if _may_be(constant, zeros) and _is_floating_in_files(other, sources):
            return True
    return False


def _may_be(constant: Expr, values: set[str]) -> bool:
    """Whether an expression without columns may have one of these values."""
    if constant[0] == "literal":
        return constant[1] in ("float", "double") and constant[2] in values
    return _is_constant(constant)


def _is_floating_in_files(expr: Expr, sources: dict[int, Source]) -> bool:
    """Whether an expression may stand for a floating-point column of a table of files, or for a field of one."""
    pending: list[Expr] = [expr]
    for one in pending:
        for made in _meanings([one], sources):
            if made[0] == "cast" and type_of(made[2]) is not None:
                pending.append(made[2])
            if made[0] == "column" and FLOATS.search(type_of(made) or "") and _is_in_files(sources.get(made[1])):
                return True
    return False


def _is_in_files(source: Source | None) -> bool:
    """Whether a source is a table of files."""
    return source is not None and source.kind == "table" and str(source.key[0]).endswith(IN_FILES)


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
