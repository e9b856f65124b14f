"""The event streams: each application's shares as server-sent events, resumable with Last-Event-ID."""

import asyncio
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from yarn_plugin.api import causes, translate, wire
from yarn_plugin.decide.commands import Command, Dismiss, SendToApp, TellShare
from yarn_plugin.decide.events import Event
from yarn_plugin.decide.pools.commands import TO_APP
from yarn_plugin.decide.state import State
from yarn_plugin.journal.codec import Codec
from yarn_plugin.journal.intake import Decided
from yarn_plugin.model.causes import NoLongerKnown

KEEP_ALIVE = 5.0
"""Seconds between comments on a silent stream, so that both ends notice when the other is gone."""

LONGEST_QUEUE = 256
"""Messages that wait for a slow reader, at most; then it is cut off, connects again, and is sent what it missed."""

MOST_DECISIONS, MOST_MESSAGES = 4000, 100_000
"""What is kept for clients that connect again: the last decisions that said something, and how much they said."""

EVENT_ID = r"^[0-9]{1,15}(\.[0-9]{1,6})?$"


class Past(Protocol):
    """What the streams need of the arbiter. None of it may wait for the journal."""

    @property
    def state(self) -> State:
        """What is known now."""
        ...

    def history(self) -> Sequence[Decided[Event, Command]]:
        """The last decided inputs, oldest first; asked for once."""
        ...

    def wall_offset(self) -> float:
        """Seconds from the arbiter's own time to that on the wall."""
        ...


@dataclass(frozen=True, slots=True)
class Position:
    """How far a client has come: message `index` of decision `seq`, of those about its application.

    `index` None: it knows the share with this number and every earlier one; what else was decided with it, it may not.
    """

    seq: int
    index: int | None = None

    @staticmethod
    def parse(event_id: str) -> "Position":
        """The reading of a Last-Event-ID that matches EVENT_ID."""
        seq, _, index = event_id.partition(".")
        return Position(int(seq), int(index) if index else None)


@dataclass(frozen=True, slots=True)
class Message:
    """One event of a stream: the `index`th of `count` that decision `seq` has for one application."""

    seq: int
    index: int
    count: int
    command: TellShare | SendToApp | Dismiss

    @property
    def id(self) -> str:
        """The event's id, its own: the number of the decision where that says it all."""
        return str(self.seq) if self.count == 1 else f"{self.seq}.{self.index}"

    @property
    def seen(self) -> Position:
        """How far a client has come that has this event."""
        return Position(self.seq, None if self.count == 1 else self.index)

    @property
    def is_end(self) -> bool:
        """Whether it is the last one of its stream."""
        return isinstance(self.command, Dismiss)

    def is_new_to(self, seen: Position | None) -> bool:
        """Whether a client that has come so far does not know it yet."""
        if seen is None:
            return True
        if seen.index is None:
            return self.seq > seen.seq or (self.seq == seen.seq and self.is_end)
        return (self.seq, self.index) > (seen.seq, seen.index)

    def encode(self, offset: float, codec: Codec) -> bytes:
        """The event as it is sent. A controller's message is an event of its own type (`ask`, `grant`, ...)."""
        if isinstance(self.command, TellShare):
            name, data = "share", translate.share(self.command.app, self.command.share, offset).model_dump_json()
        elif isinstance(self.command, SendToApp):
            name, data = translate.message(self.command, offset, codec)
        else:
            name, data = "end", _end(self.command).model_dump_json()
        return f"id: {self.id}\nevent: {name}\ndata: {data}\n\n".encode()


def _end(command: Dismiss) -> wire.End:
    return wire.End(reason=causes.text(command.cause), cause=causes.as_json(command.cause))


class StreamLimitError(Exception):
    """There are as many streams as there may be."""


@dataclass(eq=False, slots=True)
class _Listener:
    queue: "asyncio.Queue[Message | None]" = field(default_factory=lambda: asyncio.Queue(LONGEST_QUEUE))
    cut: bool = False

    def tell(self, message: Message | None) -> bool:
        """Queue a message (None: the stream ends); False if too many wait, and this listener is cut off."""
        if self.cut:
            return True
        if message is not None and not self.queue.full():
            self.queue.put_nowait(message)
            return True
        self.cut = True
        while not self.queue.empty():
            self.queue.get_nowait()
        self.queue.put_nowait(None)
        return message is None


class Streams:
    """Passes what was decided to the listeners of each application. Used on the server's event loop alone.

    `open`: how many listeners there are. `last`: the number of the last decision passed on. `cut_off`: how many
    listeners were too slow.
    """

    def __init__(self, past: Past, most: int | None = None, codec: Codec | None = None) -> None:
        self._past, self._most = past, most
        self._codec = codec or Codec(TO_APP)
        self._listeners: dict[str, set[_Listener]] = defaultdict(set)
        self._slots: Counter[str] = Counter()
        self._numbers: list[int] = []
        self._recent: list[dict[str, list[Message]]] = []
        self._kept = 0
        self.stopped = False
        self.open, self.last, self.cut_off = 0, 0, 0
        self.catch_up(past.history())

    def catch_up(self, history: Iterable[Decided[Event, Command]]) -> None:
        """Learn of what was decided before anything was passed on."""
        for decided in history:
            self.publish(decided)

    def stop(self) -> None:
        """End all streams, so that their connections can be closed: their clients connect to the next arbiter."""
        self.stopped = True
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.tell(None)

    def publish(self, decided: Decided[Event, Command]) -> None:
        """Send what a decision says to the applications that it concerns; known decisions are passed over."""
        if decided.seq <= self.last:
            return
        self.last = decided.seq
        messages = _messages(decided)
        if not messages:
            return
        self._keep(decided.seq, messages)
        for app in self._listeners.keys() & messages.keys():
            for listener in self._listeners[app]:
                for message in messages[app]:
                    self.cut_off += not listener.tell(message)

    def open_slot(self, owner: str, most: int | None) -> "StreamSlot":
        """A place for one more stream of this owner, who may have `most`.

        Raises:
            StreamLimitError: this owner, or everybody together, has as many as there may be.
        """
        if self._most is not None and self._slots.total() >= self._most:
            raise StreamLimitError(
                f"at most {self._most} event streams may be open at a time, over all users; try again later"
            )
        if most is not None and self._slots[owner] >= most:
            raise StreamLimitError(f"at most {most} streams of one user are open at a time in this pool")
        self._slots[owner] += 1
        return StreamSlot(self._slots, owner)

    def is_known(self, app: str) -> bool:
        """Whether there is, or will be, something to tell this application (its arbiter id, or YARN's)."""
        state = self._past.state
        return app in state.registered or app in state.members or app in state.cluster.apps

    def end_of(self, app: str) -> Message | None:
        """The last event of an application that is no longer known, if it is remembered."""
        for messages in reversed(self._recent):
            end = next((message for message in messages.get(app, ()) if message.is_end), None)
            if end is not None:
                return end
        dismissed = self._past.state.dismissed.get(app)
        return Message(self.last, 0, 1, Dismiss(app, dismissed.cause)) if dismissed else None

    async def follow(self, app: str, seen: Position | None) -> AsyncGenerator[bytes, None]:
        """The stream of one application: what it missed (or its present share), then what comes, then its end."""
        listener = _Listener()
        self._listeners[app].add(listener)
        self.open += 1
        try:
            for message in self._missed(app, seen):
                seen = message.seen
                yield message.encode(self._past.wall_offset(), self._codec)
                if message.is_end:
                    return
            while not self.stopped and not listener.cut:
                try:
                    # Not wait_for: that makes a task for every message of every stream.
                    async with asyncio.timeout(KEEP_ALIVE):
                        new = await listener.queue.get()
                except TimeoutError:
                    if not self.is_known(app):
                        yield self._ended(app).encode(0.0, self._codec)
                        return
                    yield b": still here\n\n"
                    continue
                if new is not None and new.is_new_to(seen):
                    seen = new.seen
                    yield new.encode(self._past.wall_offset(), self._codec)
                    if new.is_end:
                        return
        finally:
            self.open -= 1
            self._listeners[app].discard(listener)
            if not self._listeners[app]:
                del self._listeners[app]

    def _missed(self, app: str, seen: Position | None) -> Iterator[Message]:
        """What this application was told after `seen`, at least its present share if that is new, or its end."""
        known, present = self.is_known(app), self._present(app)
        if seen is not None and seen.seq > max(self.last, present.seq if present else 0):
            # Numbered by an arbiter whose journal is not this one: it says nothing about what is known.
            seen = None
        told = self._messages_since_ever(app) if seen is None else self._told_since(app, seen)
        if not known:
            yield from (message for message in told if not message.is_end)
            yield self._ended(app)
            return
        # An application that was given up in error, and is back: its end was none.
        told = [message for message in told if not message.is_end]
        has_share = any(isinstance(message.command, TellShare) for message in told)
        if not has_share and present is not None and present.is_new_to(seen):
            told = sorted([*told, present], key=lambda message: message.seq)
        yield from told

    def _told_since(self, app: str, seen: Position) -> list[Message]:
        since = self._recent[bisect_left(self._numbers, seen.seq) :]
        return [message for messages in since for message in messages.get(app, ()) if message.is_new_to(seen)]

    def _messages_since_ever(self, app: str) -> list[Message]:
        """What the controller of its pool has told an application that connects for the first time: it may have been
        asked something as it was registered."""
        told = (message for messages in self._recent for message in messages.get(app, ()))
        return [message for message in told if isinstance(message.command, SendToApp)]

    def _present(self, app: str) -> Message | None:
        member = self._past.state.members.get(app)
        return Message(member.share.seq, 0, 1, TellShare(app, member.share)) if member else None

    def _ended(self, app: str) -> Message:
        gone = Dismiss(app, NoLongerKnown(app))
        return self.end_of(app) or Message(self.last, 0, 1, gone)

    def _keep(self, seq: int, messages: dict[str, list[Message]]) -> None:
        self._numbers.append(seq)
        self._recent.append(messages)
        self._kept += sum(map(len, messages.values()))
        too_many = 0
        while len(self._recent) - too_many > 1 and (
            len(self._recent) - too_many > MOST_DECISIONS or self._kept > MOST_MESSAGES
        ):
            self._kept -= sum(map(len, self._recent[too_many].values()))
            too_many += 1
        del self._numbers[:too_many], self._recent[:too_many]


class StreamSlot:
    """One stream's place among those that may be open; given back once."""

    def __init__(self, slots: "Counter[str]", owner: str) -> None:
        self._slots, self._owner, self._taken = slots, owner, True

    def release(self) -> None:
        """Make room for another stream. Idempotent."""
        if self._taken:
            self._taken = False
            self._slots[self._owner] -= 1
            if not self._slots[self._owner]:
                del self._slots[self._owner]


def _messages(decided: Decided[Event, Command]) -> dict[str, list[Message]]:
    """What a decision says, by application, in its order."""
    told: dict[str, list[TellShare | SendToApp | Dismiss]] = defaultdict(list)
    for command in decided.commands:
        if isinstance(command, TellShare | SendToApp | Dismiss):
            told[command.app].append(command)
    return {
        app: [Message(decided.seq, index, len(commands), command) for index, command in enumerate(commands)]
        for app, commands in told.items()
    }
