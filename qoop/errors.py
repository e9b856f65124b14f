"""Errors of a query."""

from yarn_plugin.errors import ReportedError


class QoopError(ReportedError):
    """The query cannot be run as requested."""


class QuerySyntaxError(QoopError):
    """The text is not valid SQL; the message gives line and position."""


class UnknownNameError(QoopError):
    """The query names a table or a column that does not exist."""


class UnknownTableError(UnknownNameError):
    """The query names a table that does not exist."""

    def __init__(self, table: str) -> None:
        super().__init__(f"table {table!r}: not found; check --tables or the catalogue.")
        self.table = table


class CannotSplitError(QoopError):
    """Why a query or a block runs as a single stage. Never shown as an error: Spark runs the query as written."""
