"""What a service takes at most, as far as this process may open files."""

import contextlib
import resource
from dataclasses import dataclass

MAX_DESCRIPTORS = 1_048_576
"""The maximum number of file descriptors to request."""

BACKLOG = 128
"""Connections that wait to be accepted, and the maximum to accept at a time."""

RESERVED = 256 + BACKLOG
"""File descriptors for everything but client connections: journal, ResourceManager, Python."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a service, over all callers.

    `max_body`: bytes. `header_timeout`: seconds for the head of a request, and again for its body. `write_timeout`:
    seconds until a client must read what is sent to it.
    """

    max_connections: int = 4096
    max_body: int = 256 * 1024
    header_timeout: float = 10.0
    write_timeout: float = 30.0


def allowed_connections(wanted: int) -> int:
    """As many connections as wanted, or as the file descriptors of this process allow; raises their limit."""
    return max(min(wanted, _raise_descriptors() - RESERVED), 1)


def _raise_descriptors() -> int:
    """Raise the limit of file descriptors as far as possible; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
