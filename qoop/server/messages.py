"""Messages of Apache Thrift's binary protocol: read within limits, decoded, answered."""

import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from TCLIService import TCLIService
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TException, TMessageType, TType
from thrift.transport.TTransport import TMemoryBuffer

from qoop.server.errors import MalformedError
from qoop.server.limits import Received

VERSION_1 = 0x8001
MAX_DEPTH, MAX_VALUES = 16, 20_000
"""How deeply a message may be nested, and how many fields and items it may have, each of which takes time to read."""

FIXED = {
    TType.BOOL: 1,
    TType.BYTE: 1,
    TType.I16: 2,
    TType.I32: 4,
    TType.I64: 8,
    TType.DOUBLE: 8,
}
"""The bytes of values whose length does not vary."""


@dataclass(frozen=True, slots=True)
class Call:
    """A client's call: the method's name, the number to answer with, and its one argument."""

    name: str
    number: int
    request: Any


class UnknownMethodError(Exception):
    """A client calls a method that the protocol lacks; `answer` is what to send."""

    def __init__(self, answer: bytes) -> None:
        super().__init__("the protocol has no such method")
        self.answer = answer


class _Lenient(TBinaryProtocol):  # type: ignore[misc]
    """Thrift decodes each string as UTF-8, even binary fields of unknown methods, which it skips.

    And it limits the items of a list, but not how many lists there are.
    """

    values = 0

    def _count(self, more: int) -> None:
        self.values += more
        if self.values > MAX_VALUES:
            raise TProtocolException(TProtocolException.SIZE_LIMIT, "too many values")

    def readFieldBegin(self) -> Any:  # noqa: N802 - Thrift's name
        self._count(1)
        return super().readFieldBegin()

    def _check_container_length(self, length: int) -> None:
        super()._check_container_length(length)
        self._count(length)

    def readString(self) -> str:  # noqa: N802 - Thrift's name
        return str(self.readBinary().decode(errors="replace"))


def decode(message: bytes) -> Call:
    """The call in a message.

    Raises:
        UnknownMethodError: of a method that the protocol lacks.
        MalformedError: it is not a message.
    """
    size = len(message)
    protocol = _Lenient(
        TMemoryBuffer(message), strictRead=True, string_length_limit=size, container_length_limit=MAX_VALUES
    )
    try:
        name, _, number = protocol.readMessageBegin()
        arguments = getattr(TCLIService, f"{name}_args", None) if name.isalnum() else None
        if arguments is None:
            protocol.skip(TType.STRUCT)
            raise UnknownMethodError(_unknown(name, number))
        given = arguments()
        given.read(protocol)
    except (TException, EOFError, ValueError, TypeError, IndexError, struct.error, RecursionError) as problem:
        raise MalformedError(f"message: not Thrift's binary protocol: {type(problem).__name__}") from None
    return Call(name, number, next(iter(vars(given).values()), None))


def encode(call: Call, answer: Any) -> bytes:
    """The message that answers a call."""
    result = getattr(TCLIService, f"{call.name}_result")(success=answer)
    return _written(call.name, TMessageType.REPLY, call.number, result)


def encode_failure(call: Call, text: str) -> bytes:
    """The message that the server has failed to answer a call."""
    failure = TApplicationException(TApplicationException.INTERNAL_ERROR, text)
    return _written(call.name, TMessageType.EXCEPTION, call.number, failure)


def _unknown(name: str, number: int) -> bytes:
    text = f"{name[:100]!r}: unknown method"
    failure = TApplicationException(TApplicationException.UNKNOWN_METHOD, text)
    return _written(name[:100], TMessageType.EXCEPTION, number, failure)


def _written(name: str, kind: int, number: int, body: Any) -> bytes:
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.writeMessageBegin(name, kind, number)
    body.write(protocol)
    protocol.writeMessageEnd()
    return bytes(buffer.getvalue())


Read = Callable[[int], Awaitable[bytes]]
"""Reads exactly so many bytes of a connection."""


PART = 64 * 1024
"""Bytes that are read at a time: room is made for those that arrive, not for all that a client announces."""


async def read_framed(count: int, read: Read, received: Received) -> bytes:
    """A message of so many bytes.

    Raises:
        MalformedError: it is too long.
    """
    received.check(count)
    message = bytearray()
    while (part := min(PART, count - len(message))) > 0:
        received.expect(part)
        message += await read(part)
    return bytes(message)


async def read_unframed(first: bytes, read: Read, received: Received) -> bytes:
    """A message that has no frame, so its end is where its structure ends; `first`: its first bytes.

    Raises:
        MalformedError: it is not a message, or too long or too deeply nested.
    """
    return await _Walk(first, read, received).message()


class _Walk:
    """Reads the bytes of one message, by its structure."""

    def __init__(self, first: bytes, read: Read, received: Received) -> None:
        self._read, self._received = read, received
        self._bytes = bytearray(first)
        self._values = 0

    async def message(self) -> bytes:
        await self._take(4 - len(self._bytes))
        if struct.unpack("!H", self._bytes[:2])[0] != VERSION_1:
            raise MalformedError(f"message: begins with {bytes(self._bytes[:4])!r}; must be Thrift's binary protocol")
        await self._take(await self._length())
        await self._take(4)
        await self._struct(0)
        return bytes(self._bytes)

    async def _take(self, count: int) -> bytes:
        data = await read_framed(count, self._read, self._received)
        self._bytes += data
        return data

    async def _length(self) -> int:
        length = int(struct.unpack("!i", await self._take(4))[0])
        if length < 0:
            raise MalformedError(f"message: has a length of {length}")
        return length

    async def _struct(self, depth: int) -> None:
        while (kind := (await self._take(1))[0]) != TType.STOP:
            await self._take(2)
            await self._value(kind, depth + 1)

    async def _value(self, kind: int, depth: int) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise MalformedError(f"message: has more than {MAX_VALUES} values")
        if depth > MAX_DEPTH:
            raise MalformedError(f"message: is nested more than {MAX_DEPTH} times")
        if kind in FIXED:
            await self._take(FIXED[kind])
        elif kind == TType.STRING:
            await self._take(await self._length())
        elif kind == TType.STRUCT:
            await self._struct(depth)
        elif kind in (TType.LIST, TType.SET):
            await self._items((await self._take(1))[0], 0, await self._length(), depth)
        elif kind == TType.MAP:
            keys, values = await self._take(2)
            await self._items(keys, values, await self._length(), depth)
        else:
            raise MalformedError(f"message: has a value of the unknown type {kind}")

    async def _items(self, first: int, second: int, count: int, depth: int) -> None:
        if count > MAX_VALUES:
            raise MalformedError(f"message: has a list of {count} items; must be at most {MAX_VALUES}")
        for _ in range(count):
            await self._value(first, depth + 1)
            if second:
                await self._value(second, depth + 1)
