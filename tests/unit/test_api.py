"""The HTTP service's routes: who may do what, what they answer, and what goes into a stream."""

import asyncio

import pytest

from tests.http_service import GPU, SQL, parse, problems, running
from yarn_plugin.api import wire
from yarn_plugin.api.streams import Position
from yarn_plugin.api.tokens import Principal, Tokens
from yarn_plugin.decide import events
from yarn_plugin.decide.events import AppsChanged
from yarn_plugin.model.resources import Resources

# Who may do what.


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/cluster"),
        ("GET", "/v1/apps"),
        ("POST", "/v1/apps"),
        ("GET", "/v1/apps/app_1"),
        ("PATCH", "/v1/apps/app_1"),
        ("DELETE", "/v1/apps/app_1"),
        ("GET", "/v1/apps/app_1/jobs"),
        ("PUT", "/v1/apps/app_1/jobs"),
        ("POST", "/v1/apps/app_1/vacated"),
        ("GET", "/v1/apps/app_1/events"),
        ("GET", "/v1/apps/app_1/why"),
        ("GET", "/v1/decisions"),
        ("POST", "/v1/tokens"),
    ],
)
@pytest.mark.parametrize("token", [None, "", "nonsense", "admin.admin.0000", "user.ann.", "app..x", "user.ann.ü"])
def test_requests_without_a_valid_token_are_refused(service, method, path, token):
    headers = {} if token is None else {"Authorization": f"Bearer {token}".encode()}
    answer = service.http.request(method, path, headers=headers, json={"name": "x", "request_id": "12345678"})
    assert answer.status_code == 401
    ((field, _, expected),) = problems(answer)
    assert (field, "'Bearer TOKEN'" in expected) == ("Authorization", True)


def test_a_superseded_arbiter_answers_changes_with_503_and_everything_else(service):
    ann = service.register()
    service.arbiter.take(events.Superseded("http://other:8780"))
    before = service.arbiter.state
    for method, path, body in (
        ("POST", "/v1/apps", {"name": "x", "request_id": "12345678"}),
        ("PATCH", f"/v1/apps/{ann.app}", {"weight": 2}),
        ("POST", f"/v1/apps/{ann.app}/vacated", {"seq": 1}),
        ("PUT", f"/v1/apps/{ann.app}/jobs", {"jobs": [{"name": "a"}]}),
        ("DELETE", f"/v1/apps/{ann.app}", None),
    ):
        answer = service.ask(service.user("ann"), method, path, body)
        assert answer.status_code == 503, (method, path)
        ((field, _, expected),) = problems(answer)
        assert (field, "http://other:8780" in expected) == ("arbiter", True)
    assert service.arbiter.state is before
    assert service.ask(service.user("ann"), "GET", f"/v1/apps/{ann.app}").status_code == 200


def test_only_the_administrator_issues_tokens(service):
    answer = service.as_admin("POST", "/v1/tokens", {"user": "ann"})
    assert answer.status_code == 201
    issued = wire.Token.model_validate(answer.json())
    assert service.ask(issued.token, "GET", "/v1/apps").status_code == 200
    refused = service.ask(issued.token, "POST", "/v1/tokens", {"user": "bob"})
    assert (refused.status_code, problems(refused)[0][0]) == (403, "Authorization")


def test_files_with_secrets_are_private(service):
    folder = service.tokens.admin_file.parent
    assert {path.stat().st_mode & 0o777 for path in (folder / "secret", folder / "admin.token")} == {0o600}
    assert (folder / "journal").stat().st_mode & 0o077 == 0


def test_tokens_stay_valid_over_a_restart_until_the_secret_changes(service, tmp_path):
    token = service.user("ann")
    folder = service.tokens.admin_file.parent
    assert Tokens(folder).check(token) == Principal("user", "ann")
    (folder / "secret").unlink()
    assert Tokens(folder).check(token) is None


def test_a_user_and_the_application_itself_have_access(service):
    mine, hers = service.register("mine", "ann"), service.register("hers", "eve")
    paths = [f"/v1/apps/{mine.app}", f"/v1/apps/{mine.app}/why"]
    for path in paths:
        assert service.ask(service.user("ann"), "GET", path).status_code == 200
        assert service.ask(mine.token, "GET", path).status_code == 200
        assert service.as_admin("GET", path).status_code == 200
        for stranger in (service.user("eve"), hers.token):
            refused = service.ask(stranger, "GET", path)
            assert refused.status_code == 403
            assert problems(refused)[0][:2] == ("app", mine.app)


@pytest.mark.parametrize(
    ("method", "suffix", "body"),
    [("PATCH", "", {"weight": 2}), ("DELETE", "", None), ("POST", "/vacated", {"seq": 4}), ("GET", "/events", None)],
)
def test_another_application_cannot_be_changed_or_followed(service, method, suffix, body):
    mine, hers = service.register("mine", "ann"), service.register("hers", "eve")
    before = service.arbiter.state.registered
    for stranger in (service.user("eve"), hers.token):
        assert service.ask(stranger, method, f"/v1/apps/{mine.app}{suffix}", body).status_code == 403
    assert service.arbiter.state.registered == before


def test_a_user_lists_its_applications_and_an_application_itself(service):
    mine, other = service.register("mine", "ann"), service.register("other", "ann")
    service.register("hers", "eve")

    def seen(token):
        return {app["app"] for app in service.ask(token, "GET", "/v1/apps").json()}

    assert seen(service.user("ann")) == {mine.app, other.app}
    assert seen(mine.token) == {mine.app}
    assert len(service.as_admin("GET", "/v1/apps").json()) == 3


def test_an_application_cannot_register_others(service):
    mine = service.register()
    answer = service.ask(mine.token, "POST", "/v1/apps", {"name": "x", "request_id": "12345678"})
    assert (answer.status_code, problems(answer)[0][0]) == (403, "Authorization")


# Registering.


def test_registering_gives_a_queue_a_token_and_the_share(service):
    made = service.register("Nightly report")
    assert made.queue.startswith("root.sql.nightly-report_")
    assert (made.pool, made.grace_s) == ("sql", 10.0)
    assert made.share.guarantee.resources == {"memory-mb": 16384, "vcores": 16}
    assert service.tokens.check(made.token) == Principal("app", made.app)
    assert service.arbiter.state.registered[made.app].user == "ann"


def test_the_same_request_registers_once(service):
    first, second = service.register(), service.register()
    assert (second.app, second.queue, second.token) == (first.app, first.queue, first.token)
    assert len(service.arbiter.state.registered) == 1


def test_a_request_that_has_ended_is_not_registered_again(service):
    """Two answers to the same DELETE and POST: what was done is not undone by a retry."""
    made = service.register()
    assert service.ask(made.token, "DELETE", f"/v1/apps/{made.app}").status_code == 204
    gone = service.ask(made.token, "DELETE", f"/v1/apps/{made.app}")
    assert (gone.status_code, problems(gone)[0][0]) == (404, "app")


def test_a_running_application_is_registered_in_its_queue(service):
    service.arbiter.take(AppsChanged((running("application_1_0001", "root.sql.etl"),), ()))
    made = service.register(yarn_app="application_1_0001")
    assert made.queue == "root.sql.etl"
    assert service.ask(made.token, "GET", "/v1/apps/application_1_0001").json()["app"] == made.app
    assert service.register(yarn_app="application_1_0001").app == made.app
    taken = service.ask(
        service.user("ann"),
        "POST",
        "/v1/apps",
        {"name": "again", "request_id": "another-one", "yarn_app": "application_1_0001"},
    )
    assert (taken.status_code, problems(taken)[0][:2]) == (409, ("yarn_app", "application_1_0001"))


def test_an_application_submitted_just_now_is_polled_for(service):
    service.arbiter.appears = [AppsChanged((running("application_1_0007", "root.sql.etl"),), ())]
    assert service.register(yarn_app="application_1_0007").queue == "root.sql.etl"
    assert service.arbiter.polls == 1


@pytest.mark.parametrize(
    ("body", "status", "field", "value", "expected"),
    [
        ({"request_id": "12345678"}, 422, "name", None, "required"),
        ({"name": "", "request_id": "12345678"}, 422, "name", "", "at least 1 character"),
        ({"name": "x", "request_id": "1"}, 422, "request_id", "1", "at least 8 characters"),
        ({"weight": 0}, 422, "weight", 0, "above 0"),
        ({"weight": "heavy"}, 422, "weight", "heavy", "a number"),
        ({"weight": 5000}, 422, "weight", 5000, "at most 1000"),
        ({"grace_s": -1}, 422, "grace_s", -1, "at least 0"),
        ({"demand": []}, 422, "demand", "[]", "at least 1 item"),
        ({"demand": [{"vcores": -1}]}, 422, "demand.0.vcores", -1, "at least 0"),
        ({"demand": [{"vcores": 1.5}]}, 422, "demand.0.vcores", 1.5, "an integer"),
        ({"pool": "gpu"}, 422, "pool", "gpu", "sql"),
        ({"yarn_app": "job_1"}, 422, "yarn_app", "job_1", "application_"),
        ({"yarn_app": "application_1_9999"}, 422, "yarn_app", "application_1_9999", "application"),
        ({"yarn_app": "application_1_0002"}, 422, "yarn_app", "application_1_0002", "root.sql"),
        ({"yarn_app": "application_1_0003"}, 403, "yarn_app", "application_1_0003", "eve"),
        ({"prio": 3}, 422, "prio", 3, "unknown key"),
    ],
)
def test_an_invalid_registration_is_refused_by_field(service, body, status, field, value, expected):
    service.arbiter.take(AppsChanged((running("application_1_0002", "root.default"),), ()))
    service.arbiter.take(AppsChanged((running("application_1_0003", "root.sql.x", "eve"),), ()))
    whole = body if "request_id" in body else {"name": "x", "request_id": "12345678", **body}
    answer = service.ask(service.user("ann"), "POST", "/v1/apps", whole)
    assert answer.status_code == status
    ((found, shown, right),) = problems(answer)
    assert (found, shown) == (field, value if value is not None else shown)
    assert expected in right
    assert not service.arbiter.state.registered


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff\xfe", b"null", b'"x"', b""])
def test_an_invalid_body_is_reported(service, body):
    headers = {"Authorization": f"Bearer {service.user('ann')}", "Content-Type": "application/json"}
    answer = service.http.request("POST", "/v1/apps", content=body, headers=headers)
    assert answer.status_code in (400, 422)
    assert problems(answer)


def test_with_two_pools_the_pool_must_be_named(make):
    service = make(SQL, GPU)
    answer = service.ask(service.user("ann"), "POST", "/v1/apps", {"name": "x", "request_id": "12345678"})
    ((field, value, expected),) = problems(answer)
    assert (answer.status_code, field, value) == (422, "pool", None)
    assert "gpu, sql" in expected
    assert service.register(pool="gpu").queue.startswith("root.gpu.")


# Reading and changing.


def test_omitted_fields_of_a_revision_do_not_change(service):
    made = service.register(demand=[{"vcores": 4, "memory-mb": 4096}])
    changed = service.ask(made.token, "PATCH", f"/v1/apps/{made.app}", {"weight": 3})
    assert (changed.status_code, changed.json()["weight"]) == (200, 3.0)
    known = service.arbiter.state.registered[made.app]
    assert known.demand.alternatives == (Resources.of({"vcores": 4, "memory-mb": 4096}),)
    service.ask(made.token, "PATCH", f"/v1/apps/{made.app}", {"demand": [{"vcores": 8}]})
    known = service.arbiter.state.registered[made.app]
    assert (known.weight, known.demand.alternatives) == (3.0, (Resources.of({"vcores": 8}),))
    service.ask(made.token, "PATCH", f"/v1/apps/{made.app}", {"demand": None})
    assert service.arbiter.state.registered[made.app].demand is None


def test_an_unregistered_application_can_be_read_but_not_changed(service):
    service.arbiter.take(AppsChanged((running("application_1_0001", "root.sql.etl"),), ()))
    token = service.user("ann")
    seen = service.ask(token, "GET", "/v1/apps/application_1_0001")
    assert (seen.status_code, seen.json()["registered"]) == (200, False)
    refused = service.ask(token, "DELETE", "/v1/apps/application_1_0001")
    assert refused.status_code == 404


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_an_unknown_path_is_404_with_a_hint(service, method):
    answer = service.as_admin(method, "/v1/apps/app_99", {} if method == "PATCH" else None)
    ((field, value, hint),) = problems(answer)
    assert (answer.status_code, field, value) == (404, "app", "app_99")
    assert "see GET /v1/apps" in hint


def test_an_unknown_path_or_method_is_refused_with_problems(service):
    for method, path, status in (("GET", "/v2/apps", 404), ("PUT", "/v1/apps", 405), ("GET", "/", 404)):
        answer = service.as_admin(method, path)
        assert (answer.status_code, problems(answer)[0][:2]) == (status, ("path", path))


def test_an_application_reports_that_it_has_vacated(service):
    first = service.register("first")
    service.register("second", "bob")
    member = service.arbiter.state.members[first.app]
    assert member.share.effective_at == 1010.0
    answer = service.ask(first.token, "POST", f"/v1/apps/{first.app}/vacated", {"seq": member.share.seq})
    assert answer.status_code == 204
    assert service.arbiter.state.members[first.app].schedule[0].fraction == 0.5


def test_the_cluster_answer_says_how_shares_are_enforced(service):
    service.register()
    seen = wire.Cluster.model_validate(service.ask(service.user("ann"), "GET", "/v1/cluster").json())
    assert (seen.manager, seen.manager_version, seen.manager_error) == ("http://rm:8088", "3.5.0", None)
    assert seen.enforcement.startswith("queue weights, YARN preemption")
    assert [(pool.name, pool.apps, pool.capacity["vcores"]) for pool in seen.pools] == [("sql", 1, 16)]
    assert len(seen.nodes) == 4


def test_health_needs_no_token(service):
    answer = service.ask(None, "GET", "/v1/health").json()
    assert (answer["arbiter"], answer["manager"]) == ("running", "reached")
    service.arbiter.take(events.ManagerLost("no connection"))
    assert service.ask(None, "GET", "/v1/health").json()["manager"] == "no connection"


# Why.


def test_why_returns_decisions_and_diagnostics_of_a_waiting_application(service):
    made = service.register()
    service.arbiter.take(AppsChanged((running("application_1_0001", made.queue, waiting=True),), ()))
    service.register("second", "eve")
    why = wire.Why.model_validate(service.ask(made.token, "GET", f"/v1/apps/{made.app}/why").json())
    assert [decision.kind for decision in why.decisions] == ["Admit", "TellShare", "TellShare"]
    assert why.decisions[-1].reason.startswith("app_")
    assert "the pool now has 2 applications" in why.decisions[-1].reason
    assert why.decisions[0].because == {"kind": "registered", "user": "ann", "queue": made.queue}
    last = why.decisions[-1].because
    assert (last["kind"], last["apps"], last["explanation"]["kind"]) == ("share", 2, "weighted-share")
    assert why.app.share.cause == last
    assert why.manager_says == ["no node has room for application_1_0001"]
    short = service.ask(made.token, "GET", f"/v1/apps/{made.app}/why?limit=1").json()
    assert len(short["decisions"]) == 1


def test_why_still_answers_when_the_application_has_ended(service):
    made = service.register()
    service.ask(made.token, "DELETE", f"/v1/apps/{made.app}")
    for token in (made.token, service.tokens.admin_file.read_text().strip()):
        why = service.ask(token, "GET", f"/v1/apps/{made.app}/why").json()
        assert (why["app"], why["decisions"][-1]["kind"]) == (None, "Dismiss")
    assert service.ask(service.user("eve"), "GET", f"/v1/apps/{made.app}/why").status_code == 404


def test_an_invalid_limit_is_refused(service):
    for path in ("/v1/decisions?limit=0", "/v1/decisions?limit=many", "/v1/apps/app_1/why?limit=5000"):
        answer = service.as_admin("GET", path)
        assert (answer.status_code, problems(answer)[0][0]) == (422, "limit")


def test_only_the_administrator_sees_decisions_about_others(service):
    mine = service.register("mine", "ann")
    service.register("hers", "eve")
    service.arbiter.take(AppsChanged((running("application_1_0001", mine.queue),), ()))
    all_of_them = service.as_admin("GET", "/v1/decisions").json()
    assert {"Admit", "TellShare", "WriteWeights"} <= {decision["kind"] for decision in all_of_them}
    assert {decision["app"] for decision in service.ask(service.user("ann"), "GET", "/v1/decisions").json()} == {
        mine.app
    }
    assert len(service.as_admin("GET", "/v1/decisions?limit=2").json()) == 2
    assert [one["seq"] for one in all_of_them] == sorted(one["seq"] for one in all_of_them)


# For other programs.


def test_metrics_are_prometheus_text(service):
    made = service.register()
    answer = service.as_admin("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'yarn_arbiter_pool_apps{pool="sql"} 1.0' in answer.text
    assert f'yarn_arbiter_app_share{{app="{made.app}",kind="guarantee",user="ann"}} 1.0' in answer.text
    assert "yarn_arbiter_manager_up 1.0" in answer.text


def test_openapi_describes_every_route(service):
    described = service.ask(None, "GET", "/openapi.json").json()
    assert described["openapi"].startswith("3.")
    assert {"/v1/apps", "/v1/apps/{app}", "/v1/apps/{app}/events", "/v1/cluster", "/v1/decisions", "/metrics"} <= set(
        described["paths"]
    )
    names = described["components"]["schemas"]
    for reference in references(described):
        assert reference.removeprefix("#/components/schemas/") in names
    for path, routes in described["paths"].items():
        for method, route in routes.items():
            assert route["responses"], f"{method} {path}"
            if path in ("/v1/apps", "/v1/cluster", "/v1/decisions"):
                (content,) = (said["content"] for status, said in route["responses"].items() if status < "300")
                assert list(references(content)), f"{method} {path}: what is answered is not described"
            assert route.get("summary"), f"{method} {path}"


def references(value):
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_an_internal_error_is_answered_without_its_traceback(service):
    service.arbiter.fails = RuntimeError("the secret of the house")
    answer = service.ask(service.user("ann"), "POST", "/v1/apps", {"name": "x", "request_id": "12345678"})
    assert answer.status_code == 500
    assert problems(answer)[0][:2] == ("path", "/v1/apps")
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text


# The stream of events.


def read_stream(service, token, app, last_seen=None):
    """What a stream holds up to now; it ends because the arbiter does."""
    service.streams.stopped = True
    headers = {} if last_seen is None else {"Last-Event-ID": str(last_seen)}
    answer = service.ask(token, "GET", f"/v1/apps/{app}/events", **headers)
    service.streams.stopped = False
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return parse(answer.text)


def test_a_new_stream_starts_with_the_current_share(service):
    made = service.register("mine")
    service.register("another", "bob")
    ((seq, name, data),) = read_stream(service, made.token, made.app)
    share = wire.Share.model_validate(data)
    assert (name, seq, share.app) == ("share", share.seq, made.app)
    assert share.guarantee.fraction == 0.5


def test_a_resumed_stream_has_the_missed_events_in_order_and_once(service):
    made = service.register("mine")
    for name in ("second", "third", "fourth"):
        service.register(name, f"user-{name}")
    whole = read_stream(service, made.token, made.app, last_seen=0)
    assert [round(data["guarantee"]["fraction"], 2) for _, _, data in whole] == [1.0, 0.5, 0.33, 0.25]
    for known in range(len(whole)):
        assert read_stream(service, made.token, made.app, last_seen=whole[known][0]) == whole[known + 1 :]


def test_the_last_event_of_a_stream_is_the_end_with_its_reason(service):
    made = service.register()
    service.ask(made.token, "DELETE", f"/v1/apps/{made.app}")
    (share, end) = read_stream(service, made.token, made.app, last_seen=0)
    why = {"kind": "app-ended", "app": made.app}
    assert (share[1], end[1], end[2]) == ("share", "end", {"reason": f"{made.app} ended", "cause": why})
    assert read_stream(service, made.token, made.app)[-1] == end
    assert read_stream(service, service.user("ann"), made.app) == [end]
    assert service.ask(service.user("eve"), "GET", f"/v1/apps/{made.app}/events").status_code == 404


def test_a_stream_can_be_followed_by_yarns_id(service):
    made = service.register()
    service.arbiter.take(AppsChanged((running("application_1_0001", made.queue),), ()))
    service.streams.stopped = True
    answer = service.as_admin("GET", "/v1/apps/application_1_0001/events")
    assert parse(answer.text)[0][2]["app"] == made.app


def test_an_invalid_last_event_id_is_refused(service):
    made = service.register()
    for wrong in ("x", "-1"):
        answer = service.ask(made.token, "GET", f"/v1/apps/{made.app}/events", **{"Last-Event-ID": wrong})
        assert (answer.status_code, problems(answer)[0][0]) == (422, "last-event-id")


def test_decisions_are_pushed_to_their_application_only(service):
    """Two listeners, two applications; a silent stream sends keep-alives."""
    first, second = service.register("first"), service.register("second", "bob")

    async def listen():
        streams = {one.app: service.streams.follow(one.app, None) for one in (first, second)}
        began = {app: parse((await anext(stream)).decode()) for app, stream in streams.items()}
        assert service.streams.open == 2
        waiting = {app: asyncio.ensure_future(anext(stream)) for app, stream in streams.items()}
        await asyncio.sleep(0)
        service.arbiter.take(events.Deregistered(second.app))
        pushed = {app: parse((await future).decode()) for app, future in waiting.items()}
        with pytest.raises(StopAsyncIteration):
            await anext(streams[second.app])
        await streams[first.app].aclose()
        assert service.streams.open == 0
        return began, pushed

    began, pushed = asyncio.run(listen())
    assert {app: messages[0][2]["guarantee"]["fraction"] for app, messages in began.items()} == {
        first.app: 0.5,
        second.app: 0.5,
    }
    assert pushed[first.app][0][2]["guarantee"]["fraction"] == 1.0
    assert pushed[second.app][0][1] == "end"


def test_a_silent_stream_sends_keep_alives(service, monkeypatch):
    from yarn_plugin.api import streams

    monkeypatch.setattr(streams, "KEEP_ALIVE", 0.01)
    made = service.register()

    async def listen():
        stream = service.streams.follow(made.app, None)
        await anext(stream)
        silence = await anext(stream)
        await stream.aclose()
        return silence

    assert asyncio.run(listen()).startswith(b":")


def test_a_decision_during_catch_up_is_sent_once(service):
    """Between reading the past and listening nothing is lost and nothing doubled."""
    made = service.register("mine")

    async def listen():
        stream = service.streams.follow(made.app, Position(0))
        first = parse((await anext(stream)).decode())
        for name in ("second", "third"):
            service.arbiter.take(events.Registered(f"request-{name}", name, name, "sql", 1.0, None, None, None))
        rest = [parse((await anext(stream)).decode()) for _ in range(2)]
        await stream.aclose()
        return [*first, *rest[0], *rest[1]]

    found = asyncio.run(listen())
    assert [round(data["guarantee"]["fraction"], 2) for _, _, data in found] == [1.0, 0.5, 0.33]
    numbers = [seq for seq, _, _ in found]
    assert numbers == sorted(set(numbers))
