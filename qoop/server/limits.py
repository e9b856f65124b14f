"""What the server takes at most, over all clients."""

from dataclasses import dataclass

from qoop.server.errors import LimitError, MalformedError

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of a server.

    `max_statements`: open statements a session. `max_running`: statements that run at the same time; more wait for
    their turn. `max_log_lines`: of one statement. `max_message_bytes`: of one message of a client, and
    `max_received_bytes` of all that are being received. `max_page_bytes`: about as much is sent at a time.
    `memory_bytes`, `disk_bytes`: of all results that wait to be fetched. Times are in seconds.
    """

    max_connections: int = 256
    max_sessions: int = 500
    max_statements: int = 1000
    max_running: int = 32
    max_waiting: int = 5000
    max_log_lines: int = 10_000
    max_message_bytes: int = 16 * MIB
    max_received_bytes: int = 256 * MIB
    max_page_bytes: int = 4 * MIB
    memory_bytes: int = 256 * MIB
    disk_bytes: int = 16 * 1024 * MIB
    handshake_timeout_s: float = 10.0
    receive_timeout_s: float = 60.0
    write_timeout_s: float = 60.0
    idle_timeout_s: float = 3600.0
    poll_s: float = 1.0


class Budget:
    """Bytes that several may hold, up to a limit. Not for use by several threads without a lock of theirs."""

    def __init__(self, limit: int) -> None:
        self.limit, self.used = limit, 0

    def take(self, count: int) -> bool:
        """Take some bytes; False if there are not as many left."""
        if self.used + count > self.limit:
            return False
        self.used += count
        return True

    def give_back(self, count: int) -> None:
        """Give back what was taken."""
        self.used -= count


class Received:
    """The bytes of one message while it is received and handled, within the limits of one and of all.

    Raises:
        MalformedError: the message is too long.
        LimitError: too many others are being received.
    """

    def __init__(self, limit: int, budget: Budget) -> None:
        self._limit, self._budget = limit, budget
        self._count = 0

    def expect(self, count: int) -> None:
        """Make room for bytes that are about to be read."""
        if count < 0 or self._count + count > self._limit:
            raise MalformedError(f"message of {self._count + count} bytes: must have at most {self._limit}")
        if not self._budget.take(count):
            raise LimitError("messages of all clients: too many bytes are being received; retry later")
        self._count += count

    def release(self) -> None:
        """The message has been handled."""
        self._budget.give_back(self._count)
        self._count = 0
