"""What a query is made of: for the list that `tpcds queries` prints."""

from dataclasses import dataclass

from sqlglot import exp

from tpcds import queries
from tpcds.tables import TABLES


@dataclass(frozen=True, slots=True)
class Shape:
    """The tables a query reads (each once), its joins, and the most relations that one SELECT joins."""

    query: int
    tables: tuple[str, ...]
    joins: int
    widest: int


def shape(query: int) -> Shape:
    """The shape of a query as it is written: a subquery that is named twice counts once."""
    tree = queries.tree(query)
    read = {table.name for table in tree.find_all(exp.Table)}
    selects = [len(select.args.get("joins") or ()) for select in tree.find_all(exp.Select)]
    return Shape(query, tuple(table for table in sorted(TABLES) if table in read), sum(selects), max(selects) + 1)
