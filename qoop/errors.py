"""Errors of a query."""

import difflib
from collections.abc import Iterable

from qoop.as_written.causes import AsWrittenCause
from qoop.as_written.wording import text
from yarn_plugin.errors import ReportedError


class QoopError(ReportedError):
    """The query cannot be run as requested."""


class QuerySyntaxError(QoopError):
    """The text is not valid SQL; the message gives line and position."""


class UnknownNameError(QoopError):
    """The query names a table or a column that does not exist."""


class UnknownTableError(UnknownNameError):
    """The query names a table that does not exist."""

    def __init__(self, table: str, where: str = "query") -> None:
        super().__init__(f"{where}: table {table!r} not found")
        self.table = table


class UnknownColumnError(UnknownNameError):
    """The query names a column that does not exist; `similar`: the end of the message, with names that do."""

    def __init__(self, message: str, similar: str = "") -> None:
        super().__init__(f"{message}{similar}")
        self.similar = similar


class QueryFailedError(QoopError):
    """The query has failed; the message is Spark's."""


class RunsAsWrittenError(QoopError):
    """A query, or a block of it, runs as written. Never shown as an error: Spark runs the query."""

    def __init__(self, cause: AsWrittenCause) -> None:
        super().__init__(text(cause))
        self.cause = cause


class CannotSplitError(RunsAsWrittenError):
    """A query or a block runs as a single stage, as it cannot be taken apart."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A suggestion to append to a message about an unknown table or column; empty if no name is similar."""
    wanted = name.replace("`", "").rpartition(".")[2].lower()
    near = difflib.get_close_matches(wanted, {one.lower() for one in known}, n=2)
    return f"; did you mean {' or '.join(near)}?" if near else ""
