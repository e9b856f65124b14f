"""The event streams: each application's shares as server-sent events, resumable with Last-Event-ID."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from typing import Protocol

from yarn_plugin.api import translate, wire
from yarn_plugin.decide.commands import Command, Dismiss, TellShare
from yarn_plugin.decide.events import Event
from yarn_plugin.decide.state import State
from yarn_plugin.journal.intake import Decided

KEEP_ALIVE = 5.0
"""Seconds between comments on a silent stream, so that both ends notice when the other is gone."""

Message = tuple[int, str, str]
"""An event: its id, its name, its data (JSON)."""


class Past(Protocol):
    """What a new listener needs of the past."""

    state: State

    def history(self) -> list[Decided[Event, Command]]:
        """The last decided inputs, oldest first."""
        ...


class Streams:
    """Passes what was decided to the listeners of each application. Used on the server's event loop alone."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._listeners: dict[str, set[asyncio.Queue[Message | None]]] = defaultdict(set)
        self.stopped = False
        self.open = 0

    def stop(self) -> None:
        """End all streams, so that their connections can be closed: their clients connect to the next arbiter."""
        self.stopped = True
        for queues in self._listeners.values():
            for queue in queues:
                queue.put_nowait(None)

    def publish(self, decided: Decided[Event, Command]) -> None:
        """Send what these commands say to the applications that they concern."""
        for command in decided.commands:
            message = _message(decided.seq, command)
            if message:
                for queue in self._listeners.get(_app(command), ()):
                    queue.put_nowait(message)

    async def follow(self, app: str, last_seen: int | None) -> AsyncIterator[bytes]:
        """The stream of one application: what it missed since `last_seen` (or its present share), then what comes."""
        queue: asyncio.Queue[Message | None] = asyncio.Queue()
        self._listeners[app].add(queue)
        self.open += 1
        try:
            sent = -1 if last_seen is None else last_seen
            for message in self._missed(app, last_seen):
                sent = message[0]
                yield _encode(message)
                if message[1] == "end":
                    return
            while not self.stopped:
                try:
                    new = await asyncio.wait_for(queue.get(), KEEP_ALIVE)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if new is not None and new[0] > sent:
                    yield _encode(new)
                    if new[1] == "end":
                        return
        finally:
            self.open -= 1
            self._listeners[app].discard(queue)
            if not self._listeners[app]:
                del self._listeners[app]

    def _missed(self, app: str, last_seen: int | None) -> Iterable[Message]:
        state, history = self._past.state, self._past.history()
        told = [
            message
            for decided in history
            for command in decided.commands
            if _app(command) == app and (message := _message(decided.seq, command))
        ]
        if last_seen is None:
            return told[-1:] or _present(state, app)
        return [message for message in told if message[0] > last_seen] or [
            message for message in _present(state, app) if message[0] > last_seen
        ]


def _present(state: State, app: str) -> list[Message]:
    member = state.members.get(app)
    return [_share_message(app, TellShare(app, member.share))] if member else []


def _message(seq: int, command: Command) -> Message | None:
    match command:
        case TellShare(app, _):
            return _share_message(app, command)
        case Dismiss(_, reason):
            return seq, "end", wire.End(reason=reason).model_dump_json()
        case _:
            return None


def _share_message(app: str, command: TellShare) -> Message:
    return command.share.seq, "share", translate.share(app, command.share).model_dump_json()


def _app(command: Command) -> str:
    return command.app if isinstance(command, TellShare | Dismiss) else ""


def _encode(message: Message) -> bytes:
    seq, name, data = message
    return f"id: {seq}\nevent: {name}\ndata: {data}\n\n".encode()
