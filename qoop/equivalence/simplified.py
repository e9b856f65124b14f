"""Which expressions Spark's optimiser replaces by others that have another value now and then."""

import re
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from qoop.equivalence.expression import INTEGERS, Expr, compared, fits, is_constant, type_of
from qoop.equivalence.loose import OPAQUE, is_collated
from qoop.equivalence.meanings import meanings, parts
from qoop.equivalence.relation import Source

UNDONE = {
    "Lower": {"Upper"},
    "Upper": {"Lower"},
    "ILike": {"Upper"},
    "GetMapValue": {"CreateMap"},
    "Size": {"CreateMap"},
    "JsonToStructs": {"StructsToJson"},
    "GetStructField": {"JsonToStructs", "CsvToStructs"},
    "GetArrayStructFields": {"JsonToStructs"},
    "PythonUDF": {"PythonUDF"},
}
"""Functions that Spark takes to undo others, by class.

SimplifyCaseConversionExpressions, SimplifyExtractValueOps, OptimizeCsvJsonExprs. ILIKE compares in lower case. Of JSON
and CSV only the fields are read that are asked for, so another part that is malformed is not met. Of two functions of
the user's in Python, the inner one's result is given to the outer one as it is, not as one of the declared type.
"""

CONVERSIONS = {"DateFormatClass": "writes", "GetTimestamp": "reads", "ParseToTimestamp": "reads"}
"""Functions that write dates as texts, or read them, by class.

Of three in turn Spark leaves out two (SimplifyDateTimeConversions).
"""

REORDERED = {"Add": "Add", "TryAdd": "Add", "Multiply": "Multiply", "TryMultiply": "Multiply"}
"""Functions of which Spark puts the constants together (ReorderAssociativeOperator), by class: what they compute."""

FIXED_ZONE = re.compile(r"(Etc/)?(UTC|GMT|Z|UCT|Zulu)?([+-]\d{1,2}(:\d\d)*)?")
"""Time zones whose clocks are never changed."""


def simplification(part: tuple[Any, ...], sources: Mapping[int, Source], sums: set[int]) -> str | None:
    """How Spark replaces an expression, if it sees what its operands are; None if it does not, or nothing changes.

    `sums`: gets the numbers of the sums that are parts of others, which Spark takes together with those.
    """
    if _is_undone(part, sources) or _is_rounded(part, sources) or _joins_arrays_as_text(part, sources):
        return "Spark simplifies a function of another one's result, with other values now and then"
    if _is_reordered(part, sources, sums):
        return "Spark puts constants together that a query adds or multiplies, where one of the results may overflow"
    if part[:2] == ("call", "Like") and is_collated(part[3][0]):
        return "Spark compares texts under a collation with constant patterns in another way than with others"
    if _compares_clocks(part, sources):
        return "Spark compares timestamps with those without a time zone as if no clock was ever changed"
    return None


def _is_undone(part: tuple[Any, ...], sources: Mapping[int, Source]) -> bool:
    """Whether a function reverses another one's result, and Spark leaves out both."""
    if part[:1] != ("call",) or not part[3]:
        return False
    if part[1] in UNDONE:
        return any(made[:1] == ("call",) and made[1] in UNDONE[part[1]] for made in meanings(part[3], sources))
    return part[1] in CONVERSIONS and any(
        True for middle in _reversed(part, sources) for inner in _reversed(middle, sources)
    )


def _reversed(outer: Expr, sources: Mapping[int, Source]) -> Iterator[Expr]:
    """The functions that read what this one writes, or write what it reads, and give it to it."""
    for inner in meanings(outer[3][:1], sources):
        if inner[:1] == ("call",) and inner[1] in CONVERSIONS and CONVERSIONS[inner[1]] != CONVERSIONS[outer[1]]:
            yield inner


def _joins_arrays_as_text(part: tuple[Any, ...], sources: Mapping[int, Source]) -> bool:
    """Whether texts are put together of which one is made from arrays, or binary values, that are put together.

    Spark makes a text of each of them, and puts all together (CombineConcats).
    """
    if part[:2] != ("call", "Concat"):
        return False
    made = [one[2] for one in meanings(part[3], sources) if one[:2] == ("cast", "string")]
    return any(one[:2] == ("call", "Concat") for one in meanings(made, sources))


def _is_rounded(part: tuple[Any, ...], sources: Mapping[int, Source]) -> bool:
    """Whether an expression reads an integer as a DOUBLE that is a FLOAT, which Spark takes for one without loss."""
    return part[:2] == ("cast", "double") and any(
        made[:2] == ("cast", "float") and type_of(made[2]) in (None, "integer", "long")
        for made in meanings([part[2]], sources)
    )


def _is_reordered(part: tuple[Any, ...], sources: Mapping[int, Source], sums: set[int]) -> bool:
    """Whether a sum of sums has a constant, and it matters in which order it is added.

    So it does if one of the sums may be NULL for being too large, or the constants by themselves are too large.
    """
    if part[:1] != ("call",) or part[1] not in REORDERED or id(part) in sums:
        return False
    computes, count, tried, constants = REORDERED[part[1]], 0, False, list[Expr]()
    pending, seen = [part], set[int]()
    while pending:
        for summand in meanings([pending.pop()], sources):
            if id(summand) in seen:
                continue
            seen.add(id(summand))
            if summand[:1] == ("call",) and REORDERED.get(summand[1]) == computes:
                sums.add(id(summand))
                count += len(summand[3]) > 1
                tried = tried or summand[1] != computes
                pending += summand[3]
            elif is_constant(summand):
                constants.append(summand)
    return count > 1 and bool(constants) and (tried or _overflow(computes, constants))


def _overflow(computes: str, constants: list[Expr]) -> bool:
    """Whether integers, or some of them, are too large when they are added or multiplied."""
    known = [one for one in constants if one[0] == "literal" and one[1] in INTEGERS and one[2] is not None]
    values = [int(one[2]) for one in known]
    added = (sum(value for value in values if value > 0), sum(value for value in values if value < 0))
    largest = added if computes == "Add" else (prod(abs(value) for value in values if value),)
    return len(known) > 1 and not all(fits(value, known[0][1]) for value in largest)


def _compares_clocks(part: tuple[Any, ...], sources: Mapping[int, Source]) -> bool:
    """Whether a timestamp is compared with one without a time zone, in a zone where some hours occur twice or never."""
    return any(
        one[:1] == ("cast",) and _changes_clock(one[1], one[2]) and FIXED_ZONE.fullmatch(one[3] or "") is None
        for one in meanings(compared(part), sources)
    )


def _changes_clock(kind: str, operand: Expr) -> bool:
    """Whether a cast is from a timestamp to one without a time zone, or the reverse."""
    given = type_of(operand)
    if kind == "timestamp_ntz":
        return given in (None, "timestamp")
    if kind != "timestamp" or given is not None:
        return kind == "timestamp" and given == "timestamp_ntz"
    return any(
        type_of(one) == "timestamp_ntz" or (one[:1] == ("call",) and (one[1] in OPAQUE or "NTZ" in one[1]))
        for one in parts(operand)
    )
