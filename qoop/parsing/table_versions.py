"""Texts of queries that read tables as of a version (`t VERSION AS OF 5`)."""

from collections.abc import Mapping

from sqlglot import exp
from sqlglot.errors import SqlglotError

from qoop.parsing.blocks import cte_of
from qoop.parsing.spark_sql import Syntax

TableName = tuple[str, str, str]
"""The catalog, the database and the name of a table, folded; empty where the text has none."""


def tables_in(text: str, syntax: Syntax) -> dict[TableName, str]:
    """The tables that a query names without a version, as it writes them; none if only Spark can parse it."""
    return {_name_of(table, syntax): _written(table, text) for table in _tables(text, syntax)}


def at_versions(text: str, syntax: Syntax, versions: Mapping[TableName, str]) -> str:
    """A query that reads those tables as of these versions, and is otherwise the same to the letter."""
    ends = sorted((table.this.meta["end"] + 1, _name_of(table, syntax)) for table in _tables(text, syntax))
    for end, name in reversed(ends):
        if name in versions:
            text = f"{text[:end]} VERSION AS OF {versions[name]}{text[end:]}"
    return text


def _tables(text: str, syntax: Syntax) -> list[exp.Table]:
    try:
        trees = syntax.parse(text)
    except (SqlglotError, RecursionError):
        return []
    return [table for tree in trees for table in tree.find_all(exp.Table) if _has_place(table, syntax)]


def _has_place(table: exp.Table, syntax: Syntax) -> bool:
    """Whether a version can be written after it."""
    is_name = isinstance(table.this, exp.Identifier) and "end" in table.this.meta
    return is_name and not table.args.get("version") and cte_of(table, syntax) is None


def _name_of(table: exp.Table, syntax: Syntax) -> TableName:
    return syntax.folded(table.catalog), syntax.folded(table.db), syntax.folded(table.name)


def _written(table: exp.Table, text: str) -> str:
    parts = (part.meta for part in table.parts)
    return ".".join(text[part["start"] : part["end"] + 1] for part in parts)
