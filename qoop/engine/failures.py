"""What a failure of Spark says: its message, its causes, and whether it is the cluster's fault."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError

from qoop.errors import QoopError


class StoppedError(QoopError):
    """A stage was cancelled before it started a job."""


LOST_PART = "Checkpoint block"
"""How Spark's message starts when a part of an output that is stored whole was lost."""

OUT_OF_ROOM = (
    "OutOfMemoryError",
    "Java heap space",
    "Not enough memory to build and broadcast",
    "No space left on device",
    "Disk quota exceeded",
)
"""Messages that mean that there was no memory left, in the driver or an executor, or no room on a disk."""

TRANSIENT = (
    LOST_PART,
    "ExecutorLostFailure",
    "FetchFailed",
    "FAILED_READ_FILE.FILE_NOT_EXIST",
    "FileNotFoundException",
    "PATH_NOT_FOUND",
    "Could not read",
    "Connection refused",
    "Connection reset",
    "exited caused by one of the running tasks",
    "Master removed our application",
    *OUT_OF_ROOM,
)
"""Messages that mean that the cluster failed, not the query: the stage is retried."""

OF_ROWS = ("21", "22", "38", "39", "P0")
"""Classes of SQLSTATE of errors that computing a row raises: data exceptions, and those of a user's functions."""

OF_PYTHON = "org.apache.spark.api.python.PythonException"
"""How Spark's message of an exception in a function of the user's in Python starts."""

CANCELLED = "SPARK_JOB_CANCELLED"
"""Message of a stage that was not cancelled by the planner, but by the user's program or in Spark's web UI."""

MAX_CAUSES = 20
"""How many nested Java exceptions are examined."""


def message_of(problem: BaseException) -> str:
    """The error message in one line, without Java's stack trace."""
    text = str(problem.java_exception.getMessage()) if isinstance(problem, Py4JJavaError) else str(problem)
    return _line(text)


def java_message(problem: Py4JJavaError) -> str:
    """The first line of a Java exception's message; its class if it has none."""
    exception = problem.java_exception
    lines = str(exception.getMessage() or "").strip().splitlines()
    return lines[0] if lines else str(exception.getClass().getSimpleName())


def is_out_of_room(problem: BaseException) -> bool:
    """Whether a failure of Spark, or one that it wraps, says that no memory or disk was left; False if in doubt."""
    try:
        return any(sign in cause.message for sign in OUT_OF_ROOM for cause in causes_of(problem))
    except Exception:  # noqa: BLE001 - the JVM does not respond
        return False


def was_cancelled(problem: BaseException) -> bool:
    """Whether a failure of Spark, or one that it wraps, says that its job was cancelled; False if in doubt."""
    try:
        return any(CANCELLED in cause.message for cause in causes_of(problem))
    except Exception:  # noqa: BLE001 - the JVM does not respond
        return False


class Cause(NamedTuple):
    """An exception, or one that it wraps: its message in one line.

    `sql_state`: "" if it has none. `in_task`: it has one, and a task raised it.
    """

    message: str
    sql_state: str = ""
    in_task: bool = False

    @property
    def is_of_a_row(self) -> bool:
        """Whether Spark says that computing a row failed, by what it has or by what a function of the user's does."""
        return self.in_task and self.sql_state.startswith(OF_ROWS)


def is_transient(causes: Iterable[Cause]) -> bool:
    """Whether the cluster failed, not the query. A function of the user's may fail in the same words."""
    causes = list(causes)
    if any(cause.is_of_a_row or cause.message.startswith(OF_PYTHON) for cause in causes):
        return False
    return any(sign in cause.message for sign in TRANSIENT for cause in causes)


def causes_of(problem: BaseException) -> list[Cause]:
    """An exception and all that it wraps: Spark wraps the failure of one of a stage's jobs."""
    java = getattr(problem, "java_exception", None) or getattr(problem, "_origin", None)
    causes = [Cause(message_of(problem))]
    todo = [java] if java is not None else []
    while todo and len(causes) < MAX_CAUSES:
        exception = todo.pop()
        state = _sql_state(exception)
        causes.append(Cause(_line(str(exception.toString())), state, bool(state) and _is_of_task(exception)))
        todo += [cause for cause in (exception.getCause(), *exception.getSuppressed()) if cause is not None]
    return causes


def _sql_state(exception: Any) -> str:
    try:
        return str(exception.getSqlState() or "")
    except Py4JError:
        # Not an exception of Spark's own.
        return ""


def _is_of_task(exception: Any) -> bool:
    return any(str(frame.getClassName()) == "org.apache.spark.scheduler.Task" for frame in exception.getStackTrace())


def _line(text: str) -> str:
    return " ".join(text.split("\n\nDriver stacktrace:")[0].split())[:1000]
