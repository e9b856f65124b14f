"""The event streams: each application's shares as server-sent events, resumable with Last-Event-ID."""

import asyncio
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from yarn_plugin.api import causes, translate, wire
from yarn_plugin.api.leases import leases
from yarn_plugin.decide.commands import Command, Dismiss, SendToApp, TellShare
from yarn_plugin.decide.events import Event
from yarn_plugin.decide.pools.commands import ABOUT_LEASES, TO_APP
from yarn_plugin.decide.pools.lease.derived import Inventories
from yarn_plugin.decide.state import State
from yarn_plugin.journal.codec import Codec
from yarn_plugin.journal.intake import Decided
from yarn_plugin.model.causes import NoLongerKnown
from yarn_plugin.quantities import count

KEEP_ALIVE = 5.0
"""Seconds between heartbeats on an idle stream, so that both ends notice when the other is gone."""

SHARE_INTERVAL = 0.5
"""Seconds between two shares on a stream. Of those decided in between only the last is sent: each replaces the one
before."""

MAX_QUEUED = 256
"""Messages that wait for a slow reader; beyond that it is cut off, reconnects, and is sent what it missed."""

MAX_DECISIONS, MAX_MESSAGES = 4000, 100_000
"""What is retained for clients that reconnect: the last decisions with messages, and the messages in them."""

EVENT_ID = r"^[0-9]{1,15}(\.[0-9]{1,6})?$"
"""What a Last-Event-ID looks like."""


class DecisionSource(Protocol):
    """What the streams need of the arbiter. Nothing here may block on the journal."""

    @property
    def state(self) -> State:
        """The present state."""
        ...

    def history(self) -> Sequence[Decided[Event, Command]]:
        """The last decided inputs, oldest first; read once."""
        ...

    def wall_offset(self) -> float:
        """Seconds to add to the arbiter's own time for the wall clock's."""
        ...


@dataclass(frozen=True, slots=True)
class Position:
    """The last event that a client has: message `index` of decision `seq`, among those about its application.

    `index` None: it has the share with this number and all earlier ones, but perhaps no other message of that decision.
    """

    seq: int
    index: int | None = None

    @staticmethod
    def parse(event_id: str) -> "Position":
        """The position in a Last-Event-ID that matches EVENT_ID."""
        seq, _, index = event_id.partition(".")
        return Position(int(seq), int(index) if index else None)


@dataclass(frozen=True, slots=True)
class Message:
    """One event of a stream: message `index` of the `count` that decision `seq` has for one application; or what it
    leases after that decision."""

    seq: int
    index: int
    count: int
    command: TellShare | SendToApp | Dismiss | wire.Leases

    @property
    def id(self) -> str:
        """The event's id: the number of the decision where that is unique, else with the index."""
        return str(self.seq) if self.count == 1 else f"{self.seq}.{self.index}"

    @property
    def position(self) -> Position:
        """The position of a client that has received this event."""
        return Position(self.seq, None if self.count == 1 else self.index)

    @property
    def is_end(self) -> bool:
        """Whether it is the last event of its stream."""
        return isinstance(self.command, Dismiss)

    def is_after(self, position: Position | None) -> bool:
        """Whether a client at this position has not received it yet."""
        if position is None:
            return True
        if position.index is None:
            return self.seq > position.seq or (self.seq == position.seq and self.is_end)
        return (self.seq, self.index) > (position.seq, position.index)

    def encode(self, offset: float, codec: Codec) -> bytes:
        """The event as it is sent. A controller's message is an event of its own type (`ask`, `grant`, ...).

        `offset`: seconds to add for wall-clock times.
        """
        if isinstance(self.command, TellShare):
            name, data = "share", translate.share(self.command.app, self.command.share, offset).model_dump_json()
        elif isinstance(self.command, SendToApp):
            name, data = translate.message(self.command, offset, codec)
        elif isinstance(self.command, wire.Leases):
            name, data = "leases", self.command.model_dump_json()
        else:
            name, data = "end", _end(self.command).model_dump_json()
        return f"id: {self.id}\nevent: {name}\ndata: {data}\n\n".encode()


def _end(command: Dismiss) -> wire.End:
    return wire.End(reason=causes.text(command.cause), cause=causes.as_json(command.cause))


class StreamLimitError(Exception):
    """The limit of open streams is reached."""


@dataclass(eq=False, slots=True)
class _Listener:
    queue: "asyncio.Queue[Message | None]" = field(default_factory=lambda: asyncio.Queue(MAX_QUEUED))
    is_cut_off: bool = False

    def send(self, message: Message | None) -> bool:
        """Queue a message (None: the stream ends); False if too many wait, so that this listener is cut off."""
        if self.is_cut_off:
            return True
        if message is not None and not self.queue.full():
            self.queue.put_nowait(message)
            return True
        self.is_cut_off = True
        while not self.queue.empty():
            self.queue.get_nowait()
        self.queue.put_nowait(None)
        return message is None


class Streams:
    """Passes decisions on to the listeners of each application. Used on the server's event loop alone.

    `open`: the number of listeners. `last`: the number of the last decision that was passed on. `cut_off`: the number
    of listeners that were too slow. `max_open`: the limit of open streams, over all users.
    """

    def __init__(self, source: DecisionSource, max_open: int | None = None, codec: Codec | None = None) -> None:
        self._source, self._max_open = source, max_open
        self._codec = codec or Codec(TO_APP)
        self._inventories = Inventories()
        self._listeners: dict[str, set[_Listener]] = defaultdict(set)
        self._slots: Counter[str] = Counter()
        self._numbers: list[int] = []
        self._recent: list[dict[str, list[Message]]] = []
        self._retained = 0
        self._complete_after: int | None = None
        self.stopped = False
        self.open, self.last, self.cut_off = 0, 0, 0
        self.catch_up(source.history())

    def catch_up(self, history: Iterable[Decided[Event, Command]]) -> None:
        """Take in what was decided before the streams were there."""
        for decided in history:
            self.publish(decided)

    def stop(self) -> None:
        """End all streams, so that their connections can be closed; their clients reconnect to the next arbiter."""
        self.stopped = True
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.send(None)

    def publish(self, decided: Decided[Event, Command]) -> None:
        """Send a decision's messages to the applications that it concerns; a decision that is known is skipped."""
        if decided.seq <= self.last:
            return
        if self._complete_after is None:
            self._complete_after = decided.seq - 1
        self.last = decided.seq
        messages = _messages(decided)
        if not messages:
            return
        self._retain(decided.seq, messages)
        for app in self._listeners.keys() & messages.keys():
            for listener in self._listeners[app]:
                for message in messages[app]:
                    self.cut_off += not listener.send(message)

    def open_slot(self, owner: str, limit: int | None) -> "StreamSlot":
        """A slot for one more stream of this owner, who may have `limit` of them.

        Raises:
            StreamLimitError: the limit of this owner, or of all together, is reached.
        """
        if self._max_open is not None and self._slots.total() >= self._max_open:
            raise StreamLimitError(
                f"{count(self._max_open, 'event stream')} open, the limit for all users; retry later"
            )
        if limit is not None and self._slots[owner] >= limit:
            raise StreamLimitError(f"{count(limit, 'event stream')} open, the limit of this pool for a user; close one")
        self._slots[owner] += 1
        return StreamSlot(self._slots, owner)

    def is_known(self, app: str) -> bool:
        """Whether this application (its arbiter id, or YARN's) is registered, a member of a pool, or running."""
        state = self._source.state
        return app in state.registered or app in state.members or app in state.cluster.apps

    def end_of(self, app: str) -> Message | None:
        """The last event of an application that is no longer known, if it is retained."""
        for messages in reversed(self._recent):
            end = next((message for message in messages.get(app, ()) if message.is_end), None)
            if end is not None:
                return end
        dismissed = self._source.state.dismissed.get(app)
        return Message(self.last, 0, 1, Dismiss(app, dismissed.cause)) if dismissed else None

    async def follow(self, app: str, position: Position | None) -> AsyncGenerator[bytes, None]:
        """The stream of one application: what it missed (or its present share), then new events, then its end."""
        listener = _Listener()
        self._listeners[app].add(listener)
        self.open += 1
        try:
            for message in self._missed(app, position):
                position = message.position
                yield message.encode(self._source.wall_offset(), self._codec)
                if message.is_end:
                    return
            async for new in self._coalesced(app, listener, position):
                yield new.encode(self._source.wall_offset(), self._codec) if new else b": still here\n\n"
        finally:
            self.open -= 1
            self._listeners[app].discard(listener)
            if not self._listeners[app]:
                del self._listeners[app]

    async def _coalesced(
        self, app: str, listener: _Listener, position: Position | None
    ) -> AsyncGenerator[Message | None, None]:
        """The messages after `position` as they come, with fewer shares (see `SHARE_INTERVAL`); None: a heartbeat."""
        clock = asyncio.get_running_loop().time
        held: Message | None = None
        next_share = clock()
        while not self.stopped and not listener.is_cut_off:
            try:
                # Not wait_for, which makes a task for every message of every stream.
                async with asyncio.timeout(KEEP_ALIVE if held is None else max(next_share - clock(), 0.0)):
                    new = await listener.queue.get()
            except TimeoutError:
                if held is None and not self.is_known(app):
                    yield self._ended(app)
                    return
                if held is not None:
                    next_share = clock() + SHARE_INTERVAL
                yield held
                held = None
                continue
            if new is None or not new.is_after(position):
                continue
            position = new.position
            if isinstance(new.command, TellShare):
                if clock() < next_share:
                    held = new
                    continue
                # Also instead of one that waits, if that was due just now.
                next_share, held = clock() + SHARE_INTERVAL, None
            elif held is not None:
                # In the order of their ids, by which a client that reconnects is sent the rest.
                yield held
                held = None
            yield new
            if new.is_end:
                return

    def _missed(self, app: str, position: Position | None) -> Iterator[Message]:
        """The messages to this application after `position`, with its present share if that is new, or its end."""
        known, present = self.is_known(app), self._present(app)
        if position is not None and position.seq > max(self.last, present.seq if present else 0):
            # Numbered by an arbiter with another journal: it says nothing about what the client has.
            position = None
        missed = self._controller_messages(app) if position is None else self._messages_after(app, position)
        # The end of an application that was removed in error and is back does not count.
        missed = [message for message in missed if not message.is_end]
        if not known:
            yield from missed
            yield self._ended(app)
            return
        held = None if self._has_all_after(position) else self.leases(app)
        if held is not None:
            missed = [message for message in missed if not _is_about_leases(message)]
            missed.append(Message(held.seq, 0, 1, held))
        has_share = any(isinstance(message.command, TellShare) for message in missed)
        if not has_share and present is not None and present.is_after(position):
            missed = sorted([*missed, present], key=lambda message: message.seq)
        yield from missed

    def leases(self, app: str) -> wire.Leases | None:
        """What an application leases now; None where its pool leases nothing."""
        # The number first: the state may include decisions whose messages come later.
        seq = self.last
        return leases(self._source.state, app, seq, self._source.wall_offset(), self._inventories)

    def _has_all_after(self, position: Position | None) -> bool:
        """Whether all messages after a position are retained."""
        if position is None or self._complete_after is None:
            return False
        return position.seq > self._complete_after or position == Position(self._complete_after)

    def _messages_after(self, app: str, position: Position) -> list[Message]:
        since = self._recent[bisect_left(self._numbers, position.seq) :]
        return [message for messages in since for message in messages.get(app, ()) if message.is_after(position)]

    def _controller_messages(self, app: str) -> list[Message]:
        """The retained messages of its pool's controller, for an application that connects for the first time: one may
        have been sent as it was registered."""
        retained = (message for messages in self._recent for message in messages.get(app, ()))
        return [message for message in retained if isinstance(message.command, SendToApp)]

    def _present(self, app: str) -> Message | None:
        member = self._source.state.members.get(app)
        return Message(member.share.seq, 0, 1, TellShare(app, member.share)) if member else None

    def _ended(self, app: str) -> Message:
        return self.end_of(app) or Message(self.last, 0, 1, Dismiss(app, NoLongerKnown(app)))

    def _retain(self, seq: int, messages: dict[str, list[Message]]) -> None:
        self._numbers.append(seq)
        self._recent.append(messages)
        self._retained += sum(map(len, messages.values()))
        dropped = 0
        while len(self._recent) - dropped > 1 and (
            len(self._recent) - dropped > MAX_DECISIONS or self._retained > MAX_MESSAGES
        ):
            self._retained -= sum(map(len, self._recent[dropped].values()))
            self._complete_after = self._numbers[dropped]
            dropped += 1
        del self._numbers[:dropped], self._recent[:dropped]


class StreamSlot:
    """One stream's slot among those that may be open."""

    def __init__(self, slots: "Counter[str]", owner: str) -> None:
        self._slots, self._owner, self._is_held = slots, owner, True

    def release(self) -> None:
        """Make room for another stream. Idempotent."""
        if self._is_held:
            self._is_held = False
            self._slots[self._owner] -= 1
            if not self._slots[self._owner]:
                del self._slots[self._owner]


def _is_about_leases(message: Message) -> bool:
    return isinstance(message.command, SendToApp) and isinstance(message.command.message, ABOUT_LEASES)


def _messages(decided: Decided[Event, Command]) -> dict[str, list[Message]]:
    """A decision's messages by application, in its order."""
    messages: dict[str, list[TellShare | SendToApp | Dismiss]] = defaultdict(list)
    for command in decided.commands:
        if isinstance(command, TellShare | SendToApp | Dismiss):
            messages[command.app].append(command)
    return {
        app: [Message(decided.seq, index, len(commands), command) for index, command in enumerate(commands)]
        for app, commands in messages.items()
    }
