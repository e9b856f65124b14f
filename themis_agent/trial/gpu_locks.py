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
import sys
import time
from collections.abc import Iterator, Sequence

MAX_ADDRESS = 107
"""Bytes of a Unix socket's address."""

OTHER_USERS_S = 300.0
"""How long locks of other users are waited for: longer than their launchers may go on without a lease."""

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

    def until_held(self) -> Iterator[None]:
        """Take all of them; yields for the caller to wait, or to give up, before each further try. Says on stderr whom
        it waits for, and which locks it goes on without because another user held them for `OTHER_USERS_S`."""
        if not self.take():
            _say(f"waiting for GPUs that another launcher holds: {', '.join(self._missing)}")
        until = time.monotonic() + OTHER_USERS_S
        while not self.take():
            yield
            if time.monotonic() >= until:
                until = time.monotonic() + OTHER_USERS_S
                for name in self.without_other_users():
                    _say(f"another user still holds the lock of GPU {name}, which is leased to this one")

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


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


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
