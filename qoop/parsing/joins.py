"""Extract the inner-join core of a SELECT as a join graph, and the SELECT around it."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from qoop.as_written.causes import Construct, Unsupported
from qoop.errors import CannotSplitError
from qoop.parsing.blocks import is_plain_source, source_name
from qoop.parsing.expressions import (
    aliases_defined_by,
    all_of,
    alternatives,
    any_of,
    as_column,
    columns_of,
    columns_read_outside,
    conjuncts,
    with_output_names,
)
from qoop.parsing.forms import predicate_form
from qoop.parsing.spark_sql import DIALECT, Types, type_family
from qoop.plans.graph import JoinGraph, Relation
from qoop.plans.predicate import AllOf, Column, Compare, Form, InList, Predicate

CORE = "_qoop_core"
"""Placeholder for the join core in the SELECT around it. No block's name starts like this."""

CONVERTING = ("exact", "truth")
"""Families whose types convert text differently: '1.5' is 1, NULL or an error as an integer."""

UNPLANNED_CLAUSES = ("pivots", "match", "sample", "connect", "prewhere", "into", "settings", "kind")


@dataclass(frozen=True, slots=True)
class Core:
    """The inner-join core of a SELECT as a graph, and the SELECT around it, which reads the core's output names."""

    graph: JoinGraph
    rest: exp.Select


def extract_core(select: exp.Select, types: Callable[[str], Types | None], blocks: Iterable[str]) -> Core:
    """Extract the join core of a SELECT whose names are qualified: inner joins, and left joins of tables by keys.

    Other outer, semi and anti joins stay outside the core, in their order, with the relations that are joined to them
    afterwards; conditions that read them apply after them.

    Raises:
        CannotSplitError: a clause outside the core does not commute with it, or is not supported.
    """
    joins = _split_joins(select)
    aliases = frozenset(joins.core)
    conditions, outer_conditions = _sort_conditions(select, joins, aliases)
    conditions = _with_transitive_filters(conditions, joins, aliases, types)
    rest = _rest(select, joins, outer_conditions)
    graph = _graph(joins, conditions, rest, aliases, types, frozenset(blocks))
    _check_output_names(graph, select, types)
    for column in list(columns_read_outside(rest, aliases)):
        column.replace(exp.column(exp.to_identifier(as_column(column).output, quoted=True)))
    if str(rest.sql(DIALECT)).count(f"FROM {CORE}") != 1:
        raise CannotSplitError(Unsupported(Construct.RESERVED_NAME, CORE))
    return Core(graph, rest)


def _check_output_names(graph: JoinGraph, select: exp.Select, types: Callable[[str], Types | None]) -> None:
    """Outside its relation a column is named `alias__column`; nothing else in its scope may have that name."""
    named = [Column(relation.alias, name) for relation in graph.relations for name in relation.columns]
    if any(column.name == "*" for column in named):
        raise CannotSplitError(Unsupported(Construct.WHOLE_ROW, "the query"))
    outputs = Counter(column.output for column in named)
    taken = {name for table in select.find_all(exp.Table) for name in types(source_name(table)) or ()}
    for projection in select.selects:
        definition = projection.unalias()
        if not isinstance(definition, exp.Column) or as_column(definition).output != projection.alias_or_name:
            taken.add(projection.alias_or_name)
    clash = next((output for output, times in outputs.items() if times > 1 or output in taken), None)
    if clash is not None:
        raise CannotSplitError(Unsupported(Construct.SAME_COLUMN, repr(clash)))


@dataclass(frozen=True, slots=True)
class _SplitJoins:
    """Core relations (alias to table), the conditions that join them, and the joins outside the core, in order.

    `optional`: the conditions of core relations that are left-joined.
    """

    core: dict[str, exp.Table]
    conditions: list[exp.Expr]
    outer_joins: list[exp.Join]
    optional: dict[str, list[exp.Expr]]


def _split_joins(select: exp.Select) -> _SplitJoins:
    for name in UNPLANNED_CLAUSES:
        if select.args.get(name):
            raise CannotSplitError(Unsupported(Construct.CLAUSE, name))
    clause = select.args.get("from_")
    if clause is None:
        raise CannotSplitError(Unsupported(Construct.NO_FROM))
    for lateral in (*(select.args.get("laterals") or ()), *(join.this for join in select.args.get("joins") or ())):
        # A view comes after all joins, so it may stay around them.
        if isinstance(lateral, exp.Lateral) and not (lateral.args.get("view") and lateral.alias_column_names):
            raise CannotSplitError(Unsupported(Construct.LATERAL, lateral.sql(DIALECT)[:40]))
    core = {clause.this.alias_or_name: _table(clause.this)}
    conditions: list[exp.Expr] = []
    outer_joins: list[exp.Join] = []
    optional: dict[str, list[exp.Expr]] = {}
    outside: set[str] = set()
    where = select.args.get("where")
    for join in select.args.get("joins") or []:
        alias = join.this.alias_or_name
        parts = _join_conditions(join)
        is_inner = not join.side and join.kind in ("", "INNER", "CROSS")
        if is_inner and not any(_reads_any(part, outside) for part in parts):
            core[alias] = _table(join.this)
            conditions += parts
        elif _can_be_optional(join, parts, core) and not (where and _reads_any(where, {alias})):
            core[alias], optional[alias] = _table(join.this), parts
            outside.add(alias)
        elif is_inner or join.side == "LEFT" or join.kind in ("SEMI", "ANTI"):
            outer_joins.append(join)
            outside.add(alias)
        else:
            raise CannotSplitError(Unsupported(Construct.JOIN_TYPE, " ".join(filter(None, (join.side, join.kind)))))
    return _SplitJoins(core, conditions, outer_joins, optional)


def _can_be_optional(join: exp.Join, parts: list[exp.Expr], core: Mapping[str, exp.Table]) -> bool:
    """Whether a left join is one of the core: of a table by an equality with a column of one other relation of it."""
    table, alias = join.this, join.this.alias_or_name
    if join.side != "LEFT" or join.kind not in ("", "OUTER") or join.method or not isinstance(table, exp.Table):
        return False
    aliases = frozenset((*core, alias))
    read = [{column.table for column in columns_of(part, aliases)} for part in parts]
    every = {column.table for part in parts for column in part.find_all(exp.Column)}
    return (
        is_plain_source(table)
        and not table.alias_column_names
        and len(set[str]().union(*read)) == 2
        and every <= aliases
        and all(alias in one for one in read)
        and not any(_has_subquery(part) or _has_unknown_function(part) for part in parts)
        and any(_is_equijoin(part, aliases) for part in parts)
    )


def _table(node: exp.Expr) -> exp.Table:
    if not isinstance(node, exp.Table) or not is_plain_source(node) or node.alias_column_names:
        raise CannotSplitError(Unsupported(Construct.SOURCE))
    return node


def _join_conditions(join: exp.Join) -> list[exp.Expr]:
    if join.args.get("using") or join.method:
        raise CannotSplitError(Unsupported(Construct.NATURAL_JOIN))
    return conjuncts(join.args.get("on"))


def _reads_any(node: exp.Expr, aliases: Iterable[str]) -> bool:
    return any(True for _ in columns_of(node, frozenset(aliases)))


def _sort_conditions(
    select: exp.Select, joins: _SplitJoins, aliases: frozenset[str]
) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """The conditions of inner joins and WHERE that apply within the core, and those that apply outside it."""
    outside = aliases_defined_by(select) - aliases | joins.optional.keys()
    core_conditions: list[exp.Expr] = []
    outer_conditions: list[exp.Expr] = []
    where = select.args.get("where")
    for part in [*joins.conditions, *conjuncts(where.this if where else None)]:
        if isinstance(part, exp.Null) or (isinstance(part, exp.Boolean) and not part.this):
            raise CannotSplitError(Unsupported(Construct.ALWAYS_FALSE))
        read = {column.table for column in columns_of(part, aliases)}
        # A subquery is pushed to a leaf only if it reads a single relation of the block.
        can_move = len(read) == 1 or (read and not _has_subquery(part))
        is_early = len(read) == 1 or not _has_unknown_function(part) or _is_equijoin(part, aliases)
        if can_move and is_early and not _reads_any(part, outside):
            core_conditions.append(part)
        else:
            outer_conditions.append(part)
    return [*core_conditions, *_implied(core_conditions, aliases)], outer_conditions


def _has_subquery(node: exp.Expr) -> bool:
    return node.find(exp.Query) is not None


def _has_unknown_function(node: exp.Expr) -> bool:
    """Whether a condition may call a function of the user's.

    How many rows meet it is unknown, so it comes last, unless it is about one table, or joins two by a hash.
    """
    return node.find(exp.Anonymous, exp.AnonymousAggFunc) is not None


def _implied(conditions: list[exp.Expr], aliases: frozenset[str]) -> list[exp.Expr]:
    """(a.x = 1 AND b.y = 2) OR (a.x = 3 AND b.y = 4) implies a.x = 1 OR a.x = 3, and the same for b."""
    found: list[exp.Expr] = []
    for condition in conditions:
        arms = alternatives(condition)
        if len({column.table for column in columns_of(condition, aliases)}) < 2 or _has_subquery(condition):
            continue
        for alias in sorted(aliases):
            own = [[part for part in arm if _only(part, alias, aliases)] for arm in arms]
            if own and all(own):
                found.append(any_of([part.copy() for arm in own if (part := all_of([p.copy() for p in arm]))]))
    return found


def _only(part: exp.Expr, alias: str, aliases: frozenset[str]) -> bool:
    return {column.table for column in columns_of(part, aliases)} == {alias}


def _with_transitive_filters(
    conditions: list[exp.Expr], joins: _SplitJoins, aliases: frozenset[str], types: Callable[[str], Types | None]
) -> list[exp.Expr]:
    """Copy a filter on one column of an equality class to the other columns of the class."""
    classes = _classes(conditions, joins, types)
    copies: list[exp.Expr] = []
    for condition in conditions:
        found = {as_column(column) for column in columns_of(condition, aliases)}
        form = predicate_form(condition)
        if len(found) != 1 or not _is_plain(form):
            continue
        column = found.pop()
        if _family(column, joins, types) in CONVERTING and _has_text(condition):
            continue
        for other in next((members - {column} for members in classes if column in members), frozenset()):
            copies.append(_renamed(condition, column, other))
    known = {condition.sql(DIALECT) for condition in conditions}
    return [*conditions, *(copy for copy in copies if copy.sql(DIALECT) not in known)]


def _has_text(condition: exp.Expr) -> bool:
    return any(literal.is_string for literal in condition.find_all(exp.Literal))


def _is_plain(form: Form) -> bool:
    return isinstance(form, Compare | InList) or (
        isinstance(form, AllOf) and all(_is_plain(part) for part in form.parts)
    )


def _renamed(condition: exp.Expr, old: Column, new: Column) -> exp.Expr:
    copy = condition.copy()
    for node in list(copy.find_all(exp.Column)):
        if as_column(node) == old:
            node.replace(
                exp.column(exp.to_identifier(new.name, quoted=True), exp.to_identifier(new.relation, quoted=True))
            )
    return copy


def _classes(
    conditions: list[exp.Expr], joins: _SplitJoins, types: Callable[[str], Types | None]
) -> list[frozenset[Column]]:
    """Equality classes: columns equal to each other, by equalities between types for which equality is transitive."""
    found: list[set[Column]] = []
    for condition in conditions:
        pair = _equality(condition, joins, types)
        if pair:
            touching = [members for members in found if members & pair]
            found = [members for members in found if not members & pair]
            found.append(pair.union(*touching))
    return [frozenset(members) for members in found]


def _equality(condition: exp.Expr, joins: _SplitJoins, types: Callable[[str], Types | None]) -> set[Column] | None:
    if not isinstance(condition, exp.EQ):
        return None
    pair = (condition.left, condition.right)
    columns = [as_column(side) for side in pair if isinstance(side, exp.Column)]
    if len(columns) != 2 or columns[0].relation == columns[1].relation:
        return None
    families = {_family(column, joins, types) for column in columns}
    return set(columns) if len(families) == 1 and None not in families else None


def _family(column: Column, joins: _SplitJoins, types: Callable[[str], Types | None]) -> str | None:
    table = joins.core.get(column.relation)
    known = types(source_name(table)) if table is not None else None
    return type_family(known.get(column.name)) if known else None


def _rest(select: exp.Select, joins: _SplitJoins, outer_conditions: list[exp.Expr]) -> exp.Select:
    rest = select.copy()
    rest.set("from_", exp.From(this=exp.to_table(CORE)))
    rest.set("joins", [join.copy() for join in joins.outer_joins])
    condition = all_of([part.copy() for part in outer_conditions])
    rest.set("where", exp.Where(this=condition) if condition is not None else None)
    if rest.args.get("distinct"):
        _order_by_outputs(rest)
    return rest


def _order_by_outputs(rest: exp.Select) -> None:
    """After DISTINCT only output columns can be sorted by: replace expressions in ORDER BY by the equal output."""
    names = {projection.unalias().sql(DIALECT): projection.alias_or_name for projection in rest.selects}

    def named(node: exp.Expr) -> exp.Expr:
        name = names.get(node.sql(DIALECT)) if isinstance(node, exp.Condition) else None
        return exp.column(exp.to_identifier(name, quoted=True)) if name else node

    order = rest.args.get("order")
    for term in order.expressions if order is not None else ():
        term.set("this", term.this.transform(named))


def _graph(
    joins: _SplitJoins,
    conditions: list[exp.Expr],
    rest: exp.Select,
    aliases: frozenset[str],
    types: Callable[[str], Types | None],
    blocks: frozenset[str],
) -> JoinGraph:
    classes = _classes(conditions, joins, types)
    filters: dict[str, list[Predicate]] = {alias: [] for alias in joins.core}
    across: list[Predicate] = []
    for condition in conditions:
        predicate = _predicate(condition, aliases)
        read = predicate.relations()
        if len(read) == 1:
            filters[next(iter(read))].append(predicate)
        elif _equality(condition, joins, types) is None:
            across.append(predicate)
    for members in classes:
        for condition in _within_relations(members):
            predicate = _predicate(condition, aliases)
            filters[next(iter(predicate.relations()))].append(predicate)
    retained = frozenset(as_column(column) for column in columns_read_outside(rest, aliases))
    on = {alias: [_predicate(part, aliases) for part in parts] for alias, parts in joins.optional.items()}
    joining = [*across, *(predicate for predicates in on.values() for predicate in predicates)]
    read_outside_filters = retained.union(*(predicate.columns for predicate in joining), *classes)
    relations = tuple(
        Relation(
            alias=alias,
            source=source_name(table),
            is_block=source_name(table) in blocks,
            columns=_columns_read(alias, read_outside_filters, filters[alias]),
            filters=_distinct(filters[alias]),
            on=_distinct(on.get(alias, [])),
        )
        for alias, table in joins.core.items()
    )
    return JoinGraph(relations, tuple(sorted(classes, key=sorted)), _distinct(across), retained)


def _within_relations(members: frozenset[Column]) -> Iterable[exp.Expr]:
    """Equalities between columns of one relation in one class, as filters: only one of them takes part in joins."""
    for column in sorted(members):
        first = min(other for other in members if other.relation == column.relation)
        if first != column:
            yield exp.EQ(this=_node(first), expression=_node(column))


def _node(column: Column) -> exp.Column:
    return exp.column(exp.to_identifier(column.name, quoted=True), exp.to_identifier(column.relation, quoted=True))


def _columns_read(alias: str, after: frozenset[Column], filters: list[Predicate]) -> tuple[str, ...]:
    read = after.union(*(predicate.columns for predicate in filters))
    return tuple(sorted(column.name for column in read if column.relation == alias))


def _distinct(predicates: list[Predicate]) -> tuple[Predicate, ...]:
    return tuple({predicate.sql: predicate for predicate in predicates}.values())


def _predicate(condition: exp.Expr, aliases: frozenset[str]) -> Predicate:
    columns = frozenset(as_column(column) for column in columns_of(condition, aliases))
    return Predicate(
        sql=with_output_names(condition, aliases).sql(DIALECT),
        columns=columns,
        form=predicate_form(condition),
        is_equijoin=_is_equijoin(condition, aliases),
        blocks=frozenset(source_name(table) for table in condition.find_all(exp.Table)),
    )


def _is_equijoin(condition: exp.Expr, aliases: frozenset[str]) -> bool:
    """Whether a condition equates expressions over two different relations, so that a hash join can use it."""
    if not isinstance(condition, exp.EQ) or _has_subquery(condition):
        return False
    left = {column.table for column in columns_of(condition.left, aliases)}
    right = {column.table for column in columns_of(condition.right, aliases)}
    return len(left) == 1 and len(right) == 1 and left != right
