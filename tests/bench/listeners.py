"""Many clients of the arbiter's event streams in one process: plain sockets, minimal parsing.

`python -m tests.bench.listeners PORT` reads a JSON object {application: token} from the first line of its standard
input and opens one stream for each. Then it answers each further line with a JSON object: "open" with how many streams
are open, a text with how many streams heard the share whose reason holds that text, and when the first and the last
did.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

AT_ONCE = 100
"""Connections that are made at the same time; more would overrun the server's backlog."""


@dataclass
class Heard:
    """One decision as the streams heard it: they all get the same number for it."""

    reason: str
    first: float
    last: float
    streams: int


class Listeners:
    """The streams, and what they heard."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._slots = asyncio.Semaphore(AT_ONCE)
        self.open = self.failed = 0
        self.heard: dict[bytes, Heard] = {}

    async def follow(self, app: str, token: str) -> None:
        """Follow one application to the end of its stream."""
        try:
            async with self._slots:
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                ask = f"GET /v1/apps/{app}/events HTTP/1.1\r\nHost: arbiter\r\nAuthorization: Bearer {token}\r\n\r\n"
                writer.write(ask.encode())
                status = await reader.readline()
                if b" 200 " not in status:
                    raise ConnectionError(status.decode())
                await reader.readuntil(b"\r\n\r\n")
            self.open += 1
            async for name, number, data in _events(reader):
                if name == b"share":
                    self._note(number, data)
            self.open -= 1
        except (OSError, ConnectionError, asyncio.IncompleteReadError):
            self.failed += 1

    def _note(self, number: bytes, data: bytes) -> None:
        now = time.time()
        heard = self.heard.get(number)
        if heard is None:
            self.heard[number] = Heard(json.loads(data)["reason"], now, now, 1)
        else:
            heard.last, heard.streams = now, heard.streams + 1

    def answer(self, question: str) -> dict[str, Any]:
        """What is asked on standard input."""
        if question == "open":
            return {"open": self.open, "failed": self.failed}
        found = [one for one in self.heard.values() if question in one.reason]
        return {
            "streams": sum(one.streams for one in found),
            "first": min((one.first for one in found), default=0.0),
            "last": max((one.last for one in found), default=0.0),
        }


async def _events(reader: asyncio.StreamReader) -> AsyncIterator[tuple[bytes, bytes, bytes]]:
    """The name, number and data of each event, whatever the chunks are that they come in."""
    number = name = b""
    while line := await reader.readline():
        if line.startswith(b"id: "):
            number = line[4:].strip()
        elif line.startswith(b"event: "):
            name = line[7:].strip()
        elif line.startswith(b"data: "):
            yield name, number, line[6:]


async def main() -> None:
    """Open the streams and answer until standard input ends."""
    loop = asyncio.get_running_loop()
    listeners = Listeners(int(sys.argv[1]))
    apps: dict[str, str] = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
    following = [asyncio.create_task(listeners.follow(app, token)) for app, token in apps.items()]
    while question := await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(listeners.answer(question.strip())), flush=True)
    for task in following:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
