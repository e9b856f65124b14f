"""The arbiter from its journal alone: the same inputs again, to explain what it did or to check that it would again."""

import json
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.commands import Command
from yarn_plugin.decide.events import Configured, EpochBegan, Event, TimerFired
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.decide.state import State
from yarn_plugin.drive.journaling import arbiter_replay, open_intake
from yarn_plugin.drive.virtual_time import UncompactedJournal, VirtualClock
from yarn_plugin.errors import ReportedError
from yarn_plugin.journal.intake import Decided, SkippedInputError
from yarn_plugin.journal.records import Record, find_damage, read_records
from yarn_plugin.journal.upgrade import VERSION, version_of

COMPARED = ("input", "decision", "failed")
"""The kinds of records that are compared: what was taken in, and what was made of it."""


class ReplayError(ReportedError):
    """The journal cannot be replayed."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A journal decided on again. `different`: how many decisions this program would take otherwise now.

    `skipped`: inputs that failed. `dropped`: the incomplete end of the journal, which was not read.
    """

    state: State
    inputs: int
    different: int
    skipped: int
    dropped: str | None
    history: tuple[Decided[Event, Command], ...]


def replay(journal: Path, registry: Registry = BUILT_IN) -> Replayed:
    """Decide again on every input of a journal. Writes nothing, so an arbiter may be using it.

    Raises:
        JournalError: it is of a later version.
        ReplayError: there is no journal, or it is something else.
    """
    expected = "an arbiter's is `journal` in its --state folder"
    try:
        damage = find_damage(journal)
        past = arbiter_replay(registry)
        past.take_all(read_records(journal))
    except OSError as problem:
        raise ReplayError(f"journal {str(journal)!r}: {problem.strerror}; {expected}") from None
    if not past.seq and damage is not None:
        raise ReplayError(f"journal {str(journal)!r}: it holds something else than a journal; {expected}")
    past.decide_waiting()
    dropped = None if damage is None else str(damage)
    return Replayed(past.state, past.replayed, past.different, past.skipped, dropped, tuple(past.history))


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


def rerun(journal: Path, registry: Registry = BUILT_IN) -> Rerun:
    """Take the inputs of an arbiter's journal again, all but its timers.

    Raises:
        OSError: there is no journal.
        JournalError: it cannot be read.
        ValueError: an earlier version wrote it, which stamped timers when they happened to be taken.
    """
    return rerun_records(read_records(journal), registry)


def rerun_records(records: Iterable[Record], registry: Registry = BUILT_IN) -> Rerun:
    """Take the inputs in these records again; see `rerun`."""
    before, after = _from_the_last_snapshot(list(records))
    if any(version_of(record) != VERSION for record in after):
        raise ValueError(f"an earlier version than {VERSION} wrote records of this journal")
    kept = UncompactedJournal()
    kept.append(*before)
    clock = VirtualClock(_began(before, after))
    intake = open_intake(kept, clock, registry)
    inputs = [(float(record["at"]), record["event"]) for record in after if record["kind"] == "input"]
    codec = arbiter_replay(registry).codec
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
            with suppress(SkippedInputError):
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
