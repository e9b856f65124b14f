"""The branches of a union (or the like) that are blocks of their own, and the types of their columns."""

from collections.abc import Iterable, Mapping

from sqlglot import exp

from qoop.parsing.blocks import source_of
from qoop.parsing.catalogue import Types

Blocks = Mapping[str, exp.Query]


def branch_names(block: exp.Expr, blocks: Blocks) -> list[str] | None:
    """The blocks that the branches of a union are; None where a branch is something else."""
    if isinstance(block, exp.SetOperation):
        left, right = branch_names(block.left, blocks), branch_names(block.right, blocks)
        return None if left is None or right is None else left + right
    if isinstance(block, exp.Select) and len(block.selects) == 1 and isinstance(block.selects[0], exp.Star):
        clause = block.args.get("from_")
        name = source_of(clause.this) if clause is not None and isinstance(clause.this, exp.Table) else ""
        return [name] if isinstance(blocks.get(name), exp.Select) and len(block.args.get("joins") or []) == 0 else None
    return None


def agree(names: list[str], columns: Iterable[str], blocks: Blocks, types: Mapping[str, Types]) -> bool:
    """Whether all branches have the same type for each of these columns, named as in the first.

    Where they do not, the union converts values, and a condition on it is not the same on its branches.
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
    """The type of a text, or of a column that is only passed on; None where it is not known."""
    if isinstance(expression, exp.Literal):
        return "string" if expression.is_string else None
    if not isinstance(expression, exp.Column) or not isinstance(block, exp.Select):
        return None
    clause = block.args.get("from_")
    read = [node.this for node in (clause, *(block.args.get("joins") or [])) if node is not None]
    table = next((one for one in read if one.alias_or_name == expression.table), None)
    if not isinstance(table, exp.Table) or table.alias_column_names:
        return None
    inner = blocks.get(source_of(table))
    if inner is None:
        return types.get(source_of(table), {}).get(expression.name)
    behind = next((one.unalias() for one in inner.selects if one.alias_or_name == expression.name), None)
    return _type_of(inner, behind, blocks, types) if behind is not None else None
