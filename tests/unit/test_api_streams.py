"""Edge cases of event streams: unique ids, ends that are sent again, slow readers."""

import asyncio
import time

import pytest

from tests.http_service import parse, problems, streamed
from yarn_plugin.api import streams as module
from yarn_plugin.api.causes import text
from yarn_plugin.api.refusals import Limits
from yarn_plugin.api.streams import MAX_QUEUED, Streams
from yarn_plugin.decide import events
from yarn_plugin.decide.commands import Dismiss, TellShare
from yarn_plugin.decide.pools.share import Member, ShareState
from yarn_plugin.decide.state import PoolState, State
from yarn_plugin.journal.intake import Decided
from yarn_plugin.model.causes import LegacyText, NoLongerKnown
from yarn_plugin.model.cluster import ClusterView
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Grant, Pool, Share


def shared(members):
    return {"sql": PoolState("share", ShareState(members))}


class Past:
    """A past made by hand."""

    def __init__(self, *decided, members=None, **state):
        self.decided, self.state = decided, State(pool_states=shared(members or {}), **state)

    def history(self):
        return self.decided

    def wall_offset(self):
        return 0.0


def share(seq):
    return Share(seq, 1.0, 1.0, Grant(0.0, 0.5, Resources(), 0.5, Resources()), 1, Resources(), LegacyText("because"))


def tell(seq, app="app_1"):
    return TellShare(app, share(seq))


def decision(seq, *commands):
    return Decided(seq, 1.0, events.TimerFired(), commands, 1.0)


def member(seq, app="app_1"):
    return {app: Member(app, share(seq), ())}


def read(streams, app, seen=None):
    """What a stream holds up to now: (id, event)."""
    return [(number, name) for number, name, _ in streamed(streams, app, seen)]


# Ids.


def test_two_messages_of_one_decision_have_ids_of_their_own():
    """Whoever reconnects between them gets the second."""
    past = Past(decision(7, tell(7), tell(7, "app_2"), Dismiss("app_1", LegacyText("gone"))))
    streams = Streams(past)
    assert read(streams, "app_1", "6") == [("7.0", "share"), ("7.1", "end")]
    assert read(streams, "app_1", "7.0") == [("7.1", "end")]
    assert read(streams, "app_1", "7.1")[-1][1] == "end"


def test_the_second_share_of_a_decision_is_sent_after_the_first():
    streams = Streams(Past(decision(7, tell(7), tell(7)), members=member(7)))
    assert read(streams, "app_1", "7.0") == [("7.1", "share")]
    assert read(streams, "app_1", "7.1") == []


def test_a_bare_number_stands_for_a_share_only():
    """A client of the first version sends the number of its last share."""
    ended = Streams(Past(decision(7, Dismiss("app_1", LegacyText("gone")), tell(7))))
    assert read(ended, "app_1", "7")[-1] == ("7.0", "end")
    told = Streams(Past(decision(5, tell(5)), decision(7, tell(7)), members=member(7)))
    assert read(told, "app_1", "7") == []
    assert read(told, "app_1", "5") == [(7, "share")]
    assert read(told, "app_1", "6.3") == [(7, "share")]


def test_an_unknown_event_number_resumes_nothing():
    """With a lost journal the numbers begin again: the present share is sent, not nothing until they are reached."""
    streams = Streams(Past(decision(7, tell(7)), members=member(7)))
    assert read(streams, "app_1", "999999") == [(7, "share")]


def test_a_decision_is_published_once():
    past = Past(decision(7, tell(7)), members=member(7))
    streams = Streams(past)
    past.decided = (*past.decided, decision(8, tell(8)))
    streams.catch_up(past.history())
    streams.publish(decision(8, tell(8)))
    assert read(streams, "app_1", "6") == [(7, "share"), (8, "share")]


@pytest.mark.parametrize("wrong", ["x", "-1", "1.", ".1", "1.2.3", "9" * 16, "1.1234567", "1 2", "٣", "1e3", "0x1"])
def test_an_invalid_last_event_id_is_named(service, wrong):
    made = service.register()
    path = f"/v1/apps/{made.app}/events"
    headers = {"Authorization": f"Bearer {made.token}", "Last-Event-ID": wrong.encode()}
    answer = service.http.request("GET", path, headers=headers)
    assert (answer.status_code, problems(answer)[0][0]) == (422, "last-event-id")


# Ends.


def test_an_end_older_than_the_history_is_sent_from_the_remembered_ends(service):
    made = service.register()
    service.ask(made.token, "DELETE", f"/v1/apps/{made.app}")
    later = Streams(Past(dismissed=service.arbiter.state.dismissed))
    assert [name for _, name in read(later, made.app)] == ["end"]
    assert [name for _, name in read(later, made.app, "3")] == ["end"]


def test_a_forgotten_end_is_410_gone(service):
    made = service.register()
    service.ask(made.token, "DELETE", f"/v1/apps/{made.app}")
    service.streams._recent.clear()
    service.arbiter._intake._execution.state = State()
    answer = service.ask(made.token, "GET", f"/v1/apps/{made.app}/events")
    assert (answer.status_code, problems(answer)[0][:2]) == (410, ("app", made.app))
    assert service.as_admin("GET", f"/v1/apps/{made.app}/events").status_code == 404


def test_the_end_of_an_application_that_is_back_is_not_sent():
    gone = decision(5, Dismiss("app_1", LegacyText("gone")))
    streams = Streams(Past(gone, decision(7, tell(7)), members=member(7), cluster=ClusterView()))
    assert read(streams, "app_1", "4") == [(7, "share")]


def test_the_stream_of_a_vanished_application_ends(monkeypatch):
    """An application that was never registered has no end of its own."""
    monkeypatch.setattr(module, "KEEP_ALIVE", 0.01)
    past = Past(decision(7, tell(7, "application_1_0001")), members=member(7, "application_1_0001"))
    streams = Streams(past)

    async def listen():
        stream = streams.follow("application_1_0001", None)
        await anext(stream)
        past.state = State()
        return [parse(piece.decode()) async for piece in stream][-1]

    ((_, name, data),) = asyncio.run(asyncio.wait_for(listen(), 10))
    why = {"kind": "no-longer-known", "app": "application_1_0001"}
    assert (name, data) == ("end", {"reason": text(NoLongerKnown("application_1_0001")), "cause": why})


# Slow readers, and many.


def test_a_slow_reader_is_cut_off_and_misses_nothing_when_it_reconnects():
    past = Past(decision(1, tell(1)), members=member(1))
    streams = Streams(past)
    last = MAX_QUEUED + 10

    async def listen():
        stream = streams.follow("app_1", None)
        await anext(stream)
        for seq in range(2, last + 1):
            streams.publish(decision(seq, tell(seq)))
        (listener,) = streams._listeners["app_1"]
        assert listener.queue.qsize() == 1
        return [piece async for piece in stream]

    assert asyncio.run(listen()) == []
    assert (streams.cut_off, streams.open) == (1, 0)
    past.state = State(pool_states=shared(member(last)))
    assert read(streams, "app_1", "1") == [(seq, "share") for seq in range(2, last + 1)]


def test_history_for_returning_clients_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "MAX_DECISIONS", 10)
    streams = Streams(Past(*(decision(seq, tell(seq)) for seq in range(1, 100)), members=member(99)))
    assert read(streams, "app_1", "1") == [(seq, "share") for seq in range(90, 100)]
    monkeypatch.setattr(module, "MAX_MESSAGES", 10)
    streams = Streams(Past(*(decision(n, *(tell(n, f"app_{m}") for m in range(4))) for n in range(1, 9))))
    assert streams._numbers == [7, 8]


STREAMING = Pool("sql", "root.sql", ("memory-mb", "vcores"), max_streams_per_user=2)


class Watching:
    """Streams that stay open until they are closed."""

    def __init__(self, service):
        self._service = service

    async def open(self, token, app):
        """The status of a stream that is opened and left open, and what closes it."""
        begun, gone = asyncio.Event(), asyncio.Event()
        answered = []

        async def receive():
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            answered.append(message)
            begun.set()

        path = f"/v1/apps/{app}/events"
        scope = {
            "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": [(b"authorization", f"Bearer {token}".encode())], "http_version": "1.1", "scheme": "http",
            "root_path": "", "server": ("arbiter", 80), "asgi": {"version": "3.0", "spec_version": "2.3"},
        }  # fmt: skip
        task = asyncio.ensure_future(self._service.app(scope, receive, send))
        await asyncio.wait_for(begun.wait(), 10)

        async def close():
            gone.set()
            await asyncio.wait_for(task, 10)

        return answered[0]["status"], close


def test_the_streams_of_a_user_are_limited(make):
    service = make(STREAMING)
    mine, hers = service.register("mine", "ann"), service.register("hers", "eve")

    async def watch():
        watching = Watching(service)
        first, close_first = await watching.open(mine.token, mine.app)
        second, close_second = await watching.open(service.user("ann"), mine.app)
        third, close_third = await watching.open(mine.token, mine.app)
        neighbour, close_neighbour = await watching.open(hers.token, hers.app)
        admin, close_admin = await watching.open(service.tokens.admin_file.read_text().strip(), mine.app)
        await close_first()
        again, close_again = await watching.open(mine.token, mine.app)
        for close in (close_second, close_third, close_neighbour, close_admin, close_again):
            await close()
        return [first, second, third, neighbour, admin, again]

    assert asyncio.run(watch()) == [200, 200, 429, 200, 200, 200]
    assert service.streams.open == 0
    assert not service.streams._slots


def test_the_streams_of_all_users_are_limited(make):
    service = make(limits=Limits(max_streams=1))
    mine, hers = service.register("mine", "ann"), service.register("hers", "eve")

    async def watch():
        watching = Watching(service)
        first, close_first = await watching.open(mine.token, mine.app)
        second, close_second = await watching.open(hers.token, hers.app)
        await close_first()
        await close_second()
        return first, second

    assert asyncio.run(watch()) == (200, 429)
    assert service.refusals.counts()["limit"] == 1


# Coalescing.


def follow_while(streams, change):
    """The events of a stream of app_1 while `change()` is awaited, and until the last is sent."""

    async def run():
        pieces = []

        async def collect():
            async for piece in streams.follow("app_1", None):
                pieces.append(piece)

        reading = asyncio.ensure_future(collect())
        await asyncio.sleep(0)
        await change()
        await asyncio.wait_for(reading, 10)
        return [(number, name) for number, name, _ in parse(b"".join(pieces).decode())]

    return asyncio.run(run())


def test_of_shares_in_quick_succession_the_last_is_sent():
    """Somebody else may change a weight many times a second."""
    past = Past(decision(7, tell(7)), members=member(7))
    streams = Streams(past)

    async def change():
        for seq in range(8, 308):
            streams.publish(decision(seq, tell(seq)))
            await asyncio.sleep(0)
        await asyncio.sleep(module.SHARE_INTERVAL + 0.2)
        streams.stop()

    assert follow_while(streams, change) == [(7, "share"), (8, "share"), (307, "share")]


def test_a_share_that_waits_is_sent_before_a_later_message():
    """The ids rise, or a client that reconnects would be sent a message again, or not at all."""
    streams = Streams(Past(decision(7, tell(7)), members=member(7)))

    async def change():
        for seq in (8, 9, 10):
            streams.publish(decision(seq, tell(seq)))
            await asyncio.sleep(0)
        streams.publish(decision(11, Dismiss("app_1", LegacyText("gone"))))

    assert follow_while(streams, change) == [(7, "share"), (8, "share"), (10, "share"), (11, "end")]


def test_a_share_that_a_later_one_replaces_is_not_sent_after_it(monkeypatch):
    """On a busy event loop the next share may be read before it is noticed that the waiting one is due."""
    monkeypatch.setattr(module, "SHARE_INTERVAL", 0.2)
    streams = Streams(Past(decision(7, tell(7)), members=member(7)))

    async def change():
        for seq in (8, 9):
            streams.publish(decision(seq, tell(seq)))
            await asyncio.sleep(0)
        streams.publish(decision(10, tell(10)))
        time.sleep(0.3)
        await asyncio.sleep(0.3)
        streams.stop()

    assert follow_while(streams, change) == [(7, "share"), (8, "share"), (10, "share")]
