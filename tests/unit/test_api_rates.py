"""Rates of changes: a bucket of tokens for each user, and one for what each application answers."""

import threading

import pytest

from tests.http_service import problems, running
from tests.unit.test_api_bounds import post
from yarn_plugin.api import bodies, queueing, rates
from yarn_plugin.api.rates import TokenBuckets
from yarn_plugin.api.refusals import Limits
from yarn_plugin.api.strict_route import MAX_INLINE_BYTES
from yarn_plugin.decide.events import AppsChanged

SLOW = Limits(changes_per_s=0.001, changes_burst=5)


class Seconds:
    def __init__(self):
        self.at = 0.0

    def __call__(self):
        return self.at


def test_a_bucket_holds_a_burst_and_fills_again():
    now = Seconds()
    buckets = TokenBuckets(per_s=2.0, burst=3, now=now)
    assert [buckets.take("ann") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert buckets.take("eve") == 0.0
    now.at = 0.5
    assert [buckets.take("ann"), buckets.take("ann")] == [0.0, 0.5]
    now.at = 100.0
    assert [buckets.take("ann") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]


def test_full_buckets_are_forgotten(monkeypatch):
    monkeypatch.setattr(rates, "MAX_OWNERS", 3)
    now = Seconds()
    buckets = TokenBuckets(per_s=1.0, burst=1, now=now)
    for number in range(50):
        now.at = float(number)
        assert buckets.take(f"user-{number}") == 0.0
        assert len(buckets._buckets) <= 3


def test_a_user_who_flips_a_weight_is_refused_and_nobody_else_is(make):
    service = make(limits=SLOW)
    made, other = service.register(), service.register(user="eve", name="other")
    before = len(service.arbiter.history())
    tokens = [made.token, service.user("ann")]
    answers = [service.ask(tokens[n % 2], "PATCH", f"/v1/apps/{made.app}", {"weight": 1 + n % 2}) for n in range(40)]
    assert sum(answer.status_code == 200 for answer in answers) == 4, "one was taken by the registration"
    assert {answer.status_code for answer in answers[4:]} == {429}
    assert len(service.arbiter.history()) == before + 4
    assert answers[-1].headers["Retry-After"].isdecimal()
    assert "more than 0.001 changes of this user a second" in problems(answers[-1])[0][2]
    assert service.ask(other.token, "PATCH", f"/v1/apps/{other.app}", {"weight": 2}).status_code == 200
    assert service.ask(made.token, "GET", f"/v1/apps/{made.app}").status_code == 200
    assert service.as_admin("PATCH", f"/v1/apps/{made.app}", {"weight": 3}).status_code == 200


def test_what_applications_answer_counts_for_each_of_them(make):
    service = make(limits=SLOW)
    first, second = service.register("a"), service.register("b")
    path = "/v1/apps/{}/vacated"
    found = [service.ask(first.token, "POST", path.format(first.app), {"seq": 1}).status_code for _ in range(7)]
    assert found == [204] * 5 + [429] * 2
    assert service.ask(second.token, "POST", path.format(second.app), {"seq": 1}).status_code == 204


def test_nobody_uses_up_what_another_application_may_answer(make):
    service = make(limits=SLOW)
    hers = service.register()
    path = f"/v1/apps/{hers.app}/vacated"
    found = {service.ask(service.user("mallory"), "POST", path, {"seq": 1}).status_code for _ in range(9)}
    assert found == {403, 429}
    assert service.ask(hers.token, "POST", path, {"seq": 1}).status_code == 204


MANY = b'{"weight":2,%s}' % b",".join(b'"%d":1' % number for number in range(24_000))
SOME = b'{"weight": 2, %s}' % b", ".join(b'"k%d": 1' % number for number in range(1_500))


def test_a_body_with_more_values_than_any_needs_is_not_parsed(service, monkeypatch):
    made = service.register()
    monkeypatch.setattr(bodies, "parse", lambda body: pytest.fail("parsed"))
    answer = post(service, MANY, f"/v1/apps/{made.app}", "PATCH")
    assert (answer.status_code, problems(answer)) == (422, [("body", None, "must have at most 2000 values")])


def test_a_message_has_a_value_for_eight_bytes_of_a_body_at_most(service, monkeypatch):
    made = service.register()
    monkeypatch.setattr(bodies, "parse", lambda body: pytest.fail("parsed"))
    losses = b",".join([b"[1,1]"] * 40_000)
    answer = post(service, b'{"type":"estimate","losses":[%s]}' % losses, f"/v1/apps/{made.app}/messages")
    assert (answer.status_code, problems(answer)) == (422, [("body", None, "must have at most 32768 values")])


def test_of_many_unknown_keys_the_first_are_named(service, monkeypatch):
    given = []
    validate = bodies.wire.Revise.model_validate
    monkeypatch.setattr(
        bodies.wire.Revise, "model_validate", lambda value: (given.append(len(value)), validate(value))[1]
    )
    made = service.register()
    answer = post(service, SOME, f"/v1/apps/{made.app}", "PATCH")
    found = problems(answer)
    assert [field for field, _, _ in found[:20]] == [f"k{number}" for number in range(20)]
    assert found[20:] == [("body", None, "more problems are not listed; fix those above first")]
    assert given == [21]


def test_a_large_body_is_parsed_off_the_event_loop_in_the_queue_of_its_user(service, monkeypatch):
    threads = []
    parse = bodies.parse
    monkeypatch.setattr(bodies, "parse", lambda body: (threads.append(threading.current_thread()), parse(body))[1])
    made = service.register()
    here = threading.current_thread()
    assert threads == [here], "a registration is small"
    assert SOME[: MAX_INLINE_BYTES + 1] != SOME
    post(service, SOME, f"/v1/apps/{made.app}", "PATCH")
    assert threads[1] is not here


def test_unknown_applications_cause_a_poll_at_an_interval_only(service, monkeypatch):
    """An application that an ordinary poll finds meanwhile is registered without waiting for the next one."""
    monkeypatch.setattr(queueing, "MIN_POLL_INTERVAL", 3600.0)

    def register(yarn_app):
        body = {"name": "x", "request_id": f"request-{yarn_app}", "yarn_app": yarn_app}
        return service.ask(service.user("ann"), "POST", "/v1/apps", body).status_code

    assert register("application_1_1") == 422
    assert service.arbiter.polls == 1
    appears = AppsChanged((running("application_1_2", "root.sql.x"),), ())
    threading.Timer(0.3, lambda: service.arbiter.take(appears)).start()
    assert register("application_1_2") == 201
    assert service.arbiter.polls == 1
