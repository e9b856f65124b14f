"""A search and an arbiter that has lost its journal: what it has records of, and what becomes of its trials."""

from tests.agent_world import FIRST, SECOND, Search, gpus
from tests.eventually import eventually
from tests.http_servers import WebServer
from tests.unit.test_api_recovery import OLD, OWN, Recovering
from themis_agent.agent import events
from themis_agent.agent.commands import StartTrial, StopTrial
from themis_agent.app_file import AppFile
from themis_agent.arbiter_messages import Translation
from themis_agent.local.folder import Folder
from themis_agent.view.answers import AnswerTimes
from themis_agent.yarn import submission as submissions
from themis_agent.yarn.arbiter_link import ArbiterLink
from themis_agent.yarn.recovery import Recovery
from themis_agent.yarn.submission import ArbiterAccess, ContainerSize, Submission
from yarn_plugin.api import wire
from yarn_plugin.api.tokens import Principal
from yarn_plugin.model.resources import GPU

APP = AppFile.model_validate(
    {
        "name": "old",
        "command": ["train"],
        "metric": "loss",
        "space": {"x": {"type": "int", "low": 1, "high": 2}},
        "trials": 2,
        "max_steps": 3,
    }
)
SUBMISSION = Submission(
    yarn_app="application_1_7",
    resource_manager="http://rm",
    arbiter=ArbiterAccess(url="http://arbiter", app="app_3", pool="gpu", recovery_token="recovery.ann/x.y"),
    python="python",
    container=ContainerSize(memory_mb=256),
)


def held(lease, *some):
    return events.HeldLease(lease, tuple(some), 500.0)


def test_trials_go_on_where_their_leases_do_whatever_these_are_called():
    search = Search(held=2)
    first, second = gpus("m1", 2)
    assert len(search.of(StartTrial)) == 2
    assert not search.take(events.Recovered("app_e1_5", (held("gpu#1", first, second),)))
    assert (search.state.registered_as, set(search.state.leases)) == ("app_e1_5", {"gpu#1"})
    stopped = search.take(events.Recovered("app_e2_9", (held("gpu#1", first),)))
    assert [one.trial for one in stopped if isinstance(one, StopTrial)] == [SECOND], "its GPU is lost"
    assert search.state.trials[FIRST].attempt.stop_by is None


def test_it_registers_with_what_its_trials_run_on(tmp_path):
    search = Search(held=3)
    folder = Folder(tmp_path)
    recovery = Recovery(folder, APP, SUBMISSION, lambda: search.state, lambda time: time + 1000.0)
    asked = recovery.request()
    assert (asked.request_id, asked.yarn_app, asked.pool) == ("application_1_7", "application_1_7", "gpu")
    (record,) = asked.leases
    assert (record.id, record.gpus, record.until) == ("lease-1", ["m1/0", "m1/1"], None), "the third one is idle"
    share = {"grace_s": 30.0, "share": None, "queue": "root.gpu.old", "pool": "gpu"}
    again = wire.Registered(app="app_e1_5", token="app.app_e1_5.z", recovery_token="recovery.ann/x.z", **share)
    assert recovery.note(again).app == submissions.read(tmp_path).arbiter.app == "app_e1_5"
    assert (tmp_path / submissions.ARBITER_TOKEN).read_text() == "app.app_e1_5.z"


def test_its_link_registers_it_again_and_follows_it_under_its_new_id(tmp_path):
    service, search, heard = Recovering(tmp_path / "arbiter"), Search(held=2, machine="n1"), []

    def answers(asked):
        if asked.path.endswith("/events") and asked.path.split("/")[3] in service.arbiter.state.registered:
            return 200, {"Content-Type": "text/event-stream"}, ""
        headers = {"Authorization": asked.token}
        found = service.http.request(asked.method, asked.path, json=asked.body, headers=headers)
        return found.status_code, {"Content-Type": "application/json"}, found.text

    arbiter = WebServer(answers)
    token = service.tokens.issue(OWN)
    access = ArbiterAccess(url=arbiter.url, app="app_9", pool="gpu", recovery_token=token)
    submission = SUBMISSION.model_copy(update={"yarn_app": OLD, "arbiter": access})
    recovery = Recovery(Folder(tmp_path), APP, submission, lambda: search.state, lambda time: time)
    asked = recovery.request()
    # With `fifo`, a lease is of a pod of the size that is demanded.
    recovery.request = lambda: asked.model_copy(update={"demand": [{GPU: 2}]})
    link = ArbiterLink(
        access,
        service.tokens.issue(Principal("app", "app_9")),
        Translation(lambda wall: wall),
        heard.append,
        lambda: None,
        AnswerTimes(),
        2,
        recovery=recovery,
    )
    link.start()
    recovered = eventually(lambda: next((one for one in heard if isinstance(one, events.Recovered)), None), "it is")
    (lease,) = recovered.leases
    assert [gpu.cell for gpu in lease.gpus] == ["n1/0", "n1/1"]
    assert not search.take(recovered), "its trials go on"
    eventually(
        lambda: f"/v1/apps/{recovered.registered_as}/events" in [one.path for one in arbiter.asked], "it follows"
    )
    assert link.leave(5)
    assert recovered.registered_as not in service.arbiter.state.registered
    arbiter.close()
