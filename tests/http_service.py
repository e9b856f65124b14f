"""The HTTP service on an arbiter that decides synchronously: no threads, no ResourceManager, a real journal."""

import asyncio
import json
from concurrent.futures import Future
from dataclasses import dataclass

import httpx

from tests.arbiter_world import ALLOWED, cores, node
from tests.clock import HandClock
from yarn_plugin.api import wire
from yarn_plugin.api.refusals import Limits
from yarn_plugin.api.service import create
from yarn_plugin.api.streams import Position, Streams
from yarn_plugin.api.tokens import Principal, Tokens
from yarn_plugin.decide import events
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.events import Configured, ManagerReached, NodesChanged
from yarn_plugin.drive.daemon import Stopped
from yarn_plugin.drive.journaling import open_intake
from yarn_plugin.drive.registry import journal_tags
from yarn_plugin.journal.codec import Codec
from yarn_plugin.journal.records import RecordFile
from yarn_plugin.model.cluster import YarnApp
from yarn_plugin.model.share import Pool
from yarn_plugin.serving.refusals import Refusals

SQL = Pool("sql", "root.sql", ("memory-mb", "vcores"))
GPU = Pool("gpu", "root.gpu", ("yarn.io/gpu",))


@dataclass
class Health:
    """How the arbiter is, as a test would have it."""

    alive: bool = True
    ready: bool = True
    problems: tuple = ()
    last_poll_age: float | None = 0.2
    journal_error: str | None = None
    id: str = "a-1"


class Arbiter:
    """Decides each event at once, as the daemon's thread would. `fails`: what it answers instead of deciding."""

    def __init__(self, path, registry=BUILT_IN):
        self.clock = HandClock()
        self._intake = open_intake(RecordFile(path), self.clock, registry)
        self.streams, self.polls, self.appears = None, 0, []
        self.is_well, self.counted, self.offset, self.fails = Health(), {}, 0.0, None

    @property
    def state(self):
        return self._intake.state

    def history(self):
        return list(self._intake.history)

    def take(self, event):
        decided = self._intake.take(event)
        if self.streams:
            self.streams.publish(decided)
        return decided

    def post(self, event):
        answer = Future()
        try:
            if self.fails:
                raise self.fails
            answer.set_result(self.take(event))
        except Exception as problem:  # noqa: BLE001 - the asker is told, whatever it is
            answer.set_exception(problem)
        return answer

    def poll(self):
        self.polls += 1
        for event in self.appears:
            self.take(event)

    def health(self):
        return self.is_well

    def counters(self):
        return self.counted

    def now(self):
        return self.clock.now()

    def wall_offset(self):
        return self.offset

    def close(self):
        self._intake.close()


class Http:
    """Sends requests to a service in this process, one at a time, each to its end."""

    def __init__(self, service):
        self._service = service

    def request(self, method, path, **more):
        async def send():
            transport = httpx.ASGITransport(self._service, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://arbiter") as client:
                return await client.request(method, path, **more)

        return asyncio.run(send())


def say_why(yarn_app):
    """Diagnostics of the ResourceManager, without waiting."""
    answer = Future()
    answer.set_result([f"no node has room for {yarn_app}"])
    return answer


class Service:
    """The service with a client for each principal."""

    def __init__(self, folder, *pools, limits=None, users=None, tenants=None, registry=BUILT_IN, cells_files=None):
        self.arbiter = Arbiter(folder / "journal", registry)
        self.tokens = Tokens(folder)
        limits = limits or Limits()
        self.arbiter.streams = self.streams = Streams(self.arbiter, limits.max_streams, Codec(journal_tags(registry)))
        self.refusals = Refusals()
        self.app = create(
            self.arbiter,
            self.tokens,
            self.streams,
            say_why,
            limits,
            self.refusals,
            users,
            tenants,
            ended=Stopped,
            registry=registry,
            cells_files=cells_files,
        )
        self.http = Http(self.app)
        for event in (
            Configured(pools or (SQL,)),
            ManagerReached("http://rm:8088", ALLOWED),
            NodesChanged(tuple(node(number) for number in range(1, 5)), ()),
            events.LeavesSeen((), ()),
        ):
            self.arbiter.take(event)

    def ask(self, token, method, path, body=None, **headers):
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return self.http.request(method, path, json=body, headers=headers)

    def as_admin(self, method, path, body=None):
        return self.ask(self.tokens.admin_file.read_text().strip(), method, path, body)

    def user(self, name):
        """A token of a user."""
        return self.tokens.issue(Principal("user", name))

    def register(self, name="nightly", user="ann", **more):
        answer = self.ask(self.user(user), "POST", "/v1/apps", {"name": name, "request_id": f"request-{name}", **more})
        assert answer.status_code == 201, answer.text
        return wire.Registered.model_validate(answer.json())


def problems(answer):
    """The problems in an answer: (field, value, what is right)."""
    found = wire.Problems.model_validate(answer.json()).problems
    return [(problem.field, problem.value, problem.expected) for problem in found]


def running(name, queue, user="ann", waiting=False, pending=0):
    return YarnApp(name, name, user, queue, waiting, 900.0, cores(0 if waiting else 2), cores(pending), 2)


def streamed(streams, app, seen=None):
    """The events that a stream of an application holds up to now: (id, event, data)."""
    streams.stopped = True

    async def collect():
        return [piece async for piece in streams.follow(app, Position.parse(seen) if seen else None)]

    found = parse(b"".join(asyncio.run(collect())).decode())
    streams.stopped = False
    return found


def parse(text):
    """The events in a stream: (id, name, data); an id that is the number of a decision as such."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            number = int(fields["id"]) if fields["id"].isdigit() else fields["id"]
            found.append((number, fields["event"], json.loads(fields["data"])))
    return found
