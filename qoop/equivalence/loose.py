"""Values that are equal and not the same: 0.0 and -0.0, texts under a collation, and maps in another order.

Spark takes one for the other: it moves filters below groupings, copies them from one side of a join to the other, and
leaves out groupings of groups. Within one query that is, and not where a stage stores what is between.
"""

import re
from collections.abc import Mapping
from typing import Any

from qoop.equivalence.exact import COLLATED
from qoop.equivalence.expression import INTEGERS, Expr, type_of
from qoop.equivalence.meanings import columns_below, meanings, parts
from qoop.equivalence.relation import Source

COARSE = {
    "Abs", "Add", "CaseWhen", "Ceil", "CreateNamedStruct", "Divide", "EqualNullSafe", "Exp", "Floor", "GetArrayItem",
    "GetStructField", "Greatest", "If", "In", "InSet", "InSubquery", "IsNaN", "IsNull", "Least", "Log", "Log10",
    "Log1p", "Log2", "Multiply", "Pmod", "Remainder", "Round", "Sqrt", "Subtract", "UnaryMinus",
    "AggregateExpression", "AnyValue", "Average", "Corr", "Count", "CovPopulation", "CovSample", "First", "Last", "Max",
    "MaxBy", "Min", "MinBy", "StddevPop", "StddevSamp", "Sum", "VariancePop", "VarianceSamp",
    "DenseRank", "Lag", "Lead", "Rank", "RowNumber", "SortOrder", "SpecifiedWindowFrame", "WindowExpression",
    "WindowSpecDefinition",
}  # fmt: skip
"""Functions that have equal results for values that are equal."""

PADDING = ("functionName", "readSidePadding")
"""What calls have by which Spark pads values of CHAR."""

OPAQUE = {
    "AvroDataToCatalyst", "CsvToStructs", "FromAvro", "FromProtobuf", "JsonToStructs", "ProtobufDataToCatalyst",
    "PythonUDF", "ScalaUDF", "VariantGet", "XPathDouble", "XPathFloat", "XmlToStructs",
}  # fmt: skip
"""Functions that may return floating-point numbers whatever they are given."""

MAPS = {
    "CreateMap", "MapConcat", "MapFilter", "MapFromArrays", "MapFromEntries", "MapZipWith", "StringToMap",
    "TransformKeys", "TransformValues",
}  # fmt: skip
"""Functions that make maps."""

DOUBLES = {
    "Average", "CumeDist", "KllSketchGetQuantileDouble", "KllSketchGetQuantileFloat", "KllSketchGetRankBigint",
    "KllSketchGetRankDouble", "KllSketchGetRankFloat", "Median", "MonthsBetween", "PercentRank", "Percentile",
    "PercentileCont",
}  # fmt: skip
"""Functions that return floating-point numbers and need not be given any."""

AGGREGATE = ("call", "AggregateExpression")

NUMBERS = {*INTEGERS, "float", "double", "boolean"}
"""Types to which a cast has equal results for values that are equal; decimals are others."""

FLOATS = re.compile(r"\b(float|double)\b")
"""A floating-point type, or one with a part that is."""

LOOSE = re.compile(r"\b(float|double|map)\b")
"""The same, or a map, of which those with their entries in another order are equal as keys of groupings."""


def is_floating(expr: Expr) -> bool:
    """Whether the type of an expression is known to be floating-point, or to have a part that is."""
    return FLOATS.search(type_of(expr) or "") is not None


def is_collated(expr: Expr) -> bool:
    """Whether an expression is made of texts under a collation."""
    return any(part[:2] == ("call", "Collate") or _has_collation(type_of(part) or "") for part in parts((expr,)))


def _has_collation(kind: str) -> bool:
    """Whether a type is that of texts under a collation, or has a part that is."""
    return any(mark in kind for mark in COLLATED)


def has_loose(expr: Any, sources: Mapping[int, Source]) -> bool:
    """Whether an expression has such values, but for those that it casts to others, or compares."""
    if isinstance(expr, tuple) and expr:
        if _is_loose(expr) or expr[0] in ("and", "or", "not", "=", "<", "<=", "literal", "cast"):
            return _is_loose(expr)
        if expr[0] == "column":
            # Spark does not write the types of what operators compute.
            below = () if type_of(expr) is not None else meanings([expr], sources)
            return any(has_loose(one, sources) for one in below if one[0] != "column" or type_of(one) is not None)
        if expr[0] == "subquery":
            return any(has_loose(one, sources) for one in expr[2].outputs)
    return isinstance(expr, tuple | frozenset) and any(has_loose(part, sources) for part in expr)


def _is_loose(part: tuple[Any, ...]) -> bool:
    if part[:1] == ("call",):
        return part[1] in {"Collate", *MAPS, *DOUBLES} or (part[1] in OPAQUE and _is_loose_type(_declared(part)))
    if part[:1] not in (("column",), ("cast",), ("literal",)):
        return False
    return _is_loose_type(type_of(part) or "")


def _is_loose_type(kind: str | None) -> bool:
    """Whether values of a type may be equal and not the same; also if the type is not known."""
    return kind is None or LOOSE.search(kind) is not None or _has_collation(kind)


def _declared(call: tuple[Any, ...]) -> str | None:
    """The type that a function of the user's returns; None of others, for which it is not written."""
    return next((str(value) for name, value in call[2] if name == "dataType"), None)


def tells_apart(expr: Any, sources: Mapping[int, Source]) -> bool:
    """Whether an expression, or what its columns stand for, may differ for values that are equal."""
    pending, seen = [expr], set[int]()
    while pending:
        part = pending.pop()
        if not isinstance(part, tuple | frozenset) or id(part) in seen:
            continue
        seen.add(id(part))
        match part:
            case ("column", identity, tuple() as key, *_) if not _is_evaluated(key):
                pending += columns_below(sources.get(identity), key)
            case ("column" | "literal", *_):
                continue
            case ("call", kind, details, operands) if kind in COARSE or PADDING in details:
                pending += operands
            case ("call", "StringRPad", _, (text, length, ("literal", _, " "))):
                pending += (text, length)
            case ("cast", kind, operand, _) if kind in NUMBERS or kind.startswith("decimal"):
                if is_collated(operand):
                    return True
                pending.append(operand)
            case ("and" | "or" | "not" | "=" | "<" | "<=" | "coalesce" | "struct", *operands):
                pending += operands
            case (str(), *_):
                if any(map(_is_loose, parts(part))):
                    return True
            case _:
                pending += part
    return False


def _is_evaluated(key: tuple[Any, ...]) -> bool:
    """Whether a column is what aggregates or window functions make of many rows, below which no filter is moved."""
    return key[0] == "window" or (key[0] == "result" and any(part[:2] == AGGREGATE for part in parts(key)))
