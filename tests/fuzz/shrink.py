"""Shrink a failed case: leave out clauses, sources, tables' rows and settings while it still fails."""

import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from tests.fuzz.case import Case
from tests.fuzz.run import Lab
from tests.fuzz.schema import Table
from tests.fuzz.tree import Expr, Item, Join, Query, Select, SetOperation, joined, nodes

MAX_TRIES = 400


def shrink(lab: Lab, case: Case, max_tries: int = MAX_TRIES) -> Case:
    """A smaller case that fails too."""

    first = lab.expected(case)
    width = len(first.columns) if first is not None else 0

    def fails(smaller: Case) -> bool:
        expected = lab.expected(smaller)
        if expected is None or (smaller.query.order and len(expected.columns) != width):
            # Its order counts columns by their places, which are others now.
            return False
        return lab.compare(smaller, expected).difference is not None

    return shrunk(case, fails, max_tries)


def shrunk(case: Case, fails: Callable[[Case], bool], max_tries: int) -> Case:
    """The smallest case found that fails: the first reduction that still fails is taken, until none does."""
    tries = 0
    tried = {(case.text, case.settings, case.tables)}
    progress = True
    while progress:
        progress = False
        for smaller in reductions(case):
            key = (smaller.text, smaller.settings, smaller.tables)
            if key in tried:
                continue
            tried.add(key)
            tries += 1
            if tries > max_tries:
                return case
            if fails(smaller):
                case, progress = smaller, True
                break
    return case


def reductions(case: Case) -> Iterator[Case]:
    """Cases with one thing less: parts of the query first, then settings, then rows."""
    for query in _smaller(case.query):
        yield replace(case, query=query)
    for name in case.settings:
        yield replace(case, settings=tuple(other for other in case.settings if other != name))
    read = [table for table in case.tables if re.search(rf"\b{table.name}\b", case.text, re.IGNORECASE)]
    for table in read:
        for rows in _halves(table.rows):
            yield replace(case, tables=tuple(_with_rows(other, table, rows) for other in case.tables))


def _with_rows(table: Table, changed: Table, rows: tuple[tuple[str, ...], ...]) -> Table:
    return replace(table, rows=rows) if table is changed else table


def _halves(rows: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Half of them each, then all but one each."""
    if len(rows) > 3:
        half = len(rows) // 2
        yield rows[:half]
        yield rows[half:]
    for place in range(len(rows)):
        yield rows[:place] + rows[place + 1 :]


def _smaller(tree: Any) -> Iterator[Any]:
    """The trees with one part less, larger parts first."""
    if isinstance(tree, SetOperation):
        yield tree.left
        yield tree.right
    if isinstance(tree, Query):
        for inner in nodes(tree.body):
            if isinstance(inner, Query):
                yield Query(inner.body, tree.ctes)
        yield from _without_cte(tree)
        for part in ("order", "limit", "offset"):
            if getattr(tree, part) and part != "order":
                yield replace(tree, **{part: None})
        if tree.order and tree.limit is None:
            yield replace(tree, order=())
    if isinstance(tree, Select):
        yield from _smaller_select(tree)
    if isinstance(tree, Join) and len(tree.on) > 1:
        for place in range(len(tree.on)):
            yield replace(tree, on=_without(tree.on, place))
    if not is_dataclass(tree):
        return
    for field in fields(tree):
        value = getattr(tree, field.name)
        if is_dataclass(value):
            for smaller in _smaller(value):
                yield replace(tree, **{field.name: smaller})
        elif isinstance(value, tuple):
            for place, part in enumerate(value):
                for smaller in _smaller(part):
                    changed = (*value[:place], smaller, *value[place + 1 :])
                    yield replace(tree, **{field.name: changed})


def _without_cte(query: Query) -> Iterator[Query]:
    for place in range(len(query.ctes)):
        yield replace(query, ctes=_without(query.ctes, place))


def _smaller_select(select: Select) -> Iterator[Select]:
    for place in range(len(select.joins)):
        yield _without_source(select, place)
    for part in ("where", "having", "group"):
        parts = getattr(select, part)
        if parts:
            yield replace(select, **{part: ()})
        for place in range(len(parts) if len(parts) > 1 else 0):
            yield replace(select, **{part: _without(parts, place)})
    if len(select.items) > 1:
        for place in range(len(select.items)):
            yield replace(select, items=_without(select.items, place))
    if select.distinct:
        yield replace(select, distinct=False)
    if select.grouping:
        yield replace(select, grouping="")
    if select.lateral:
        yield replace(select, lateral=None)
    for place, item in enumerate(select.items):
        # A column in place of an expression over it.
        for column in dict.fromkeys(
            COLUMN.findall(joined("", [part for part in item.expr.parts if isinstance(part, str)]))
        ):
            if column != str(item.expr):
                changed = replace(item, expr=Expr((column,)))
                yield replace(select, items=(*select.items[:place], changed, *select.items[place + 1 :]))


COLUMN = re.compile(r"[\w`\"]+\.[\w`\"]+")


def _without_source(select: Select, place: int) -> Select:
    """The select without a join and all that mentions its alias."""
    alias = select.joins[place].source.alias
    mention = re.compile(rf"\b{re.escape(alias)}[`\"]?\.", re.IGNORECASE)

    def kept(parts: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(part for part in parts if not mention.search(str(part)))

    joins = tuple(replace(join, on=kept(join.on)) for number, join in enumerate(select.joins) if number != place)
    return replace(
        select,
        joins=joins,
        items=kept(select.items) or (Item(Expr(("count(*)",)), "n"),),
        where=kept(select.where),
        group=kept(select.group),
        having=kept(select.having),
    )


def _without(parts: tuple[Any, ...], place: int) -> tuple[Any, ...]:
    return parts[:place] + parts[place + 1 :]
