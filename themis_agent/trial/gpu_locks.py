"""A GPU of a host is used by the processes of one launcher at a time, orphans included.

A lock is a Unix socket with an abstract name, which the kernel frees when the last process that has it open is gone.
Training processes inherit it. So a launcher whose node was lost, and started anew, keeps its GPUs from others until it
has noticed. Containers with a network of their own do not see each other's locks.

Any user of the host can take a lock, and searches of other users do. So a lock of the same user is waited for, and one
of another user only for a time: whose search no longer leases the GPU ends within that, unless it was never a search.
The socket listens, so that the kernel says whose it is.
"""

import contextlib
import errno
import hashlib
import os
import socket
import struct
from collections.abc import Sequence

MAX_ADDRESS = 107
"""Bytes of a Unix socket's address."""

_CREDENTIALS = struct.Struct("3i")
"""What SO_PEERCRED is: process, user, group."""


class GpuLocks:
    """Locks of GPUs, by their names."""

    def __init__(self, names: Sequence[str]) -> None:
        self._missing, self._sockets = list(names), list[socket.socket]()

    @property
    def missing(self) -> tuple[str, ...]:
        """Those that someone else holds."""
        return tuple(self._missing)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """To be inherited by all processes that use the GPUs."""
        return tuple(one.fileno() for one in self._sockets)

    def take(self) -> bool:
        """Take those that are free; whether all are held now."""
        self._missing = [name for name in self._missing if not self._take(name)]
        return not self._missing

    def without_other_users(self) -> tuple[str, ...]:
        """Go on without the locks that other users hold; returns these. Not often: it fills the holder's queue."""
        others = tuple(name for name in self._missing if _holder(name) != os.getuid())
        self._missing = [name for name in self._missing if name not in others]
        return others

    def close(self) -> None:
        """Free those that no other process has inherited."""
        for one in self._sockets:
            one.close()
        self._sockets.clear()

    def _take(self, name: str) -> bool:
        with contextlib.ExitStack() as closing:
            one = closing.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            try:
                one.bind(_address(name))
                one.listen()
            except OSError as problem:
                if problem.errno == errno.EADDRINUSE:
                    return False
                raise
            closing.pop_all()
            self._sockets.append(one)
            return True


def _holder(name: str) -> int | None:
    """The user who holds a lock; None: nobody, or it does not listen, as those of searches do."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
        one.setblocking(False)
        try:
            one.connect(_address(name))
            found = one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError:
            return None
    user: int = _CREDENTIALS.unpack(found)[1]
    return user


def _address(name: str) -> bytes:
    """The address of a lock: with the name of its GPU, unless that is too long for one."""
    found = f"\0themis-agent/gpu/{name}".encode()
    if len(found) <= MAX_ADDRESS:
        return found
    return f"\0themis-agent/gpu/{hashlib.sha256(name.encode()).hexdigest()}".encode()
