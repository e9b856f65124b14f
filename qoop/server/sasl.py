"""SASL PLAIN (RFC 4616) in the frames of Thrift's SASL transport: a status byte, a length of 4 bytes, a payload."""

import struct
from dataclasses import dataclass
from enum import IntEnum

from qoop.server.errors import AuthenticationError, MalformedError

MECHANISM = b"PLAIN"
MAX_PAYLOAD = 64 * 1024
"""Bytes of a message before the client is known."""


class Status(IntEnum):
    """What a message of the negotiation means. Java ends it with COMPLETE, other clients say OK."""

    START = 1
    OK = 2
    BAD = 3
    ERROR = 4
    COMPLETE = 5


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user's name and password, as a client sent them."""

    user: str
    password: str


def header(data: bytes) -> tuple[Status, int]:
    """The status of a message and the length of its payload, from its first 5 bytes.

    Raises:
        MalformedError: it is neither, or too long.
    """
    status, length = struct.unpack("!bi", data)
    if status not in Status.__members__.values() or not 0 <= length <= MAX_PAYLOAD:
        raise MalformedError(f"SASL message: status {status}, {length} bytes; must be at most {MAX_PAYLOAD} bytes")
    return Status(status), length


def message(status: Status, payload: bytes = b"") -> bytes:
    """A message of the negotiation."""
    return struct.pack("!bi", status, len(payload)) + payload


def check_mechanism(status: Status, payload: bytes) -> None:
    """Check a client's first message.

    Raises:
        AuthenticationError: it asks for another mechanism, such as Kerberos.
    """
    if status is not Status.START:
        raise MalformedError(f"SASL message: {status.name}; the first must be START")
    if payload != MECHANISM:
        raise AuthenticationError(f"SASL mechanism {payload[:40].decode(errors='replace')!r}: must be PLAIN")


def credentials(payload: bytes) -> Credentials:
    r"""The name and password of `[authorisation]\0user\0password`.

    Raises:
        AuthenticationError: it is something else, or asks to act as another user.
    """
    parts = payload.split(b"\0")
    try:
        acts_as, user, password = (part.decode() for part in parts)
    except ValueError:
        raise AuthenticationError("SASL PLAIN: must be a user and a password, in UTF-8") from None
    if acts_as and acts_as != user:
        raise AuthenticationError(f"user {user[:100]!r}: may not act as {acts_as[:100]!r}")
    return Credentials(user, password)
