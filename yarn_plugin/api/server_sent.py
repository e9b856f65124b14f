"""Server-sent events, from the bytes of a stream. Pure: whoever reads the stream hands over what has arrived.

Lines end with LF or CRLF and with nothing else: names and reasons may hold any other character that Unicode counts as
the end of a line.
"""

from collections.abc import Iterator
from dataclasses import dataclass

MAX_EVENT_BYTES = 4 * 1024 * 1024
"""What an event may take at most; no arbiter sends one that is nearly as large."""


class TooLongError(ValueError):
    """What arrives is no stream of events: a line or an event without an end."""


@dataclass(frozen=True, slots=True)
class ServerSent:
    """An event: its name, its data, and its id; None where it has none that could be sent back in a header."""

    name: str
    data: str
    id: str | None


class EventParser:
    """Takes the bytes of one stream, in the pieces in which they arrive."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[str] = []
        self._id: str | None = None
        self._size = 0

    def take(self, piece: bytes) -> Iterator[ServerSent]:
        """The events that are complete with this piece.

        Raises:
            TooLongError: an event takes more than MAX_EVENT_BYTES.
        """
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            # Comments do not count: between two of them there need not be an event for days.
            self._size += 0 if line.startswith(b":") else len(line)
            event = self._line(line.removesuffix(b"\r").decode("utf-8", errors="replace"))
            if event is not None:
                yield event
            self._check_size()
        self._check_size()

    def _check_size(self) -> None:
        if self._size + len(self._rest) > MAX_EVENT_BYTES:
            raise TooLongError(f"an event of more than {MAX_EVENT_BYTES} bytes")

    def _line(self, line: str) -> ServerSent | None:
        if not line:
            return self._dispatch()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                self._name = value
            case "data":
                self._data.append(value)
            case "id" if _fits_a_header(value):
                self._id = value
        # A line that begins with a colon is a comment; fields that are not known are ignored.
        return None

    def _dispatch(self) -> ServerSent | None:
        made = ServerSent(self._name or "message", "\n".join(self._data), self._id)
        is_event = bool(self._name or self._data)
        self._name, self._data, self._id, self._size = "", [], None, 0
        return made if is_event else None


def _fits_a_header(value: str) -> bool:
    return bool(value) and value.isascii() and value.isprintable() and value == value.strip()
