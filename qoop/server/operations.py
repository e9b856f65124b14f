"""Operations: a statement, or a question about the catalogue, from its start until it is closed."""

import hmac
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from qoop.server.errors import GENERAL_ERROR
from qoop.server.results import Result
from qoop.server.types import NO_ROWS, Column
from yarn_plugin.control_characters import escape_controls


class OperationState(IntEnum):
    """`TOperationState` of the protocol."""

    RUNNING = 1
    FINISHED = 2
    CANCELED = 3
    CLOSED = 4
    ERROR = 5
    PENDING = 7
    TIMEDOUT = 8


ENDED = frozenset(OperationState) - {OperationState.PENDING, OperationState.RUNNING}


class OperationKind(IntEnum):
    """`TOperationType` of the protocol."""

    EXECUTE_STATEMENT = 0
    GET_TYPE_INFO = 1
    GET_CATALOGS = 2
    GET_SCHEMAS = 3
    GET_TABLES = 4
    GET_TABLE_TYPES = 5
    GET_COLUMNS = 6
    GET_FUNCTIONS = 7
    UNKNOWN = 8


@dataclass(frozen=True, slots=True)
class Handle:
    """How a client names a session or an operation: 16 random bytes, and 16 more that prove it was given them."""

    guid: bytes
    secret: bytes

    def is_same(self, other: "Handle") -> bool:
        """Whether another handle is this one, in a time that tells nothing of its secret."""
        return self.guid == other.guid and hmac.compare_digest(self.secret, other.secret)

    def __str__(self) -> str:
        """The part that is not secret, for logs."""
        return self.guid.hex()[:12]


def new_handle() -> Handle:
    """A handle that nobody can guess."""
    return Handle(secrets.token_bytes(16), secrets.token_bytes(16))


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an operation has failed."""

    message: str
    sql_state: str = GENERAL_ERROR
    error_code: int = 0


class OperationLog:
    """The lines that a client may fetch while its statement runs; when there are too many, the first are dropped.

    Thread-safe.
    """

    def __init__(self, max_lines: int) -> None:
        self._lines: deque[str] = deque(maxlen=max_lines)
        self._lock = threading.Lock()
        self._added = self._fetched = 0

    def add(self, line: str) -> None:
        """Add a line; it may have names in it that other users have chosen, so it controls no client's terminal."""
        line = escape_controls(line)
        with self._lock:
            self._lines.append(line)
            self._added += 1

    def fetch(self, max_lines: int, from_start: bool = False) -> list[str]:
        """The lines since the last fetch, or from the start."""
        with self._lock:
            first = self._added - len(self._lines)
            begin = first if from_start else max(self._fetched, first)
            lines = list(self._lines)[begin - first :][: max(max_lines, 0)]
            self._fetched = begin + len(lines)
            return lines


def _nothing() -> None:
    """Nothing runs that could be stopped."""


class Operation:
    """One operation. Its state changes in any thread, and never again once it has ended.

    Args:
        on_stop: called if it is cancelled, is late or closed before it has ended: stops what runs for it.
    """

    def __init__(
        self,
        kind: OperationKind,
        log: OperationLog,
        on_stop: Callable[[], object] = _nothing,
    ) -> None:
        self.handle, self.kind, self.log = new_handle(), kind, log
        self.columns: tuple[Column, ...] = NO_ROWS
        self.failure: Failure | None = None
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.fetched = 0
        self.fetching = threading.Lock()
        self._on_stop = on_stop
        self._waiters: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._state = OperationState.PENDING
        self._result: Result | None = None

    @property
    def state(self) -> OperationState:
        """Where it is."""
        return self._state

    @property
    def has_ended(self) -> bool:
        """Whether its state is final."""
        return self._state in ENDED

    @property
    def result(self) -> Result | None:
        """Its rows, if it has finished and has any."""
        return self._result

    def when_ended(self, tell: Callable[[], None]) -> None:
        """Call `tell` once it has ended, in the thread that ends it; at once if it has."""
        with self._lock:
            if self._state not in ENDED:
                self._waiters.append(tell)
                return
        tell()

    def forget(self, tell: Callable[[], None]) -> None:
        """Do not call `tell` any more."""
        with self._lock:
            if tell in self._waiters:
                self._waiters.remove(tell)

    def start(self) -> bool:
        """It runs from now on; False if it has ended before."""
        with self._lock:
            if self._state is not OperationState.PENDING:
                return False
            self._state, self.started_at = OperationState.RUNNING, time.time()
            return True

    def finish(self, columns: tuple[Column, ...], result: Result | None) -> None:
        """It has finished with these rows, which are dropped if it has ended before."""
        if not self._end(OperationState.FINISHED, None, columns, result) and result is not None:
            result.close()

    def fail(self, failure: Failure) -> None:
        """It has failed."""
        self._end(OperationState.ERROR, failure)

    def cancel(self) -> None:
        """Stop it, if it has not ended."""
        self._stop(OperationState.CANCELED, Failure("the statement was cancelled", "HY008"))

    def time_out(self, seconds: float) -> None:
        """Stop it, if it has not ended, as it has taken longer than it may."""
        failure = Failure(f"the statement ran for longer than its timeout of {seconds:g} s", "HYT00")
        self._stop(OperationState.TIMEDOUT, failure)

    def close(self) -> None:
        """Stop it, if it has not ended, and drop its rows. Idempotent."""
        self._stop(OperationState.CLOSED, Failure("the statement was closed"))
        with self._lock:
            result, self._result, self._state = self._result, None, OperationState.CLOSED
        if result is not None:
            result.close()

    def _stop(self, state: OperationState, failure: Failure) -> None:
        on_stop = self._on_stop
        if self._end(state, failure):
            on_stop()

    def _end(
        self,
        state: OperationState,
        failure: Failure | None,
        columns: tuple[Column, ...] | None = None,
        result: Result | None = None,
    ) -> bool:
        """Move to a final state; False if it is in one."""
        with self._lock:
            if self._state in ENDED:
                return False
            self.failure, self._result, self.ended_at = failure, result, time.time()
            if columns is not None:
                self.columns = columns
            self._state = state
            waiters, self._waiters = self._waiters, []
            # It holds the statement's text, which may be long.
            self._on_stop = _nothing
        for tell in waiters:
            tell()
        return True
