"""Which columns of a block an expression reads, seen through the scopes of its subqueries."""

from collections.abc import Iterator

from sqlglot import exp

from qoop.plans.predicate import Column


def columns_of(node: exp.Expr, aliases: frozenset[str]) -> Iterator[exp.Column]:
    """The columns of these aliases that an expression reads; a subquery's own alias of the same name hides one."""
    if isinstance(node, exp.Column):
        if node.table in aliases:
            yield node
        return
    if isinstance(node, exp.Select):
        aliases = aliases - sources(node)
    if aliases:
        for child in node.iter_expressions():
            yield from columns_of(child, aliases)


def columns_around(rest: exp.Select, aliases: frozenset[str]) -> Iterator[exp.Column]:
    """The columns of these aliases that a SELECT reads whose relations were taken out of it."""
    for part in rest.iter_expressions():
        yield from columns_of(part, aliases)


def sources(select: exp.Select) -> frozenset[str]:
    """The aliases that a SELECT defines itself."""
    clause = select.args.get("from_")
    found = [clause.this] if clause is not None else []
    found += [join.this for join in select.args.get("joins") or []]
    found += select.args.get("laterals") or []
    return frozenset(node.alias_or_name for node in found)


def as_column(node: exp.Column) -> Column:
    """Our own name of a column."""
    return Column(node.table, node.name)


def with_output_names(node: exp.Expr, aliases: frozenset[str]) -> exp.Expr:
    """A copy in which each column of these aliases has its output name."""
    holder = exp.Paren(this=node.copy())
    for column in list(columns_of(holder, aliases)):
        column.replace(exp.column(exp.to_identifier(as_column(column).output, quoted=True)))
    result: exp.Expr = holder.this
    return result
