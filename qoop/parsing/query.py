"""Describe a query for the planner: split into blocks, with filters pushed down and join cores extracted."""

from collections import Counter
from dataclasses import dataclass, replace

from sqlglot import exp

from qoop.as_written.causes import AsWrittenCause, Construct, Unsupported
from qoop.errors import CannotSplitError
from qoop.parsing.blocks import SplitQuery, source_name, split_query
from qoop.parsing.expressions import as_column, columns_of
from qoop.parsing.joins import CORE, Core, extract_core
from qoop.parsing.pushdown import push_down_filters
from qoop.parsing.spark_sql import DIALECT, USUAL, Catalogue, Syntax, Types
from qoop.parsing.unread_columns import drop_unread_columns
from qoop.plans.plan import Block, Output, Query
from qoop.plans.predicate import Column


@dataclass(frozen=True)
class QueryText:
    """A query as the planner sees it, and what is needed to generate SQL for its stages.

    `cores`: the join cores, by block. `texts`: the SQL of every block. `tables`: the base tables that it reads.
    """

    query: Query
    cores: dict[str, Core]
    texts: dict[str, str]
    tables: frozenset[str]


def describe_query(query: exp.Query, catalogue: Catalogue, syntax: Syntax = USUAL) -> QueryText:
    """Split a query and describe its blocks.

    Raises:
        UnknownNameError: a table or column does not exist.
        CannotSplitError: the query must run as a single stage.
    """
    parts = drop_unread_columns(push_down_filters(split_query(query, catalogue, syntax)))
    cores: dict[str, Core] = {}
    blocks: dict[str, Block] = {}
    types = dict(parts.types)
    for name, tree in parts.blocks.items():
        core, cause = _core(tree, types, parts)
        if core is not None:
            cores[name] = core
        blocks[name] = _block(name, tree, core, cause)
        types[name] = _types_of(blocks[name], types)
    texts = {name: str(tree.sql(DIALECT)) for name, tree in parts.blocks.items()}
    return QueryText(Query(_mark_shared(parts, blocks)), cores, texts, frozenset(parts.types))


def _core(tree: exp.Query, types: dict[str, Types], parts: SplitQuery) -> tuple[Core | None, AsWrittenCause | None]:
    if isinstance(tree, exp.SetOperation):
        return None, Unsupported(Construct.SET_OPERATION, tree.key.upper())
    if not isinstance(tree, exp.Select):
        return None, Unsupported(Construct.NOT_SELECT)
    try:
        core = extract_core(tree, types.get, parts.blocks)
    except CannotSplitError as problem:
        return None, problem.cause
    return core, Unsupported(Construct.FEW_TABLES) if len(core.graph.relations) < 2 else None


def _block(name: str, tree: exp.Query, core: Core | None, cause: AsWrittenCause | None) -> Block:
    read = core.rest if core else tree
    outer_sources = frozenset(source_name(table) for table in read.find_all(exp.Table)) - {CORE}
    aliases = frozenset(core.graph.bit) if core else frozenset()
    outputs = tuple(_output(projection, aliases) for projection in tree.selects)
    is_union = isinstance(tree, exp.Union)
    return Block(name, core.graph if core else None, cause, outer_sources, outputs, _keys(tree, aliases), is_union)


def _output(projection: exp.Expr, aliases: frozenset[str]) -> Output:
    definition = projection.unalias()
    column = as_column(definition) if isinstance(definition, exp.Column) and definition.table in aliases else None
    return Output(projection.alias_or_name, column)


def _keys(tree: exp.Query, aliases: frozenset[str]) -> tuple[Column, ...] | None:
    """The core columns that a block groups by; empty if it returns a single row; None if it does not group."""
    if not isinstance(tree, exp.Select):
        return None
    group = tree.args.get("group")
    if group is not None:
        return tuple(sorted({as_column(column) for column in columns_of(group, aliases)}))
    if tree.args.get("distinct"):
        return tuple(sorted({as_column(column) for part in tree.selects for column in columns_of(part, aliases)}))
    return () if any(part.find(exp.AggFunc) and not part.find(exp.Window) for part in tree.selects) else None


def _types_of(block: Block, types: dict[str, Types]) -> Types:
    """The types of the columns that a block passes on unchanged; the planner does not need the others."""
    if block.graph is None:
        return {}
    known: Types = {}
    for output in block.outputs:
        if output.column is not None:
            relation = next(one for one in block.graph.relations if one.alias == output.column.relation)
            type_name = types.get(relation.source, {}).get(output.column.name)
            if type_name:
                known[output.name] = type_name
    return known


def _mark_shared(parts: SplitQuery, blocks: dict[str, Block]) -> dict[str, Block]:
    """Mark blocks with several readers: materialised once if that saves work, otherwise computed by each reader."""
    readers: Counter[str] = Counter({next(reversed(blocks)): 1})
    marked: dict[str, Block] = {}
    for name in reversed(blocks):
        block, times = blocks[name], readers[name]
        if times > 1:
            saves_work = block.is_union or block.keys is not None or block.is_planned
            block = replace(block, shared=saves_work, copied=not saves_work, readers=times)
        marked[name] = block
        for used, count in parts.read_counts(name).items():
            readers[used] += count * (1 if block.shared else times)
    return {name: marked[name] for name in blocks}
