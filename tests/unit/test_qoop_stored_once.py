"""Which failures of a statement that stores rows leave none behind."""

from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError

from qoop.engine.stored_once import is_of_a_row


class JavaException:
    """An exception of Spark's, by its text, SQLSTATE, the classes in its stack trace, and what it wraps."""

    def __init__(self, text, state=None, stack=(), cause=None):
        self._text, self._state, self._stack, self._cause = text, state, stack, cause

    def toString(self):  # noqa: N802 - as Java names it
        return self._text

    def getSqlState(self):  # noqa: N802
        if self._state is None:
            raise Py4JError("no such method")
        return self._state

    def getStackTrace(self):  # noqa: N802
        return [SimpleNamespace(getClassName=lambda name=name: name) for name in self._stack]

    def getCause(self):  # noqa: N802
        return self._cause

    def getSuppressed(self):  # noqa: N802
        return []


IN_A_TASK = ("java.lang.Thread", "org.apache.spark.scheduler.Task")
DIVIDED = JavaException("[DIVIDE_BY_ZERO] Division by zero", "22012", IN_A_TASK)


@pytest.mark.parametrize(
    ("exception", "expected"),
    [
        (DIVIDED, True),
        (JavaException("Job aborted", None, (), DIVIDED), True),
        (JavaException("[CAST_INVALID_INPUT] of a partition's value, when it is registered", "22018"), False),
        (JavaException("[TASK_WRITE_FAILED] Task failed while writing rows", "58030", IN_A_TASK), True),
        (JavaException("Checkpoint block rdd_1_2 not found!"), True),
        (JavaException("java.io.IOException: no such file", None, IN_A_TASK), False),
        (JavaException("[TABLE_OR_VIEW_NOT_FOUND]", "42P01", IN_A_TASK), False),
    ],
)
def test_rows_are_left_behind_unless_a_task_failed(exception, expected):
    problem = RuntimeError("what Python says")
    problem._origin = exception
    assert is_of_a_row(problem) == expected
