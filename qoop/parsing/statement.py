"""What kind of statement a text is, and the query inside it."""

import re
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from qoop.errors import CannotSplitError, QuerySyntaxError
from qoop.parsing.spark_sql import DIALECT, check_can_be_written


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement: its text, and (for a query, CREATE TABLE AS or INSERT) the query whose rows it is about.

    `writes`: it stores the rows instead of returning them. `query` None: a statement without a query to plan. `makes`:
    the table that it would make anew, where it may be refused because there is one.
    """

    text: str
    tree: exp.Expr
    query: exp.Query | None
    writes: bool
    makes: str | None = None

    def inside(self) -> str:
        """The query alone."""
        return str((self.query or self.tree).sql(DIALECT))

    def around(self, view: str) -> str:
        """The statement with its query replaced by all rows of a view."""
        source = exp.select("*").from_(exp.to_table(view))
        if not self.writes:
            return str(source.sql(DIALECT))
        tree = self.tree.copy()
        tree.set("expression", source)
        return str(tree.sql(DIALECT))


def read(text: str) -> Statement:
    """Read a text that holds one statement.

    Raises:
        QuerySyntaxError: it is not SQL; with line and position.
        CannotSplitError: it is more, or something else, than the planner reads; the engine may still.
    """
    try:
        trees = [tree for tree in sqlglot.parse(text, dialect=DIALECT) if tree is not None]
    except ParseError as error:
        raise QuerySyntaxError(_where(error)) from None
    except TokenError as error:
        raise QuerySyntaxError(f"query: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise CannotSplitError("it is nested too deeply for the planner") from None
    if len(trees) != 1:
        raise QuerySyntaxError(f"query: {len(trees)} statements; give exactly one")
    tree = trees[0]
    if isinstance(tree, exp.Query):
        return Statement(text, tree, tree, writes=False)
    inner = tree.args.get("expression") if _stores_a_query(tree) and _can_be_written(tree) else None
    if isinstance(inner, exp.Query):
        return Statement(text, tree, inner, writes=True, makes=_makes(tree))
    if isinstance(tree, exp.Command):
        raise CannotSplitError("the planner does not read this statement")
    return Statement(text, tree, None, writes=True)


def _stores_a_query(tree: exp.Expr) -> bool:
    """CREATE TABLE AS or INSERT. A view keeps its text, not its rows; CTEs before INSERT are not part of its query."""
    if isinstance(tree, exp.Create):
        return tree.kind == "TABLE" and not tree.args.get("with_")
    return isinstance(tree, exp.Insert) and not tree.args.get("with_")


def _can_be_written(tree: exp.Expr) -> bool:
    try:
        check_can_be_written(tree)
    except CannotSplitError:
        return False
    return True


def _makes(tree: exp.Expr) -> str | None:
    if not isinstance(tree, exp.Create) or tree.args.get("replace"):
        return None
    table = tree.find(exp.Table)
    return str(table.sql(DIALECT)) if table is not None else None


def table_names(text: str) -> frozenset[str]:
    """The names without qualifier that a statement reads from, in lower case; among them those of its own CTEs.

    Raises:
        QuerySyntaxError: it is not SQL.
        CannotSplitError: the planner does not read it.
    """
    return frozenset(table.name.lower() for table in read(text).tree.find_all(exp.Table))


def _where(error: ParseError) -> str:
    first = error.errors[0] if error.errors else {}
    shown = TOKEN.sub(r"\1", " ".join(str(first.get("description", error)).split()))
    token = str(first.get("highlight", ""))
    near = " ".join(f"{first.get('start_context', '')}{token}".split())[-60:]
    # Where the token begins: sqlglot gives its end.
    position = int(first.get("col") or 0) - max(len(token) - 1, 0)
    return f"query, line {first.get('line', '?')}, position {position}: {shown} near {near!r}"


TOKEN = re.compile(r"<Token .*?text: (.*?), line: .*?>")
"""How sqlglot shows a token in a message."""
