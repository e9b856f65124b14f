"""Before any route: who asks, and how much they send; and that nothing inside ever shows as a traceback."""

import asyncio
import json
from concurrent.futures import Future

import pytest

from tests.http_service import problems
from yarn_plugin.api import wire
from yarn_plugin.api.backend import MAX_CONCURRENT_UPLOADS
from yarn_plugin.api.queueing import MAX_CONCURRENT_CHANGES, MAX_WAITING
from yarn_plugin.api.refusals import Limits
from yarn_plugin.decide import events
from yarn_plugin.drive.daemon import Stopped
from yarn_plugin.journal.intake import SkippedInputError
from yarn_plugin.journal.records import JournalUnavailableError

BODY = b'{"name": "x", "request_id": "12345678"}'


class Sender:
    """A client that sends a body piece by piece, and what it was answered. `read`: how many pieces were taken."""

    def __init__(self, service, token, pieces, headers=(), method="POST", path="/v1/apps", stalls=False):
        self.read, self.sent = 0, []
        sent_with = [(b"content-type", b"application/json"), *headers]
        if token:
            sent_with.append((b"authorization", f"Bearer {token}".encode()))
        self._pieces, self._stalls, self._service = list(pieces), stalls, service
        self._scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": sent_with, "http_version": "1.1", "scheme": "http", "root_path": "", "server": ("arbiter", 80),
            "asgi": {"version": "3.0", "spec_version": "2.3"},
        }  # fmt: skip

    async def receive(self):
        if self.read == len(self._pieces):
            if self._stalls:
                await asyncio.Event().wait()
            return {"type": "http.disconnect"}
        self.read += 1
        more = self.read < len(self._pieces) or self._stalls
        return {"type": "http.request", "body": self._pieces[self.read - 1], "more_body": more}

    async def send(self, message):
        self.sent.append((message, self.read))

    def run(self):
        asyncio.run(self._service.app(self._scope, self.receive, self.send))
        return self

    @property
    def status(self):
        return self.sent[0][0]["status"]

    @property
    def headers(self):
        return dict(self.sent[0][0]["headers"])

    @property
    def problems(self):
        body = b"".join(message.get("body", b"") for message, _ in self.sent[1:])
        return wire.Problems.model_validate(json.loads(body)).problems

    @property
    def read_before_answer(self):
        """How many pieces had been read when the answer was complete."""
        return self.sent[1][1]


def chunked(*pieces):
    return {"pieces": pieces, "headers": [(b"transfer-encoding", b"chunked")]}


def measured(*pieces):
    return {"pieces": pieces, "headers": [(b"content-length", b"%d" % sum(map(len, pieces)))]}


@pytest.mark.parametrize("body", [chunked, measured])
def test_without_a_token_no_body_is_read_before_the_answer(service, body):
    sender = Sender(service, None, **body(*[b"x" * 65_536] * 100)).run()
    assert (sender.status, sender.read_before_answer) == (401, 0)
    assert sender.headers[b"connection"] == b"close"
    assert sender.headers[b"www-authenticate"] == b"Bearer"
    assert service.refusals.counts() == {"unauthenticated": 1}


def test_a_refused_body_is_discarded_up_to_a_limit(service, monkeypatch):
    monkeypatch.setattr("yarn_plugin.serving.bodies.MAX_DISCARDED_BYTES", 200_000)
    sender = Sender(service, None, **chunked(*[b"x" * 65_536] * 1000)).run()
    assert (sender.status, sender.read) == (401, 4)


def test_a_body_declared_too_long_is_not_read(make):
    service = make(limits=Limits(max_body=1000))
    for length in (b"1001", b"9" * 17, b"9" * 5000, b"-1", b"\xb2"):
        headers = [(b"content-length", length)]
        sender = Sender(service, service.user("ann"), [b"x" * 1001], headers).run()
        assert (sender.status, sender.read_before_answer) == (413, 0)
        assert "at most 1000 bytes" in sender.problems[0].expected


def test_a_chunked_body_is_read_no_further_than_the_limit(make):
    service = make(limits=Limits(max_body=1000))
    sender = Sender(service, service.user("ann"), **chunked(*[b" " * 300] * 100)).run()
    assert (sender.status, sender.read_before_answer) == (413, 4)
    assert not service.arbiter.state.registered


def test_a_chunked_body_within_the_limit_is_accepted(make):
    service = make(limits=Limits(max_body=1000))
    assert Sender(service, service.user("ann"), **chunked(BODY[:7], BODY[7:], b"")).run().status == 201
    assert len(service.arbiter.state.registered) == 1


def test_a_body_that_does_not_arrive_times_out(make):
    service = make(limits=Limits(header_timeout=0.05))
    headers = [(b"content-length", b"100")]
    sender = Sender(service, service.user("ann"), [b"{"], headers, stalls=True).run()
    assert (sender.status, sender.problems[0].field) == (408, "body")
    assert sender.headers[b"connection"] == b"close"


def test_a_client_that_disconnects_during_its_body_is_not_answered(service):
    sender = Sender(service, service.user("ann"), [b"{"], [(b"content-length", b"100")])
    sender._stalls = False
    sender._pieces = []
    assert sender.run().sent == []
    assert not service.arbiter.state.registered


def test_paths_without_a_token_accept_no_body(service):
    for path in ("/v1/health", "/v1/ready", "/openapi.json"):
        sender = Sender(service, None, **measured(b"x"), method="GET", path=path).run()
        assert (sender.status, sender.read_before_answer) == (413, 0)
        assert sender.problems[0].expected == "must be empty"


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "OPTIONS", "TRACE", "PUT", "BREW"])
@pytest.mark.parametrize("path", ["/", "/docs", "/v1/apps", "/v1/health/", "/metrics", "/v1/tokens", "//v1/health"])
def test_every_other_path_needs_a_token(service, method, path):
    assert service.http.request(method, path).status_code == 401


def test_exactly_one_token_of_limited_length_is_accepted(service):
    token = service.user("ann").encode()
    twice = [(b"authorization", b"Bearer " + token)]
    assert Sender(service, service.user("ann"), [], twice, "GET").run().status == 401
    assert Sender(service, "user." + "a" * 5000 + ".0", [], (), "GET").run().status == 401
    assert Sender(service, service.user("ann"), [], (), "GET").run().status == 200


def test_nothing_redirects_to_the_callers_host_header(service):
    answer = service.http.request("GET", "/v1/apps/", headers={"Authorization": f"Bearer {service.user('ann')}"})
    assert answer.status_code == 404
    assert "location" not in answer.headers


@pytest.mark.parametrize("host", [b"[", b"[::1", b"a]b", b"", b"\xff", b"a/../b", b"x" * 5000, b"a b"])
def test_no_host_header_makes_an_answer_fail(service, host):
    for path, status in (("/nowhere", 404), ("/v1/apps", 405), ("/v1/cluster", 200)):
        method = "PUT" if status == 405 else "GET"
        sender = Sender(service, service.user("ann"), [], [(b"host", host)], method, path).run()
        assert sender.status == status


# What may go wrong inside.


CHANGES = [
    ("POST", "/v1/apps", {"name": "x", "request_id": "another-one"}),
    ("PATCH", "/v1/apps/{}", {"weight": 2}),
    ("DELETE", "/v1/apps/{}", None),
    ("POST", "/v1/apps/{}/vacated", {"seq": 4}),
]


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
@pytest.mark.parametrize(
    ("failure", "status", "field", "expected"),
    [
        (Stopped(), 503, "arbiter", "is shutting down; retry when it has restarted"),
        (JournalUnavailableError("journal 'j': No space left on device"), 503, "journal", "No space left on device"),
        (SkippedInputError(17, "Registered", "OverflowError: too large"), 422, "body", "event 17"),
    ],
)
def test_a_change_that_cannot_be_decided_reports_why(service, method, path, body, failure, status, field, expected):
    made = service.register()
    service.arbiter.fails = failure
    answer = service.ask(service.user("ann"), method, path.format(made.app), body)
    ((found, _, right),) = problems(answer)
    assert (answer.status_code, found) == (status, field)
    assert expected in right
    assert ("retry-after" in answer.headers) == (status == 503)


def test_the_last_shares_are_served_while_nothing_is_decided(service):
    made = service.register()
    service.arbiter.fails = JournalUnavailableError("full")
    assert service.ask(made.token, "GET", f"/v1/apps/{made.app}").json()["share"]["seq"] == made.share.seq
    assert service.as_admin("GET", "/v1/decisions").status_code == 200


def test_a_change_is_decided_on_although_its_client_disconnects(service):
    """A requested decision is made even if its client has gone."""
    made = service.register()
    waiting = []

    def never(event):
        waiting.append(Future())
        return waiting[0]

    service.arbiter.post = never

    async def ask_and_go():
        body = b'{"seq": 1}'
        headers = [(b"content-length", b"%d" % len(body))]
        sender = Sender(service, made.token, [body], headers, path=f"/v1/apps/{made.app}/vacated")
        asking = asyncio.ensure_future(service.app(sender._scope, sender.receive, sender.send))
        while not waiting:
            await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    asyncio.run(ask_and_go())
    assert not waiting[0].cancelled()
    waiting[0].set_result(None)


def test_many_changes_of_one_user_delay_that_user_only(make):
    """The arbiter has few changes of one user before it, however many are sent; the next user's come behind those."""
    service = make(limits=Limits(changes_burst=1000))
    made = {user: service.register("nightly", user) for user in ("ann", "eve")}
    posted = []

    def never(event):
        posted.append((event, Future()))
        return posted[-1][1]

    service.arbiter.post = never

    async def change(user):
        body = b'{"seq": 1}'
        headers = [(b"content-length", b"%d" % len(body))]
        sender = Sender(service, made[user].token, [body], headers, path=f"/v1/apps/{made[user].app}/vacated")
        await service.app(sender._scope, sender.receive, sender.send)
        headers = dict(sender.sent[0][0]["headers"])
        assert headers.get(b"retry-after") == (b"2" if sender.status == 429 else None)
        return sender.status

    async def both():
        hers = [asyncio.ensure_future(change("ann")) for _ in range(300)]
        refused = [await one for one in hers[MAX_CONCURRENT_CHANGES + MAX_WAITING :]]
        his = asyncio.ensure_future(change("eve"))
        while len(posted) <= MAX_CONCURRENT_CHANGES:
            await asyncio.sleep(0.005)
        before = [event.app for event, _ in posted]
        while posted:
            posted.pop()[1].set_result(None)
            await asyncio.sleep(0.005)
        return refused, before, {*await asyncio.gather(his, *hers[: MAX_CONCURRENT_CHANGES + MAX_WAITING])}

    refused, before, answered = asyncio.run(both())
    assert refused == [429] * (300 - MAX_CONCURRENT_CHANGES - MAX_WAITING)
    assert before == [made["ann"].app] * MAX_CONCURRENT_CHANGES + [made["eve"].app]
    assert answered == {204}


def test_health_and_readiness_list_the_problems(service):
    well = service.ask(None, "GET", "/v1/health")
    assert (well.status_code, wire.Health.model_validate(well.json()).journal) == (200, "writable")
    assert well.json()["last_look_age_s"] == 0.2
    assert service.ask(None, "GET", "/v1/ready").status_code == 200
    wrong = service.arbiter.is_well
    wrong.ready, wrong.problems, wrong.journal_error = False, ("no space",), "no space"
    assert service.ask(None, "GET", "/v1/health").status_code == 200
    answer = service.ask(None, "GET", "/v1/ready")
    assert (answer.status_code, answer.json()["problems"], answer.json()["journal"]) == (503, ["no space"], "no space")
    wrong.alive = False
    answer = service.ask(None, "GET", "/v1/health")
    assert (answer.status_code, answer.json()["arbiter"]) == (503, "stopped")


# Times.


def test_times_on_the_wire_are_wall_clock_times(service):
    service.arbiter.offset = 500.0
    made = service.register()
    assert (made.share.told_at, made.share.effective_at) == (1500.0, 1500.0)
    shown = service.ask(made.token, "GET", f"/v1/apps/{made.app}").json()
    assert shown["share"]["told_at"] == 1500.0
    told = service.as_admin("GET", "/v1/decisions").json()[-1]
    assert (told["at"], told["detail"]["told_at"]) == (1000.0, 1000.0)


# Metrics.


def scrape(service):
    token = service.tokens.scrape_file.read_text().strip()
    return service.ask(token, "GET", "/metrics").text


def test_only_the_scrape_token_and_the_administrator_read_metrics(service):
    made = service.register()
    token = service.tokens.scrape_file.read_text().strip()
    assert service.tokens.scrape_file.stat().st_mode & 0o777 == 0o600
    assert service.ask(None, "GET", "/metrics").status_code == 401
    for other in (made.token, service.user("ann")):
        assert service.ask(other, "GET", "/metrics").status_code == 403
    assert service.ask(token, "GET", "/metrics").status_code == 200
    assert service.as_admin("GET", "/metrics").status_code == 200
    for method, path in (("GET", "/v1/apps"), ("GET", "/v1/decisions"), ("POST", "/v1/tokens"), ("GET", "/v1/cluster")):
        assert service.ask(token, method, path, {"user": "eve"} if method == "POST" else None).status_code == 403


def test_metrics_sum_the_applications_beyond_the_limit(make):
    service = make(limits=Limits(metrics_apps=1))
    large = service.register("large", "ann", weight=2)
    service.register("small", "bob", weight=1)
    service.register("other", "eve", weight=1)
    text = scrape(service)
    assert f'yarn_arbiter_app_share{{app="{large.app}",kind="entitlement",user="ann"}} 0.5' in text
    assert 'yarn_arbiter_app_share{app="other",kind="entitlement",user=""} 0.5' in text
    assert text.count("yarn_arbiter_app_share{") == 6


def test_metrics_show_faults_by_name(service):
    service.arbiter.counted = {"inputs_set_aside": 3, "journal_failures": 0}
    service.ask(service.user("ann"), "GET", "/v1/apps/app_99")
    text = scrape(service)
    for line in (
        "yarn_arbiter_inputs_set_aside_total 3.0",
        "yarn_arbiter_journal_failures_total 0.0",
        "yarn_arbiter_journal_writable 1.0",
        "yarn_arbiter_last_look_age_seconds 0.2",
        'yarn_arbiter_enforcement{mode="full"} 1.0',
        'yarn_arbiter_enforcement{mode="superseded"} 0.0',
        'yarn_arbiter_requests_refused_total{reason="unknown"} 1.0',
        "yarn_arbiter_connections 0.0",
        "yarn_arbiter_streams_cut_off_total 0.0",
    ):
        assert line in text.splitlines()
    service.arbiter.take(events.Superseded("http://elsewhere:8780"))
    service.arbiter.is_well.journal_error, service.arbiter.is_well.last_poll_age = "full", None
    text = scrape(service)
    assert 'yarn_arbiter_enforcement{mode="superseded"} 1.0' in text
    assert "yarn_arbiter_journal_writable 0.0" in text
    assert "last_look_age" not in text
    assert service.as_admin("GET", "/v1/cluster").json()["mode"] == "superseded"


def test_large_bodies_of_one_user_are_read_a_few_at_a_time(service):
    """Each piece of a body takes the event loop, which answers everybody."""
    made = {user: service.register("nightly", user) for user in ("ann", "eve")}

    def sender(user, length=5000, stalls=True):
        headers = [(b"content-length", b"%d" % length)]
        path = f"/v1/apps/{made[user].app}"
        return Sender(service, made[user].token, [b"{"], headers, method="PATCH", path=path, stalls=stalls)

    async def scenario():
        hers = [sender("ann") for _ in range(MAX_CONCURRENT_UPLOADS + MAX_WAITING)]
        tasks = [asyncio.ensure_future(service.app(one._scope, one.receive, one.send)) for one in hers]
        await asyncio.sleep(0.1)
        others = [sender("ann"), sender("ann", length=2, stalls=False), sender("eve", stalls=False)]
        for one in others:
            await service.app(one._scope, one.receive, one.send)
        read = sum(one.read for one in hers)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return read, [one.status if one.sent else None for one in others], others[2].read, others[0].sent[0][0]

    read, statuses, his, first = asyncio.run(scenario())
    assert read == MAX_CONCURRENT_UPLOADS
    assert statuses[0] == 429, "too many wait already"
    assert dict(first["headers"])[b"retry-after"] == b"2"
    assert statuses[1] in (None, 422), "a small one does not wait"
    assert his == 1, "nor does another user's"


def test_a_chunked_body_to_an_open_path_is_refused_also_without_a_token(service):
    sender = Sender(service, None, **chunked(b"x"), method="GET", path="/v1/health").run()
    assert (sender.status, sender.problems[0].expected) == (413, "must be empty")
    assert service.refusals.counts() == {"too_large": 1}
