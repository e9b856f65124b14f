"""What the server needs of Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from qoop.server.operations import OperationLog
from qoop.server.results import Result, ResultRoom
from qoop.server.types import Column


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement to run: its text, the group that its jobs are cancelled by, and where its progress is told."""

    text: str
    group: str
    log: OperationLog


@dataclass(frozen=True, slots=True)
class Answer:
    """What a statement returns; without rows if `result` is None."""

    columns: tuple[Column, ...]
    result: Result | None


@dataclass(frozen=True, slots=True)
class Table:
    """A table or view of a schema. `kind`: TABLE or VIEW."""

    name: str
    kind: str
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table: its type as Spark prints it."""

    name: str
    type: str
    comment: str | None = None
    nullable: bool = True


class SparkSide(Protocol):
    """A session of Spark's. Its methods block; each raises ServerError with Spark's message."""

    def run(self, statement: Statement, room: ResultRoom) -> Answer:
        """Run a statement to its end, in this thread."""
        ...

    def cancel(self, group: str) -> None:
        """Cancel the jobs of a statement, and those that it has not started yet."""
        ...

    def schemas(self) -> Sequence[str]:
        """The names of all schemas."""
        ...

    def tables(self, schema: str) -> Sequence[Table]:
        """The tables and views of a schema."""
        ...

    def columns(self, schema: str, table: str) -> Sequence[TableColumn]:
        """The columns of a table."""
        ...

    def functions(self) -> Sequence[str]:
        """The names of all functions."""
        ...

    def close(self) -> None:
        """Release it."""
        ...


class Spark(Protocol):
    """Spark's application."""

    version: str

    def open_session(self, user: str, configuration: Mapping[str, str]) -> SparkSide:
        """Open a session, with settings as clients name them.

        Raises:
            ServerError: Spark refuses a setting, or knows no such database.
        """
        ...
