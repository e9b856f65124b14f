"""Replay of a journal."""

import json
import logging
import math
import reprlib
from collections import deque
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from yarn_plugin.errors import describe
from yarn_plugin.journal.codec import Codec, UnknownRecordError
from yarn_plugin.journal.execution import Command, Decided, Event, Execution, FailedTimer, State, StateMachine
from yarn_plugin.journal.records import JournalError, Record
from yarn_plugin.journal.upgrade import SAME_DECISIONS_SINCE, upgrade, version_of

log = logging.getLogger("yarn_plugin.journal")

MAX_HISTORY = 4000
"""Decisions that survive compaction, for `why` and for clients that reconnect: maximum number and bytes."""
MAX_HISTORY_BYTES = 16 * 1024 * 1024


class Replay(Execution[State, Event, Command]):
    """Replays a journal record by record, which restores `state` and `history`. Writes nothing.

    `replayed`: inputs decided on again. `different`: those that a version since `SAME_DECISIONS_SINCE` decided
    differently (0 unless the code has changed, or decisions depend on more than their inputs). `skipped`: inputs
    recorded as failed, or failing now.

    `tags`: the types of all events, commands, the state and its parts (see `Codec`).
    """

    def __init__(self, machine: StateMachine[State, Event, Command], tags: Mapping[str, type]) -> None:
        super().__init__(machine)
        self.codec = Codec(tags)
        self.attempts = 0
        self.last_commands = b"[]"
        self._sizes: deque[int] = deque()
        self._history_bytes = 0
        self._waiting: Record | None = None
        self._written_timer = self.codec.write(self.timer) if self.timer is not None else None

    def take_all(self, records: Iterable[Record]) -> None:
        """Replay records, oldest first. A last input without a decision is left waiting.

        Raises:
            JournalError: a record was written by a later version, or is malformed.
        """
        for record in records:
            try:
                self._take(record)
            except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as problem:
                raise JournalError(
                    f"journal: the record after {self.seq} cannot be read: {describe(problem)}"
                ) from None

    @property
    def undecided(self) -> Record | None:
        """The last input, if neither a decision nor a failure is recorded for it."""
        return self._waiting

    def decide_waiting(self) -> Decided[Event, Command] | str | None:
        """Decide on the waiting input: the decision, or the error if it fails; None if no input waits."""
        record, self._waiting = self._waiting, None
        if record is None:
            return None
        self.replayed += 1
        try:
            event = self.codec.read(record["event"])
            decided = self.decide(record["seq"], record["at"], record["wall"], event)
        except JournalError:
            raise
        except Exception as problem:  # noqa: BLE001 - the input is skipped
            self.skip(record["at"], record["event"] == self._written_timer)
            return describe(problem)
        self.add_to_history(decided, _size(record["event"]) + len(self.last_commands))
        return decided

    def skip_waiting(self) -> None:
        """Skip the waiting input."""
        record, self._waiting = self._waiting, None
        if record is not None:
            self.skip(record["at"], record["event"] == self._written_timer)

    def encode(self, commands: tuple[Command, ...]) -> bytes:
        """Commands as they are journaled.

        Raises:
            ValueError: a command cannot be journaled.
        """
        return b"[%s]" % b",".join(map(self.codec.dump, commands))

    def add_to_history(self, decided: Decided[Event, Command], size: int) -> None:
        """Add a decision of `size` journaled bytes to the history; drop the oldest ones beyond the limits."""
        self.history.append(decided)
        self._sizes.append(size)
        self._history_bytes += size
        while len(self.history) > MAX_HISTORY or (self._history_bytes > MAX_HISTORY_BYTES and len(self.history) > 1):
            self.history.popleft()
            self._history_bytes -= self._sizes.popleft()

    def _take(self, written: Record) -> None:
        version = version_of(written)
        record = upgrade(written)
        kind = record.get("kind")
        if kind in ("decision", "failed", "attempt"):
            self._close(record, kind, version)
            return
        self._decide_followed()
        if kind not in ("snapshot", "past", "input"):
            raise JournalError(
                f"journal: record {record.get('seq')} has the unknown kind {kind!r}; "
                "it needs a newer release, or is of another kind of journal"
            )
        self.seq = _whole(record, "seq")
        self.at, self.wall = _finite(record, "at"), _finite(record, "wall")
        match kind:
            case "snapshot":
                self.state = self.codec.read(record["state"])
                failed = record.get("failed_timer")
                self.failed_timer = FailedTimer(**failed) if failed is not None else None
            case "past":
                commands = tuple(self.codec.read(command) for command in record["commands"])
                event = self.codec.read(record["event"])
                past = Decided(self.seq, self.at, event, commands, self.wall)
                self.add_to_history(past, _size(record["commands"]) + _size(record["event"]))
            case "input" if "event" in record:
                self._waiting, self.attempts = record, 0
            case "input":
                raise LookupError("event is missing")

    def _close(self, record: Record, kind: str, version: int) -> None:
        """Apply the outcome of the waiting input."""
        if self._waiting is None or self._waiting["seq"] != record["seq"]:
            if kind == "decision" and version >= SAME_DECISIONS_SINCE:
                self.different += 1
            return
        if kind == "attempt":
            self.attempts += -1 if record.get("undone") else 1
        elif kind == "failed":
            self.skip_waiting()
        else:
            decided = self._decide_followed()
            if version >= SAME_DECISIONS_SINCE and (decided is None or not self._same(record)):
                self.different += 1

    def _decide_followed(self) -> Decided[Event, Command] | None:
        """Decide on an input that other records follow; skip it if it fails."""
        decided = self.decide_waiting()
        if isinstance(decided, str):
            log.warning("event %d failed in replay and was skipped: %s", self.seq, decided)
            return None
        return decided

    def _same(self, record: Record) -> bool:
        """Whether the last decision equals the one in a record."""
        if "digest" in record:
            return bool(record["digest"] == digest(self.last_commands))
        now, then = json.loads(self.last_commands), record["commands"]
        return bool(now == then or now == self._with_later_fields(then))

    def _with_later_fields(self, commands: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
        """Recorded commands as they are written now: with the fields that they have had since, by their defaults."""
        try:
            return [self.codec.write(self.codec.read(command)) for command in commands]
        except UnknownRecordError:
            return None


def _whole(record: Record, field: str) -> int:
    value = record[field]
    if type(value) is not int or value < 0:
        raise ValueError(f"{field} is {reprlib.repr(value)}, not a whole number")
    return value


def _finite(record: Record, field: str) -> float:
    value = record[field]
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{field} is {reprlib.repr(value)}, not a time")
    return float(value)


def _size(written: Any) -> int:
    """The approximate size of a value in the journal, in bytes."""
    return len(json.dumps(written))


def digest(commands: bytes) -> str:
    """The fingerprint of a decision that is too large to be journaled."""
    return sha256(commands).hexdigest()
