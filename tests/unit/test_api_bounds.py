"""What the service takes: everything a caller writes is bounded, and whatever is refused is refused with problems."""

import dataclasses
from concurrent.futures import Future

import pytest

from tests.http_service import GPU, SQL, problems, running
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterRefusedError
from yarn_plugin.decide.events import AppsChanged
from yarn_plugin.model.share import Pool

LIMITED = Pool("sql", "root.sql", ("memory-mb", "vcores"), max_weight=10, max_grace=300, max_apps_per_user=2)


def post(service, body, path="/v1/apps", method="POST", token=None):
    """Send bytes as they are."""
    headers = {"Authorization": f"Bearer {token or service.user('ann')}", "Content-Type": "application/json"}
    return service.http.request(method, path, content=body, headers=headers)


def registration(fields):
    return b'{"name": "x", "request_id": "12345678", ' + fields + b"}"


DIGITS = b"9" * 401


@pytest.mark.parametrize(
    ("fields", "field", "expected"),
    [
        (b'"demand": [{"vcores": %s}]' % DIGITS, "demand.0.vcores", "at most 1000000000000000"),
        (b'"demand": [{"vcores": 1000000000000001}]', "demand.0.vcores", "at most 1000000000000000"),
        (b'"demand": [{"vcores": 1e400}]', "demand.0.vcores", "finite"),
        (b'"demand": [{"v\\n": 1}]', "demand.0.v\n.[key]", "must match"),
        (b'"demand": [{"%s": 1}]' % (b"r" * 101), "demand.0.", "must match"),
        (b'"demand": [{%s}]' % b",".join(b'"r%d": 1' % n for n in range(33)), "demand.0", "at most 32 items"),
        (b'"demand": [%s]' % b",".join([b'{"vcores": 1}'] * 17), "demand", "at most 16 items"),
        (b'"weight": 1e400', "weight", "finite number"),
        (b'"weight": %s' % DIGITS, "weight", "a number"),
        (b'"grace_s": 1e400', "grace_s", "finite number"),
        (b'"pool": "%s"' % (b"p" * 5000), "pool", "at most 100 characters"),
        ('"yarn_app": "application_١_٢"'.encode(), "yarn_app", "must match"),
        (b'"yarn_app": "application_%s_1"' % DIGITS, "yarn_app", "must match"),
        (b'"prio": "%s"' % (b"p" * 5000), "prio", "unknown key"),
        (b'"%s": 1' % (b"p" * 5000), "ppp", "unknown key"),
    ],
)
def test_a_value_out_of_bounds_is_refused_in_a_short_message(service, fields, field, expected):
    answer = post(service, registration(fields))
    assert answer.status_code == 422, answer.text
    ((found, shown, right), *_) = problems(answer)
    assert found.startswith(field)
    assert expected in right
    assert len(str(shown)) < 200
    assert len(answer.content) < 1500
    assert not service.arbiter.state.registered


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31m", "nul\x00", "\u2028", "\u202egnp.exe", "\x7f", "\x85"])
def test_a_name_has_no_line_breaks_or_direction_controls(service, name):
    for body in ({"name": name, "request_id": "12345678"}, {"name": "x", "request_id": f"1234567{name}"}):
        answer = service.ask(service.user("ann"), "POST", "/v1/apps", body)
        assert (answer.status_code, problems(answer)[0][0]) == (422, "request_id" if body["name"] == "x" else "name")


def test_names_in_any_script_are_names(service):
    assert service.register("گزارش\u200cشب 日報 [bold] é", user="ann").app in service.arbiter.state.registered


@pytest.mark.parametrize(
    "body",
    [
        b'{"name": NaN}',
        b'{"weight": Infinity, "name": "x", "request_id": "12345678"}',
        b'{"weight": -Infinity}',
        b'{"demand": [{"vcores": %s}]}' % (b"9" * 5000),
        b'{"demand": [{"vcores": -%s}]}' % (b"9" * 5000),
        b"[" * 100_000,
        b'{"a":' * 30_000,
        b"[" * 900 + b"]" * 900,
        b'{"name": %s}' % (b"[" * 800 + b"]" * 800),
        b'{"demand": %s}' % (b"[" * 800 + b"]" * 800),
        b'{"name": "\xff"}',
        "{}".encode("utf-16"),
        b"\xef\xbb\xbf{}",
        b'{"name": "\\ud800", "request_id": "12345678"}',
        b'{"\\ud800": 1, "name": "x", "request_id": "12345678"}',
        b'{"name": "x", "name": "y", "request_id": "12345678"}',
        b'{"name": "x", "request_id": "12345678", "demand": [{"vcores": 1, "vcores": 2}]}',
        b"{%s}" % b",".join(b'"k%d": 1' % number for number in range(5000)),
        b'{"name": "x"',
        b"\x00",
        b"1e400",
        b"-" * 1000,
    ],
    ids=range(22),
)
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/apps"), ("PATCH", "/v1/apps/{}"), ("POST", "/v1/apps/{}/vacated")]
)
def test_garbage_is_refused_with_problems(service, method, path, body):
    made = service.register()
    before = service.arbiter.state
    answer = post(service, body, path.format(made.app), method)
    assert answer.status_code in (400, 422), answer.text
    assert problems(answer)
    assert len(answer.content) < 10_000
    assert service.arbiter.state is before


def test_a_duplicate_key_is_refused(service):
    answer = post(service, registration(b'"weight": 1, "weight": 1000'))
    assert (answer.status_code, problems(answer)[0][:2]) == (422, ("body", "weight"))


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/v1/apps/{}/vacated", {"seq": -1}, "seq"),
        ("POST", "/v1/apps/{}/vacated", {"seq": 10**16}, "seq"),
        ("POST", "/v1/apps/{}/vacated", {"seq": 1, "more": 2}, "more"),
        ("PATCH", "/v1/apps/{}", {"weight": 1, "more": 2}, "more"),
        ("GET", "/v1/apps/{}/why?limit=" + "9" * 5000, None, "limit"),
        ("GET", "/v1/decisions?limit=" + "9" * 5000, None, "limit"),
        ("GET", "/v1/decisions?limit=10001", None, "limit"),
        ("GET", "/v1/decisions?app=" + "a" * 5000, None, "app"),
        ("GET", "/v1/apps/" + "a" * 5000, None, "app"),
        ("GET", "/v1/apps/" + "a" * 5000 + "/events", None, "app"),
    ],
)
def test_numbers_and_ids_are_limited(service, method, path, body, field):
    made = service.register()
    answer = service.as_admin(method, path.format(made.app), body)
    assert (answer.status_code, problems(answer)[0][0]) == (422, field)
    assert len(answer.content) < 1000


@pytest.mark.parametrize("user", ["", "a" * 101, "a b", "a\n", "a/b", "ü"])
def test_the_user_of_a_token_has_a_plain_name(service, user):
    answer = service.as_admin("POST", "/v1/tokens", {"user": user})
    assert (answer.status_code, problems(answer)[0][0]) == (422, "user")


def test_no_user_has_the_administrators_name(service):
    """What the administrator registers would be this user's."""
    answer = service.as_admin("POST", "/v1/tokens", {"user": "admin"})
    assert (answer.status_code, problems(answer)[0][:2]) == (422, ("user", "admin"))
    assert service.as_admin("POST", "/v1/tokens", {"user": "admin2"}).status_code == 201


@pytest.mark.parametrize(
    "path", ["/v1/apps/%00", "/v1/apps/..%2f..%2fsecret", "/v1/apps/%ff", "/%0d%0aX: y", "/v1/apps/"]
)
def test_malformed_paths_are_404(service, path):
    answer = service.as_admin("GET", path)
    assert answer.status_code == 404
    assert problems(answer)


# Limits of a pool.


def test_weight_and_grace_are_limited_by_the_pool_and_not_for_the_administrator(make):
    service = make(LIMITED)
    for field, value, expected in (
        ("weight", 11, "10"),
        ("grace_s", 301, "300 s"),
    ):
        body = {"name": "x", "request_id": "12345678", field: value}
        answer = service.ask(service.user("ann"), "POST", "/v1/apps", body)
        ((found, shown, right),) = problems(answer)
        assert (answer.status_code, found, shown, expected in right) == (422, field, value, True)
    assert not service.arbiter.state.registered
    made = service.register(weight=10, grace_s=300)
    heavier = service.ask(made.token, "PATCH", f"/v1/apps/{made.app}", {"weight": 11})
    assert (heavier.status_code, problems(heavier)[0][:2]) == (422, ("weight", 11))
    assert service.as_admin("PATCH", f"/v1/apps/{made.app}", {"weight": 1000}).json()["weight"] == 1000
    body = {"name": "x", "request_id": "12345678", "weight": 1000, "grace_s": 3600}
    assert service.as_admin("POST", "/v1/apps", body).status_code == 201


def test_registrations_per_user_are_limited_and_a_repeated_request_counts_once(make):
    service = make(LIMITED)
    first, _ = service.register("first"), service.register("second")
    refused = service.ask(service.user("ann"), "POST", "/v1/apps", {"name": "x", "request_id": "12345678"})
    ((field, value, expected),) = problems(refused)
    assert (refused.status_code, field, value) == (429, "pool", "sql")
    assert "2 applications" in expected
    assert service.register("first").app == first.app
    assert service.register("third", "eve").app
    for number in range(3):
        body = {"name": "x", "request_id": f"request-{number}"}
        assert service.as_admin("POST", "/v1/apps", body).status_code == 201
    service.ask(first.token, "DELETE", f"/v1/apps/{first.app}")
    assert service.register("third").app


def test_a_pool_without_limits_takes_any_number_weight_and_grace_period(make):
    service = make(SQL, GPU)
    made = {service.register(f"app-{number}", pool="gpu", weight=1000, grace_s=3600).app for number in range(5)}
    registered = service.arbiter.state.registered
    assert {(registered[app].weight, registered[app].grace) for app in made} == {(1000.0, 3600.0)}
    assert len(made) == 5


# Keys and users.


def test_request_ids_of_different_users_are_independent(service):
    hers = service.register("nightly", "ann")
    his = service.register("nightly", "bob")
    assert his.app != hers.app
    assert his.token != hers.token
    known = service.arbiter.state.registered
    assert (known[his.app].user, known[hers.app].user) == ("bob", "ann")
    assert service.register("nightly", "bob").app == his.app


def test_a_registration_carries_the_yarn_users_whose_application_it_may_be(make):
    service = make(users={"ann": ["ann", "svc-ann"]})
    hers, his = service.register("one", "ann"), service.register("two", "bob")
    admins = service.as_admin("POST", "/v1/apps", {"name": "x", "request_id": "12345678"}).json()
    carried = service.arbiter.state.registered
    assert carried[hers.app].yarn_users == ("ann", "svc-ann")
    assert carried[his.app].yarn_users == ("bob",)
    assert carried[admins["app"]].yarn_users is None


def test_an_application_of_a_mapped_yarn_user_is_registered_and_seen_by_the_user(make):
    service = make(users={"ann": ["svc-ann"]})
    service.arbiter.take(AppsChanged((running("application_1_0001", "root.sql.etl", "svc-ann"),), ()))
    service.arbiter.take(AppsChanged((running("application_1_0002", "root.sql.etl2", "ann"),), ()))
    seen = service.ask(service.user("ann"), "GET", "/v1/apps").json()
    assert [app["yarn_app"] for app in seen] == ["application_1_0001"]
    made = service.register(yarn_app="application_1_0001")
    assert service.ask(service.user("ann"), "GET", f"/v1/apps/{made.app}").json()["user"] == "ann"
    body = {"name": "x", "request_id": "12345678", "yarn_app": "application_1_0002"}
    refused = service.ask(service.user("ann"), "POST", "/v1/apps", body)
    assert (refused.status_code, problems(refused)[0][0]) == (403, "yarn_app")


def test_what_the_administrator_registers_for_a_yarn_user_is_the_mapped_users(make):
    service = make(users={"ann": ["svc-ann"]})
    service.arbiter.take(AppsChanged((running("application_1_0001", "root.sql.etl", "svc-ann"),), ()))
    body = {"name": "x", "request_id": "12345678", "yarn_app": "application_1_0001"}
    made = service.as_admin("POST", "/v1/apps", body).json()
    assert service.ask(service.user("ann"), "GET", f"/v1/apps/{made['app']}").status_code == 200


def test_an_application_that_another_request_registered_first_is_registered_already(service):
    """Both were checked before either was decided on; the arbiter passes over the second."""
    service.arbiter.take(AppsChanged((running("application_1_0001", "root.sql.etl"),), ()))

    def post_late(event):
        answer = Future()
        answer.set_result(service.arbiter.take(dataclasses.replace(event, request_id="the-other-request")))
        return answer

    service.arbiter.post = post_late
    body = {"name": "x", "request_id": "12345678", "yarn_app": "application_1_0001"}
    answer = service.ask(service.user("ann"), "POST", "/v1/apps", body)
    assert (answer.status_code, problems(answer)[0][:2]) == (409, ("yarn_app", "application_1_0001"))


# Readers are lenient, requests strict.


def test_unknown_fields_in_answers_are_ignored(service):
    answer = service.as_admin("GET", "/v1/cluster").json()
    answer["pools"][0]["added_later"] = answer["added_later"] = {"anything": 1}
    assert wire.Cluster.model_validate(answer).pools[0].name == "sql"
    error = ArbiterRefusedError(
        429, wire.Problems.model_validate({"problems": [{"field": "a", "expected": "b", "c": 1}]}).problems
    )
    assert str(error).endswith(": b")
