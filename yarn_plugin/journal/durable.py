"""A write-ahead journal: no decision without a journaled input, and full recovery by replay."""

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
"""Minimum journal size in bytes for compaction. A larger journal is compacted when it has doubled since the last time,
so at most three times the appended bytes are written."""

MAX_DECISION_BYTES = 64 * 1024
"""A decision above this size is journaled as a digest: it follows from its input anyway."""

CRASHED_TWICE = "the process crashed twice while it processed this event"


class Durable(Generic[State, Event, Command]):
    """Syncs every input to disk before the decision on it. If the disk rejects an input, nothing is decided.

    Opening replays the journal, which restores the state wherever the process was killed: a lost decision follows again
    from its input. An input on which the step fails is skipped: recorded as failed, and the state stays unchanged. So
    is an input during which the process crashed twice. The journal is compacted.

    Args:
        tags: the types of all events, commands, the state and its parts (see `Codec`).
        records: the journal's records.
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
        """Replay the journal, and set the clock to continue from it.

        Raises:
            JournalError: the journal cannot be used.
        """
        replay = self.replay = Replay(machine, self._tags)
        replay.take_all(self.records.read())
        if replay.seq:
            clock.resume(replay.at, replay.wall)
        self._finish()
        lost = max((record.get("seq", 0) for record in self.records.lost), default=0)
        # Numbers of lost records are not reused: clients may have seen them.
        replay.seq = max(replay.seq, lost)
        return replay

    def dump(self, value: object) -> bytes:
        """A value as it is journaled."""
        return self.replay.codec.dump(value)

    def take(self, seq: int, at: float, wall: float, event: Event) -> None:
        """Journal an input before the decision on it.

        Raises:
            JournalUnavailableError: it cannot be written now.
            SkippedInputError: it cannot be serialized.
        """
        try:
            written = self.replay.codec.dump(event)
        except ValueError as problem:
            # Not serializable (mostly an unpaired surrogate), so it is not recorded at all.
            raise SkippedInputError(seq, type(event).__name__, describe(problem)) from problem
        self._append(_input(b"input", seq, at, wall, written), durable=True)
        self._size = len(written)

    def decided(self, decided: Decided[Event, Command]) -> None:
        """Journal the decision on the last input."""
        replay = self.replay
        replay.add_to_history(decided, self._size + len(replay.last_commands))
        self._append_later(_decision(decided, replay.last_commands))
        self._compact_if_due()

    def instead(self, seq: int, at: float, wall: float, event: Event, problem: Exception) -> Decided[Event, Command]:
        """Skip an input on which the step failed.

        Raises:
            SkippedInputError: always.
        """
        error, name = describe(problem), type(event).__name__
        log.error(
            "event %d (%s) failed and was skipped; shares are unchanged; report this", seq, name, exc_info=problem
        )
        self.replay.skip(at, self.replay.is_timer(event))
        self._append_later(_failed(seq, error))
        raise SkippedInputError(seq, name, error) from problem

    def close(self) -> None:
        """Close the journal."""
        self.records.close()

    def compact(self) -> None:
        """Replace the journal with the recent decisions and a snapshot of the state.

        Raises:
            JournalUnavailableError: it could not be written; the journal is unchanged.
        """
        replay = self.replay
        head = b'{"v":%d,"kind":"snapshot","seq":%d,"at":%r,"wall":%r,%s"state":%s}'
        failed = replay.failed_timer
        timer = b'"failed_timer":%s,' % json.dumps(asdict(failed)).encode() if failed is not None else b""
        snapshot = head % (VERSION, replay.seq, replay.at, replay.wall, timer, self._state())
        self.records.rewrite(*(self._past_decision(one) for one in replay.history), snapshot)
        # The snapshot includes the pending records.
        self._pending.clear()

    def _state(self) -> bytes:
        """The state as written to a snapshot.

        Raises:
            JournalUnavailableError: it cannot be read back; the inputs from which it follows are retained instead.
        """
        codec = self.replay.codec
        try:
            written = codec.dump(self.replay.state)
            codec.read(json.loads(written))
        except Exception as problem:  # noqa: BLE001 - whatever a state's own `dump` or `load` raises
            raise JournalUnavailableError(f"the state cannot be written and read back: {describe(problem)}") from None
        return written

    def probe(self) -> None:
        """Check that the journal can be written.

        Raises:
            JournalUnavailableError: it cannot.
        """
        if self._pending:
            self._append(durable=True)
        self.records.probe()

    def _finish(self) -> None:
        """Decide on the last input if the process ended before its decision; skip it if it crashed the process
        twice."""
        record = self.replay.undecided
        if record is None:
            return
        if self.replay.attempts:
            self.replay.skip_waiting()
            self._append_later(_failed(record["seq"], CRASHED_TWICE))
            return
        # An unreadable input stops every start, before anything is written.
        self.replay.codec.read(record["event"])
        # If only the attempt fitted on the disk and not the decision, the attempt would count as a crash.
        self.records.probe()
        self._append(_attempt(record["seq"]), durable=True)
        try:
            decided = self.replay.decide_waiting()
        except JournalError:
            # The start is refused every time, which is not a crash.
            self._append(_attempt(record["seq"], undone=True), durable=True)
            raise
        if isinstance(decided, str):
            log.warning("event %d, the last before the restart, failed and was skipped: %s", record["seq"], decided)
            self._append_later(_failed(record["seq"], decided))
        elif decided is not None:
            self._append_later(_decision(decided, self.replay.last_commands))

    def _append(self, *records: bytes, durable: bool) -> None:
        """Append records, after the pending ones."""
        self.records.append(*self._pending, *records, durable=durable)
        self._pending.clear()

    def _append_later(self, record: bytes) -> None:
        """Append a record that follows from its input; if it cannot be written now, it stays pending."""
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
            # Do not retry at every input: there will hardly be room at the next one.
            self._compact_at = self.records.size + COMPACT_AT // 8
            log.warning("could not compact the journal: %s; it keeps growing, decisions continue", problem)

    def _past_decision(self, decided: Decided[Event, Command]) -> bytes:
        replay = self.replay
        written = _input(b"past", decided.seq, decided.at, decided.wall, replay.codec.dump(decided.event))
        commands = b",".join(map(replay.codec.dump, decided.commands))
        return b'%s,"commands":[%s]}' % (written[:-1], commands)


def _input(kind: bytes, seq: int, at: float, wall: float, event: bytes) -> bytes:
    return b'{"v":%d,"kind":"%s","seq":%d,"at":%r,"wall":%r,"event":%s}' % (VERSION, kind, seq, at, wall, event)


def _decision(decided: Decided[Any, Any], commands: bytes) -> bytes:
    small = len(commands) <= MAX_DECISION_BYTES
    content = b'"commands":%s' % commands if small else b'"digest":"%s"' % digest(commands).encode()
    return b'{"v":%d,"kind":"decision","seq":%d,"at":%r,%s}' % (VERSION, decided.seq, decided.at, content)


def _failed(seq: int, error: str) -> bytes:
    return json.dumps({"v": VERSION, "kind": "failed", "seq": seq, "error": error}, separators=(",", ":")).encode()


def _attempt(seq: int, undone: bool = False) -> bytes:
    return b'{"v":%d,"kind":"attempt","seq":%d%s}' % (VERSION, seq, b',"undone":true' if undone else b"")
