"""Journals on a disk that is full, or that loses what was not synced; they may be replayed as they are written."""

import json

from tests.chaos.checks import require
from yarn_plugin.journal.records import JournalUnavailableError, encode

DURABLE, LATER = "durable", "later"


class Disk:
    """The records of one journal, which outlive the process. `synced`: how many of them survive a loss of power.

    `replay`: of the records as they are written, if `make_replay` makes one. `before`, `after`: called around each
    append with its kind; they may kill the process.
    """

    def __init__(self, make_replay=None):
        self.lines, self.synced, self.is_full = [], 0, False
        self.before = self.after = lambda kind: None
        self._make_replay = make_replay
        self.replay = make_replay() if make_replay is not None else None

    def lose_power(self, draws):
        """Drop records that were not synced, from one of them on; whether the journal was cut back."""
        kept = draws.randint(self.synced, len(self.lines))
        is_cut = kept < len(self.lines)
        del self.lines[kept:]
        if is_cut and self.replay is not None:
            self.replay = self._make_replay()
            self.replay.take_all(map(_record, self.lines))
        return is_cut

    def lose_all(self):
        """Begin an empty journal."""
        self.lines, self.synced = [], 0
        self.replay = self._make_replay() if self._make_replay is not None else None

    def follow(self, lines):
        """Replay what was written."""
        if self.replay is None:
            return
        self.replay.take_all(map(_record, lines))
        require(self.replay.different == 0, "a replay decides otherwise than the live process did")


class DiskRecords:
    """A disk, opened by a process."""

    def __init__(self, disk):
        self.disk, self.dropped, self.lost = disk, None, ()
        self.size = self.rewritten_size = 0

    def read(self):
        return map(_record, self.disk.lines)

    def append(self, *records, durable=True):
        disk, kind = self.disk, DURABLE if durable else LATER
        disk.before(kind)
        self.probe()
        lines = [encode(record) for record in records]
        disk.lines += lines
        disk.follow(lines)
        if durable:
            disk.synced = len(disk.lines)
        disk.after(kind)

    def probe(self):
        if self.disk.is_full:
            raise JournalUnavailableError("journal: no space left on device")

    def rewrite(self, *records):
        self.probe()
        self.disk.lines = [encode(record) for record in records]
        self.disk.synced = len(self.disk.lines)

    def close(self):
        pass


def _record(line):
    return json.loads(line.partition(b" ")[2])
