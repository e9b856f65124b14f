"""Push filters on a block's result down into the block; several readers get copies, each with its own filters.

Otherwise a stage inside the block would compute unwanted rows: Spark cannot push a filter below a materialised stage.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from qoop.parsing.blocks import SplitQuery, is_plain_source, source_name, topological_order
from qoop.parsing.expressions import aliases_defined_by, all_of, columns_of, conjuncts
from qoop.parsing.spark_sql import DIALECT, Types
from qoop.plans.plan import PREFIX

MAX_COPIES = 12


def push_down_filters(split: SplitQuery) -> SplitQuery:
    """Push filters down into the blocks that they filter, starting at the query's result."""
    blocks = _Blocks({name: block.copy() for name, block in split.blocks.items()})
    pending = list(reversed(blocks))
    copies = 0
    while pending:
        reader = blocks[pending.pop(0)]
        for table, wanted in _filtered_reads(reader, blocks):
            name = source_name(table)
            readers = blocks.readers(name)
            filters = [part for part in wanted if _can_push_down(blocks[name], part, blocks, split.types)]
            if not filters or (readers > 1 and copies >= MAX_COPIES):
                continue
            target = name
            if readers > 1:
                copies += 1
                target = _unused_name(name, blocks)
                blocks[target] = blocks[name].copy()
                table.set("this", exp.to_identifier(target, quoted=True))
                pending.insert(0, target)
            for part in filters:
                _push_down(blocks, target, part, split.types)
    return SplitQuery(topological_order(blocks), split.types)


class _Blocks(dict[str, exp.Query]):
    """The blocks by name. What pushing filters changes in one is neither how many tables it names nor where."""

    def __init__(self, blocks: Mapping[str, exp.Query]) -> None:
        super().__init__(blocks)
        self._tables = {name: list(block.find_all(exp.Table)) for name, block in blocks.items()}

    def __setitem__(self, name: str, block: exp.Query) -> None:
        super().__setitem__(name, block)
        self._tables[name] = list(block.find_all(exp.Table))

    def readers(self, name: str) -> int:
        """How often a block is read."""
        return sum(source_name(table) == name for tables in self._tables.values() for table in tables)


AliasFilter = tuple[str, exp.Expr]
"""A filter on one alias: the alias, and the condition over its columns."""


def _filtered_reads(reader: exp.Query, blocks: dict[str, exp.Query]) -> list[tuple[exp.Table, list[AliasFilter]]]:
    """The blocks that a SELECT reads, each with the conditions that read no other relation."""
    if not isinstance(reader, exp.Select):
        return []
    outer_joins = [
        join for join in reader.args.get("joins") or [] if join.side or join.kind not in ("", "INNER", "CROSS")
    ]
    outer_aliases = {join.this.alias_or_name for join in outer_joins}
    where = reader.args.get("where")
    conditions = conjuncts(where.this if where else None)
    for join in reader.args.get("joins") or []:
        if join not in outer_joins:
            conditions += conjuncts(join.args.get("on"))
    by_alias: dict[str, list[AliasFilter]] = defaultdict(list)
    aliases = aliases_defined_by(reader)
    for condition in conditions:
        read = {column.table for column in columns_of(condition, aliases)}
        is_movable = condition.find(exp.Query) is None
        if len(read) == 1 and is_movable and not read & outer_aliases:
            alias = read.pop()
            by_alias[alias].append((alias, condition))
    if any(join.side in ("RIGHT", "FULL") for join in outer_joins):
        return []
    clause = reader.args.get("from_")
    nodes = [clause.this] if clause is not None else []
    nodes += [join.this for join in reader.args.get("joins") or [] if join not in outer_joins]
    return [
        (node, by_alias[node.alias_or_name])
        for node in nodes
        if isinstance(node, exp.Table) and is_plain_source(node) and not node.alias_column_names
        if source_name(node) in blocks and by_alias[node.alias_or_name]
    ]


def _can_push_down(
    block: exp.Query, pushed: AliasFilter, blocks: dict[str, exp.Query], types: Mapping[str, Types]
) -> bool:
    """Whether a filter on a block's result can be applied before the block's grouping or set operation."""
    if isinstance(block, exp.SetOperation):
        names = _branch_blocks(block, blocks)
        if not isinstance(block, exp.Union) or _has_limit(block) or names is None:
            return False
        alias, condition = pushed
        return _types_agree(names, (column.name for column in columns_of(condition, frozenset({alias}))), blocks, types)
    if not isinstance(block, exp.Select) or _has_limit(block) or block.find(exp.Window):
        return False
    clause = block.args.get("from_")
    if clause is None or block.args.get("distinct") or (block.args.get("having") and not block.args.get("group")):
        return False
    below = _below_block(block, pushed)
    if below is None:
        return False
    columns = list(below.find_all(exp.Column))
    if below.find(exp.AggFunc):
        return False
    group = block.args.get("group")
    if group is None:
        return block.find(exp.AggFunc) is None
    if any(group.args.get(kind) for kind in ("grouping_sets", "rollup", "cube")):
        return False
    keys = {key.sql(DIALECT) for key in group.expressions}
    return all(column.sql(DIALECT) in keys for column in columns)


def _has_limit(block: exp.Query) -> bool:
    return bool(block.args.get("limit") or block.args.get("offset"))


def _below_block(block: exp.Select, pushed: AliasFilter) -> exp.Expr | None:
    """The filter in terms of the block's inputs: each output column replaced by the expression that defines it."""
    alias, condition = pushed
    definition = {projection.alias_or_name: projection.unalias() for projection in block.selects}
    below = exp.Paren(this=condition.copy())
    for column in list(columns_of(below, frozenset({alias}))):
        expression = definition.get(column.name)
        if expression is None or not isinstance(expression, exp.Column | exp.Literal | exp.Null | exp.Boolean):
            return None
        column.replace(expression.copy())
    result: exp.Expr = below.this
    return result


def _push_down(blocks: _Blocks, target: str, pushed: AliasFilter, types: Mapping[str, Types]) -> None:
    block = blocks[target]
    if isinstance(block, exp.SetOperation):
        _push_into_branches(blocks, block, pushed, types)
    elif isinstance(block, exp.Select):
        below = _below_block(block, pushed)
        if below is not None:
            where = block.args.get("where")
            parts = [*([where.this] if where else []), _constant_or_same(below)]
            block.set("where", exp.Where(this=all_of(parts)))


def _constant_or_same(condition: exp.Expr) -> exp.Expr:
    """TRUE or FALSE if literals have made the condition that.

    Anything else stays in the order in which it is written: a part that raises errors may stand behind its guard.
    """
    simplified = simplify(condition.copy(), dialect=DIALECT)
    return simplified if isinstance(simplified, exp.Boolean) else condition


def _push_into_branches(
    blocks: _Blocks, union: exp.SetOperation, pushed: AliasFilter, types: Mapping[str, Types]
) -> None:
    """Push a filter into every branch, by position: a union's columns are named as in its first branch."""
    names = _branch_blocks(union, blocks) or []
    first = blocks[names[0]]
    position = {projection.alias_or_name: i for i, projection in enumerate(first.selects)}
    for select in [node for node in union.find_all(exp.Select) if isinstance(node.selects[0], exp.Star)]:
        name = source_name(select.args["from_"].this)
        branch = blocks[name]
        alias, condition = pushed
        renamed = condition.copy()
        for column in list(columns_of(exp.Paren(this=renamed), frozenset({alias}))):
            definition = branch.selects[position[column.name]].alias_or_name
            column.set("this", exp.to_identifier(definition, quoted=True))
        if blocks.readers(name) > 1:
            copy = _unused_name(name, blocks)
            blocks[copy] = branch.copy()
            select.args["from_"].this.set("this", exp.to_identifier(copy, quoted=True))
            name = copy
        if _can_push_down(blocks[name], (alias, renamed), blocks, types):
            _push_down(blocks, name, (alias, renamed), types)


def _unused_name(name: str, blocks: dict[str, exp.Query]) -> str:
    base = name if name.startswith(PREFIX) else PREFIX + name
    number = 2
    while f"{base}_{number}" in blocks:
        number += 1
    return f"{base}_{number}"


Blocks = Mapping[str, exp.Query]


def _branch_blocks(block: exp.Expr, blocks: Blocks) -> list[str] | None:
    """The blocks of the branches of a union; None if a branch is something other than a block."""
    if isinstance(block, exp.SetOperation):
        left, right = _branch_blocks(block.left, blocks), _branch_blocks(block.right, blocks)
        return None if left is None or right is None else left + right
    if isinstance(block, exp.Select) and len(block.selects) == 1 and isinstance(block.selects[0], exp.Star):
        clause = block.args.get("from_")
        name = source_name(clause.this) if clause is not None and isinstance(clause.this, exp.Table) else ""
        return [name] if isinstance(blocks.get(name), exp.Select) and len(block.args.get("joins") or []) == 0 else None
    return None


def _types_agree(names: list[str], columns: Iterable[str], blocks: Blocks, types: Mapping[str, Types]) -> bool:
    """Whether each of these columns, named as in the first branch, has the same type in all branches.

    Otherwise the union converts values, and a condition on its result is not equivalent on its branches.
    """
    place = {projection.alias_or_name: i for i, projection in enumerate(blocks[names[0]].selects)}
    for column in columns:
        if column not in place:
            return False
        found = {_type_of(blocks[name], blocks[name].selects[place[column]].unalias(), blocks, types) for name in names}
        if len(found) != 1 or None in found:
            return False
    return True


def _type_of(block: exp.Query, expression: exp.Expr, blocks: Blocks, types: Mapping[str, Types]) -> str | None:
    """The type of a string literal or of a column that is passed on unchanged; None if unknown."""
    if isinstance(expression, exp.Literal):
        return "string" if expression.is_string else None
    if not isinstance(expression, exp.Column) or not isinstance(block, exp.Select):
        return None
    clause = block.args.get("from_")
    read = [node.this for node in (clause, *(block.args.get("joins") or [])) if node is not None]
    table = next((one for one in read if one.alias_or_name == expression.table), None)
    if not isinstance(table, exp.Table) or table.alias_column_names:
        return None
    inner = blocks.get(source_name(table))
    if inner is None:
        return types.get(source_name(table), {}).get(expression.name)
    definition = next((one.unalias() for one in inner.selects if one.alias_or_name == expression.name), None)
    return _type_of(inner, definition, blocks, types) if definition is not None else None
