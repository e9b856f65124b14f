"""Statements of sessions: each is run when it is its session's turn, logged, timed, and cancelled until it is over."""

import logging
import threading
from collections.abc import Callable

from qoop.server.backend import SparkSide, Statement
from qoop.server.encoding import schema_of
from qoop.server.errors import LimitError, ServerError
from qoop.server.limits import Budget, ServerLimits
from qoop.server.metadata import Listing
from qoop.server.operations import Failure, Operation, OperationKind, OperationLog, OperationState
from qoop.server.results import ResultRoom, of_rows
from qoop.server.sessions import Session
from qoop.server.turns import Owner, Workers
from yarn_plugin.errors import describe

log = logging.getLogger("qoop.server")

CANCEL_AGAIN_S = 0.5
"""Seconds between attempts to cancel a statement that goes on."""

SHOWN = 200
"""Characters of a statement that are logged."""


class Statements:
    """Runs statements, and questions about the catalogue, which may take as long.

    Args:
        room: for results.
    """

    def __init__(self, limits: ServerLimits, room: ResultRoom) -> None:
        self._limits, self._room = limits, room
        self._workers = Workers(limits.max_running, limits.max_waiting)
        self.texts = Budget(limits.text_bytes)

    def close(self) -> None:
        """Start no more."""
        self._workers.close()

    def start(self, session: Session[SparkSide], text: str) -> Operation:
        """Run a statement as soon as it is its session's turn.

        Raises:
            LimitError: too many wait, or their texts are too long together.
        """
        size, over = len(text), threading.Event()
        if not self.texts.take(size, session.user):
            raise LimitError("statements: the texts of those that run or wait are too long together; retry later")

        def end() -> None:
            over.set()
            self.texts.give_back(size, session.user)

        def cancel() -> None:
            # Again until it is over: it may be planned now, and Spark lets stages of a cancelled group begin later.
            session.backend.cancel(statement.group)
            while not over.wait(CANCEL_AGAIN_S):
                session.backend.cancel(statement.group)

        def run() -> None:
            try:
                if operation.start():
                    self._run(session, operation, statement)
            finally:
                end()

        def stop() -> None:
            if self._workers.withdraw(owner, run):
                end()
            elif not over.is_set():
                threading.Thread(target=cancel, name=f"cancel-{operation.handle}", daemon=True).start()

        owner = Owner(session.user, session.handle)
        operation = Operation(OperationKind.EXECUTE_STATEMENT, OperationLog(self._limits.max_log_lines), stop)
        statement = Statement(text.strip().rstrip(";"), f"qoop-{operation.handle}", operation.log)
        try:
            session.add(operation)
            self._workers.submit(owner, run)
        except ServerError:
            end()
            session.remove(operation)
            raise
        shown = " ".join(text[: 2 * SHOWN].split())[:SHOWN]
        log.info("statement %s of session %s: %s", operation.handle, session.handle, shown)
        return operation

    def _run(self, session: Session[SparkSide], operation: Operation, statement: Statement) -> None:
        """Run a statement to its end, in a thread of its own."""
        try:
            answer = session.backend.run(statement, self._room.of(session.user))
        except ServerError as problem:
            operation.fail(Failure(str(problem), problem.sql_state, problem.error_code))
        except Exception as problem:
            log.exception("statement %s failed", operation.handle)
            operation.fail(Failure(describe(problem)))
        else:
            operation.finish(answer.columns, answer.result)
        took = (operation.ended_at or 0.0) - (operation.started_at or 0.0)
        log.info(
            "statement %s of session %s: %s after %.1f s", operation.handle, session.handle, operation.state.name, took
        )

    def ask(self, session: Session[SparkSide], kind: OperationKind, question: Callable[[], Listing]) -> Operation:
        """Ask a question about the catalogue as soon as it is the session's turn.

        Raises:
            LimitError: too many statements wait.
        """

        def run() -> None:
            if not operation.start():
                return
            try:
                listing = question()
                result = of_rows(self._room.of(session.user), schema_of(listing.columns), listing.rows)
            except ServerError as problem:
                operation.fail(Failure(str(problem), problem.sql_state, problem.error_code))
            except Exception as problem:
                log.exception("question %s of session %s failed", kind.name, session.handle)
                operation.fail(Failure(describe(problem)))
            else:
                operation.finish(listing.columns, result)

        owner = Owner(session.user, session.handle)
        operation = Operation(kind, OperationLog(0), lambda: self._workers.withdraw(owner, run))
        try:
            session.add(operation)
            self._workers.submit(owner, run)
        except ServerError:
            session.remove(operation)
            raise
        return operation

    def refuse_waiting(self, session: Session[SparkSide]) -> None:
        """Fail the session's statements that wait for their turn, which will not come."""
        for operation in session.operations:
            if operation.state is OperationState.PENDING:
                operation.fail(Failure("server: shuts down; connect to another, or retry later", "57P01"))
