"""What kind of statement a text is, and the query inside it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import TokenType

from qoop.as_written.causes import (
    AsWrittenCause,
    Construct,
    Excess,
    PlanningFailed,
    TooMuch,
    Unreadable,
    Unsupported,
)
from qoop.computed_once import computed_once
from qoop.errors import CannotSplitError, QuerySyntaxError
from qoop.latest import Latest
from qoop.parsing.blocks import MAX_NODES
from qoop.parsing.spark_sql import DIALECT, USUAL, Syntax, check_can_be_written
from yarn_plugin.errors import describe


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed statement.

    `query`: the query to plan: the statement itself, or that inside a CREATE TABLE AS or an INSERT; None if there is
    none. `writes`: the statement does not return rows. `creates`: the table that it creates, which must not exist yet.
    `syntax`: how its text was read, and how names in it are compared. `inserts`: the queries of a statement that stores
    the rows of several (`FROM t INSERT INTO a SELECT ... INSERT INTO b SELECT ...`), in order.
    """

    text: str
    tree: exp.Expr
    query: exp.Query | None
    writes: bool
    creates: str | None = None
    syntax: Syntax = USUAL
    inserts: tuple[exp.Query, ...] = ()

    @property
    def stores_rows(self) -> bool:
        """Whether it stores the rows of queries instead of returning them."""
        return self.writes and (self.query is not None or bool(self.inserts))

    def with_query(self, query: exp.Query) -> "Statement":
        """The same with another query, which returns its rows."""
        return Statement(str(query.sql(DIALECT)), query, query, writes=False, syntax=self.syntax)

    @property
    def table_names(self) -> frozenset[str]:
        """The unqualified, lower-case names of the tables that it reads, its own CTEs among them."""
        return frozenset(table.name.lower() for table in self.tree.find_all(exp.Table))

    def with_values(self, values: Mapping[tuple[str, ...], str]) -> "Statement":
        """The query with literals in place of names that mean session variables, where no column has such a name."""
        if self.query is None or not values:
            return self
        query = self.query.copy()
        for column in list(query.find_all(exp.Column)):
            literal = values.get(tuple(part.name.lower() for part in column.parts))
            if literal is not None:
                (value,) = self.syntax.parse(f"SELECT {literal}")[0].expressions
                is_output = column.arg_key == "expressions" and isinstance(column.parent, exp.Select)
                column.replace(exp.alias_(value, column.name, quoted=True) if is_output else value)
        return self.with_query(query)

    def source_queries(self) -> tuple["Statement", ...]:
        """The queries whose rows it stores, as statements that return them."""
        queries = self.inserts or ((self.query,) if self.query is not None else ())
        return tuple(self.with_query(query.copy()) for query in queries)


class ParsedText:
    """The user's text, parsed when that is first needed, unless it was before.

    Args:
        syntax: tells how the text is read; asked when it is parsed.
        statement: what the text means, where that is known already.
    """

    def __init__(
        self, text: str, syntax: Callable[[], Syntax] = lambda: USUAL, statement: Statement | None = None
    ) -> None:
        self.text, self._syntax = text, syntax
        if statement is not None:
            self._parsed = statement, None

    @property
    def statement(self) -> Statement | None:
        """The statement; None if only Spark can understand it."""
        return self._parsed[0]

    @property
    def cause(self) -> AsWrittenCause | None:
        """Why there is no statement."""
        return self._parsed[1]

    @property
    def stores_rows(self) -> bool:
        """Whether it stores the rows of a query that can be planned."""
        return self.returns_no_rows and self.statement is not None and self.statement.stores_rows

    @property
    def returns_no_rows(self) -> bool:
        """Whether it is known to be a statement that returns none."""
        return not ROWS_RETURNED.match(self.text) and self.statement is not None and self.statement.writes

    @computed_once
    def _parsed(self) -> tuple[Statement | None, AsWrittenCause | None]:
        key = self.text, self._syntax()
        known = _parsed_before.get(key) or _try_to_parse(*key)
        if len(self.text) <= MAX_KEPT:
            _parsed_before.put(key, known)
        return known


_parsed_before: Latest[tuple[str, Syntax], tuple[Statement | None, AsWrittenCause | None]] = Latest(100)
"""The texts that were parsed last: nothing changes their trees."""

MAX_KEPT = 100_000
"""Characters of a text that is kept with its tree."""


def _try_to_parse(text: str, syntax: Syntax) -> tuple[Statement | None, AsWrittenCause | None]:
    """The statement, or why only Spark can understand it."""
    # Inserted values are not parsed, as there may be very many: one stands for all of them.
    values = INSERTED_VALUES.match(text)
    if values is not None and not QUERY_WORDS.search(text):
        text = f"{values[1]} (1)"
    if next(islice(WORDS.finditer(text), MAX_WORDS, None), None) is not None:
        # Parsing it would take minutes, in which other threads of this process hardly run.
        return None, TooMuch(Excess.TEXT, MAX_NODES)
    try:
        return parse_statement(text, syntax), None
    except CannotSplitError as problem:
        return None, problem.cause
    except QuerySyntaxError as problem:
        return None, Unreadable(str(problem))
    except Exception as problem:  # noqa: BLE001 - whatever fails in the parser, Spark may run the text
        return None, PlanningFailed(describe(problem))


WORDS = re.compile(r"\w+")

MAX_WORDS = 2 * MAX_NODES
"""Words of a text that is parsed; most of them are expressions, of which the planner takes half as many."""

INSERTED_VALUES = re.compile(
    r"(\s*INSERT\s+(?:INTO|OVERWRITE)\b[^()']*(?:\([^()]*\)[^()']*)?\bVALUES)\s*\(", re.IGNORECASE
)
"""How a text begins that inserts values, up to the first of them."""

QUERY_WORDS = re.compile(r"\b(?:SELECT|UNION|EXCEPT|MINUS|INTERSECT|FROM)\b", re.IGNORECASE)
"""Without any of these a statement that inserts values has no query."""

ROWS_RETURNED = re.compile(r"\s*(?:SELECT|WITH)\b(?!.*\bINSERT\b)", re.IGNORECASE | re.DOTALL)
"""How a text begins that need not be parsed to know that it stores no rows."""


def parse_statement(text: str, syntax: Syntax = USUAL) -> Statement:
    """Parse a text that holds exactly one statement.

    Raises:
        QuerySyntaxError: it is not SQL; with line and position.
        CannotSplitError: the planner does not support it; Spark may.
    """
    if DIRECTORY.match(text):
        return _into_directory(text, syntax)
    try:
        trees = syntax.parse(text)
    except ParseError as error:
        raise QuerySyntaxError(_with_position(error)) from None
    except TokenError as error:
        raise QuerySyntaxError(f"query: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise CannotSplitError(TooMuch(Excess.NESTING)) from None
    if len(trees) != 1:
        raise QuerySyntaxError(f"query: {len(trees)} statements; must be exactly one")
    tree = trees[0]
    if isinstance(tree, exp.Query):
        return Statement(text, tree, tree, writes=False, syntax=syntax)
    if isinstance(tree, exp.MultitableInserts) and _can_be_written(tree):
        return Statement(text, tree, None, writes=True, syntax=syntax, inserts=_queries_of(tree, syntax))
    inner = _stored_query(tree, syntax) if _can_be_written(tree) else None
    if inner is not None:
        return Statement(text, tree, inner, writes=True, creates=_created_table(tree), syntax=syntax)
    if isinstance(tree, exp.Command):
        raise CannotSplitError(Unsupported(Construct.COMMAND))
    return Statement(text, tree, None, writes=True, syntax=syntax)


def _stored_query(tree: exp.Expr, syntax: Syntax) -> exp.Query | None:
    """The query of a CREATE TABLE AS or an INSERT, with the CTEs before INSERT. A view stores its text, no rows."""
    query = tree.args.get("expression")
    if not isinstance(query, exp.Query):
        return None
    if isinstance(tree, exp.Create):
        return query if tree.kind == "TABLE" and not tree.args.get("with_") else None
    return _with_ctes(query, tree.args.get("with_"), syntax) if isinstance(tree, exp.Insert) else None


def _with_ctes(query: exp.Query, clause: exp.With | None, syntax: Syntax) -> exp.Query | None:
    """A query with more CTEs, defined before its own; None if two have the same name."""
    if clause is None:
        return query
    query = query.copy()
    own = query.args.get("with_")
    ctes = [cte.copy() for one in (clause, own) if one is not None for cte in one.expressions]
    if len({syntax.folded(cte.alias) for cte in ctes}) < len(ctes):
        return None
    recursive = any(one.args.get("recursive") for one in (clause, own) if one is not None)
    query.set("with_", exp.With(expressions=ctes, recursive=recursive))
    return query


def _queries_of(tree: exp.MultitableInserts, syntax: Syntax) -> tuple[exp.Query, ...]:
    """The queries of `FROM source INSERT INTO a SELECT ... INSERT INTO b SELECT ...`; none if one is not certain."""
    source, queries = tree.args.get("source"), list[exp.Query]()
    for insert in tree.expressions:
        query = insert.args.get("expression")
        if not isinstance(query, exp.Select) or query.args.get("from_") is not None or source is None:
            return ()
        query = query.copy()
        query.set("from_", exp.From(this=source.copy()))
        with_ctes = _with_ctes(query, tree.args.get("with_"), syntax)
        if with_ctes is None:
            return ()
        queries.append(with_ctes)
    return tuple(queries)


DIRECTORY = re.compile(r"\s*INSERT\s+OVERWRITE\s+(LOCAL\s+)?DIRECTORY\b", re.IGNORECASE)
"""How a statement begins that writes files to a folder."""


def _into_directory(text: str, syntax: Syntax) -> Statement:
    """A statement that writes the rows of a query to a folder; how it writes them, Spark alone reads."""
    depth = 0
    for token in syntax.dialect.tokenize(text):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if (depth == 0 and token.token_type == TokenType.SELECT) or (
            depth == 0 and token.token_type == TokenType.WITH and not SERDE.match(text, token.end + 1)
        ):
            query = parse_statement(text[token.start :], syntax)
            return Statement(text, query.tree, query.query, writes=True, syntax=syntax)
    raise CannotSplitError(Unsupported(Construct.NO_QUERY))


SERDE = re.compile(r"\s*SERDEPROPERTIES\b", re.IGNORECASE)


def _can_be_written(tree: exp.Expr) -> bool:
    try:
        check_can_be_written(tree)
    except CannotSplitError:
        return False
    return True


def _created_table(tree: exp.Expr) -> str | None:
    if not isinstance(tree, exp.Create) or tree.args.get("replace"):
        return None
    table = tree.find(exp.Table)
    return str(table.sql(DIALECT)) if table is not None else None


def _with_position(error: ParseError) -> str:
    first = error.errors[0] if error.errors else {}
    description = TOKEN.sub(r"\1", " ".join(str(first.get("description", error)).split()))
    token = str(first.get("highlight", ""))
    near = " ".join(f"{first.get('start_context', '')}{token}".split())[-60:]
    # sqlglot gives the position of the token's end.
    position = int(first.get("col") or 0) - max(len(token) - 1, 0)
    description = description[:1].lower() + description[1:]
    return f"query, line {first.get('line', '?')}, position {position}: {description} near {near!r}"


TOKEN = re.compile(r"<Token .*?text: (.*?), line: .*?>")
"""How sqlglot prints a token in a message."""
