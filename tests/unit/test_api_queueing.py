"""Fair queues: many requests of one user delay that user only. Shared polls: one at a time for all callers."""

import asyncio
import threading
from concurrent.futures import Future

import httpx
import pytest

from tests.http_service import running
from yarn_plugin.api import backend, queueing
from yarn_plugin.api.backend import MAX_CONCURRENT_QUESTIONS, NOT_YET
from yarn_plugin.api.queueing import MAX_WAITING, SharedPoll
from yarn_plugin.api.routes import apps, decisions, operations
from yarn_plugin.api.service import create
from yarn_plugin.decide.events import AppsChanged

WITHIN = 15.0
"""Seconds after which a request counts as held up."""


async def eventually(holds):
    async with asyncio.timeout(WITHIN):
        while not holds():
            await asyncio.sleep(0.005)


class Held:
    """Something that is called in threads and lasts until it is let; `most`: how many calls there were at a time."""

    def __init__(self, says):
        self._says, self._lock, self._free = says, threading.Lock(), threading.Event()
        self.present, self.most = 0, 0

    def let(self):
        self._free.set()

    def __call__(self):
        with self._lock:
            self.present += 1
            self.most = max(self.most, self.present)
        self._free.wait(60)
        with self._lock:
            self.present -= 1
        return self._says()


def in_one_loop(app, scenario):
    """Run a scenario that is given `get(token, path)`."""

    async def run():
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://arbiter") as client:

            def get(token, path):
                headers = {"Authorization": f"Bearer {token}"}
                return asyncio.ensure_future(client.get(path, headers=headers))

            return await scenario(get)

    return asyncio.run(run())


def test_long_reads_of_one_user_run_one_at_a_time_and_delay_nobody_else(service):
    """The user's applications read in the user's queue: a user may have many of them."""
    made = service.register()
    held = service.arbiter.history = Held(service.arbiter.history)

    async def scenario(get):
        paths = ("/v1/decisions?limit=10000", f"/v1/apps/{made.app}/why")
        hers = [get(token, path) for token in (service.user("ann"), made.token) for path in paths for _ in range(30)]
        try:
            await eventually(lambda: held.present)
            async with asyncio.timeout(WITHIN):
                for path in ("/v1/health", "/v1/cluster", "/v1/apps"):
                    assert (await get(service.user("eve"), path)).status_code == 200
                assert (await get(service.tokens.admin_file.read_text().strip(), "/metrics")).status_code == 200
        finally:
            held.let()
        return [answer.status_code for answer in await asyncio.gather(*hers)]

    assert set(in_one_loop(service.app, scenario)) == {200}
    assert held.most == 1


@pytest.mark.parametrize("path", ["/v1/decisions", "/v1/apps", "/v1/cluster", "/metrics"])
def test_reads_beyond_the_queue_limit_are_refused(service, path):
    """However short the read is."""
    held = service.arbiter.history = Held(service.arbiter.history)
    token = service.tokens.admin_file.read_text().strip()

    async def scenario(get):
        waiting = [get(token, "/v1/decisions") for _ in range(1 + MAX_WAITING)]
        try:
            await eventually(lambda: held.present)
            async with asyncio.timeout(WITHIN):
                refused = await get(token, path)
        finally:
            held.let()
        await asyncio.gather(*waiting)
        return refused

    refused = in_one_loop(service.app, scenario)
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "2")
    assert refused.json()["problems"][0]["expected"].startswith(f"{1 + MAX_WAITING} reads ")


@pytest.mark.parametrize(
    ("path", "module", "adapter"),
    [
        ("/v1/decisions", decisions, "_DECISIONS"),
        ("/v1/apps", apps, "_APPS"),
        ("/v1/cluster", operations, "_CLUSTER"),
    ],
)
def test_a_long_answer_is_rendered_outside_the_event_loop(service, monkeypatch, path, module, adapter):
    service.register()
    wrote, made_by = getattr(module, adapter), []

    class Noting:
        def dump_json(self, answer):
            made_by.append(threading.current_thread())
            return wrote.dump_json(answer)

    monkeypatch.setattr(module, adapter, Noting())
    answer = service.as_admin("GET", path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json()
    assert made_by
    assert threading.current_thread() not in made_by


class Manager:
    """A ResourceManager that is asked why applications wait, and answers when it is let."""

    def __init__(self):
        self.asked, self._answers = [], []

    def __call__(self, yarn_app):
        self.asked.append(yarn_app)
        self._answers.append(Future())
        return self._answers[-1]

    def let(self):
        while self._answers:
            self._answers.pop().set_result(["no node has room"])


@pytest.fixture
def waits(service):
    """The service with applications that wait: nine of ann's, one of eve's."""
    users = {f"application_1_{number:04}": "ann" for number in range(1, 10)} | {"application_1_0010": "eve"}
    apps = (running(app, "root.sql.etl", user, waiting=True, pending=1) for app, user in users.items())
    service.arbiter.take(AppsChanged(tuple(apps), ()))
    return service


def why_of(get, service, user, *numbers):
    return [get(service.user(user), f"/v1/apps/application_1_{number:04}/why") for number in numbers]


def test_questions_of_one_user_do_not_block_those_of_others(waits):
    manager = Manager()
    app = create(waits.arbiter, waits.tokens, waits.streams, manager)

    async def scenario(get):
        hers = why_of(get, waits, "ann", *range(1, 10))
        await eventually(lambda: len(manager.asked) >= MAX_CONCURRENT_QUESTIONS)
        (his,) = why_of(get, waits, "eve", 10)
        await eventually(lambda: "application_1_0010" in manager.asked)
        before = list(manager.asked)
        while not all(one.done() for one in (his, *hers)):
            manager.let()
            await asyncio.sleep(0.005)
        return before, [one.result().json()["manager_says"] for one in (his, *hers)]

    before, said = in_one_loop(app, scenario)
    assert len(before) == MAX_CONCURRENT_QUESTIONS + 1
    assert said == [["no node has room"]] * 10


def test_a_question_that_timed_out_holds_its_slot_and_a_queued_one_is_dropped(waits, monkeypatch):
    monkeypatch.setattr(backend, "MANAGER_TIMEOUT", 0.05)
    manager = Manager()
    app = create(waits.arbiter, waits.tokens, waits.streams, manager)

    async def scenario(get):
        hers = await asyncio.gather(*why_of(get, waits, "ann", *range(1, 10)))
        asked = len(manager.asked)
        manager.let()
        monkeypatch.setattr(backend, "MANAGER_TIMEOUT", WITHIN)
        (last,) = why_of(get, waits, "ann", 1)
        await eventually(lambda: len(manager.asked) > asked)
        manager.let()
        return asked, [one.json()["manager_says"] for one in (*hers, await last)]

    asked, said = in_one_loop(app, scenario)
    assert said == [[NOT_YET]] * 9 + [["no node has room"]]
    assert asked == MAX_CONCURRENT_QUESTIONS
    assert len(manager.asked) == asked + 1


class SlowPoll:
    """A poll that lasts until it is released."""

    def __init__(self):
        self.polls, self.at_once, self.most = 0, 0, 0
        self.free = threading.Event()

    def __call__(self):
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        assert self.free.wait(30)
        self.polls += 1
        self.at_once -= 1


def test_callers_during_a_poll_share_the_next_one(monkeypatch):
    monkeypatch.setattr(queueing, "MIN_POLL_INTERVAL", 0.0)
    slow = SlowPoll()
    shared = SharedPoll(slow)

    async def ask():
        first = asyncio.ensure_future(shared.run())
        while not slow.at_once:
            await asyncio.sleep(0.005)
        others = [asyncio.ensure_future(shared.run()) for _ in range(100)]
        await asyncio.sleep(0.02)
        slow.free.set()
        await asyncio.gather(first, *others)

    asyncio.run(ask())
    assert (slow.polls, slow.most) == (2, 1)


def test_a_poll_that_fails_ends_too(monkeypatch):
    monkeypatch.setattr(queueing, "MIN_POLL_INTERVAL", 0.0)
    tried = []

    def fail():
        tried.append(1)
        raise OSError("no space")

    shared = SharedPoll(fail)

    async def ask():
        await shared.run()
        await shared.run()

    asyncio.run(ask())
    assert len(tried) == 2
