"""Applications that run and register again, with records of their leases, with an arbiter that has lost its journal."""

import pytest

from tests.http_service import Service, problems
from tests.lease_world import node
from yarn_plugin.api.tokens import Principal
from yarn_plugin.decide.events import AppsChanged, ContainersListed, Deregistered, NodesChanged
from yarn_plugin.decide.leases.settings import RULES, LedgerSettings
from yarn_plugin.model.cluster import Container, YarnApp
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Pool

POOL = Pool("gpu", "root.gpu", (GPU,), controller="ledger", parameters=LedgerSettings("fifo", rules=RULES))
SHARED = Pool("sql", "root.sql", ("memory-mb",))
OLD = "application_1_7"
JOB = {"name": "train", "gang": [{"pods": 1, "cells_each": 2}]}


def record(*gpus, **more):
    return {"id": "gpu#3", "gpus": list(gpus), "job": "train", **more}


class Recovering(Service):
    """ann's application uses two GPUs of n1, and the arbiter does not know it."""

    def __init__(self, folder, lists=True):
        super().__init__(folder, POOL, SHARED)
        self.arbiter.take(NodesChanged((node("n1", 4),), ()))
        used = Resources.of({"vcores": 3, GPU: 2})
        running = YarnApp(OLD, "old", "ann", "root.gpu.old", False, 1.0, used, Resources(), 3)
        self.arbiter.take(AppsChanged((running,), ()))
        one = Resources.of({"vcores": 1, GPU: 1})
        if lists:
            self.arbiter.take(ContainersListed(OLD, tuple(Container(f"c{n}", "n1:8041", one, False) for n in (1, 2))))

    def asks(self, principal, **more):
        body = {"name": "old", "request_id": OLD, "pool": "gpu", "yarn_app": OLD, "jobs": [JOB], **more}
        headers = {"Authorization": f"Bearer {self.tokens.issue(principal)}"}
        return self.http.request("POST", "/v1/apps/recovered", json=body, headers=headers)


@pytest.fixture
def service(tmp_path):
    return Recovering(tmp_path)


OWN = Principal("recovery", f"ann/{OLD}")


def test_leases_go_on_under_new_ids(service):
    answer = service.asks(OWN, leases=[record("n1/1", "n1/2"), {"id": "gpu#4", "gpus": ["n1/3"]}])
    assert answer.status_code == 201, answer.text
    found = answer.json()
    assert found["refused"] == [{"id": "gpu#4", "gpus": ["n1/3"], "why": "unused"}]
    assert found["recovery_token"] == service.tokens.issue(OWN)
    own = {"Authorization": f"Bearer {found['token']}"}
    held = service.http.request("GET", f"/v1/apps/{found['app']}/leases", headers=own).json()["leases"]
    assert [(one["job"], [each["cell"] for each in one["holdings"]]) for one in held] == [("train", ["n1/1", "n1/2"])]
    again = service.asks(OWN, leases=[record("n1/1", "n1/2")])
    assert (again.json()["app"], again.json()["refused"]) == (found["app"], []), "a repeated request registers once"


@pytest.mark.parametrize(
    ("principal", "status", "field"),
    [
        (Principal("recovery", "eve/application_1_8"), 403, "yarn_app"),
        (Principal("recovery", f"eve/{OLD}"), 403, "yarn_app"),
        (Principal("user", "eve"), 403, "yarn_app"),
        (Principal("app", "app_3"), 403, "Authorization"),
    ],
)
def test_nobody_else_can_claim_its_leases(service, principal, status, field):
    answer = service.asks(principal, leases=[record("n1/1", "n1/2")])
    assert answer.status_code == status
    assert [one[0] for one in problems(answer)] == [field]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/apps", {"name": "more", "request_id": "another one", "pool": "gpu"}),
        ("GET", "/v1/apps", None),
        ("GET", "/v1/cluster", None),
    ],
)
def test_a_recovery_token_is_for_nothing_else(service, method, path, body):
    headers = {"Authorization": f"Bearer {service.tokens.issue(OWN)}"}
    answer = service.http.request(method, path, json=body, headers=headers)
    assert answer.status_code == 403
    assert "/v1/apps/recovered" in problems(answer)[0][2]
    assert not service.arbiter.state.registered


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"leases": [record("n1/1", "n1/1")]}, "leases"),
        ({"leases": [record()]}, "leases.0.gpus"),
        ({"leases": [record("n1/1", kind="guaranteed")]}, "leases.0.kind"),
        ({"leases": [record("n1/1", until=float(10**15))]}, "leases.0.until"),
        ({"leases": [record("n1/1")] * 1001}, "leases"),
        ({"leases": [{**record("n1/1"), "job": "\x1b[31m"}]}, "leases.0.job"),
        ({"pool": "sql", "leases": [record("n1/1")]}, "yarn_app"),
        ({"yarn_app": None}, "yarn_app"),
        ({"jobs": [{**JOB, "name": "no spaces"}]}, "jobs.0.name"),
    ],
)
def test_a_wrong_record_is_refused_in_one_line(service, more, field):
    answer = service.asks(OWN, **more)
    assert answer.status_code in (403, 422)
    assert problems(answer)[0][0] == field
    assert not service.arbiter.state.registered


def test_it_tries_again_until_its_containers_are_listed(tmp_path):
    service = Recovering(tmp_path, lists=False)
    answer = service.asks(OWN, leases=[record("n1/1", "n1/2")])
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
    assert service.asks(OWN).status_code == 201, "without records there is nothing to compare"


def test_an_application_that_was_deregistered_does_not_come_back_by_itself(service):
    app = service.asks(OWN).json()["app"]
    service.arbiter.take(Deregistered(app))
    answer = service.asks(OWN)
    assert answer.status_code == 409
    assert app in problems(answer)[0][2]
    assert service.asks(Principal("user", "ann")).status_code == 201
