"""What expressions stand for, below the operators and functions that Spark's optimiser sees through."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from qoop.equivalence.expression import Expr, type_of
from qoop.equivalence.relation import Source

PASSING = {
    "CaseWhen", "CreateArray", "CreateMap", "CreateNamedStruct", "ElementAt", "Get", "GetArrayItem",
    "GetArrayStructFields", "GetMapValue", "GetStructField", "If",
}  # fmt: skip
"""Functions that return what they are given, or a part of it."""


def meanings(exprs: Iterable[Expr], sources: Mapping[int, Source]) -> Iterator[Expr]:
    """What expressions may stand for below groupings, joins, unions and functions that return a part of something."""
    pending, seen = [*exprs], set[int]()
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        # Expressions share their parts, and live as long as the query that they are of.
        seen.add(id(part))
        match part:
            case ("column", identity, tuple() as key, *_):
                pending += columns_below(sources.get(identity), key)
                continue
            case ("cast", kind, operand, _) if kind == "string" or type_of(operand) is None:
                pending.append(operand)
            case ("call", kind, details, operands) if kind in PASSING or (len(operands) == 1 and not details):
                # Without details it is what Spark replaces a function by, such as `nvl2` by IF.
                pending += operands
            case ("coalesce" | "struct", operands):
                pending += operands
        yield part


def columns_below(source: Source | None, key: tuple[Any, ...]) -> Iterable[Expr]:
    """What a column of an operator is made of."""
    match key:
        case ("place", int() as place):
            return [branch.outputs[place] for branch in source.inputs] if source is not None else []
        case ("expanded", exprs):
            return list(exprs)
    return [key[-1]]


def parts(expr: Any, sources: Mapping[int, Source] = MappingProxyType({})) -> Iterator[tuple[Any, ...]]:
    """The tuples in an expression, each once; of a column also those in what it stands for.

    `sources`: the operators below, among them unions, of whose columns the branches are not in the expression.
    """
    pending, seen = [expr], set[int]()
    while pending:
        part = pending.pop()
        if not isinstance(part, tuple | frozenset | list) or id(part) in seen:
            continue
        seen.add(id(part))
        pending += part
        if isinstance(part, tuple):
            yield part
            if part[:1] == ("column",) and part[2][:1] == ("place",):
                pending += columns_below(sources.get(part[1]), part[2])
