"""What kind of statement a text is, and the query inside it."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

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
from qoop.parsing.spark_sql import DIALECT, USUAL, Syntax, check_can_be_written
from yarn_plugin.errors import describe


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed statement.

    `query`: the query to plan: the statement itself, or that inside a CREATE TABLE AS or an INSERT; None if there is
    none. `writes`: the statement does not return rows. `creates`: the table that it creates, which must not exist yet.
    `syntax`: how its text was read, and how names in it are compared.
    """

    text: str
    tree: exp.Expr
    query: exp.Query | None
    writes: bool
    creates: str | None = None
    syntax: Syntax = USUAL

    @property
    def stores_rows(self) -> bool:
        """Whether it stores the rows of a query instead of returning them."""
        return self.writes and self.query is not None

    @property
    def table_names(self) -> frozenset[str]:
        """The unqualified, lower-case names of the tables that it reads, its own CTEs among them."""
        return frozenset(table.name.lower() for table in self.tree.find_all(exp.Table))

    def source_query(self) -> "Statement":
        """The query whose rows it stores, as a statement that returns them."""
        if self.query is None:
            raise CannotSplitError(Unsupported(Construct.NO_QUERY))
        query = self.query.copy()
        return Statement(str(query.sql(DIALECT)), query, query, writes=False, syntax=self.syntax)


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
        _parsed_before.put(key, known)
        return known


_parsed_before: Latest[tuple[str, Syntax], tuple[Statement | None, AsWrittenCause | None]] = Latest(100)
"""The texts that were parsed last: nothing changes their trees."""


def _try_to_parse(text: str, syntax: Syntax) -> tuple[Statement | None, AsWrittenCause | None]:
    """The statement, or why only Spark can understand it."""
    # Inserted values are not parsed, as there may be very many: one stands for all of them.
    values = INSERTED_VALUES.match(text)
    if values is not None and not QUERY_WORDS.search(text):
        text = f"{values[1]} (1)"
    try:
        return parse_statement(text, syntax), None
    except CannotSplitError as problem:
        return None, problem.cause
    except QuerySyntaxError as problem:
        return None, Unreadable(str(problem))
    except Exception as problem:  # noqa: BLE001 - whatever fails in the parser, Spark may run the text
        return None, PlanningFailed(describe(problem))


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
    inner = tree.args.get("expression") if _stores_a_query(tree) and _can_be_written(tree) else None
    if isinstance(inner, exp.Query):
        return Statement(text, tree, inner, writes=True, creates=_created_table(tree), syntax=syntax)
    if isinstance(tree, exp.Command):
        raise CannotSplitError(Unsupported(Construct.COMMAND))
    return Statement(text, tree, None, writes=True, syntax=syntax)


def _stores_a_query(tree: exp.Expr) -> bool:
    """CREATE TABLE AS or INSERT. A view stores its text, not its rows; CTEs before INSERT are not part of its query."""
    if isinstance(tree, exp.Create):
        return tree.kind == "TABLE" and not tree.args.get("with_")
    return isinstance(tree, exp.Insert) and not tree.args.get("with_")


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
