"""Shares from an arbiter, and their confirmation, which never blocks the planner."""

import threading

import pytest
from pydantic import TypeAdapter

from qoop.feedback import arbiter as feedback
from qoop.feedback.arbiter import ArbiterFeed, ExecutorSize, LatestReport
from qoop.feedback.profile import ProfileFeed, SharePoint
from qoop.replan.completion import Completion
from tests.eventually import eventually
from tests.http_servers import RawServer, WebServer, answer
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterRefusedError, ArbiterUnavailableError
from yarn_plugin.model import causes


class Arbiter:
    """Takes confirmations, when it is let."""

    def __init__(self, *failures):
        self.failures, self.open, self.asked, self.begun = list(failures), threading.Event(), [], threading.Event()

    def report_vacated(self, app, seq):
        self.begun.set()
        assert self.open.wait(60)
        self.asked.append(seq)
        if self.failures:
            raise self.failures.pop(0)


def confirmations(arbiter):
    return LatestReport(lambda seq: arbiter.report_vacated("app_1", seq), "confirm")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(feedback, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(feedback, "MAX_PAUSE_S", 0.01)


def test_confirming_never_blocks_and_only_the_latest_share_is_confirmed():
    arbiter = Arbiter()
    confirmer = confirmations(arbiter)
    confirmer.send(1)
    assert arbiter.begun.wait(60)
    for seq in range(2, 50):
        confirmer.send(seq)
    assert arbiter.asked == [], "all that was said while the arbiter had not answered the first"
    arbiter.open.set()
    eventually(lambda: arbiter.asked[-1:] == [49], lambda: arbiter.asked)
    assert arbiter.asked == [1, 49]
    confirmer.close()
    confirmer._thread.join(60)
    assert not confirmer._thread.is_alive()


BUSY = ArbiterRefusedError(429, [wire.Problem(field="app", value=None, expected="later")])


def test_a_lost_confirmation_is_retried():
    arbiter = Arbiter(ArbiterUnavailableError("away"), BUSY, RuntimeError("no idea"))
    arbiter.open.set()
    confirmer = confirmations(arbiter)
    confirmer.send(7)
    eventually(lambda: len(arbiter.asked) == 4, lambda: arbiter.asked)
    confirmer.send(8)
    eventually(lambda: arbiter.asked[-1] == 8, lambda: arbiter.asked)
    assert arbiter.asked == [7, 7, 7, 7, 8]
    confirmer.close()


def test_after_a_refused_confirmation_the_next_one_is_made():
    arbiter = Arbiter(ArbiterRefusedError(404, []), *[ArbiterUnavailableError("away")] * feedback.MAX_TRIES)
    arbiter.open.set()
    confirmer = confirmations(arbiter)
    expected = [1, *[2] * feedback.MAX_TRIES, 3]
    for seq in (1, 2, 3):
        confirmer.send(seq)
        eventually(lambda seq=seq: arbiter.asked.count(seq) == expected.count(seq), lambda: arbiter.asked)
    assert arbiter.asked == expected
    confirmer.close()


def test_closing_interrupts_the_pause_before_a_retry(monkeypatch):
    monkeypatch.setattr(feedback, "FIRST_PAUSE_S", 3600.0)
    arbiter = Arbiter(ArbiterUnavailableError("away"))
    arbiter.open.set()
    confirmer = confirmations(arbiter)
    confirmer.send(1)
    eventually(lambda: arbiter.asked, lambda: arbiter.asked)
    confirmer.close()
    confirmer._thread.join(60)
    assert not confirmer._thread.is_alive()


def test_the_feed_confirms_over_http():
    server = RawServer(answer("", "204 No Content"))
    feed = ArbiterFeed(server.url, "user.ann.00", "app_1", ExecutorSize(1024, 1, 1, 512, 1))
    try:
        feed.confirm(17)
        eventually(lambda: server.asked, lambda: server.asked)
        assert server.asked[0][""] == "POST /v1/apps/app_1/vacated HTTP/1.1"
    finally:
        feed.close()
        server.close()


def test_the_feed_reports_an_expected_completion_when_it_has_changed():
    server = WebServer(lambda asked: (204, {}, ""))
    feed = ArbiterFeed(server.url, "user.ann.00", "app_1", ExecutorSize(1024, 1, 1, 512, 1))
    try:
        feed.expect(Completion(0.0, 20.0, 20.0))
        eventually(lambda: server.asked, lambda: server.asked)
        feed.expect(Completion(5.0, 15.9, 20.0))  # as expected, but for 4.5%
        feed.expect(Completion(6.0, 24.0, 20.0))
        eventually(lambda: len(server.asked) == 2, lambda: server.asked)
        assert [asked.path for asked in server.asked] == ["/v1/apps/app_1/messages"] * 2
        bodies = [asked.body for asked in server.asked]
        assert bodies[0] == {"type": "share.estimate", "elapsed_s": 0.0, "remaining_s": 20.0, "guaranteed_s": 20.0}
        assert (bodies[1]["elapsed_s"], bodies[1]["remaining_s"]) == (6.0, 24.0)
    finally:
        feed.close()
        server.close()


def test_a_profile_may_be_longer_than_python_can_wait(monkeypatch):
    failed = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    waited = threading.Event()
    feed = ProfileFeed([SharePoint(0.0, 4.0), SharePoint(1e300, 2.0)])
    stop_wait = feed._stop.wait

    def wait(timeout):
        waited.set()
        return stop_wait(timeout)

    monkeypatch.setattr(feed._stop, "wait", wait)
    feed.start(lambda event: None)
    assert waited.wait(60)
    feed.close()
    for thread in threading.enumerate():
        if thread.name == "profile":
            thread.join(60)
    assert failed == []


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (None, ()),
        (
            {"kind": "share", "causes": {"named": [{"kind": "app-arrived"}, {"kind": "node-lost"}]}},
            ("app-arrived", "node-lost"),
        ),
        ({"kind": "registered", "apps": 1}, ("registered",)),
        ({"kind": "share", "causes": {"named": []}}, ("share",)),
        ({"kind": "share", "causes": {"named": [1, {}, {"kind": 2}]}}, ()),
        ({"kind": "share", "causes": []}, ("share",)),
        ({}, ()),
    ],
)
def test_the_kinds_of_a_cause(cause, expected):
    """Also with an arbiter that sends no reason, or an unknown one."""
    assert feedback.cause_kinds(cause) == expected


def test_a_share_has_the_kinds_of_its_causes():
    """As the arbiter itself writes it."""
    happened = causes.Causes.of([causes.AppArrived("app_7"), causes.AppEnded("app_2")])
    why = causes.ShareCause(happened, 2, causes.WeightedShare(1.0, 2.0, 2, 0.5, 0.5, "guarantee"))
    portion = wire.Portion(fraction=0.5, resources={"vcores": 4, "memory-mb": 4096})
    share = wire.Share(
        app="app_1",
        seq=17,
        told_at=1.0,
        effective_at=2.0,
        current=0.0,
        guarantee=portion,
        entitlement=portion,
        capacity={"vcores": 8, "memory-mb": 8192},
        apps=2,
        reason="app_7 arrived, app_2 ended: 2 apps now",
        cause=TypeAdapter(causes.ShareCause).dump_python(why, mode="json"),
    )
    told = ArbiterFeed("http://localhost:1", "t", "app_1", ExecutorSize(1024, 1, 1, 512, 1))._translate(share)
    assert (told.why, told.reason) == (("app-arrived", "app-ended"), "app_7 arrived, app_2 ended: 2 apps now")
    assert (told.seq, told.effective_at) == (17, 2.0)
