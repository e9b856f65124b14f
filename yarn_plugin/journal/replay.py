"""A journal decided on again."""

import json
import logging
from collections import deque
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from yarn_plugin.errors import describe
from yarn_plugin.journal.codec import Codec
from yarn_plugin.journal.execution import Command, Decided, Event, Execution, FailedTimer, State, StateMachine
from yarn_plugin.journal.records import JournalError, Record
from yarn_plugin.journal.upgrade import VERSION, upgrade, version_of

log = logging.getLogger("yarn_plugin.journal")

MAX_HISTORY = 4000
"""Decided inputs that survive compaction, for "why" and for clients that reconnect; and how many bytes of them."""
MAX_HISTORY_BYTES = 16 * 1024 * 1024


class Replay(Execution[State, Event, Command]):
    """A journal decided on again, record by record: `state` and `history` are what they were when it was written.

    `replayed` counts the inputs that were decided on again, `different` those of them, written by this version, on
    which the journal holds another decision (0, unless a mistake made it depend on more than its inputs), `set_aside`
    those that are recorded as failed, or fail now. Writes nothing.

    `tags`: of every event, every command, the state and what it holds (see `Codec`).
    """

    def __init__(self, machine: StateMachine[State, Event, Command], tags: Mapping[str, type]) -> None:
        super().__init__(machine)
        self.codec = Codec(tags)
        self.attempts = 0
        self.last_commands = b"[]"
        self._sizes: deque[int] = deque()
        self._remembered_bytes = 0
        self._waiting: Record | None = None
        self._written_timer = self.codec.write(self.timer) if self.timer is not None else None

    def take_all(self, records: Iterable[Record]) -> None:
        """Take records in, oldest first. The last input may be left waiting, if the journal ends with it.

        Raises:
            JournalError: a record is of a later version, or cannot be read.
        """
        for record in records:
            try:
                self._take(record)
            except (LookupError, TypeError, ValueError) as problem:
                raise JournalError(
                    f"journal: the record after {self.seq} cannot be read: {describe(problem)}"
                ) from None

    @property
    def undecided(self) -> Record | None:
        """The last input, if no decision on it and no failure is recorded."""
        return self._waiting

    def decide_waiting(self) -> Decided[Event, Command] | str | None:
        """Decide on the input that waits: the decision, or in words why there is none; None if none waits."""
        record, self._waiting = self._waiting, None
        if record is None:
            return None
        self.replayed += 1
        try:
            event = self.codec.read(record["event"])
            decided = self.decide(record["seq"], record["at"], record["wall"], event)
        except JournalError:
            raise
        except Exception as problem:  # noqa: BLE001 - whatever it is, the input is set aside and the next one taken
            self.skip(record["at"], record["event"] == self._written_timer)
            return describe(problem)
        self.remember(decided, _size(record["event"]) + len(self.last_commands))
        return decided

    def skip_waiting(self) -> None:
        """Set the input that waits aside."""
        record, self._waiting = self._waiting, None
        if record is not None:
            self.skip(record["at"], record["event"] == self._written_timer)

    def encode(self, commands: tuple[Command, ...]) -> bytes:
        """Commands as the journal holds them.

        Raises:
            ValueError: no journal can hold one.
        """
        return b"[%s]" % b",".join(map(self.codec.dump, commands))

    def remember(self, decided: Decided[Event, Command], size: int) -> None:
        """Keep a decided input, of so many bytes in the journal, in the history; the oldest ones go."""
        self.history.append(decided)
        self._sizes.append(size)
        self._remembered_bytes += size
        while len(self.history) > MAX_HISTORY or (self._remembered_bytes > MAX_HISTORY_BYTES and len(self.history) > 1):
            self.history.popleft()
            self._remembered_bytes -= self._sizes.popleft()

    def _take(self, written: Record) -> None:
        version = version_of(written)
        record = upgrade(written)
        kind = record.get("kind")
        if kind in ("decision", "failed", "attempt"):
            self._close(record, kind, version)
            return
        self._decide_past()
        self.seq, self.at, self.wall = record["seq"], record["at"], record["wall"]
        match kind:
            case "snapshot":
                self.state = self.codec.read(record["state"])
                failed = record.get("failed_timer")
                self.failed_timer = FailedTimer(**failed) if failed is not None else None
            case "past":
                commands = tuple(self.codec.read(command) for command in record["commands"])
                event = self.codec.read(record["event"])
                past = Decided(self.seq, self.at, event, commands, self.wall)
                self.remember(past, _size(record["commands"]) + _size(record["event"]))
            case "input":
                self._waiting, self.attempts = record, 0
            case _:
                raise JournalError(
                    f"journal: record {self.seq} is of a kind that is not known to this program: {kind!r}"
                )

    def _close(self, record: Record, kind: str, version: int) -> None:
        """What became of the input that waits."""
        if self._waiting is None or self._waiting["seq"] != record["seq"]:
            if kind == "decision" and version == VERSION:
                self.different += 1
            return
        if kind == "attempt":
            self.attempts += -1 if record.get("undone") else 1
        elif kind == "failed":
            self.skip_waiting()
        else:
            decided = self._decide_past()
            if version == VERSION and (decided is None or not self._same(record)):
                self.different += 1

    def _decide_past(self) -> Decided[Event, Command] | None:
        """Decide on an input that others follow; one that fails is set aside."""
        decided = self.decide_waiting()
        if isinstance(decided, str):
            log.warning("input %d is skipped: %s", self.seq, decided)
            return None
        return decided

    def _same(self, record: Record) -> bool:
        """Whether the decision just taken is the one in a record."""
        if "digest" in record:
            return bool(record["digest"] == digest(self.last_commands))
        return bool(json.loads(self.last_commands) == record["commands"])


def _size(written: Any) -> int:
    """About how many bytes a value takes in the journal."""
    return len(json.dumps(written))


def digest(commands: bytes) -> str:
    """The fingerprint of a decision that is too large to be journaled whole."""
    return sha256(commands).hexdigest()
