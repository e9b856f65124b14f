"""Everything that can go wrong with a query, as types."""

from yarn_plugin.errors import ReportedError


class QoopError(ReportedError):
    """The query cannot be run as asked."""


class QuerySyntaxError(QoopError):
    """The text is not SQL: says where, by line and position."""


class UnknownNameError(QoopError):
    """The query names a table or a column that does not exist."""


class UnknownTableError(UnknownNameError):
    """The query names a table that does not exist."""

    def __init__(self, table: str) -> None:
        super().__init__(f"table {table!r}: there is no such table; check --tables or the catalogue.")
        self.table = table


class CannotSplitError(QoopError):
    """A query or a block that is run as one stage, and why. Not shown as an error: never refused."""
