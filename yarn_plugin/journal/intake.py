"""The one place where a process takes in what happens: ordered, stamped, journaled, then decided on."""

import json
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Generic, TypeVar

from yarn_plugin.errors import ReportedError
from yarn_plugin.journal.clock import Clock
from yarn_plugin.journal.codec import Codec
from yarn_plugin.journal.records import JournalError, JournalUnavailableError, Record, RecordFile
from yarn_plugin.journal.upgrade import VERSION, upgrade, version_of

State = TypeVar("State")
Event = TypeVar("Event")
Command = TypeVar("Command")

log = logging.getLogger("yarn_plugin.journal")

COMPACT_AT = 32 * 1024 * 1024
"""Bytes of journal below which it is not rewritten as a snapshot; above, when it has doubled since it last was. So
what is written is at most three times what was appended."""

REMEMBERED = 4000
"""Decided inputs that survive compaction, for "why" and for clients that reconnect; and how many bytes of them."""
REMEMBERED_BYTES = 16 * 1024 * 1024

WHOLE_DECISION = 64 * 1024
"""Bytes up to which a decision is journaled whole; of a larger one, which follows from its input anyway, a digest."""

ENDED_TWICE = "the process ended twice while it decided on this"


class SetAsideError(ReportedError):
    """An input on which nothing could be decided: recorded as number `seq` with its `error`; the state is unchanged."""

    def __init__(self, seq: int, error: str) -> None:
        super().__init__(f"input {seq} could not be decided on and is set aside: {error}")
        self.seq, self.error = seq, error


@dataclass(frozen=True, slots=True)
class Decided(Generic[Event, Command]):
    """An input with its number and times, and what was decided on it.

    `at` is the journal's own time, by which it was decided; `wall` the machine's then, to be shown.
    """

    seq: int
    at: float
    event: Event
    commands: tuple[Command, ...]
    wall: float


class Replay(Generic[State, Event, Command]):
    """A journal decided on again, record by record: `state` and `history` are what they were when it was written.

    `replayed` counts the inputs that were decided on again, `different` those of them, written by this version, on
    which the journal holds another decision (0, unless a mistake made it depend on more than its inputs), `set_aside`
    those that are recorded as failed, or fail now. Writes nothing.
    """

    def __init__(
        self,
        step: Callable[[State, int, float, Event], tuple[State, tuple[Command, ...]]],
        empty: State,
        types: Iterable[type],
    ) -> None:
        self.codec = Codec([*types, type(empty)])
        self.state = empty
        self.seq, self.at, self.wall = 0, 0.0, 0.0
        self.replayed = self.different = self.set_aside = 0
        self.history: deque[Decided[Event, Command]] = deque()
        self._sizes: deque[int] = deque()
        self._remembered_bytes = 0
        self._step = step
        self._waiting: Record | None = None
        self.attempts = 0
        self.last_commands = b"[]"

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
                    f"journal: the record after {self.seq} cannot be read: {described(problem)}"
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
            return self.decide(record["seq"], record["at"], record["wall"], event, _size(record["event"]))
        except JournalError:
            raise
        except Exception as problem:  # noqa: BLE001 - whatever it is, the input is set aside and the next one taken
            self.set_aside += 1
            return described(problem)

    def skip_waiting(self) -> None:
        """Set the input that waits aside."""
        self._waiting = None
        self.set_aside += 1

    def decide(self, seq: int, at: float, wall: float, event: Event, size: int) -> Decided[Event, Command]:
        """Decide on an input, and keep that in the history. An exception leaves everything as it was."""
        state, commands = self._step(self.state, seq, at, event)
        decided = Decided(seq, at, event, commands, wall)
        self.last_commands = b"[%s]" % b",".join(map(self.codec.dump, commands))
        self.state = state
        self._remember(decided, size + len(self.last_commands))
        return decided

    def _remember(self, decided: Decided[Event, Command], size: int) -> None:
        """Keep a decided input, of so many bytes in the journal, in the history; the oldest ones go."""
        self.history.append(decided)
        self._sizes.append(size)
        self._remembered_bytes += size
        while len(self.history) > REMEMBERED or (self._remembered_bytes > REMEMBERED_BYTES and len(self.history) > 1):
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
            case "past":
                commands = tuple(self.codec.read(command) for command in record["commands"])
                event = self.codec.read(record["event"])
                past = Decided(self.seq, self.at, event, commands, self.wall)
                self._remember(past, _size(record["commands"]) + _size(record["event"]))
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
            self.attempts += 1
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
            log.warning("input %d is set aside: %s", self.seq, decided)
            return None
        return decided

    def _same(self, record: Record) -> bool:
        """Whether the decision just taken is the one in a record."""
        if "digest" in record:
            return bool(record["digest"] == digest(self.last_commands))
        return bool(json.loads(self.last_commands) == record["commands"])


class Intake(Generic[State, Event, Command]):
    """Drives a pure `step(state, seq, at, event) -> (state, commands)` and journals around it.

    Opening it replays the journal, so `state` is what it was when the process ended, wherever it was killed: an input
    is durable before it is decided on, and a decision that was lost follows again from its input. `history` holds the
    last decided inputs, oldest first. An input on which `step` fails is set aside: recorded as failed, for good, and
    the state stays as it was. So is one during which the process ended twice.
    """

    def __init__(
        self,
        step: Callable[[State, int, float, Event], tuple[State, tuple[Command, ...]]],
        empty: State,
        types: Iterable[type],
        journal: RecordFile,
        clock: Clock,
    ) -> None:
        self._journal, self._clock = journal, clock
        self._past: Replay[State, Event, Command] = Replay(step, empty, types)
        self._owed: list[bytes] = []
        self._compact_at = COMPACT_AT
        self._past.take_all(journal.read())
        if self._past.seq:
            self._clock.resume(self._past.at, self._past.wall)
        self._finish()
        lost = max((record.get("seq", 0) for record in journal.lost), default=0)
        # Numbers of what was lost are not used again: somebody may have seen them.
        self._past.seq = max(self._past.seq, lost)

    @property
    def state(self) -> State:
        """What is known after all inputs."""
        return self._past.state

    @property
    def seq(self) -> int:
        """The number of the last input."""
        return self._past.seq

    @property
    def history(self) -> deque[Decided[Event, Command]]:
        """The last decided inputs, oldest first."""
        return self._past.history

    @property
    def replayed(self) -> int:
        """How many inputs were decided on again when the journal was opened."""
        return self._past.replayed

    @property
    def different(self) -> int:
        """On how many of them, written by this version, the journal holds another decision."""
        return self._past.different

    @property
    def set_aside(self) -> int:
        """How many inputs, of those since the last snapshot, could not be decided on."""
        return self._past.set_aside

    def now(self) -> float:
        """The journal's time."""
        return max(self._clock.now(), self._past.at)

    def wall(self) -> float:
        """The time on the wall."""
        return self._clock.wall()

    def take(self, event: Event) -> Decided[Event, Command]:
        """Number, stamp and journal an input, then decide on it.

        Raises:
            JournalUnavailableError: the journal does not take it. It was not decided on, and never will be.
            SetAsideError: nothing could be decided on it.
        """
        past = self._past
        seq, at, wall = past.seq + 1, self.now(), self._clock.wall()
        try:
            written = past.codec.dump(event)
        except ValueError as problem:
            # Nothing that a journal can hold (half a character, mostly): so nothing is recorded of it either.
            raise SetAsideError(seq, described(problem)) from problem
        self._append(_input(b"input", seq, at, wall, written), durable=True)
        past.seq, past.at, past.wall = seq, at, wall
        try:
            decided = past.decide(seq, at, wall, event, len(written))
        except Exception as problem:
            error = described(problem)
            log.exception("input %d, %s, is set aside", seq, type(event).__name__)
            self._set_aside(seq, error)
            raise SetAsideError(seq, error) from problem
        self._note(_decision(decided, past.last_commands))
        self._compact_if_due()
        return decided

    def compact(self) -> None:
        """Replace the journal by a snapshot of the state and the remembered decisions.

        Raises:
            JournalUnavailableError: it could not be written; the journal is as it was.
        """
        past = self._past
        head = b'{"v":%d,"kind":"snapshot","seq":%d,"at":%r,"wall":%r,"state":%s}'
        snapshot = head % (VERSION, past.seq, past.at, past.wall, past.codec.dump(past.state))
        self._journal.rewrite(*(self._remembered(one) for one in past.history), snapshot)
        # What was owed is in the snapshot.
        self._owed.clear()

    def probe(self) -> None:
        """Find out whether the journal takes records.

        Raises:
            JournalUnavailableError: it does not.
        """
        if self._owed:
            self._append(durable=True)
        self._journal.probe()

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    def _finish(self) -> None:
        """Decide on the last input if the process ended before it had, unless it has ended twice over it."""
        record = self._past.undecided
        if record is None:
            return
        if self._past.attempts:
            self._past.skip_waiting()
            self._note(_failed(record["seq"], ENDED_TWICE))
            return
        # What cannot be read is refused, at every start, before anything is written.
        self._past.codec.read(record["event"])
        # Where what is decided would find no room, an attempt that did would be taken for a process that ended.
        self._journal.probe()
        self._append(_attempt(record["seq"]), durable=True)
        decided = self._past.decide_waiting()
        if isinstance(decided, str):
            log.warning("input %d is set aside: %s", record["seq"], decided)
            self._note(_failed(record["seq"], decided))
        elif decided is not None:
            self._note(_decision(decided, self._past.last_commands))

    def _set_aside(self, seq: int, error: str) -> None:
        self._past.set_aside += 1
        self._note(_failed(seq, error))

    def _append(self, *records: bytes, durable: bool) -> None:
        """Add records, after those that are owed."""
        self._journal.append(*self._owed, *records, durable=durable)
        self._owed.clear()

    def _note(self, record: bytes) -> None:
        """Add a record that follows from its input: where the journal takes nothing now, it is added later."""
        try:
            self._append(record, durable=False)
        except JournalUnavailableError:
            self._owed.append(record)

    def _compact_if_due(self) -> None:
        if self._journal.size <= max(self._compact_at, 2 * self._journal.rewritten_size):
            return
        try:
            self.compact()
            self._compact_at = COMPACT_AT
        except JournalUnavailableError as problem:
            # Not at every input: where there is no room for it now, there will hardly be at the next.
            self._compact_at = self._journal.size + COMPACT_AT // 8
            log.warning("the journal is not compacted: %s", problem)

    def _remembered(self, decided: Decided[Event, Command]) -> bytes:
        past = self._past
        written = _input(b"past", decided.seq, decided.at, decided.wall, past.codec.dump(decided.event))
        commands = b",".join(map(past.codec.dump, decided.commands))
        return b'%s,"commands":[%s]}' % (written[:-1], commands)


def described(problem: BaseException) -> str:
    """An unexpected error in one line of bounded length."""
    return f"{type(problem).__name__}: {' '.join(str(problem).split())}"[:300]


def _size(written: Any) -> int:
    """About how many bytes a value takes in the journal."""
    return len(json.dumps(written))


def digest(commands: bytes) -> str:
    """The fingerprint of a decision that is too large to be journaled whole."""
    return sha256(commands).hexdigest()


def _input(kind: bytes, seq: int, at: float, wall: float, event: bytes) -> bytes:
    return b'{"v":%d,"kind":"%s","seq":%d,"at":%r,"wall":%r,"event":%s}' % (VERSION, kind, seq, at, wall, event)


def _decision(decided: Decided[Any, Any], commands: bytes) -> bytes:
    small = len(commands) <= WHOLE_DECISION
    said = b'"commands":%s' % commands if small else b'"digest":"%s"' % digest(commands).encode()
    return b'{"v":%d,"kind":"decision","seq":%d,"at":%r,%s}' % (VERSION, decided.seq, decided.at, said)


def _failed(seq: int, error: str) -> bytes:
    return json.dumps({"v": VERSION, "kind": "failed", "seq": seq, "error": error}, separators=(",", ":")).encode()


def _attempt(seq: int) -> bytes:
    return b'{"v":%d,"kind":"attempt","seq":%d}' % (VERSION, seq)
