"""Where the values of a query depend on what Spark's optimiser sees of it.

Spark replaces some expressions of expressions by simpler ones that have other values now and then (`lower(upper(s))` by
`lower(s)`, which differ for `ß`), and takes what is equal for the same, which -0.0 and 0.0 are not. It does so within
one query, and not where a stage stores what is between.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from qoop.equivalence.expression import Expr, columns, compared, is_constant, is_number, type_of
from qoop.equivalence.loose import has_loose, is_floating, tells_apart
from qoop.equivalence.meanings import meanings, parts
from qoop.equivalence.relation import Relation, Source
from qoop.equivalence.simplified import simplification

GROUPING = {"aggregate", "Distinct", "Deduplicate", "intersect", "except"}
"""Operators that make one row of equal ones."""

ZERO = re.compile(r"-?[0.]+(E[+-]?\d+)?", re.IGNORECASE)
"""A zero of any type, as Spark writes it."""

IN_FILES = " in files"
"""The end of the name that a table of files has in the comparison of plans."""


def changed_by_optimiser(relation: Relation) -> str | None:
    """What in a query could have other values in one piece than in stages; None if nothing has."""
    relations = [*_relations(relation)]
    sources = {source.identity: source for one in relations for source in one.block.sources}
    sums = set[int]()
    for part in parts([one.expressions() for one in relations]):
        if (reason := simplification(part, sources, sums)) is not None:
            return reason
    conditions = [part for one in relations for part in _conditions(one)]
    alone = [*_alone(conditions, sources)]
    if _finds_zero(alone, sources):
        return "Spark may not find -0.0 in files by a comparison with zero"
    loose = {source.kind for source in sources.values() if has_loose(_keys(source), sources)}
    telling = any(tells_apart(one, sources) for one in alone) and (bool(loose) or _equals_loose(conditions, sources))
    if telling or (loose & GROUPING and any(tells_apart(_computed(one), sources) for one in relations)):
        return "an expression tells values apart that are equal (0.0 and -0.0, maps, or texts under a collation)"
    if any(map(_is_filter, sources.values())):
        return "Spark makes a filter of EXCEPT between the rows of the same tables"
    return None


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


def _conditions(relation: Relation) -> Iterator[Any]:
    """What rows of a relation must meet, one by one or joined."""
    block = relation.block
    yield from block.conditions
    for side in block.sides:
        yield from side.condition
    for source in block.sources:
        if source.kind == "FullOuter":
            yield from source.key[0]


def _alone(conditions: Iterable[Expr], sources: Mapping[int, Source]) -> Iterator[tuple[Any, ...]]:
    """The conditions that others are made of, whatever Spark may take them out of: AND, IF, columns, `= TRUE`.

    Not the equality that `<>` is the negation of, where it stands openly: by it readers leave out no rows.
    """
    pending, seen = [(condition, True) for condition in conditions], set[int]()
    while pending:
        condition, is_open = pending.pop()
        for meaning in meanings([condition], sources):
            if id(meaning) in seen:
                continue
            seen.add(id(meaning))
            yield meaning
            is_open = is_open and meaning is condition
            match meaning:
                case ("and" | "or", inner):
                    pending += [(part, is_open) for part in inner]
                case ("not", inner) if not (is_open and inner[0] == "="):
                    pending.append((inner, False))
            wrapped = [side for side in compared(meaning) if side[:2] != ("literal", "boolean")]
            if len(wrapped) < len(compared(meaning)):
                pending += [(side, False) for side in wrapped]


def _computed(relation: Relation) -> tuple[Any, ...]:
    """What is computed of rows, and what they are grouped and sorted by."""
    sources = relation.block.sources
    groups = [source.key for source in sources if source.kind == "aggregate"]
    orders = [value for source in sources if source.kind == "Sort" for name, value in source.key if name == "order"]
    return (relation.outputs, *(source.functions for source in sources), *groups, *orders)


def _keys(source: Source) -> tuple[Any, ...]:
    """What an operator finds equal rows by; nothing if it does not."""
    if source.kind not in GROUPING and source.kind != "Window":
        return ()
    return (source.key, *(inner.outputs for inner in source.inputs))


def _equals_loose(conditions: list[Expr], sources: Mapping[int, Source]) -> bool:
    """Whether a condition takes such values for equal."""
    equalities = (part for part in parts(conditions, sources) if part[:1] not in (("<",), ("<=",)))
    return any(has_loose(compared(part), sources) for part in equalities)


def _is_filter(source: Source) -> bool:
    """Whether Spark may take EXCEPT for a filter: it does so by the names of columns (ReplaceExceptWithFilter).

    Both sides must read the same, but for what is empty.
    """
    if source.kind != "except" or source.key != (False,):
        return False
    left, right = map(_tables, source.inputs)
    return left <= right or right <= left


def _tables(relation: Relation) -> Counter[str]:
    """The tables that a relation reads, each as often as it is read."""
    read = [source for one in _relations(relation) for source in one.block.sources if source.kind == "table"]
    return Counter(str(source.key[0]) for source in read)


def _finds_zero(alone: list[tuple[Any, ...]], sources: Mapping[int, Source]) -> bool:
    """Whether a comparison takes -0.0 for 0.0, and Spark may give it to readers of files, which do not.

    It gives them those of the columns themselves, and of others that these must be equal to.
    """
    bound = _with_equal({column for part in alone for column in _bound(part)}, alone)
    found = [other for part in alone for other in _compared_with_zero(part, bound, sources)]
    if not any(has_loose(other, sources) for other in found):
        return False
    equal = [side for part in alone if part[:1] == ("=",) for side in compared(part)]
    return any(_is_floating_in_files(one, sources) for one in (*found, *equal))


def _bound(part: tuple[Any, ...]) -> Iterator[Expr]:
    """The columns that a condition equates with what may be zero; Spark puts that in their place in others."""
    sides = compared(part) if part[:1] == ("=",) else ()
    for constant, other in zip(sides, reversed(sides), strict=True):
        while other[0] == "cast" and is_number(other[1]):
            other = other[2]
        may_be_zero = constant[0] != "literal" or ZERO.fullmatch(str(constant[2])) is not None
        if other[0] == "column" and is_constant(constant) and may_be_zero:
            yield other


def _with_equal(bound: set[Expr], alone: list[tuple[Any, ...]]) -> frozenset[Expr]:
    """The columns, and those that conditions say to be equal to one of them."""
    pairs = [{*columns(part)} for part in alone if part[:1] == ("=",)]
    while bound and (more := {column for pair in pairs if pair & bound for column in pair - bound}):
        bound = bound | more
    return frozenset(bound)


def _compared_with_zero(part: tuple[Any, ...], bound: frozenset[Expr], sources: Mapping[int, Source]) -> Iterator[Expr]:
    """What a comparison compares with what may be a zero of the other sign. `bound`: columns that may be zero."""
    sides = compared(part)
    if len(sides) != 2 or part[0] == "<":
        return
    either = {"0", "-0"}
    wanted = ({"0"}, {"-0"}) if part[0] == "<=" else (either, either)
    for constant, other, zeros in zip(sides, reversed(sides), wanted, strict=True):
        own = frozenset(columns(constant))
        is_bound = bool(own) and own <= bound and not is_constant(other)
        if is_bound or any(_may_be(one, zeros) for one in meanings([constant], sources)):
            yield other


def _may_be(constant: Expr, values: set[str]) -> bool:
    """Whether an expression without columns may have one of these values."""
    if constant[0] == "literal":
        return constant[1] in ("float", "double") and constant[2] in values
    return is_constant(constant)


def _is_floating_in_files(expr: Expr, sources: Mapping[int, Source]) -> bool:
    """Whether an expression may stand for a floating-point column of a table of files, or for a field of one."""
    pending = [expr]
    for one in pending:
        for made in meanings([one], sources):
            if made[0] == "cast" and type_of(made[2]) is not None:
                pending.append(made[2])
            source = sources.get(made[1]) if made[0] == "column" and is_floating(made) else None
            if source is not None and source.kind == "table" and str(source.key[0]).endswith(IN_FILES):
                return True
    return False
