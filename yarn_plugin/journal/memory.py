"""A journal that is kept in memory: for simulated time, and where no file is wanted."""

import json
from collections.abc import Iterator

from yarn_plugin.journal.records import Record, encode


class MemoryJournal:
    """Records as a `RecordFile` would hold them, gone with the process."""

    def __init__(self) -> None:
        self.dropped: str | None = None
        self.lost: tuple[Record, ...] = ()
        self.size = self.rewritten_size = self.written = 0
        self._lines: list[bytes] = []

    def read(self) -> Iterator[Record]:
        """Every record, oldest first."""
        return (json.loads(line.partition(b" ")[2]) for line in self._lines)

    def content(self) -> bytes:
        """What a file would hold."""
        return b"".join(self._lines)

    def append(self, *records: Record | bytes, durable: bool = True) -> None:
        """Add records."""
        self._add(records)

    def probe(self) -> None:
        """Find out whether records can be written: they can."""

    def rewrite(self, *records: Record | bytes) -> None:
        """Replace all by these records."""
        self._lines.clear()
        self.size = 0
        self._add(records)
        self.rewritten_size = self.size

    def close(self) -> None:
        """Nothing is held open."""

    def _add(self, records: tuple[Record | bytes, ...]) -> None:
        lines = [encode(record) for record in records]
        self._lines += lines
        added = sum(map(len, lines))
        self.size += added
        self.written += added
