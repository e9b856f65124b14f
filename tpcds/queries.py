"""The 99 queries in each engine's dialect: published text, substituted parameters, comparable answers.

Public: `duckdb_text(n)`, `spark_text(n)`, `text(n, dialect)`, `parse_numbers("1-10,72")`.
"""

from dataclasses import dataclass
from functools import cache

import sqlglot
from sqlglot import exp

from tpcds import extension, queries
from tpcds.comparable import comparable
from tpcds.generator import TABLES
from tpcds.parameters import substitute
from yarn_plugin.errors import BadInputError

FIRST, LAST = 1, 99
DIALECTS = ("duckdb", "spark")


def duckdb_text(query: int) -> str:
    """The text of a query for DuckDB."""
    return text(query, "duckdb")


def spark_text(query: int) -> str:
    """The text of a query for Spark SQL."""
    return text(query, "spark")


@cache
def text(query: int, dialect: str) -> str:
    """The text of a query in one of `DIALECTS`, the same at every scale."""
    return tree(query).sql(dialect, pretty=True)


@cache
def tree(query: int) -> exp.Query:
    """The syntax tree from which both dialects are rendered; callers must not change it.

    Raises:
        BadInputError: there is no such query.
        ChangedTextError: a substitution does not fit the published text.
        NotInstalledError: DuckDB or its extension is missing.
    """
    if not FIRST <= query <= LAST:
        raise BadInputError("query", query, f"must be from {FIRST} to {LAST}")
    chosen = substitute(query, extension.published_queries()[query])
    parsed = sqlglot.parse_one(chosen, read="duckdb")
    assert isinstance(parsed, exp.Query)
    return comparable(parsed, extension.output_width(chosen))


def parse_numbers(text: str) -> list[int]:
    """The query numbers of an option such as "1-99", "3" or "1-10,72"; in the order given, without duplicates.

    Raises:
        BadInputError: not such a list, or a number outside 1 to 99.
    """
    numbers: list[int] = []
    for item in text.split(","):
        first, dash, last = item.strip().partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash)):
            raise _bad(text)
        chosen = range(int(first), int(last if dash else first) + 1)
        if not chosen or chosen[0] < FIRST or chosen[-1] > LAST:
            raise _bad(text)
        numbers += [number for number in chosen if number not in numbers]
    return numbers


def _bad(text: str) -> BadInputError:
    return BadInputError("--queries", text, f"must be numbers from {FIRST} to {LAST}, such as 3 or 1-10,72")


@dataclass(frozen=True, slots=True)
class Shape:
    """The tables a query reads, its number of joins, and the most relations joined by one SELECT."""

    query: int
    tables: tuple[str, ...]
    joins: int
    max_relations: int


def shape(query: int) -> Shape:
    """The shape of a query as written: a CTE referenced twice counts once."""
    tree = queries.tree(query)
    read = {table.name for table in tree.find_all(exp.Table)}
    selects = [len(select.args.get("joins") or ()) for select in tree.find_all(exp.Select)]
    return Shape(query, tuple(table for table in sorted(TABLES) if table in read), sum(selects), max(selects) + 1)
