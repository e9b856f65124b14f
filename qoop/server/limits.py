"""What the server takes at most, over all clients."""

import threading
from collections import Counter
from dataclasses import dataclass

from qoop.server.errors import LimitError, MalformedError

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of a server.

    `max_statements`: open statements a session, and `max_open` of all sessions. `max_running`: statements that run at
    the same time; more wait for their turn. `text_bytes`: of all statements that run or wait. `max_log_lines`: of one
    statement. `max_settings`, `max_settings_chars`: with which a session is opened. `max_message_bytes`: of one message
    of a client, and `max_received_bytes` of all that are being received. `max_page_bytes`: about as much is sent at a
    time. `memory_bytes`, `disk_bytes`: of all results that wait to be fetched. Times are in seconds.
    """

    max_connections: int = 256
    max_sessions: int = 500
    max_statements: int = 1000
    max_open: int = 20_000
    max_running: int = 32
    max_waiting: int = 5000
    max_log_lines: int = 10_000
    max_settings: int = 500
    max_settings_chars: int = 64 * 1024
    max_message_bytes: int = 16 * MIB
    max_received_bytes: int = 256 * MIB
    max_page_bytes: int = 4 * MIB
    text_bytes: int = 256 * MIB
    memory_bytes: int = 256 * MIB
    disk_bytes: int = 16 * 1024 * MIB
    handshake_timeout_s: float = 10.0
    receive_timeout_s: float = 60.0
    write_timeout_s: float = 60.0
    idle_timeout_s: float = 3600.0
    poll_s: float = 1.0


FAIR_FACTOR = 3
"""A user may hold so many times what is left free: alone three quarters, with another one three sevenths each, ..."""

SMALL_MESSAGE = 64 * 1024
"""Bytes of a message that are always received, however much others send."""


class Budget:
    """An amount that users share. None of them can take all: there is always some left for another. Thread-safe.

    What a user may hold follows from what is left free, as in "Dynamic Queue Length Thresholds for Shared-Memory Packet
    Switches" (Choudhury, Hahne).
    """

    def __init__(self, limit: int) -> None:
        self.limit, self._used = limit, 0
        self._of: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """How much is taken."""
        return self._used

    def take(self, count: int, user: str) -> bool:
        """Take some for a user; False if there is not as much left, or the user has too much of it."""
        with self._lock:
            if self._used + count > self.limit or self._of[user] + count > FAIR_FACTOR * (self.limit - self._used):
                return False
            self._used += count
            self._of[user] += count
            return True

    def give_back(self, count: int, user: str) -> None:
        """Give back what was taken."""
        with self._lock:
            self._used -= count
            self._of[user] -= count
            if not self._of[user]:
                del self._of[user]


EVERYONE = ""
"""The user of a budget that is not divided."""


class Received:
    """The bytes of one message while it is received and handled, within the limits of one and of all.

    Raises:
        MalformedError: the message is too long.
        LimitError: too much of others is being received, and this message is not small.
    """

    def __init__(self, limit: int, budget: Budget) -> None:
        self._limit, self._budget = limit, budget
        self._count = self._taken = 0

    def check(self, count: int) -> None:
        """Check that a message may be as long."""
        if count < 0 or count > self._limit:
            raise MalformedError(f"message of {count} bytes: must have at most {self._limit}")

    def expect(self, count: int) -> None:
        """Make room for bytes that have arrived, or are about to be read."""
        self.check(self._count + count if count >= 0 else count)
        large = max(self._count + count - SMALL_MESSAGE - self._taken, 0)
        if large and not self._budget.take(large, EVERYONE):
            raise LimitError("messages of all clients: too many bytes are being received; retry later")
        self._count, self._taken = self._count + count, self._taken + large

    def release(self) -> None:
        """The message has been handled."""
        self._budget.give_back(self._taken, EVERYONE)
        self._count = self._taken = 0
