"""A journal that comes first: nothing is decided that it does not hold, and everything follows from it again."""

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Generic

from yarn_plugin.errors import describe
from yarn_plugin.journal.clock import Clock
from yarn_plugin.journal.execution import Command, Decided, Event, SkippedInputError, State, StateMachine
from yarn_plugin.journal.records import JournalError, JournalUnavailableError, Records
from yarn_plugin.journal.replay import Replay, digest
from yarn_plugin.journal.upgrade import VERSION

log = logging.getLogger("yarn_plugin.journal")

COMPACT_AT = 32 * 1024 * 1024
"""Bytes of journal below which it is not rewritten as a snapshot; above, when it has doubled since it last was. So
what is written is at most three times what was appended."""

MAX_DECISION_BYTES = 64 * 1024
"""Bytes up to which a decision is journaled whole; of a larger one, which follows from its input anyway, a digest."""

CRASHED_TWICE = "the process ended twice while it decided on this"


class Durable(Generic[State, Event, Command]):
    """An input is on the disk before it is decided on. Where it is refused there, nothing is decided.

    Opening replays the journal, so the state is what it was when the process ended, wherever it was killed: a decision
    that was lost follows again from its input. An input on which the step fails is set aside: recorded as failed, for
    good, and the state stays as it was. So is one during which the process ended twice. The journal is compacted.

    Args:
        tags: of every event, every command, the state and what it holds (see `Codec`).
        records: the journal.
    """

    def __init__(self, tags: Mapping[str, type], records: Records) -> None:
        self.records = records
        self.replay: Replay[State, Event, Command]
        self._tags = tags
        self._pending: list[bytes] = []
        self._compact_at = COMPACT_AT
        self._size = 0

    def open(
        self,
        machine: StateMachine[State, Event, Command],
        clock: Clock,
    ) -> Replay[State, Event, Command]:
        """What the journal holds, decided on again; the clock goes on from it.

        Raises:
            JournalError: it cannot be used.
        """
        replay = self.replay = Replay(machine, self._tags)
        replay.take_all(self.records.read())
        if replay.seq:
            clock.resume(replay.at, replay.wall)
        self._finish()
        lost = max((record.get("seq", 0) for record in self.records.lost), default=0)
        # Numbers of what was lost are not used again: somebody may have seen them.
        replay.seq = max(replay.seq, lost)
        return replay

    def dump(self, value: object) -> bytes:
        """A value as the journal holds it."""
        return self.replay.codec.dump(value)

    def take(self, seq: int, at: float, wall: float, event: Event) -> None:
        """Journal an input that is to be decided on.

        Raises:
            JournalUnavailableError: the journal does not take it.
            SkippedInputError: no journal can hold it.
        """
        try:
            written = self.replay.codec.dump(event)
        except ValueError as problem:
            # Nothing that a journal can hold (half a character, mostly): so nothing is recorded of it either.
            raise SkippedInputError(seq, describe(problem)) from problem
        self._append(_input(b"input", seq, at, wall, written), durable=True)
        self._size = len(written)

    def decided(self, decided: Decided[Event, Command]) -> None:
        """Journal what was decided on the input that was journaled last."""
        replay = self.replay
        replay.remember(decided, self._size + len(replay.last_commands))
        self._note(_decision(decided, replay.last_commands))
        self._compact_if_due()

    def instead(self, seq: int, at: float, wall: float, event: Event, problem: Exception) -> Decided[Event, Command]:
        """Set an input aside on which the step failed.

        Raises:
            SkippedInputError: always.
        """
        error = describe(problem)
        log.error("input %d, %s, is skipped", seq, type(event).__name__, exc_info=problem)
        self.replay.skip(at, self.replay.is_timer(event))
        self._note(_failed(seq, error))
        raise SkippedInputError(seq, error) from problem

    def close(self) -> None:
        """Close the journal."""
        self.records.close()

    def compact(self) -> None:
        """Replace the journal by a snapshot of the state and the remembered decisions.

        Raises:
            JournalUnavailableError: it could not be written; the journal is as it was.
        """
        replay = self.replay
        head = b'{"v":%d,"kind":"snapshot","seq":%d,"at":%r,"wall":%r,%s"state":%s}'
        failed = replay.failed_timer
        timer = b'"failed_timer":%s,' % json.dumps(asdict(failed)).encode() if failed is not None else b""
        snapshot = head % (VERSION, replay.seq, replay.at, replay.wall, timer, self._state())
        self.records.rewrite(*(self._remembered(one) for one in replay.history), snapshot)
        # What was owed is in the snapshot.
        self._pending.clear()

    def _state(self) -> bytes:
        """The state as a snapshot holds it.

        Raises:
            JournalUnavailableError: it cannot be read again. So the inputs stay, from which it follows.
        """
        codec = self.replay.codec
        try:
            written = codec.dump(self.replay.state)
            codec.read(json.loads(written))
        except Exception as problem:  # noqa: BLE001 - whatever a state's own `dump` or `load` raises
            raise JournalUnavailableError(f"the state cannot be written and read again: {describe(problem)}") from None
        return written

    def probe(self) -> None:
        """Find out whether the journal takes records.

        Raises:
            JournalUnavailableError: it does not.
        """
        if self._pending:
            self._append(durable=True)
        self.records.probe()

    def _finish(self) -> None:
        """Decide on the last input if the process ended before it had, unless it has ended twice over it."""
        record = self.replay.undecided
        if record is None:
            return
        if self.replay.attempts:
            self.replay.skip_waiting()
            self._note(_failed(record["seq"], CRASHED_TWICE))
            return
        # What cannot be read is refused, at every start, before anything is written.
        self.replay.codec.read(record["event"])
        # Where what is decided would find no room, an attempt that did would be taken for a process that ended.
        self.records.probe()
        self._append(_attempt(record["seq"]), durable=True)
        try:
            decided = self.replay.decide_waiting()
        except JournalError:
            # It is refused at every start: none of these is an attempt over which the process ended.
            self._append(_attempt(record["seq"], undone=True), durable=True)
            raise
        if isinstance(decided, str):
            log.warning("input %d is skipped: %s", record["seq"], decided)
            self._note(_failed(record["seq"], decided))
        elif decided is not None:
            self._note(_decision(decided, self.replay.last_commands))

    def _append(self, *records: bytes, durable: bool) -> None:
        """Add records, after those that are owed."""
        self.records.append(*self._pending, *records, durable=durable)
        self._pending.clear()

    def _note(self, record: bytes) -> None:
        """Add a record that follows from its input: where the journal takes nothing now, it is added later."""
        try:
            self._append(record, durable=False)
        except JournalUnavailableError:
            self._pending.append(record)

    def _compact_if_due(self) -> None:
        if self.records.size <= max(self._compact_at, 2 * self.records.rewritten_size):
            return
        try:
            self.compact()
            self._compact_at = COMPACT_AT
        except JournalUnavailableError as problem:
            # Not at every input: where there is no room for it now, there will hardly be at the next.
            self._compact_at = self.records.size + COMPACT_AT // 8
            log.warning("the journal is not compacted: %s", problem)

    def _remembered(self, decided: Decided[Event, Command]) -> bytes:
        replay = self.replay
        written = _input(b"past", decided.seq, decided.at, decided.wall, replay.codec.dump(decided.event))
        commands = b",".join(map(replay.codec.dump, decided.commands))
        return b'%s,"commands":[%s]}' % (written[:-1], commands)


def _input(kind: bytes, seq: int, at: float, wall: float, event: bytes) -> bytes:
    return b'{"v":%d,"kind":"%s","seq":%d,"at":%r,"wall":%r,"event":%s}' % (VERSION, kind, seq, at, wall, event)


def _decision(decided: Decided[Any, Any], commands: bytes) -> bytes:
    small = len(commands) <= MAX_DECISION_BYTES
    said = b'"commands":%s' % commands if small else b'"digest":"%s"' % digest(commands).encode()
    return b'{"v":%d,"kind":"decision","seq":%d,"at":%r,%s}' % (VERSION, decided.seq, decided.at, said)


def _failed(seq: int, error: str) -> bytes:
    return json.dumps({"v": VERSION, "kind": "failed", "seq": seq, "error": error}, separators=(",", ":")).encode()


def _attempt(seq: int, undone: bool = False) -> bytes:
    return b'{"v":%d,"kind":"attempt","seq":%d%s}' % (VERSION, seq, b',"undone":true' if undone else b"")
