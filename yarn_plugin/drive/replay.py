"""Replays journals: `replay` explains an arbiter's decisions; `rerun` repeats its inputs in virtual time.

A replay takes timers from the journal. A rerun fires them itself, and so shows that the live arbiter and the simulator
fire the same timers in the same order.
"""

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
from yarn_plugin.errors import ReportedError, os_reason
from yarn_plugin.journal.codec import Codec
from yarn_plugin.journal.intake import Decided, SkippedInputError
from yarn_plugin.journal.records import Record, find_damage, read_records
from yarn_plugin.journal.upgrade import SAME_DECISIONS_SINCE, upgrade, version_of

OUTCOMES = ("decision", "failed")
"""The kinds of records of what the arbiter did with an input."""

COMPARED = ("input", *OUTCOMES)
"""The kinds of records that a rerun compares."""


class ReplayError(ReportedError):
    """The journal cannot be replayed."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Replayed:
    """A replayed journal. `different`: how many decisions differ from the recorded ones (see `Replay`).

    `skipped`: events that failed. `dropped`: the incomplete end of the journal, which was not read.
    """

    state: State
    inputs: int
    different: int
    skipped: int
    dropped: str | None
    history: tuple[Decided[Event, Command], ...]


def replay(journal: Path, registry: Registry = BUILT_IN) -> Replayed:
    """Decide again on every input of a journal. Read-only, so an arbiter may be using it.

    Raises:
        JournalError: a later version wrote it.
        ReplayError: the file does not exist, or is not a journal.
    """
    expected = "must be the file `journal` in an arbiter's --state directory"
    try:
        damage = find_damage(journal)
        past = arbiter_replay(registry)
        past.take_all(read_records(journal))
    except OSError as problem:
        raise ReplayError(f"journal {str(journal)!r}: {os_reason(problem)}; {expected}") from None
    if not past.seq and damage is not None:
        raise ReplayError(f"journal {str(journal)!r}: not a journal; {expected}")
    past.decide_waiting()
    dropped = None if damage is None else str(damage)
    return Replayed(past.state, past.replayed, past.different, past.skipped, dropped, tuple(past.history))


@dataclass(frozen=True, slots=True)
class Rerun:
    """The records of a journal, and those of its inputs in virtual time; both without wall-clock times."""

    recorded: tuple[bytes, ...]
    virtual: tuple[bytes, ...]

    @property
    def timers(self) -> int:
        """How many timers fired in virtual time."""
        return sum(b'"kind":"input"' in one and b'"TimerFired"' in one for one in self.virtual)

    def first_difference(self) -> tuple[bytes | None, bytes | None] | None:
        """The first pair of records that differ; None if all are identical, byte for byte."""
        longest = max(len(self.recorded), len(self.virtual))
        pairs = zip(_filled(self.recorded, longest), _filled(self.virtual, longest), strict=True)
        return next((pair for pair in pairs if pair[0] != pair[1]), None)


def rerun(journal: Path, registry: Registry = BUILT_IN) -> Rerun:
    """Repeat the inputs of an arbiter's journal, except timers.

    Raises:
        OSError: there is no journal.
        JournalError: it is invalid.
        ValueError: a version before `SAME_DECISIONS_SINCE` wrote it, which did not stamp timers with their due times.
    """
    return rerun_records(read_records(journal), registry)


def rerun_records(records: Iterable[Record], registry: Registry = BUILT_IN) -> Rerun:
    """Repeat the inputs in these records; see `rerun`."""
    before, after = _from_the_last_snapshot(list(records))
    if any(version_of(record) < SAME_DECISIONS_SINCE for record in after):
        raise ValueError(
            f"a version before {SAME_DECISIONS_SINCE} wrote records of this journal; they cannot be repeated"
        )
    after = [upgrade(record) for record in after]
    repeated = UncompactedJournal()
    repeated.append(*before)
    clock = VirtualClock(_start_time(before, after))
    intake = open_intake(repeated, clock, registry)
    inputs = [(float(record["at"]), record["event"]) for record in after if record["kind"] == "input"]
    codec = arbiter_replay(registry).codec
    is_start = False
    for at, written in inputs:
        event, was_start = codec.read(written), is_start
        is_start = isinstance(event, Configured | EpochBegan)
        if is_start and not was_start:
            # A restart: the previous process fired all timers that were due before its last record.
            deque(intake.fire_due(clock.at), maxlen=0)
        clock.at = max(clock.at, at)
        if not isinstance(event, TimerFired):
            # A skipped input is in the records, too.
            with suppress(SkippedInputError):
                deque(intake.take_in_order(event, at), maxlen=0)
    # Timers that are due after the last input.
    deque(intake.fire_due(clock.at), maxlen=0)
    # An arbiter that was killed may have recorded its last inputs without its decisions on them.
    decided = max((int(record["seq"]) for record in after if record["kind"] in OUTCOMES), default=0)
    virtual = (
        record
        for record in list(repeated.read())[len(before) :]
        if record["kind"] not in OUTCOMES or int(record["seq"]) <= decided
    )
    return Rerun(tuple(_compared(_rewritten(after, codec))), tuple(_compared(virtual)))


def _from_the_last_snapshot(records: list[Record]) -> tuple[list[Record], list[Record]]:
    """The records up to the last snapshot, and those after it."""
    start = max((place + 1 for place, record in enumerate(records) if record["kind"] == "snapshot"), default=0)
    return records[:start], records[start:]


def _start_time(before: list[Record], after: list[Record]) -> float:
    first = next((record["at"] for record in (*before[-1:], *after) if "at" in record), 0.0)
    return float(first)


def _rewritten(records: Iterable[Record], codec: Codec) -> Iterator[Record]:
    """The records as this version writes them: fields that are new have their defaults."""
    for record in records:
        event, commands = record.get("event"), record.get("commands")
        new: Record = {} if event is None else {"event": codec.write(codec.read(event))}
        new |= {} if commands is None else {"commands": [codec.write(codec.read(one)) for one in commands]}
        yield {**record, **new}


def _compared(records: Iterable[Record]) -> Iterator[bytes]:
    for record in records:
        if record["kind"] in COMPARED:
            content = {name: value for name, value in record.items() if name != "wall"}
            yield json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def _filled(records: tuple[bytes, ...], length: int) -> Iterator[bytes | None]:
    yield from records
    yield from [None] * (length - len(records))
