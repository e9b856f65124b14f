"""An arbiter process continues with state directories of earlier versions (`tests/fixtures`)."""

import contextlib
import json
import shutil
import time
from pathlib import Path

import pytest

from tests.adversary.lab import Stream, happens_within
from tests.eventually import eventually
from tests.fixtures.renamed import reworded, with_present_names
from tests.fixtures.scripted_manager import ScriptedManager
from tests.integration.arbiter_process import ArbiterProcess
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, ArbiterRefusedError
from yarn_plugin.drive.replay import replay
from yarn_plugin.journal.records import decode

FIXTURES = Path(__file__).parents[1] / "fixtures"
VERSIONS = ("version0", "version1", "version2")
CONTINUED = ("version0/poisoned", "version1/plain", "version2/compacted")
FOLDERS = ("version0/poisoned", *(f"{version}/{name}" for version in VERSIONS for name in ("plain", "compacted")))
CONFIG = with_present_names((FIXTURES / "version0" / "configuration" / "arbiter.toml").read_text()).replace(
    "submit_timeout_s = 3600.0", "submit_timeout_s = 86400"
)
"""The original configuration, except that unsubmitted applications would expire: the fixtures are old."""

pytestmark = pytest.mark.integration


def arbiter_of(folder):
    version, name = folder.split("/")
    return FIXTURES / version / "arbiter" / name


def read(folder, name):
    return json.loads((arbiter_of(folder) / name).read_text())


def state_of(folder, to):
    """A private copy of a state directory."""
    shutil.copytree(arbiter_of(folder) / "state", to)
    to.chmod(0o700)
    for file in to.iterdir():
        file.chmod(0o600)
    return to


class SameManager(ScriptedManager):
    """A ResourceManager in the state that the journal recorded last."""

    def __init__(self, journal):
        super().__init__({"root.sql": (75.0, 100.0), "root.batch": (25.0, 50.0), "root.default": (0.0, 100.0)})
        for line in journal.read_bytes().splitlines(keepends=True):
            record = decode(line)
            if record["kind"] == "snapshot":
                for app in record["state"]["cluster"]["apps"].values():
                    self._see(app)
            elif record["kind"] == "input" and record["event"]["type"] == "AppsChanged":
                for app in record["event"]["present"]:
                    self._see(app)
                for gone in record["event"]["gone"]:
                    self.apps.pop(gone, None)

    def _see(self, app):
        amounts = dict(app["pending"]["amounts"])
        self.apps[app["id"]] = {
            "id": app["id"], "name": app["name"], "user": app["user"], "queue": app["queue"],
            "state": "ACCEPTED" if app["waiting"] else "RUNNING", "startedTime": int(app["started_at"] * 1000),
            "pending": (amounts.get("memory-mb", 0), amounts.get("vcores", 0)),
            "containers": [self._container(app["id"], number) for number in range(1, app["containers"] + 1)],
        }  # fmt: skip

    def capacities(self):
        """The queues whose capacity has been written."""
        return {update["queue-name"] for write in self.writes for update in write["update-queue"]
                if any(entry["key"] == "capacity" for entry in update["params"]["entry"])}  # fmt: skip


@pytest.fixture
def resume(tmp_path):
    """Start an arbiter with a copy of a state directory and the ResourceManager in its recorded state."""
    with contextlib.ExitStack() as made:

        def one(folder):
            state = state_of(folder, tmp_path / "arbiter" / "state")
            rm = SameManager(state / "journal")
            made.callback(rm.close)
            arbiter = ArbiterProcess(rm.url, tmp_path / "arbiter", CONFIG)
            made.callback(lambda: arbiter.stop() if arbiter.process else None)
            return arbiter.start(), rm

        yield one


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_replay_gives_the_same_ids_queues_and_decisions(folder, tmp_path):
    expected = read(folder, "expected.json")
    done = replay(state_of(folder, tmp_path / "state") / "journal")
    registered = {
        app: (r.name, r.user, r.pool, r.queue, r.weight, r.grace, r.request_id)
        for app, r in done.state.registered.items()
        # This version may process an event on which that version failed.
        if app != f"app_{expected['poison']}"
    }
    names = ("name", "user", "pool", "queue", "weight", "grace", "request_id")
    assert registered == {app: tuple(r[name] for name in names) for app, r in expected["registered"].items()}
    assert done.state.yarn_apps == expected["yarn_apps"]
    assert done.state.enforcement.written == expected["written"]
    decisions = [(decided.seq, command) for decided in done.history for command in decided.commands]
    removed = [(seq, one.app) for seq, one in decisions if type(one).__name__ == "Dismiss"]
    assert removed == [(one["seq"], one["app"]) for one in expected["dismissals"]]
    written = {(seq, queue, weight) for seq, one in decisions if type(one).__name__ == "WriteWeights"
               for queue, weight in one.weights}  # fmt: skip
    then = {(one["seq"], queue, weight) for one in expected["weight_writes"] for queue, weight in one["weights"]}
    assert written <= then
    shares = {one.app: (one.share.seq, one.share.grant.guarantee.as_dict(), one.share.grant.entitlement.as_dict())
            for _, one in decisions if type(one).__name__ == "TellShare"}  # fmt: skip
    known = {app: (share["seq"], share["guarantee"], share["entitlement"])
             for app, share in expected["told_last"].items()}  # fmt: skip
    assert {app: shares[app] for app in expected["registered"] if app in known} == {
        app: known[app] for app in expected["registered"] if app in known
    }


@pytest.mark.parametrize(
    "folder",
    [pytest.param(one, marks=[] if one in CONTINUED else [pytest.mark.matrix]) for one in FOLDERS],
)
def test_an_arbiter_continues_with_the_same_applications_and_their_tokens(folder, resume):
    expected, tokens = read(folder, "expected.json"), read(folder, "tokens.json")
    arbiter, rm = resume(folder)
    assert arbiter.admin_token_file.read_text().strip() == tokens["admin"]
    admin = ArbiterClient(arbiter.url, tokens["admin"])
    eventually(
        lambda: admin.get_cluster().manager_error is None and admin.get_cluster().nodes,
        "it has polled the ResourceManager",
    )
    time.sleep(3)  # several polls, and the rest of the grace periods
    known = {app.app: app for app in admin.list_apps() if app.registered}
    assert {app: (one.name, one.user, one.queue, one.weight) for app, one in known.items()} == {
        app: (one["name"], one["user"], one["queue"], one["weight"]) for app, one in expected["registered"].items()
    }
    assert {app: one.yarn_app for app, one in known.items() if one.yarn_app} == expected["yarn_apps"]
    for app in expected["registered"]:
        mine = ArbiterClient(arbiter.url, tokens["apps"][app])
        assert [one.app for one in mine.list_apps()] == [app]
        assert mine.get_app(app).share is not None
    for user, token in tokens["users"].items():
        own = {app for app, one in expected["registered"].items() if one["user"] == user}
        assert {app.app for app in ArbiterClient(arbiter.url, token).list_apps() if app.registered} == own
    assert rm.capacities() <= set(expected["written"])
    made = admin.register(wire.Register(name="after", request_id="request after", pool="sql"))
    assert made.app not in tokens["apps"]
    for token in tokens["apps"].values():
        with pytest.raises(ArbiterRefusedError):
            ArbiterClient(arbiter.url, token).get_app(made.app)


@pytest.mark.parametrize("version", VERSIONS)
def test_streams_resume_at_their_last_event(resume, version):
    recorded = json.loads((FIXTURES / version / "transcript" / "streams.json").read_text())
    arbiter, _ = resume(f"{version}/plain")
    for name in ("from_far_back", "resumed", "after_the_end"):
        sent = recorded[name]["request"]
        app = sent["path"].split("/")[3]
        token = sent["headers"]["Authorization"].removeprefix("Bearer ")
        body = recorded[name]["answer"]["body"]
        then = [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: ")]
        stream = Stream(arbiter.url, app, token, sent["headers"]["Last-Event-ID"])
        happens_within(lambda stream=stream, then=then: len(stream.events) >= len(then), 10)
        stream.close()
        now = [json.loads(data) for _, _, data in stream.events][: len(then)]
        assert [one.get("seq") for one in now] == [one.get("seq") for one in then]
        assert [one.get("guarantee") for one in now] == [one.get("guarantee") for one in then]
        # Old journals have causes as sentences, which stay, or as values, which are rendered with the current words.
        assert all(
            one["reason"] in (old["reason"], reworded(old["reason"])) for one, old in zip(now, then, strict=True)
        )


@pytest.mark.parametrize("version", VERSIONS)
def test_this_client_reads_recorded_answers_and_streams(version):
    parsed = json.loads((FIXTURES / version / "transcript" / "parsed_by_client.json").read_text())
    models = {"cluster": wire.Cluster, "why": wire.Why}
    for name, model in models.items():
        now = model.model_validate(parsed["answers"][name]).model_dump()
        assert _within(parsed["answers"][name], now)
    for app in parsed["answers"]["apps"]:
        assert _within(app, wire.App.model_validate(app).model_dump())
    for stream in parsed["streams"].values():
        for share in stream["shares"]:
            assert _within(share, wire.Share.model_validate(share).model_dump())


def _within(then, now):
    """Whether `now` contains all of `then`; fields may have been added."""
    if isinstance(then, dict):
        return all(name in now and _within(one, now[name]) for name, one in then.items())
    if isinstance(then, list):
        return len(then) == len(now) and all(map(_within, then, now))
    return then == now


@pytest.mark.parametrize("version", VERSIONS)
def test_rejected_requests_are_answered_as_before(resume, version):
    """Each recorded request that was rejected gets the same status, and at least the same fields."""
    exchanges = json.loads((FIXTURES / version / "transcript" / "http.json").read_text())
    arbiter, _ = resume(f"{version}/plain")
    client = ArbiterClient(arbiter.url, "none")
    for exchange in exchanges:
        request, then = exchange["request"], exchange["answer"]
        if then["status"] < 400 or then["status"] == 404:
            continue
        now = client._session.request(
            request["method"],
            arbiter.url + request["path"],
            data=request["body"],
            headers=request["headers"],
            timeout=20,
        )
        assert now.status_code == then["status"], request
        assert now.json()["problems"][0].keys() >= json.loads(then["body"])["problems"][0].keys()
