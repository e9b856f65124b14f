"""Messages between applications and the controllers of their pools, over HTTP."""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

import pytest

from tests.clock import HandClock
from tests.http_service import Service, parse, problems
from tests.toys.registry import TOYS
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.events import AppSaid, Solved
from yarn_plugin.decide.pools.commands import Ask, Grant, Revoke
from yarn_plugin.decide.pools.controller import Kind, Registry
from yarn_plugin.decide.pools.inputs import FromApp, Outcome
from yarn_plugin.drive.journaling import open_intake
from yarn_plugin.drive.registry import journal_tags
from yarn_plugin.journal.codec import Codec
from yarn_plugin.journal.records import RecordFile
from yarn_plugin.model.causes import DemandsChanged
from yarn_plugin.model.journaled import Tagged
from yarn_plugin.model.share import Holding, Lease, Pool


@dataclass(frozen=True, slots=True)
class Heard:
    """Who has been asked, and the bids that came."""

    asked: tuple[str, ...] = ()
    bids: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """How much an application wants."""

    most: int


@dataclass(frozen=True, slots=True)
class Bid:
    """So much."""

    amount: int


@dataclass(frozen=True, slots=True)
class Worth:
    """How much it is worth."""

    worth: float


class Auctioneer:
    """Asks everybody who is new; a bid of more than 10 is more than it can stand."""

    reads = frozenset({"claims"})

    def initial_state(self):
        return Heard()

    def report(self, state):
        return None

    def advance(self, state, view, at, what):
        if isinstance(what, FromApp) and isinstance(what.message, Worth):
            return state, ()
        if isinstance(what, FromApp):
            if what.message.amount > 10:
                raise OverflowError("more than there is")
            state = replace(state, bids=(*state.bids, (what.app, what.message.amount)))
            lease = Lease("gpu#1", what.app, "", 0, (Holding("a/gpu-0", "yarn.io/gpu"),), until=at + 600.0)
            revoke = Revoke("gpu#2", what.app, "gpu#1", at + 30.0, DemandsChanged())
            return state, (Grant("gpu#1", what.app, (lease,)), revoke)
        if isinstance(what, Outcome):
            raise LookupError("nothing was to be solved")
        new = [claim.app for claim in view.claims if claim.app not in state.asked]
        asks = tuple(Ask(f"gpu#{app}", app, Question(10), at + 5.0) for app in new)
        return replace(state, asked=(*state.asked, *new)), asks


KIND = Kind(
    "auctioneer",
    lambda pool, registry: Auctioneer(),
    {"heard/1": Heard, "auction/question": Question, "auction/bid": Bid, "auction/worth": Worth},
    messages=frozenset({"auction/bid", "auction/worth"}),
)
REGISTRY = Registry({**BUILT_IN.kinds, "auctioneer": KIND}, BUILT_IN.policies)
GPU = Pool("gpu", "root.gpu", ("vcores",), controller="auctioneer")
SQL = Pool("sql", "root.sql", ("memory-mb", "vcores"))


@pytest.fixture
def service(tmp_path):
    made = Service(tmp_path, GPU, SQL, registry=REGISTRY)
    yield made
    made.arbiter.close()


def said(service, app, body):
    return service.ask(app.token, "POST", f"/v1/apps/{app.app}/messages", body)


def told(service, app):
    """What the stream of an application that connects for the first time holds."""
    service.streams.catch_up(service.arbiter.history())
    service.streams.stopped = True

    async def collect():
        return b"".join([piece async for piece in service.streams.follow(app.app, None)])

    found = parse(asyncio.run(collect()).decode())
    service.streams.stopped = False
    return found


def bids(service):
    return service.arbiter.state.pool_states["gpu"].state.bids


def test_messages_to_and_from_a_controller(service):
    app = service.register(pool="gpu")
    service.arbiter.offset = 1000.0
    ((_, name, question),) = told(service, app)
    assert name == "ask"
    assert question["question"] == {"type": "auction/question", "most": 10}
    asked_at = service.arbiter.state.registered[app.app].registered_at
    assert question["answer_by"] == asked_at + 5.0 + 1000.0, "times are those on the wall"
    assert question["pool"] == "gpu"
    assert said(service, app, {"type": "auction/bid", "amount": 4}).status_code == 204
    assert bids(service) == ((app.app, 4),)
    _, (_, _, granted), (_, _, revoked) = told(service, app)
    assert granted["leases"][0]["until"] == asked_at + 600.0 + 1000.0
    assert revoked["by"] == asked_at + 30.0 + 1000.0
    assert revoked["cause"]["kind"] == "demands-changed"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"type": "auction/bid"}, "amount"),
        ({"type": "auction/bid", "amount": "many"}, "amount"),
        ({"type": "auction/bid", "amount": 4, "shill": True}, "shill"),
        ({"type": "auction/question", "most": 4}, "type"),
        ({"type": "heard/1"}, "type"),
        ({"type": "Configured", "pools": []}, "type"),
        ({"amount": 4}, "type"),
        ({"type": ["auction/bid"]}, "type"),
        ([], "body"),
    ],
)
def test_undeclared_messages_are_refused_and_not_journaled(service, body, field):
    app = service.register(pool="gpu")
    before = service.arbiter.history()[-1].seq
    answer = said(service, app, body)
    assert answer.status_code == 422
    assert problems(answer)[0][0] == field
    assert service.arbiter.history()[-1].seq == before


def test_metrics_show_a_pool_that_is_stopped(service):
    assert 'yarn_arbiter_pool_stopped{pool="gpu"} 0.0' in service.as_admin("GET", "/metrics").text
    # Not a request, so that nothing can be refused.
    service.arbiter.take(Solved("gpu", "gpu#0", "lost"))
    assert 'yarn_arbiter_pool_stopped{pool="gpu"} 1.0' in service.as_admin("GET", "/metrics").text


@pytest.mark.parametrize("worth", ['"nan"', '"inf"', "1e999", "-1e999"])
def test_a_number_that_no_journal_can_hold_is_refused_and_not_journaled(service, worth):
    """Once it were journaled, no arbiter could read the journal any more."""
    app = service.register(pool="gpu")
    before = service.arbiter.history()[-1].seq
    headers = {"Authorization": f"Bearer {app.token}", "Content-Type": "application/json"}
    body = f'{{"type": "auction/worth", "worth": {worth}}}'
    answer = service.http.request("POST", f"/v1/apps/{app.app}/messages", content=body, headers=headers)
    assert answer.status_code == 422
    assert service.arbiter.history()[-1].seq == before


def test_a_share_pool_accepts_no_messages(service):
    app = service.register(pool="sql")
    answer = said(service, app, {"type": "auction/bid", "amount": 4})
    assert answer.status_code == 422
    assert problems(answer)[0][:2] == ("type", "auction/bid")


def test_who_may_send_messages_for_an_application(service):
    app = service.register(pool="gpu")
    path, bid = f"/v1/apps/{app.app}/messages", {"type": "auction/bid", "amount": 4}
    assert service.ask(None, "POST", path, bid).status_code == 401
    assert service.ask(service.user("bob"), "POST", path, bid).status_code == 403
    assert service.ask(service.user("ann"), "POST", path, bid).status_code == 204


def test_a_message_on_which_the_controller_fails_is_refused_and_its_pool_continues(service):
    app = service.register(pool="gpu")
    answer = said(service, app, {"type": "auction/bid", "amount": 40})
    assert answer.status_code == 422
    assert "event" in problems(answer)[0][2]
    assert service.arbiter.state.pool_states["gpu"].failure is None
    assert said(service, app, {"type": "auction/bid", "amount": 4}).status_code == 204
    assert bids(service) == ((app.app, 4),)


def test_why_returns_the_controllers_messages(service):
    app = service.register(pool="gpu")
    said(service, app, {"type": "auction/bid", "amount": 4})
    answer = service.as_admin("GET", f"/v1/decisions?app={app.app}").json()
    reasons = [one["reason"] for one in answer if one["kind"] == "SendToApp"]
    assert [reason.split("'")[1] for reason in reasons] == ["ask", "grant", "revoke"]
    assert all("pool gpu" in reason for reason in reasons)


# Messages that are made to do harm.


@dataclass(frozen=True, slots=True)
class Item:
    """What a part of a bid is for."""

    cell: str


@dataclass(frozen=True, slots=True)
class Complex:
    """A bid with everything in it that a type can have."""

    value: float = 0.0
    limit: float | None = None
    count: int = 0
    note: str = ""
    item: Item = field(default_factory=lambda: Item(""))
    inner: Annotated[object, Tagged()] = None
    anything: object = None
    by_value: Mapping[float, int] = field(default_factory=dict)


class Listener:
    """Keeps every message."""

    reads = frozenset()

    def initial_state(self):
        return Heard()

    def report(self, state):
        return None

    def advance(self, state, view, at, what):
        return (replace(state, asked=(*state.asked, what.app)), ()) if isinstance(what, FromApp) else (state, ())


LISTENER = Kind(
    "listener",
    lambda pool, registry: Listener(),
    {"heard/2": Heard, "listener/bid": Complex},
    messages=frozenset({"listener/bid"}),
)
HOSTILE = replace(TOYS, kinds={**TOYS.kinds, "listener": LISTENER})


@pytest.fixture
def listener(tmp_path):
    made = Service(tmp_path, replace(GPU, controller="listener"), registry=HOSTILE)
    yield made
    made.arbiter.close()


def nested(levels, innermost="1"):
    return "[" * levels + innermost + "]" * levels


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ('"value": 1e999', "value"),
        ('"value": "Infinity"', "body"),
        ('"limit": "nan"', "body"),
        ('"anything": [{"a": -1e999}]', "anything"),
        ('"by_value": {"nan": 1}', "body"),
        ('"count": 9223372036854775808', "count"),
        (f'"value": {"9" * 3000}', "value"),
        ('"inner": [1]', "inner"),
        ('"inner": "listener/bid"', "inner"),
        ('"inner": {"value": 1}', "inner"),
        ('"inner": {"type": ["listener/bid"]}', "inner"),
        ('"inner": {"type": "State"}', "inner"),
        ('"inner": {"type": "heard/2"}', "inner"),
        ('"inner": {"type": "toy-cells/1", "data": 5}', "inner"),
        ('"inner": {"type": "toy-cells/1"}', "inner"),
        ('"inner": {"type": "listener/bid", "shill": 1}', "inner"),
        ('"item": {"cell": "a", "shill": 1}', "item.shill"),
        ('"note": "\\ud800"', "note"),
        ('"anything": "\\ud800"', "anything"),
        (f'"anything": {nested(200)}', "anything"),
    ],
)
def test_a_message_that_the_journal_could_not_read_is_refused(listener, fields, field):
    app = listener.register(pool="gpu")
    before = listener.arbiter.history()[-1].seq
    answer = listener.http.request(
        "POST",
        f"/v1/apps/{app.app}/messages",
        content=f'{{"type": "listener/bid", {fields}}}'.encode(),
        headers={"Authorization": f"Bearer {app.token}", "Content-Type": "application/json"},
    )
    assert answer.status_code == 422
    assert problems(answer)[0][0] == field
    assert listener.arbiter.history()[-1].seq == before


def test_a_message_type_of_another_controller_is_accepted_where_it_is_declared(tmp_path):
    service = Service(tmp_path, replace(GPU, controller="toy-cells"), registry=TOYS)
    app = service.register(pool="gpu")
    answer = said(service, app, {"type": "toy-auction.provoke", "when": ""})
    service.arbiter.close()
    assert answer.status_code == 204


def test_a_nested_message_is_journaled_and_replayed(listener, tmp_path):
    app = listener.register(pool="gpu")
    inner = {"type": "listener/bid", "value": 2.5, "item": {"cell": "a"}, "anything": [{"a": [1]}]}
    assert said(listener, app, {"type": "listener/bid", "inner": inner}).status_code == 204
    listener.arbiter.close()
    again = open_intake(RecordFile(tmp_path / "journal"), HandClock(), HOSTILE)
    message = again.history[-1].event.message
    again.close()
    assert message == Complex(inner=Complex(value=2.5, item=Item("a"), anything=[{"a": [1]}]))
    assert again.state.pool_states["gpu"].state.asked == (app.app,)


def test_no_unreadable_event_is_journaled():
    codec = Codec(journal_tags(HOSTILE))
    for broken in (Complex(value=math.inf), Complex(inner=[1])):
        with pytest.raises(ValueError):
            codec.dump(AppSaid("app_1", broken))
