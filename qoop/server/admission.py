"""Which connections stay open when there are too many: those of known clients, of no user too many."""

import socket
import time
from contextlib import suppress
from typing import Any

from qoop.server.errors import LimitError
from qoop.server.limits import Budget
from yarn_plugin.serving.connections import Connections, CountingListener

RESERVE = 8
"""One in so many connections is kept free, for those that arrive."""


CLOSING_S = 0.1
"""Seconds for which new connections wait until an old one is closed, which takes longer if its client floods it."""


class Admission:
    """Makes room for new connections: the oldest whose client is not known yet is closed. Only for the event loop.

    Args:
        connections: counts those that are open.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._unknown: dict[int, socket.socket] = {}
        self._places = Budget(connections.limit)
        self._closing: socket.socket | None = None
        self._closing_at = 0.0

    @property
    def is_making_room(self) -> bool:
        """Whether a connection is being closed for another."""
        is_open = self._closing is not None and self._closing.fileno() >= 0
        return is_open and time.monotonic() - self._closing_at < CLOSING_S

    def arrived(self, accepted: socket.socket) -> None:
        """A connection was accepted: if there is hardly room for another, close the oldest of an unknown client."""
        limit, number = self._connections.limit, accepted.fileno()
        # Another connection had this number before, and has ended.
        self._unknown.pop(number, None)
        while self._unknown and self._connections.open >= limit - limit // RESERVE:
            oldest = self._unknown.pop(next(iter(self._unknown)))
            if oldest.fileno() >= 0:
                # Its transport notices, and closes it.
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
                self._closing, self._closing_at = oldest, time.monotonic()
                break
        self._unknown[number] = accepted

    def admit(self, number: int, user: str) -> None:
        """The client of the connection with this file descriptor is known now.

        Raises:
            LimitError: the user has too many connections.
        """
        if not self._places.take(1, user):
            raise LimitError(f"connections of user {user[:100]!r}: too many are open; close some first")
        self._unknown.pop(number, None)

    def leave(self, user: str) -> None:
        """The connection of a known client has ended."""
        self._places.give_back(1, user)


class AdmittingListener(CountingListener):
    """A listening socket that makes room for the next connection.

    Args:
        opened: the socket that listens; this object takes it over.
    """

    def __init__(self, opened: socket.socket, connections: Connections, admission: Admission) -> None:
        # Silent, as for TLS: a client that is refused speaks Thrift, and its refusal is HTTP.
        super().__init__(opened, connections, secure=True)
        self._admission = admission

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection.

        Raises:
            BlockingIOError: there is none now, or it was refused, or is accepted once the event loop has made room.
        """
        if self._admission.is_making_room:
            raise BlockingIOError
        accepted, address = super().accept()
        self._admission.arrived(accepted)
        return accepted, address
