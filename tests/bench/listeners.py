"""Many clients of the arbiter's event streams in one process: plain sockets, minimal parsing.

`python -m tests.bench.listeners PORT` reads a JSON object {application: token} from the first line of standard input
and opens one stream for each. It answers each further line with a JSON object: "open" with the number of open streams;
any other text with the number of streams that received a share whose reason contains the text, and the times at which
the first and the last of them received it.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

MAX_CONNECTING = 100
"""Connections opened at the same time; more would overrun the server's backlog."""


@dataclass
class Receipt:
    """One decision, sent to all streams with the same event id: when the first and the last of them received it."""

    reason: str
    first: float
    last: float
    streams: int


class Listeners:
    """The streams, and the decisions that they have received."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._slots = asyncio.Semaphore(MAX_CONNECTING)
        self.open = self.failed = 0
        self.receipts: dict[bytes, Receipt] = {}

    async def follow(self, app: str, token: str) -> None:
        """Follow one application until its stream ends."""
        try:
            async with self._slots:
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                request = (
                    f"GET /v1/apps/{app}/events HTTP/1.1\r\nHost: arbiter\r\nAuthorization: Bearer {token}\r\n\r\n"
                )
                writer.write(request.encode())
                status = await reader.readline()
                if b" 200 " not in status:
                    raise ConnectionError(status.decode())
                await reader.readuntil(b"\r\n\r\n")
            self.open += 1
            async for name, event_id, data in _events(reader):
                if name == b"share":
                    self._record(event_id, data)
            self.open -= 1
        except (OSError, ConnectionError, asyncio.IncompleteReadError):
            self.failed += 1

    def _record(self, event_id: bytes, data: bytes) -> None:
        now = time.time()
        receipt = self.receipts.get(event_id)
        if receipt is None:
            self.receipts[event_id] = Receipt(json.loads(data)["reason"], now, now, 1)
        else:
            receipt.last, receipt.streams = now, receipt.streams + 1

    def answer(self, question: str) -> dict[str, Any]:
        """The answer to a line of standard input."""
        if question == "open":
            return {"open": self.open, "failed": self.failed}
        matching = [receipt for receipt in self.receipts.values() if question in receipt.reason]
        return {
            "streams": sum(receipt.streams for receipt in matching),
            "first": min((receipt.first for receipt in matching), default=0.0),
            "last": max((receipt.last for receipt in matching), default=0.0),
        }


async def _events(reader: asyncio.StreamReader) -> AsyncIterator[tuple[bytes, bytes, bytes]]:
    """The name, id and data of each event, however it is split into chunks."""
    event_id = name = b""
    while line := await reader.readline():
        if line.startswith(b"id: "):
            event_id = line[4:].strip()
        elif line.startswith(b"event: "):
            name = line[7:].strip()
        elif line.startswith(b"data: "):
            yield name, event_id, line[6:]


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
