"""The connection of an agent to an arbiter that is there, away, and back."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.eventually import eventually
from themis_agent.agent import events
from themis_agent.agent.commands import ReleaseGpus, SendEstimate
from themis_agent.arbiter_messages import Translation
from themis_agent.view.answers import AnswerTimes
from themis_agent.yarn import arbiter_link
from themis_agent.yarn.arbiter_link import ArbiterLink
from themis_agent.yarn.submission import ArbiterAccess
from themis_agent.yarn.takeover import SupersededAttemptError
from yarn_plugin.api import wire
from yarn_plugin.model.auction import Estimate

QUESTION = {"round": 1, "contention": 2.0}

APP = wire.App(
    app="app-1",
    yarn_app=None,
    name="search",
    user="ann",
    pool="gpu",
    queue="root.gpu",
    registered=True,
    weight=1.0,
    state="waiting",
    used={},
    pending={},
    containers=0,
    share=None,
)


class Arbiter:
    """`said`: what it was told. `away`: it answers 503. Its stream asks `questions`, with their deadlines."""

    def __init__(self, questions):
        self.said, self.away, self.is_registered, self.demand = [], False, True, None
        self.knows, self.asked = True, 0
        arbiter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                arbiter.asked += 1
                if not arbiter.knows:
                    problem = wire.Problem(field="app", value="app-1", expected="no such application")
                    self._answer(404, wire.Problems(problems=[problem]).model_dump_json().encode())
                    return
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                for number, (name, by) in enumerate(questions.items(), 1):
                    asked = json.dumps({"id": name, "answer_by": by, "question": QUESTION})
                    self.wfile.write(f"id: {number}\nevent: ask\ndata: {asked}\n\n".encode())
                while not arbiter.closed.wait(0.05):
                    pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if not arbiter.away:
                    arbiter.said.append(body)
                self._answer(503 if arbiter.away else 204)

            def do_PATCH(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if not arbiter.away:
                    arbiter.demand = body["demand"]
                self._answer(503 if arbiter.away else 200, APP.model_dump_json().encode())

            def do_DELETE(self):
                arbiter.is_registered = arbiter.away
                self._answer(503 if arbiter.away else 204)

            def _answer(self, status, body=b""):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.closed = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self):
        self.closed.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def connected():
    made = []

    def connect(questions=None, check=lambda: None, knows=True, recovery_token=None):
        arbiter, heard = Arbiter(questions or {}), []
        arbiter.knows = knows
        access = ArbiterAccess(url=arbiter.url, app="app-1", recovery_token=recovery_token)
        link = ArbiterLink(access, "token", Translation(lambda wall: wall), heard.append, check, AnswerTimes(), 12)
        link.start()
        made.append((arbiter, link))
        return arbiter, link, heard

    yield connect
    for arbiter, link in made:
        arbiter.away = False
        link.leave(5)
        arbiter.close()


def answer(question, rho):
    return SendEstimate(question, Estimate(1, rho))


def test_answers_wait_for_an_arbiter_that_is_away_and_late_ones_are_dropped(connected, monkeypatch):
    monkeypatch.setattr(arbiter_link, "MIN_ANSWER_S", 0.0)
    arbiter, link, heard = connected({"late": time.time() + 1.5, "open": time.time() + 60})
    eventually(lambda: len(heard) == 2)
    assert [one.id for one in heard if isinstance(one, events.Asked)] == ["late", "open"]
    arbiter.away = True
    for one in (answer("late", 2.0), ReleaseGpus("lease-1", ("node/0",)), answer("open", 3.0)):
        link.say(one)
    time.sleep(1.6)
    assert not arbiter.said
    arbiter.away = False
    eventually(lambda: len(arbiter.said) == 2)
    assert [one["type"] for one in arbiter.said] == ["lease.release", "lease.estimate"]
    assert arbiter.said[1]["rho"] == 3.0


def test_a_superseded_attempt_says_nothing(connected):
    def check():
        raise SupersededAttemptError("attempt 1 is superseded by attempt 2")

    arbiter, link, _ = connected(check=check)
    link.say(ReleaseGpus("lease-1", ("node/0",)))
    time.sleep(0.5)
    assert not arbiter.said


def test_leaving_waits_for_an_arbiter_that_is_away_but_not_for_ever(connected):
    arbiter, link, _ = connected()
    arbiter.away = True
    assert not link.leave(0.1)
    assert arbiter.is_registered
    arbiter.away = False
    assert link.leave(5)
    assert not arbiter.is_registered


def test_a_failure_of_a_thread_is_noticed(connected):
    _, link, heard = connected({"one": time.time() + 60})
    link.check()
    eventually(lambda: heard)
    link._check = lambda: 1 / 0
    link.say(ReleaseGpus("lease-1", ("node/0",)))

    def has_failed():
        try:
            link.check()
        except ZeroDivisionError:
            return True
        return False

    eventually(has_failed)


def test_the_demand_of_the_search_is_sent_once_the_arbiter_is_there(connected):
    arbiter, _, _ = connected()
    eventually(lambda: arbiter.demand is not None)
    assert arbiter.demand == [{"yarn.io/gpu": 12}]


@pytest.fixture
def waits(monkeypatch):
    waited = []
    monkeypatch.setattr(arbiter_link, "FOLLOW_AGAIN_S", 0.01)
    monkeypatch.setattr(arbiter_link, "MAX_RECOVER_AGAIN_S", 0.02)
    monkeypatch.setattr(arbiter_link, "MAX_FOLLOW_AGAIN_S", 0.04)

    def wait(link, wait_s):
        waited.append(wait_s)
        time.sleep(wait_s)

    monkeypatch.setattr(ArbiterLink, "_wait_to_follow", wait)
    return waited


def test_a_search_that_may_register_again_asks_in_time_for_that(connected, waits):
    arbiter, _, _ = connected(knows=False, recovery_token="recovery.ann/application_1_7.x")
    eventually(lambda: arbiter.asked > 4)
    assert waits[:4] == [0.01, 0.02, 0.02, 0.02]


def test_an_arbiter_that_does_not_know_the_search_is_asked_less_and_less_and_the_agent_knows(connected, waits):
    arbiter, _, heard = connected({"one": time.time() + 60}, knows=False)
    eventually(lambda: arbiter.asked > 4)
    assert waits[:4] == [0.01, 0.02, 0.04, 0.04]
    (refused,) = heard
    assert "no such application" in refused.problem
    arbiter.knows = True
    eventually(lambda: len(heard) == 3)
    assert isinstance(heard[1], events.ArbiterListens)
    assert heard[2].id == "one"
