"""Leave out columns of blocks that no other block reads, such as those of `SELECT a.*, b.*` in a CTE.

Spark leaves them out of what it computes itself, but a stage stores all the columns that its block selects.
"""

from collections.abc import Collection, Iterator
from typing import cast

from sqlglot import exp

from qoop.parsing.blocks import SplitQuery, is_plain_source, source_name

Names = frozenset[str]
"""Names of columns, in lower case: more than those that are read may be among them."""


ON_WHAT_IS_SELECTED = ("distinct", "order", "sort", "cluster", "distribute")
"""Clauses that depend on what is selected, or may name it by its place."""


def drop_unread_columns(split: SplitQuery) -> SplitQuery:
    """The blocks without the columns that are passed on unchanged and that nothing reads."""
    blocks = {name: block.copy() for name, block in split.blocks.items()}
    read: dict[str, Names | None] = {}
    # Readers come after what they read.
    for name, block in reversed(list(blocks.items())):
        wanted = read.get(name)
        if wanted is not None and isinstance(block, exp.Select) and _may_select_less(block):
            _select_only(block, wanted)
        for source, columns in _reads(block, blocks):
            known = read.get(source, frozenset())
            read[source] = None if known is None or columns is None else known | columns
    return SplitQuery(blocks, split.types)


def _reads(block: exp.Query, blocks: Collection[str]) -> Iterator[tuple[str, Names | None]]:
    """The blocks that a block reads, each with the columns that it may read of it; None stands for all."""
    columns = list(block.find_all(exp.Column))
    reads_all = any(not isinstance(star.parent, exp.Count) for star in block.find_all(exp.Star)) or any(
        join.method or join.args.get("using") for join in block.find_all(exp.Join)
    )
    for table in block.find_all(exp.Table):
        if source_name(table) not in blocks:
            continue
        by_place = not is_plain_source(table) or table.alias_column_names
        named = {"", table.alias_or_name.lower()}
        read = frozenset(column.name.lower() for column in columns if column.table.lower() in named)
        yield source_name(table), None if reads_all or by_place else read


def _may_select_less(select: exp.Select) -> bool:
    """Whether neither the rows of a SELECT nor their order depend on which columns it passes on."""
    group = select.args.get("group")
    by_place = group is not None and (group.args.get("all") or group.find(exp.Literal))
    return not (by_place or any(select.args.get(clause) for clause in ON_WHAT_IS_SELECTED))


def _select_only(select: exp.Select, wanted: Names) -> None:
    """Leave out other columns; those that the SELECT itself may read by their alias stay, and one in any case."""
    wanted = wanted.union(column.name.lower() for column in select.find_all(exp.Column) if not column.table)
    projections = cast("list[exp.Expr]", select.expressions)
    kept = [one for one in projections if one.alias_or_name.lower() in wanted or not _is_passed_on(one)]
    select.set("expressions", kept or projections[:1])


def _is_passed_on(projection: exp.Expr) -> bool:
    definition = projection.unalias()
    return isinstance(definition, exp.Column) and bool(definition.table) and not isinstance(definition.this, exp.Star)
