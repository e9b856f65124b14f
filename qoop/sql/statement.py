"""What kind of statement a text is, and the query inside it."""

from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from qoop.errors import CannotSplitError, QuerySyntaxError
from qoop.sql.dialect import DIALECT, check_can_be_written


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement: its text, and (for a query, CREATE TABLE AS or INSERT) the query whose rows it is about.

    `writes`: it stores the rows instead of returning them. `query` None: a statement without a query to plan.
    """

    text: str
    tree: exp.Expr
    query: exp.Query | None
    writes: bool

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
    if len(trees) != 1:
        raise QuerySyntaxError(f"query: {len(trees)} statements; give exactly one")
    tree = trees[0]
    if isinstance(tree, exp.Query):
        return Statement(text, tree, tree, writes=False)
    inner = tree.args.get("expression") if _stores_a_query(tree) else None
    if isinstance(inner, exp.Query):
        return Statement(text, tree, inner, writes=True)
    if isinstance(tree, exp.Command):
        raise CannotSplitError("the planner does not read this statement")
    return Statement(text, tree, None, writes=True)


def _stores_a_query(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Create | exp.Insert) and _can_be_written(tree)


def _can_be_written(tree: exp.Expr) -> bool:
    try:
        check_can_be_written(tree)
    except CannotSplitError:
        return False
    return True


def table_names(text: str) -> frozenset[str]:
    """The names without qualifier that a statement reads from, in lower case; among them those of its own CTEs.

    Raises:
        QuerySyntaxError: it is not SQL.
        CannotSplitError: the planner does not read it.
    """
    return frozenset(table.name.lower() for table in read(text).tree.find_all(exp.Table))


def _where(error: ParseError) -> str:
    first = error.errors[0] if error.errors else {}
    shown = " ".join(str(first.get("description", error)).split())
    near = " ".join(f"{first.get('start_context', '')}{first.get('highlight', '')}".split())[-60:]
    return f"query, line {first.get('line', '?')}, position {first.get('col', '?')}: {shown} near {near!r}"
