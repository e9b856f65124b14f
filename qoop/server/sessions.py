"""Sessions: who opened them, what is open in each, and when they are closed because nobody uses them."""

import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from qoop.server.errors import InvalidHandleError, LimitError
from qoop.server.limits import Budget, ServerLimits
from qoop.server.operations import Handle, Operation, new_handle


class Closable(Protocol):
    """What a session has of Spark."""

    def close(self) -> None:
        """Release it."""
        ...


Backend = TypeVar("Backend", bound=Closable)


class Session(Generic[Backend]):
    """An open session of a user. Thread-safe.

    `backend`: what it has of Spark. `places`: for the open statements of all sessions. `connection`: the TCP connection
    that it ends with; None with HTTP, which has none of its own.
    """

    def __init__(
        self,
        user: str,
        backend: Backend,
        max_statements: int,
        places: Budget,
        connection: object | None,
        now: float,
    ) -> None:
        self.handle, self.user, self.backend, self.connection = new_handle(), user, backend, connection
        self.used_at = now
        self._max_statements, self._places = max_statements, places
        self._lock = threading.Lock()
        self._operations: dict[bytes, Operation] = {}
        self._closed = False

    def add(self, operation: Operation) -> None:
        """Add an operation.

        Raises:
            LimitError: too many are open.
        """
        with self._lock:
            if self._closed:
                raise InvalidHandleError(f"session {self.handle}: is closed")
            if len(self._operations) >= self._max_statements:
                raise LimitError(f"session {self.handle}: has {self._max_statements} open statements; close some first")
            if not self._places.take(1, self.user):
                raise LimitError("statements: too many are open in all sessions; close some first")
            self._operations[operation.handle.guid] = operation

    def find(self, handle: Handle) -> Operation | None:
        """The operation of a handle."""
        with self._lock:
            operation = self._operations.get(handle.guid)
        return operation if operation is not None and operation.handle.is_same(handle) else None

    def remove(self, operation: Operation) -> None:
        """Close an operation, and forget it."""
        with self._lock:
            if self._operations.pop(operation.handle.guid, None) is not None:
                self._places.give_back(1, self.user)
        operation.close()

    @property
    def operations(self) -> list[Operation]:
        """Those that are open."""
        with self._lock:
            return list(self._operations.values())

    @property
    def is_busy(self) -> bool:
        """Whether a statement has not ended."""
        return any(not operation.has_ended for operation in self.operations)

    def close(self) -> None:
        """Close all that is open in it. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            operations = list(self._operations.values())
            self._operations.clear()
            self._places.give_back(len(operations), self.user)
        for operation in operations:
            operation.close()
        self.backend.close()


class Sessions(Generic[Backend]):
    """All open sessions. Thread-safe.

    Args:
        clock: seconds.
    """

    def __init__(self, limits: ServerLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._lock = threading.Lock()
        self._sessions: dict[bytes, Session[Backend]] = {}
        self._places, self._statements = Budget(limits.max_sessions), Budget(limits.max_open)

    def open(self, user: str, connection: object | None, new: Callable[[], Backend]) -> Session[Backend]:
        """Open a session; `new` makes what it has of Spark, which may take a while.

        Raises:
            LimitError: too many are open.
        """
        if not self._places.take(1, user):
            raise LimitError(f"sessions: too many are open already, {self._places.used} of them; retry later")
        limits = self._limits
        try:
            session = Session(user, new(), limits.max_statements, self._statements, connection, self._clock())
        except BaseException:
            self._places.give_back(1, user)
            raise
        with self._lock:
            self._sessions[session.handle.guid] = session
        return session

    def find(self, handle: Handle, user: str) -> Session[Backend]:
        """The session of a handle, which is used now.

        Raises:
            InvalidHandleError: it is closed, or not this user's.
        """
        with self._lock:
            session = self._sessions.get(handle.guid)
        if session is None or not session.handle.is_same(handle) or session.user != user:
            raise InvalidHandleError(f"session {handle}: is closed, or was never open; connect again")
        session.used_at = self._clock()
        return session

    def find_operation(self, handle: Handle, user: str) -> tuple[Session[Backend], Operation]:
        """The operation of a handle, with its session, which is used now.

        Raises:
            InvalidHandleError: it is closed, or not this user's.
        """
        for session in self.all():
            operation = session.find(handle) if session.user == user else None
            if operation is not None:
                session.used_at = self._clock()
                return session, operation
        raise InvalidHandleError(f"statement {handle}: is closed, or was never open")

    def all(self) -> list[Session[Backend]]:
        """The open sessions."""
        with self._lock:
            return list(self._sessions.values())

    def close(self, session: Session[Backend]) -> None:
        """Close a session."""
        with self._lock:
            if self._sessions.pop(session.handle.guid, None) is not None:
                self._places.give_back(1, session.user)
        session.close()

    def of_connection(self, connection: object) -> list[Session[Backend]]:
        """The sessions that end with a connection."""
        return [session for session in self.all() if session.connection is connection]

    def idle(self) -> list[Session[Backend]]:
        """The sessions that nobody has used for too long, and in which no statement runs."""
        latest = self._clock() - self._limits.idle_timeout_s
        return [session for session in self.all() if session.used_at < latest and not session.is_busy]
