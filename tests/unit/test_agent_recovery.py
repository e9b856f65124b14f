"""A search and an arbiter that has lost its journal: what it has records of, and what becomes of its trials."""

from tests.agent_world import FIRST, SECOND, Search, gpus
from themis_agent.agent import events
from themis_agent.agent.commands import StartTrial, StopTrial
from themis_agent.app_file import AppFile
from themis_agent.local.folder import Folder
from themis_agent.yarn import submission as submissions
from themis_agent.yarn.recovery import Recovery
from themis_agent.yarn.submission import ArbiterAccess, ContainerSize, Submission
from yarn_plugin.api import wire

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
