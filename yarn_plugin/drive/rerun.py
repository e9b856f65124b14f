"""A recorded journal once more, in virtual time: its inputs as they were stamped, its timers as they come.

A replay takes the timers from the journal; this does not, so it shows that the live arbiter and the simulator agree on
when they fire.
"""

import json
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from yarn_plugin.decide.events import Configured, EpochBegan, TimerFired
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.decide.pools.registry import STANDARD
from yarn_plugin.drive.journaling import open_intake, past
from yarn_plugin.drive.virtual_time import KeptJournal, VirtualClock
from yarn_plugin.journal.intake import SetAsideError
from yarn_plugin.journal.records import Record, read_records
from yarn_plugin.journal.upgrade import VERSION, version_of

COMPARED = ("input", "decision", "failed")
"""The kinds of records that are compared: what was taken in, and what was made of it."""


@dataclass(frozen=True, slots=True)
class Rerun:
    """What a journal holds and what came of its inputs in virtual time, record by record; no wall times in either."""

    recorded: tuple[bytes, ...]
    virtual: tuple[bytes, ...]

    @property
    def timers(self) -> int:
        """How many timers fired by themselves."""
        return sum(b'"kind":"input"' in one and b'"TimerFired"' in one for one in self.virtual)

    def first_difference(self) -> tuple[bytes | None, bytes | None] | None:
        """The first records that are not the same, byte for byte; None where all are."""
        longest = max(len(self.recorded), len(self.virtual))
        pairs = zip(_filled(self.recorded, longest), _filled(self.virtual, longest), strict=True)
        return next((pair for pair in pairs if pair[0] != pair[1]), None)


def rerun(journal: Path, registry: Registry = STANDARD) -> Rerun:
    """Take the inputs of an arbiter's journal again, all but its timers.

    Raises:
        OSError: there is no journal.
        JournalError: it cannot be read.
        ValueError: an earlier version wrote it, which stamped timers when they happened to be taken.
    """
    return rerun_records(read_records(journal), registry)


def rerun_records(records: Iterable[Record], registry: Registry = STANDARD) -> Rerun:
    """Take the inputs in these records again; see `rerun`."""
    before, after = _from_the_last_snapshot(list(records))
    if any(version_of(record) != VERSION for record in after):
        raise ValueError(f"an earlier version than {VERSION} wrote records of this journal")
    kept = KeptJournal()
    kept.append(*before)
    clock = VirtualClock(_began(before, after))
    intake = open_intake(kept, clock, registry)
    inputs = [(float(record["at"]), record["event"]) for record in after if record["kind"] == "input"]
    codec = past(registry).codec
    begins = False
    for at, written in inputs:
        event, began = codec.read(written), begins
        begins = isinstance(event, Configured | EpochBegan)
        if begins and not began:
            # Another process: the one before fired what was due while it is known to have lived.
            deque(intake.fire_due(clock.at), maxlen=0)
        clock.at = max(clock.at, at)
        if not isinstance(event, TimerFired):
            # One on which nothing could be decided is in the records, as it was then.
            with suppress(SetAsideError):
                deque(intake.take_in_order(event, at), maxlen=0)
    # Timers after the last input have nothing to come before.
    deque(intake.fire_due(clock.at), maxlen=0)
    return Rerun(tuple(_compared(after)), tuple(_compared(list(kept.read())[len(before) :])))


def _from_the_last_snapshot(records: list[Record]) -> tuple[list[Record], list[Record]]:
    """What the arbiter began with, and what it took in since."""
    start = max((place + 1 for place, record in enumerate(records) if record["kind"] == "snapshot"), default=0)
    return records[:start], records[start:]


def _began(before: list[Record], after: list[Record]) -> float:
    first = next((record["at"] for record in (*before[-1:], *after) if "at" in record), 0.0)
    return float(first)


def _compared(records: Iterable[Record]) -> Iterator[bytes]:
    for record in records:
        if record["kind"] in COMPARED:
            kept = {name: value for name, value in record.items() if name != "wall"}
            yield json.dumps(kept, separators=(",", ":"), ensure_ascii=False).encode()


def _filled(records: tuple[bytes, ...], length: int) -> Iterator[bytes | None]:
    yield from records
    yield from [None] * (length - len(records))
