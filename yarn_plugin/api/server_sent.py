"""A parser of server-sent events. Pure: its caller reads the stream and feeds it the bytes.

Lines end with LF or CRLF and with nothing else: names and reasons may hold any other character that Unicode counts as
the end of a line.
"""

from collections.abc import Iterator
from dataclasses import dataclass

MAX_EVENT_BYTES = 4 * 1024 * 1024
"""The size limit of an event; no arbiter sends one that is nearly as large."""


class TooLongError(ValueError):
    """A line or an event is longer than any arbiter sends: this is not a stream of events."""


@dataclass(frozen=True, slots=True)
class ServerSent:
    """An event: its name, its data, and its id; None where it has no id that fits a header."""

    name: str
    data: str
    id: str | None


class EventParser:
    """Parses the bytes of one stream, in chunks as they arrive."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[str] = []
        self._id: str | None = None
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[ServerSent]:
        """The events that this chunk completes.

        Raises:
            TooLongError: an event takes more than MAX_EVENT_BYTES.
        """
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            # Comments do not count: there may be no event between them for days.
            self._size += 0 if line.startswith(b":") else len(line)
            event = self._take_line(line.removesuffix(b"\r").decode("utf-8", errors="replace"))
            if event is not None:
                yield event
            self._check_size()
        self._check_size()

    def _check_size(self) -> None:
        if self._size + len(self._rest) > MAX_EVENT_BYTES:
            raise TooLongError(f"an event of more than {MAX_EVENT_BYTES} bytes")

    def _take_line(self, line: str) -> ServerSent | None:
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
        # A line that starts with a colon is a comment; unknown fields are ignored.
        return None

    def _dispatch(self) -> ServerSent | None:
        event = ServerSent(self._name or "message", "\n".join(self._data), self._id)
        is_event = bool(self._name or self._data)
        self._name, self._data, self._id, self._size = "", [], None, 0
        return event if is_event else None


def _fits_a_header(value: str) -> bool:
    return bool(value) and value.isascii() and value.isprintable() and value == value.strip()
