"""Split a query into named blocks: every CTE, derived table and branch of a union becomes a block of its own.

A block's text reads other blocks as if they were tables; a block with several readers is planned once.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp
from sqlglot.errors import OptimizeError, SchemaError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import traverse_scope

from qoop.as_written.causes import Construct, Excess, NotRepeatable, TooMuch, Unrepeatable, Unsupported
from qoop.errors import CannotSplitError, UnknownColumnError, UnknownTableError, did_you_mean
from qoop.parsing.expressions import aliases_defined_by, all_of
from qoop.parsing.spark_sql import DIALECT, USUAL, Catalogue, Syntax, Types, check_can_be_written
from qoop.plans.plan import PREFIX, ROOT

MAX_NODES = 20_000
"""How many nodes the tree of a query may have; the planner copies and walks it often, which takes over a second then.

The largest of TPC-DS has 1,300.
"""

MAX_DEPTH = 1_000
"""How deep it may be: the time to resolve names grows with the square of it."""

NONDETERMINISTIC = (
    exp.Rand,
    exp.Randn,
    exp.Randstr,
    exp.Uniform,
    exp.Shuffle,
    exp.Uuid,
    exp.CurrentTimestamp,
    exp.CurrentDate,
    exp.CurrentTime,
    exp.Localtimestamp,
    exp.TableSample,
)
NONDETERMINISTIC_NAMES = {
    "rand", "random", "randn", "uuid", "shuffle", "monotonically_increasing_id", "spark_partition_id", "now",
    "input_file_name", "input_file_block_start", "input_file_block_length", "current_timestamp", "current_date",
    "localtimestamp", "unix_timestamp", "randstr", "uniform", "reflect", "java_method", "try_reflect",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SplitQuery:
    """The blocks by name, in topological order; the last one is the query's result.

    `types`: column types of the base tables, by table name as the user wrote it.
    """

    blocks: dict[str, exp.Query]
    types: dict[str, Types]

    def read_counts(self, block: str) -> Counter[str]:
        """How often a block reads each other block."""
        read = (source_name(table) for table in self.blocks[block].find_all(exp.Table))
        return Counter(name for name in read if name in self.blocks)


def source_name(table: exp.Table) -> str:
    """The name of the block or table that a table node reads; a table's as the user wrote it, without its alias."""
    if not table.db and table.name.startswith(PREFIX):
        return table.name
    parts = (table.this, table.args.get("db"), table.args.get("catalog"))
    if all(part is None or isinstance(part, exp.Identifier) for part in parts):
        return _table_name(*((part.this, bool(part.args.get("quoted"))) if part else None for part in parts))
    return str(exp.Table(this=table.this.copy(), db=parts[1], catalog=parts[2]).sql(DIALECT))


@lru_cache(maxsize=10_000)
def _table_name(*parts: tuple[str, bool] | None) -> str:
    """The text of a table's name, database and catalogue; each with whether it is quoted."""
    named = [exp.Identifier(this=part[0], quoted=part[1]) if part else None for part in parts]
    return str(exp.Table(this=named[0], db=named[1], catalog=named[2]).sql(DIALECT))


def split_query(query: exp.Query, catalogue: Catalogue, syntax: Syntax = USUAL) -> SplitQuery:
    """Split a query into blocks.

    Raises:
        UnknownNameError: a table or column does not exist.
        CannotSplitError: only the query as written is certain to give the right answer.
    """
    _check_size(query)
    query = query.copy()
    for select in query.find_all(exp.Select):
        _open_parentheses(select)
    _check_can_be_split(query, syntax)
    _keep_field_names(query)
    names = _BlockNames()
    ctes = _name_ctes(query, names, syntax)
    tables, types = _name_tables(query, ctes, catalogue, syntax)
    query = _qualify_names(query, types, syntax)
    _name_joined_columns(query)
    blocks: dict[str, exp.Query] = {}
    _extract_ctes(query, blocks)
    _extract_derived(query, blocks, names)
    for block in list(blocks.values()):
        _extract_derived(block, blocks, names)
    for block in [*blocks.values(), query]:
        _extract_branches(block, blocks, names)
    blocks[ROOT] = query
    for block in blocks.values():
        _restore_tables(block, tables)
    return SplitQuery(topological_order(blocks), {tables[name]: columns for name, columns in types.items()})


def _open_parentheses(select: exp.Select) -> None:
    """Write `(a JOIN b) JOIN (c JOIN d)` of a FROM clause without parentheses, where that is the same."""
    clause = select.args.get("from_")
    if clause is None:
        return
    pending = list(select.args.get("joins") or [])
    while _is_joined_table(clause.this):
        joins = _joins_in(clause.this)
        clause.set("this", _first_in(clause.this))
        pending = [*joins, *pending]
    opened: list[exp.Join] = []
    while pending:
        join = pending.pop(0)
        if _is_joined_table(join.this) and all(map(_is_inner, (join, *_joins_in(join.this)))):
            pending = [*_opened(join), *pending]
        else:
            opened.append(join)
    select.set("joins", opened)


def _opened(join: exp.Join) -> list[exp.Join]:
    """An inner join to tables in parentheses as joins to each of them; its condition is that of the last one."""
    *joins, last = [exp.Join(this=join.this), *_joins_in(join.this)]
    conditions = [one for one in (last.args.get("on"), join.args.get("on")) if one is not None]
    first = joins[0] if joins else last
    first.set("this", _first_in(join.this))
    last.set("on", all_of(conditions))
    for one in (*joins, last):
        one.set("kind", None if one.args.get("on") is not None else "CROSS")
    return [*joins, last]


def _is_joined_table(node: exp.Expr) -> bool:
    """Whether a source is a table, or tables and their joins, in parentheses and without a name of its own.

    `b JOIN c ON ... ON ...` is taken as if it had them.
    """
    if isinstance(node, exp.Table):
        return bool(node.args.get("joins"))
    if not isinstance(node, exp.Subquery) or any(node.args[arg] for arg in node.args.keys() - {"this", "joins"}):
        return False
    return isinstance(node.this, exp.Table | exp.Subquery)


def _joins_in(node: exp.Expr) -> list[exp.Join]:
    """The joins within a joined table, in order."""
    parts = (node,) if isinstance(node, exp.Table) else (node.this, node)
    return [join for part in parts for join in part.args.get("joins") or []]


def _first_in(node: exp.Expr) -> exp.Expr:
    """The first table of a joined table, without the joins."""
    first = node if isinstance(node, exp.Table) else node.this
    first.set("joins", None)
    return first


def _is_inner(join: exp.Join) -> bool:
    return not (join.side or join.method or join.args.get("using")) and join.kind in ("", "INNER", "CROSS")


def _keep_field_names(query: exp.Query) -> None:
    """Have the fields of structs keep their names: those of columns are written in lower case where Spark reads both.

    A field without a name has its column's, as it is written there.
    """
    for struct in query.find_all(exp.Struct):
        for field in list(struct.expressions):
            if isinstance(field, exp.Column) and isinstance(field.this, exp.Identifier):
                named = exp.PropertyEQ(this=field.this.copy(), expression=field.copy())
                field.replace(named)
                field = named
            name = field.this if isinstance(field, exp.PropertyEQ) else field.args.get("alias")
            if isinstance(name, exp.Identifier):
                name.meta["case_sensitive"] = True


class _BlockNames:
    """Unique names for blocks; none contains two underscores in a row (see `view_name`)."""

    def __init__(self) -> None:
        self._taken = {ROOT}

    def unused(self, wanted: str) -> str:
        wanted = re.sub(r"[\W_]+", "_", wanted).strip("_").lower()
        name, number = PREFIX + wanted, 1
        while name in self._taken:
            number += 1
            name = f"{PREFIX}{wanted}_{number}"
        self._taken.add(name)
        return name


def _check_size(query: exp.Query) -> None:
    """Check, level by level, that planning the query takes less time than it may save."""
    nodes, level = 0, [query]
    for _ in range(MAX_DEPTH):
        nodes += len(level)
        if nodes > MAX_NODES:
            raise CannotSplitError(TooMuch(Excess.TEXT, MAX_NODES))
        level = [child for node in level for child in node.iter_expressions()]
        if not level:
            return
    raise CannotSplitError(TooMuch(Excess.NESTING))


def _check_can_be_split(query: exp.Query, syntax: Syntax) -> None:
    check_can_be_written(query)
    for node in query.walk():
        if isinstance(node, NONDETERMINISTIC) or (
            isinstance(node, exp.Anonymous) and node.name.lower() in NONDETERMINISTIC_NAMES
        ):
            raise CannotSplitError(NotRepeatable(Unrepeatable.NAMED_EXPRESSION, node.sql(DIALECT)))
        if isinstance(node, exp.With) and node.args.get("recursive"):
            raise CannotSplitError(Unsupported(Construct.RECURSIVE_CTE))
        if isinstance(node, exp.JSONFormat) and node.args.get("options"):
            raise CannotSplitError(Unsupported(Construct.JSON_OPTIONS))
        if isinstance(node, exp.Hint):
            raise CannotSplitError(Unsupported(Construct.HINT))
        if isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
            raise CannotSplitError(Unsupported(Construct.TABLE_FUNCTION, node.this.sql(DIALECT)[:40]))
        if isinstance(node, exp.Select):
            _check_aliases_are_unique(node, syntax)


def _check_aliases_are_unique(select: exp.Select, syntax: Syntax) -> None:
    """The alias of a semi or anti join may be used again after it, which block names cannot express."""
    clause, joins = select.args.get("from_"), select.args.get("joins") or []
    aliases = Counter(syntax.folded(node.this.alias_or_name) for node in (clause, *joins) if node is not None)
    repeated = next((alias for alias, times in aliases.items() if alias and times > 1), None)
    if repeated is not None:
        raise CannotSplitError(Unsupported(Construct.SAME_ALIAS, repr(repeated)))


def _name_ctes(query: exp.Query, names: _BlockNames, syntax: Syntax) -> frozenset[str]:
    """Give every CTE a unique name and redirect its readers to it, so that no name is ambiguous."""
    read = [(table, cte) for table in query.find_all(exp.Table) if (cte := cte_of(table, syntax)) is not None]
    given = {id(cte): names.unused(cte.alias) for cte in query.find_all(exp.CTE)}
    for table, cte in read:
        _redirect(table, given[id(cte)])
    for cte in query.find_all(exp.CTE):
        cte.args["alias"].set("this", exp.to_identifier(given[id(cte)], quoted=True))
    return frozenset(given.values())


def cte_of(table: exp.Table, syntax: Syntax) -> exp.CTE | None:
    """The CTE that a table node names: the innermost enclosing one that is defined before it."""
    if table.db:
        return None
    child: exp.Expr = table
    named = syntax.folded(table.name)
    while (parent_node := child.parent) is not None:
        clause = parent_node.args.get("with_")
        defined: list[exp.CTE] = []
        if isinstance(parent_node, exp.With):
            defined = parent_node.expressions[: child.index]
        elif clause is not None and clause is not child:
            defined = clause.expressions
        found = next((cte for cte in reversed(defined) if syntax.folded(cte.alias) == named), None)
        if found is not None:
            return found
        child = parent_node
    return None


def _name_tables(
    query: exp.Query, ctes: frozenset[str], catalogue: Catalogue, syntax: Syntax
) -> tuple[dict[str, str], dict[str, Types]]:
    """Give every base table an unqualified name, and look up its columns."""
    tables: dict[str, str] = {}
    types: dict[str, Types] = {}
    parts: dict[str, tuple[str, ...]] = {}
    for node in list(query.find_all(exp.Table)):
        if not node.db and node.name in ctes:
            continue
        if node.name.lower().startswith(PREFIX):
            raise CannotSplitError(Unsupported(Construct.RESERVED_NAME, f"table {node.name}"))
        written = source_name(node)
        name = syntax.folded(node.name if not node.db else f"{node.db}__{node.name}")
        written_parts = (syntax.folded(node.catalog), syntax.folded(node.db), syntax.folded(node.name))
        if name not in types:
            columns = catalogue.columns(written)
            if columns is None:
                raise UnknownTableError(written, _where(node.this))
            tables[name], types[name], parts[name] = written, columns, written_parts
        elif parts[name] != written_parts:
            raise CannotSplitError(Unsupported(Construct.SAME_NAME, f"{tables[name]} and {written}"))
        _redirect(node, name)
    return tables, types


def _where(node: exp.Expr) -> str:
    """The position where a name starts, as in errors of syntax."""
    line, end = node.meta.get("line"), node.meta.get("col")
    if line is None or end is None:
        return "query"
    return f"query, line {line}, position {end - (node.meta['end'] - node.meta['start'])}"


def _qualify_names(query: exp.Query, types: dict[str, Types], syntax: Syntax) -> exp.Query:
    try:
        result = qualify(query, schema=dict(types), dialect=syntax.dialect)
    except (OptimizeError, SchemaError) as error:
        message = " ".join(str(error).split())
        if "could not be resolved" in message or "Unknown column" in message:
            if HIDDEN_COLUMN in message:
                raise CannotSplitError(Unsupported(Construct.NAMES, message)) from None
            raise _unknown_column(message, types) from None
        raise CannotSplitError(Unsupported(Construct.NAMES, message)) from None
    if not isinstance(result, exp.Query):
        raise CannotSplitError(Unsupported(Construct.NOT_SELECT))
    return result


def _name_joined_columns(query: exp.Query) -> None:
    """Have a column that tables are joined USING be that of the first, where Spark has it so.

    sqlglot writes COALESCE of those of all tables, as Spark does for FULL joins alone.
    """
    for node in list(query.find_all(exp.Coalesce)):
        parts = [node.this, *node.expressions]
        is_written = not all(isinstance(part, exp.Column) and part.this.meta.get("line") is None for part in parts)
        if is_written or len({part.name for part in parts}) > 1:
            continue
        select = node.parent_select
        while select is not None and parts[0].table not in aliases_defined_by(select):
            select = select.parent_select
        if select is not None and not any(join.side in ("RIGHT", "FULL") for join in select.args.get("joins") or ()):
            node.replace(parts[0])


UNRESOLVED = re.compile(
    r"(?:Column '(?P<quoted>.*?)' could not be resolved|Unknown column: (?P<plain>.*?))"
    r"(?: for table: '(?P<table>.*?)')?(?:\. Line: (?P<line>\d+), Col: (?P<end>\d+))?\.?$"
)
"""sqlglot's messages about a column that does not exist, is not in scope or is ambiguous."""


HIDDEN_COLUMN = "'_metadata'"
"""The column of every file that Spark shows only where it is named."""


def _unknown_column(message: str, types: dict[str, Types]) -> UnknownColumnError:
    """The error for sqlglot's message, with the position where the column starts, and columns of similar names."""
    unresolved = UNRESOLVED.search(message)
    if unresolved is None:
        return UnknownColumnError(f"query: {message}")
    name = unresolved["quoted"] or unresolved["plain"] or ""
    where = _where_unresolved(unresolved, name)
    known = {column for columns in types.values() for column in columns}
    if name.lower() in {column.lower() for column in known}:
        return UnknownColumnError(f"{where}: column {name!r} is ambiguous, or of a table that is not in scope")
    return UnknownColumnError(f"{where}: column {name!r} not found", did_you_mean(name, known))


def _where_unresolved(unresolved: re.Match[str], name: str) -> str:
    """The position where the column starts; only the line where it ends if there is a line break in its name."""
    if not unresolved["line"]:
        return "query"
    written = len(name) + (0 if re.fullmatch(r"\w+", name) else len("``"))
    position = int(unresolved["end"]) - written + 1
    return f"query, line {unresolved['line']}" + (f", position {position}" if position >= 1 else "")


def _extract_ctes(query: exp.Query, blocks: dict[str, exp.Query]) -> None:
    """Remove every WITH clause; its definitions become blocks under the names given by `_name_ctes`."""
    for clause in list(query.find_all(exp.With)):
        for cte in clause.expressions:
            body = cte.this
            if not isinstance(body, exp.Query) or is_correlated(body):
                raise CannotSplitError(Unsupported(Construct.CORRELATED_CTE, cte.alias.removeprefix(PREFIX)))
            blocks[cte.alias] = body
        clause.pop()


def _extract_derived(query: exp.Query, blocks: dict[str, exp.Query], names: _BlockNames) -> None:
    """Make every subquery in a FROM clause a block, innermost first."""
    for node in reversed(list(query.find_all(exp.Subquery))):
        body = node.this
        in_from = isinstance(node.parent, exp.From | exp.Join)
        if not in_from or not isinstance(body, exp.Query) or not is_plain_source(node) or is_correlated(body):
            continue
        name = names.unused(node.alias or "derived")
        node.replace(exp.alias_(exp.to_table(name), node.alias or name, table=True, copy=False))
        blocks[name] = body


def _extract_branches(query: exp.Query, blocks: dict[str, exp.Query], names: _BlockNames) -> None:
    """Make each branch of a set operation that has joins a block."""
    if not isinstance(query, exp.SetOperation):
        return
    for branch in _branches(query):
        if isinstance(branch, exp.Select) and branch.args.get("joins"):
            name = names.unused("branch")
            branch.replace(exp.select("*").from_(exp.to_table(name)))
            blocks[name] = branch


def _branches(query: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(query, exp.SetOperation):
        yield from _branches(query.left)
        yield from _branches(query.right)
    elif isinstance(query, exp.Subquery) and query.this is not None:
        yield from _branches(query.this)
    else:
        yield query


def is_correlated(body: exp.Query) -> bool:
    """Whether a subquery reads columns of an enclosing query."""
    scopes = traverse_scope(body)
    return bool(scopes) and bool(scopes[-1].external_columns)


def is_plain_source(node: exp.Expr) -> bool:
    """Whether a table or subquery in FROM is used as it is: not pivoted, sampled, time-travelled or joined."""
    named = {"this", "db", "catalog", "alias"}
    return not any(value for arg, value in node.args.items() if arg not in named)


def _redirect(table: exp.Table, name: str) -> None:
    """Make a table node read another, unqualified name under its present alias."""
    if not table.alias:
        columns = table.args["alias"].args.get("columns") if table.args.get("alias") else None
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True), columns=columns))
    table.set("this", exp.to_identifier(name, quoted=True))
    table.set("db", None)
    table.set("catalog", None)


def _restore_tables(block: exp.Query, tables: dict[str, str]) -> None:
    """Restore the names of base tables as the user wrote them."""
    for table in block.find_all(exp.Table):
        if table.name in tables:
            written = exp.to_table(tables[table.name], dialect=DIALECT)
            for part in ("this", "db", "catalog"):
                table.set(part, written.args.get(part))


def topological_order(blocks: dict[str, exp.Query]) -> dict[str, exp.Query]:
    """The blocks in topological order: each after those that it reads."""
    ordered: dict[str, exp.Query] = {}

    def add(name: str) -> None:
        if name in ordered:
            return
        for table in blocks[name].find_all(exp.Table):
            if source_name(table) in blocks:
                add(source_name(table))
        ordered[name] = blocks[name]

    add(ROOT)
    return ordered
