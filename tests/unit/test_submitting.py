"""Submitting a search: all that is wrong is said at once, and whatever fails, nothing is half-submitted."""

import getpass
import json
import os
import stat
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import themis_agent
from tests.http_servers import CERTIFICATE, RawServer, WebServer, answer, reply
from themis_agent.agent import events
from themis_agent.app_file import read
from themis_agent.cli import cli, watching
from themis_agent.cli.results import print_problems
from themis_agent.live import LiveAgent
from themis_agent.local.folder import Folder
from themis_agent.submitting import applications, client, packages, recent, staging, transaction
from themis_agent.submitting.request import SubmissionError
from themis_agent.yarn import submission
from yarn_plugin import console, files
from yarn_plugin.errors import ReportedError
from yarn_plugin.journal.records import RecordFile

APP = {
    "name": "digits",
    "command": "python train.py --rate={rate}",
    "max_steps": 9,
    "space": {"rate": {"type": "float", "low": 0, "high": 1}},
    "environment": {"files": ["train.py"]},
}
YARN_APP = "application_17_0001"
QUEUES = {
    "type": "capacityScheduler",
    "queueName": "root",
    "queues": {
        "queue": [
            {"queuePath": "root.gpu", "state": "RUNNING"},
            {"queuePath": "root.off", "state": "STOPPED"},
            {"queuePath": "root.many", "state": "RUNNING", "autoCreationEligibility": "flexible"},
        ]
    },
}


def node(host, gpus, memory=4096, vcores=8):
    amounts = {"memory-mb": memory, "vcores": vcores, "yarn.io/gpu": gpus}
    listed = [{"name": name, "value": value} for name, value in amounts.items()]
    total = {"resourceInformations": {"resourceInformation": listed}}
    return {"id": f"{host}:1", "state": "RUNNING", "rack": "/a", "totalResource": total}


def pool(name, queue, **more):
    shown = {
        "policy": "max_min",
        "resources": ["vcores"],
        "capacity": {},
        "apps": 0,
        "grace_s": 5,
        "controller": "share",
    }
    return {"name": name, "queue": queue, **shown, **more}


class World:
    """A ResourceManager and an arbiter. `refuse`: what (method, path below the API) they refuse. `apps`: the state of
    each application that was submitted; `registered`: those that are registered at the arbiter."""

    def __init__(self, folder):
        self.nodes, self.refuse = [node("a", 4), node("b", 2)], set()
        self.pools = [pool("sql", "root.sql"), pool("gpu", "root.gpu", controller="lease")]
        self.apps, self.bodies, self.registered, self.limits = {}, {}, set(), {}
        self.master, self.jobs, self.declared = "N/A:-1", None, []
        self.rm, self.arbiter = WebServer(self._manager), WebServer(self._arbiter)
        self.store, self.home = folder / "store", folder / "home"
        self.store.mkdir()
        self.home.mkdir()
        (self.home / "train.py").write_text("print(1)\n")
        self.token = folder / "token"
        self.token.write_text("secret")

    def close(self):
        self.rm.close()
        self.arbiter.close()

    def _manager(self, asked):
        path = asked.path.removeprefix("/ws/v1/cluster")
        if (asked.method, path) in self.refuse:
            return reply({"RemoteException": {"message": "refused here"}}, 400)
        match asked.method, path:
            case "GET", "/nodes":
                return reply({"nodes": {"node": self.nodes}})
            case "GET", "/scheduler":
                return reply({"scheduler": {"schedulerInfo": QUEUES}})
            case "GET", "/conf":
                return reply({"properties": [{"key": key, "value": value} for key, value in self.limits.items()]})
            case "POST", "/apps/new-application":
                return reply({"application-id": YARN_APP})
            case "POST", "/apps":
                app = asked.body["application-id"]
                self.apps[app], self.bodies[app] = "ACCEPTED", asked.body
                return reply({}, 202)
            case "PUT", _:
                self.apps[path.split("/")[2]] = asked.body["state"]
                return reply({}, 202)
            case "GET", "/apps":
                return reply({"apps": {"app": [self._app(name) for name in self.apps]} if self.apps else None})
        app = path.removeprefix("/apps/")
        return reply({"app": self._app(app)}) if app in self.apps else reply({}, 404)

    def _app(self, name):
        user = {"name": "digits", "user": getpass.getuser(), "queue": "root.gpu", "startedTime": 1}
        user["amRPCAddress"] = self.master
        used = {"resourceInformations": {"resourceInformation": [{"name": "yarn.io/gpu", "value": 3}]}}
        usage = {"resourceUsagesByPartition": [{"partitionName": "", "used": used}]}
        return {"id": name, "state": self.apps[name], "finalStatus": "UNDEFINED", "resourceInfo": usage, **user}

    def _arbiter(self, asked):
        if (asked.method, asked.path) in self.refuse:
            return reply({"problems": [{"field": "x", "expected": "refused here"}]}, 403)
        match asked.method, asked.path:
            case "GET", "/v1/cluster":
                facts = dict.fromkeys(("manager", "manager_error", "manager_version", "enforcement_error"))
                known = {"enforcement": "", "capacity": {}, "least_allocation": {}, "nodes": [], "apps": 0}
                return reply({**facts, **known, "pools": self.pools})
            case "POST", "/v1/apps":
                self.registered.add("app_1")
                made = {"app": "app_1", "pool": "gpu", "queue": "root.gpu", "token": "t", "grace_s": 5, "share": None}
                return reply(made)
            case "PUT", "/v1/apps/app_1/jobs":
                self.jobs = asked.body["jobs"]
                self.declared.append(self.jobs)
                return reply({"app": "app_1", "jobs": [{**job, "declared_at": 1.0} for job in self.jobs]})
        self.registered.discard(asked.path.rpartition("/")[2])
        return reply({})

    def access(self, **more):
        return client.Access(**{"rm": self.rm.url, "arbiter": self.arbiter.url, "token_file": self.token, **more})

    def app(self, **more):
        return read({**APP, "checkpoint": self.store.as_uri(), **more}, "app.toml")

    def submit(self, **more):
        return client.submit(self.app(**more), self.home, self.access(), print)

    def problems(self, access=None, **more):
        with pytest.raises(SubmissionError) as refused:
            client.submit(self.app(**more), self.home, access or self.access(), print)
        assert not self.bodies and not self.registered
        assert list(self.store.iterdir()) == []
        return refused.value.problems


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    small = tmp_path / "small.py"
    small.write_text("")
    for name in ("own_code", "hadoop_jars"):
        monkeypatch.setattr(packages, name, lambda: {"small.py": small})
    monkeypatch.setattr(packages, "dependencies", lambda also=(): {"small.py": small})
    made = World(tmp_path)
    yield made
    made.close()


def test_a_search_is_submitted(world):
    (world.home / "env.zip").write_bytes(b"")
    search = world.submit(environment={"files": ["train.py"], "archives": ["env.zip#env"], "python": "env/bin/python"})
    body, written = world.bodies[YARN_APP], submission.read(search.folder)
    assert (search.application, search.folder) == (YARN_APP, world.store / "digits")
    assert (written.yarn_app, written.arbiter.app, written.resource_manager) == (YARN_APP, "app_1", world.rm.url)
    assert (search.folder / "arbiter-token").read_text() == "t"
    kept = Folder(search.folder).load()[0]
    assert (kept.name, kept.checkpoint) == ("digits", None), "checkpoints are in the folder of the search"
    assert (body["queue"], body["application-type"], body["max-app-attempts"]) == ("root.gpu", "THEMIS", 4)
    assert body["keep-containers-across-application-attempts"] is True
    assert body["attempt-failures-validity-interval"] == 600_000
    localised = [one["key"] for one in body["am-container-spec"]["local-resources"]["entry"]]
    assert localised == ["themis-code", "themis-packages", "themis-jars", "env"]
    assert [one.name for one in written.resources] == ["themis-code", "themis-packages", "train.py", "env"]
    for one in written.resources:
        found = Path(one.url.removeprefix("file://")).stat()
        assert (found.st_size, found.st_mtime_ns // 10**6) == (one.size, one.modified_ms)
    command = body["am-container-spec"]["commands"]["command"]
    assert command.startswith("exec env/bin/python themis-code/themis_agent/yarn/start.py --submission ")
    everything = json.dumps(body) + written.model_dump_json()
    assert sys.prefix not in everything and str(Path(themis_agent.__file__).parent) not in everything
    assert recent.folder_of(YARN_APP) == search.folder


def test_a_search_knows_both_addresses_of_a_pair_of_resource_managers(world):
    addresses = f"http://127.0.0.1:1,{world.rm.url}"
    search = client.submit(world.app(), world.home, world.access(rm=addresses), print)
    assert submission.read(search.folder).resource_manager == addresses


STEPS = [
    ("POST", "/apps/new-application"),
    ("POST", "/apps"),
    ("GET", f"/apps/{YARN_APP}"),
    ("POST", "/v1/apps"),
]


@pytest.mark.parametrize("step", STEPS, ids=" ".join)
def test_a_step_that_is_refused_undoes_those_before(world, step):
    world.refuse = {step}
    with pytest.raises(ReportedError, match="refused here"):
        world.submit()
    is_undone(world)


@pytest.mark.parametrize("step", ["own_code", "staged_archive", "write_private", "write"])
def test_a_step_that_fails_undoes_those_before(world, step, monkeypatch):
    def fails(*arguments, **more):
        raise OSError(28, "No space left on device")

    where = {
        "own_code": packages,
        "staged_archive": transaction,
        "write_private": files,
        "write": submission,
    }[step]
    monkeypatch.setattr(where, step, fails)
    with pytest.raises(SubmissionError, match="no space left on device"):
        world.submit()
    is_undone(world)


def test_an_interrupted_submission_is_undone(world, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(submission, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        world.submit()
    is_undone(world)


def test_an_application_that_yarn_rejects_is_undone(world, monkeypatch):
    monkeypatch.setattr(applications, "get", lambda manager, app: replace(LISTED, state="FAILED", diagnostics="full"))
    with pytest.raises(applications.NotAcceptedError, match=f"YARN did not accept {YARN_APP}: full"):
        world.submit()
    is_undone(world)


def test_jobs_of_the_file_are_declared(world):
    job = {"name": "search", "tenant": "vision", "priority": 3, "alternatives": [{"resources": {"yarn.io/gpu": 8}}]}
    world.submit(jobs=[job])
    assert world.jobs == [job]


def test_trials_on_both_sides_are_checked_and_claim_nothing_before_the_master_runs(world):
    world.pools = [pool("gpu", "root.gpu", controller="ledger")]
    sides = {"gpu": {"speed": 8}, "cpu": {"vcores": 2, "memory_mb": 512}}
    world.submit(**sides)
    (checked, left) = world.declared
    assert [[one["resources"] for one in job["alternatives"]] for job in checked[:1]] == [
        [{"yarn.io/gpu": 1, "vcores": 1, "memory-mb": 2048}, {"vcores": 2, "memory-mb": 512}]
    ]
    assert left == []
    world.refuse = {("PUT", "/v1/apps/app_1/jobs")}
    with pytest.raises(ReportedError, match="refused here"):
        world.submit(**sides, name="other")


def test_a_search_whose_jobs_are_refused_is_not_submitted(world):
    world.refuse = {("PUT", "/v1/apps/app_1/jobs")}
    with pytest.raises(ReportedError, match="refused here"):
        world.submit(jobs=[{"name": "search", "tenant": "speech"}])
    is_undone(world)


def test_what_cannot_be_undone_is_said(world, caplog):
    world.refuse = {("POST", "/v1/apps"), ("PUT", f"/apps/{YARN_APP}/state")}
    with pytest.raises(ReportedError, match="the arbiter refused"):
        world.submit()
    (said,) = caplog.messages
    assert said.startswith(f"{YARN_APP} may run until it finds its submission incomplete: the ResourceManager refused")
    assert not (world.store / "digits").exists()


LISTED = applications.Listed(YARN_APP, "digits", "me", "RUNNING", "UNDEFINED", "root.gpu", 0, 0, "", "")


def is_undone(world):
    assert set(world.apps.values()) <= {"KILLED"}
    assert not world.registered
    assert not (world.store / "digits").exists()
    assert recent.folder_of(YARN_APP) is None


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"checkpoint": None}, "checkpoint: required; must be file:///PATH"),
        ({"checkpoint": "file:///nowhere"}, "checkpoint 'file:///nowhere': cannot be written: no such file"),
        (
            {"gpus_per_trial": {"min": 8, "max": 8}, "memory_mb": 64},
            "gpus_per_trial.min 8: all nodes together have 6 GPUs",
        ),
        ({"memory_mb": 5000}, "memory_mb 5000: 1 GPU on one machine need 5000, the largest container has 4096"),
        (
            {"gpus_per_trial": {"min": 4, "max": 4}},
            "memory_mb 2048: 4 GPUs on one machine need 8192, the largest container has 4096",
        ),
        ({"vcores": 9}, "vcores 9: 1 GPU on one machine need 9, the largest container has 8"),
        ({"environment": {"files": ["train.py", "a.py"]}}, "environment.files 'a.py': no such file"),
        (
            {"environment": {"files": ["train.py", "train.py#a/b"]}},
            "'a/b' cannot be its name in a container's working directory",
        ),
        (
            {"environment": {"files": ["train.py", "hdfs://n/a"]}},
            "environment.files 'hdfs://n/a': must be file:///PATH",
        ),
        ({"environment": {"files": ["train.py", "../home"]}}, "is a directory; pack it"),
        ({"environment": {"files": ["train.py", "./train.py"]}}, "has the name 'train.py' in containers, as environ"),
        (
            {"environment": {"files": ["train.py"], "archives": ["train.py#x"]}},
            "environment.archives 'train.py#x': must be an archive that YARN unpacks",
        ),
        (
            {"environment": {}},
            "command: 'train.py' is a file here, but not in a container; add it to [environment] files",
        ),
        (
            {"environment": {"files": ["train.py"], "python": "env/bin/python"}},
            "environment.python 'env/bin/python': must be a name or a path on the nodes, or be in one of",
        ),
        ({"storage": "nodb://h/d"}, "storage 'nodb://h/d': its driver is not installed"),
        ({"storage": "nodb://me:secret@h/d"}, "storage 'nodb://me:***@h/d': its driver is not installed"),
        (
            {"environment": {"files": ["train.py", "train.py#checkpoint"]}},
            "'checkpoint' cannot be its name in a container's working directory",
        ),
        ({"data": {"urls": ["train.py"]}}, "data.urls 'train.py': must be file:///PATH, on a file system that all"),
        ({"data": {"urls": ["file:///nothing/here"]}}, "data.urls 'file:///nothing/here': no such file"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_one_line(world, changes, problem):
    (found,) = world.problems(**changes)
    assert problem in found


def test_what_others_say_controls_no_terminal(world, capsys):
    assert print_problems(["the ResourceManager refuses: \x1b[2J\nno"]) == 2
    assert capsys.readouterr().err == "themis-agent: the ResourceManager refuses: \\x1b[2J no\n"


def test_all_problems_are_said_at_once(world):
    world.nodes = [node("a", 0)]
    found = world.problems(checkpoint="file:///nowhere", environment={"files": ["a", "b"]})
    assert len(found) == 5
    assert f"ResourceManager {world.rm.url}: no node has GPUs (yarn.io/gpu), which trials need" in found


def test_queues_and_pools(world):
    assert world.problems(world.access(queue="root.sql")) == [
        "--queue 'root.sql': the arbiter leases no GPUs there; it does in root.gpu",
        "--queue 'root.sql': the ResourceManager has no such queue",
    ]
    world.pools = [pool("many", "root.many", controller="lease")]
    assert world.problems(world.access(queue="root.many")) == [
        "--queue 'root.many': is a parent queue; give one below it, such as root.many.NAME"
    ]
    checked = client.checked(world.app(), world.home, world.access())
    assert (checked.queue, checked.pool) == ("root.many.digits", "many")
    world.pools = [pool("off", "root.off", controller="lease")]
    assert world.problems() == ["--queue 'root.off': is stopped"]
    world.pools = [pool("sql", "root.sql")]
    assert world.problems() == [
        f"--arbiter {world.arbiter.url!r}: has no pool of leased GPUs; add one to its --config file"
    ]
    world.pools = [pool(name, f"root.{name}", controller="lease") for name in ("gpu", "off")]
    assert world.problems() == ["--queue: required; the arbiter leases GPUs in root.gpu, root.off"]


def test_a_wrong_queue_says_nothing_about_the_gpus_of_a_partition(world, capsys):
    """Which nodes a search may use follows from its queue. Without a queue that is there, all may count."""
    world.nodes = [{**node("a", 4), "nodeLabels": ["gpu"]}, node("b", 0, vcores=1)]
    assert world.problems(world.access(queue="root.wrong")) == [
        "--queue 'root.wrong': the arbiter leases no GPUs there; it does in root.gpu",
        "--queue 'root.wrong': the ResourceManager has no such queue",
    ]
    assert client.checked(world.app(), world.home, world.access(arbiter=None)) is None
    (found,) = world.problems(world.access(arbiter="http://127.0.0.1:1"))
    assert "no node" not in found
    found = world.problems(world.access(arbiter=None), gpus_per_trial={"min": 8, "max": 8}, memory_mb=64)
    assert found == ["gpus_per_trial.min 8: all nodes together have 4 GPUs"]
    (found,) = world.problems()
    assert found == f"ResourceManager {world.rm.url}: no node without a label has GPUs (yarn.io/gpu), which trials need"


def test_an_absent_cluster_and_an_absent_arbiter_are_one_line_each(world):
    access = world.access(rm="http://127.0.0.1:1", arbiter="http://127.0.0.1:1")
    manager, arbiter = world.problems(access)
    assert manager.startswith("ResourceManager http://127.0.0.1:1: ")
    assert arbiter.startswith("arbiter http://127.0.0.1:1: ")


def test_limits_of_containers_count(world):
    world.limits = {"yarn.scheduler.maximum-allocation-mb": "1000"}
    assert world.problems() == [
        "memory_mb 2048: 1 GPU on one machine need 2048, the largest container has 1000",
        "--master-memory-mb 1024: the largest container has 1000",
    ]


def test_trials_use_the_gpus_that_they_see_where_yarn_isolates_them(world):
    assert not client.checked(world.app(), world.home, world.access()).isolates_gpus
    world.limits = {"yarn.nodemanager.resource-plugins": "yarn.io/fpga, yarn.io/gpu"}
    assert submission.read(world.submit().folder).isolates_gpus


def test_a_store_that_refuses_is_one_line(world, monkeypatch):
    def refuses(**arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuses)
    assert world.problems() == [f"checkpoint {world.store.as_uri()!r}: cannot be written: permission denied"]


def test_a_name_that_is_taken_is_refused_and_kept(world):
    search = world.submit()
    with pytest.raises(SubmissionError) as refused:
        world.submit()
    assert refused.value.problems == [
        f"name 'digits': {search.folder} holds this search already; `themis-agent resume {search.folder}` goes on with"
        " that, --replace (from a program, replace=True) removes it, and another name, such as digits-2, keeps both"
    ]
    with pytest.raises(SubmissionError, match=r"holds a search with another max_steps \(9, now 27\);"):
        world.submit(max_steps=27)
    assert submission.read(search.folder).yarn_app == YARN_APP


def test_a_folder_of_something_else_is_neither_taken_nor_replaced(world):
    mine = world.store / "digits" / "thesis.tex"
    mine.parent.mkdir()
    mine.write_text("")
    for replaces in (False, True):
        with pytest.raises(SubmissionError, match="is not empty, and holds no search; give another name"):
            client.submit(world.app(), world.home, world.access(), print, replaces)
    assert mine.exists()


def test_a_search_that_has_ended_is_replaced(world):
    search = world.submit()
    (search.folder / "checkpoints" / "old").touch()
    with pytest.raises(SubmissionError, match=f"{YARN_APP} still runs its search"):
        client.submit(world.app(max_steps=27), world.home, world.access(), print, True)
    world.apps[YARN_APP] = "KILLED"
    before = sorted(search.folder.rglob("*"))
    world.refuse = {("POST", "/v1/apps")}
    with pytest.raises(ReportedError, match="refused here"):
        client.submit(world.app(max_steps=27), world.home, world.access(), print, True)
    assert sorted(search.folder.rglob("*")) == before, "the earlier search is there as before"
    assert recent.folder_of(YARN_APP) == search.folder
    world.refuse, world.apps[YARN_APP] = set(), "KILLED"
    again = client.submit(world.app(max_steps=27), world.home, world.access(), print, True)
    assert Folder(again.folder).load()[0].max_steps == 27
    assert not (again.folder / "checkpoints" / "old").exists()
    assert [one.name for one in world.store.iterdir() if "digits" in one.name] == ["digits"]
    assert recent.folder_of(YARN_APP) == search.folder


def test_a_name_that_another_submission_takes_meanwhile_stays_its_own(world):
    checked = client.checked(world.app(), world.home, world.access())
    checked.folder.mkdir()
    theirs = checked.folder / "submission.json"
    theirs.write_text("theirs")
    with pytest.raises(SubmissionError, match="digits: directory not empty"):
        transaction.submit(checked)
    assert theirs.read_text() == "theirs"
    assert not world.apps
    assert list(world.store.iterdir()) == [checked.folder]


def test_a_folder_that_is_there_already_becomes_the_users_own(world):
    (world.store / "digits").mkdir(mode=0o777)
    search = world.submit()
    assert stat.S_IMODE(search.folder.stat().st_mode) == 0o700


def test_only_one_of_two_goes_on_with_a_search(world, monkeypatch):
    search = world.submit()
    world.apps[YARN_APP] = "KILLED"
    register, written = transaction._registered, submission.read(search.folder)
    theirs = written.model_copy(update={"yarn_app": "application_17_0002"})

    def meanwhile(*arguments):
        submission.write(search.folder, theirs)
        return register(*arguments)

    monkeypatch.setattr(transaction, "_registered", meanwhile)
    with pytest.raises(SubmissionError, match="somebody else goes on with this search"):
        client.resume(search.folder, world.access(), print)
    assert submission.read(search.folder) == theirs
    assert world.apps == {YARN_APP: "KILLED"}
    assert not world.registered


def test_validate_checks_the_same_and_submits_nothing(world, tmp_path, monkeypatch):
    file = world.home / "app.toml"
    file.write_text(f"""
name = "digits"
command = "python train.py"
max_steps = 9
checkpoint = "{world.store.as_uri()}"
[space]
rate = {{ type = "float", low = 0, high = 1 }}
[data]
urls = ["file:///nothing"]
""")
    command = [
        sys.executable,
        "-c",
        "from themis_agent.cli import main; main()",
        "validate",
        str(file),
        "--rm",
        world.rm.url,
    ]
    arbiter = ["--arbiter", world.arbiter.url, "--token-file", str(world.token)]
    done = subprocess.run([*command, *arbiter], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    warning, *problems = done.stderr.splitlines()
    assert warning.startswith("warning: train.py saves no checkpoints")
    assert problems == [
        "themis-agent: data.urls 'file:///nothing': no such file",
        "themis-agent: command: 'train.py' is a file here, but not in a container; add it to [environment] files",
    ]
    assert not world.bodies and not list(world.store.iterdir())


def test_a_wrong_file_is_one_line_before_anything_is_asked(world, capsys):
    (world.home / "app.toml").write_text('name = "digits"\ncommand = "x"\nmax_steps = 0\nspace = {}\n')
    assert command("submit", world.home / "app.toml", "--rm", world.rm.url, "--arbiter", world.arbiter.url) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "max_steps 0: must be at least 1; space: must have at least 1 item" in line
    assert not world.rm.asked and not world.arbiter.asked


def test_a_search_goes_on_in_a_new_application(world):
    search = world.submit()
    with pytest.raises(SubmissionError, match=f"{YARN_APP} still runs this search"):
        client.resume(search.folder, world.access(), print)
    (world.home / "train.py").unlink()
    world.apps[YARN_APP] = "KILLED"
    world.refuse = {("POST", "/v1/apps")}
    before = (search.folder / "submission.json").read_text()
    with pytest.raises(ReportedError):
        client.resume(search.folder, world.access(), print)
    assert (search.folder / "submission.json").read_text() == before
    world.refuse, world.apps[YARN_APP] = set(), "KILLED"
    client.resume(search.folder, world.access(), print)
    assert world.apps[YARN_APP] == "ACCEPTED"
    assert [one.name for one in submission.read(search.folder).resources][2:] == ["train.py"]


def test_a_search_that_has_ended_does_not_go_on(world):
    search = world.submit()
    world.apps[YARN_APP] = "FINISHED"
    agent = LiveAgent(RecordFile(Folder(search.folder).journal), lambda command: None)
    for event in (events.Begun(world.app().settings()), events.StopRequested()):
        agent.put(event)
    agent.run(lambda state: state is not None and state.finished)
    agent.close()
    Folder(search.folder).token()
    Folder(search.folder).publish("http://127.0.0.1:1", 1)
    with pytest.raises(ReportedError, match="its search has ended already: stopped by the user"):
        search.stop()
    with pytest.raises(SubmissionError, match="has ended: "):
        client.resume(search.folder, world.access(), print)
    assert search.wait(5).reason == search.best().reason


def test_a_search_that_failures_stopped_goes_on(world):
    """It ended as most of its first trials failed; later, when all others have ended, the failed are tried again."""
    search = world.submit(algorithm="plain", trials=6, retries=0)
    world.apps[YARN_APP] = "FINISHED"

    def ended(*happened):
        agent = LiveAgent(RecordFile(Folder(search.folder).journal), lambda command: None)
        *_, last = agent.put_all(happened)
        agent.run(lambda state: last.done() and state.finished)
        agent.close()

    app, _ = Folder(search.folder).load()
    gpus = tuple(events.Gpu(f"m/{number}", "m", "m", "") for number in range(6))
    trials = [f"trial-{number:05}" for number in range(6)]
    sampled = [events.Sampled(name, "{}") for name in trials]
    failed = [events.LauncherEnded(name, 1, 1, ("no data",)) for name in trials[:5]]
    stopped = events.LauncherEnded(trials[5], 1, None)
    ended(events.Begun(app.settings()), events.Granted("l", gpus), *sampled, *failed, stopped)
    client.resume(search.folder, world.access(), print)
    assert not submission.read(search.folder).retry_failed
    world.apps[YARN_APP] = "FINISHED"
    last = events.Reported(trials[5], 2, 9.0, 0.5), events.LauncherEnded(trials[5], 2, 0)
    ended(events.Restarted(reopens=True), *last)
    with pytest.raises(SubmissionError, match="has ended: all trials have ended; --retry-failed tries those again"):
        client.resume(search.folder, world.access(), print)
    client.resume(search.folder, world.access(), print, retry_failed=True)
    assert submission.read(search.folder).retry_failed


def test_the_handle(world):
    search = world.submit()
    assert (search.status().state, search.status().gpus) == ("ACCEPTED", 3)
    assert search.best().best is None
    assert YARN_APP in search._repr_html_()
    with pytest.raises(TimeoutError):
        search.wait(timeout=0)
    search.stop(kill=True)
    assert search.wait().reason == f"YARN ended {YARN_APP} as KILLED"
    with pytest.raises(ReportedError, match="holds no search that has begun"):
        search.stop()


def command(*words):
    return console.run(cli, "themis-agent", [str(word) for word in words])


def test_list_shows_the_searches_of_the_cluster(world, capsys):
    world.submit()
    assert command("list", "--rm", world.rm.url) == 0
    (heading, line) = capsys.readouterr().out.splitlines()
    assert heading.split()[:5] == ["id", "name", "state", "user", "trials"]
    assert line.split() == [YARN_APP, "digits", "ACCEPTED", getpass.getuser(), "–", "3", "–"]
    world.apps[YARN_APP] = "KILLED"
    command("list", "--rm", world.rm.url)
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 1
    assert said.err == "1 search has ended: --all lists it too\n"
    command("list", "--rm", world.rm.url, "--all", "--json", world.home / "list.json")
    (listed,) = json.loads((world.home / "list.json").read_text())
    assert (listed["id"], listed["folder"], listed["trials"]) == (YARN_APP, str(world.store / "digits"), {})


def test_a_search_whose_journal_is_of_a_later_version_is_listed_with_the_others(world, capsys):
    search = world.submit()
    records = RecordFile(Folder(search.folder).journal)
    records.append({"format": 99})
    records.close()
    assert console.run(cli, "themis-agent", ["list", "--rm", world.rm.url]) == 0
    assert YARN_APP in capsys.readouterr().out


def test_stop_asks_the_agent_with_the_token_of_the_folder(world, capsys):
    search, asked = world.submit(), []
    token = Folder(search.folder).token()
    agent = WebServer(lambda one: asked.append((one.method, one.path, one.token)) or reply({}, 204))
    Folder(search.folder).publish(agent.url, 1)
    world.apps[YARN_APP], world.master = "RUNNING", agent.url.removeprefix("http://")
    for words in ((YARN_APP,), (search.folder,), (YARN_APP, "--for-good")):
        assert command("stop", *words) == 0
    agent.close()
    bearer = f"Bearer {token}"
    assert asked == [("POST", f"/v1/{what}", bearer) for what in ("suspend", "suspend", "stop")]
    assert capsys.readouterr().out.splitlines() == [
        f"{YARN_APP} is being suspended: its trials save checkpoints; resume it with: themis-agent resume"
        f" {search.folder}",
        f"{search.folder} is being suspended: its trials save checkpoints; resume it with: themis-agent resume"
        f" {search.folder}",
        f"{YARN_APP} is stopping for good: its trials save checkpoints",
    ]
    assert command("stop", search.folder) == 1
    assert "does not answer; use --kill" in capsys.readouterr().err
    assert command("stop", "--kill", YARN_APP) == 0
    assert world.apps[YARN_APP] == "KILLED"
    assert command("stop", "--kill", YARN_APP) == 0
    assert capsys.readouterr().out.splitlines() == [f"YARN is killing {YARN_APP}", f"{YARN_APP} had ended before"]


@pytest.fixture
def agent():
    """In place of an agent; `asked`: what it was."""
    made = WebServer(lambda one: reply({}, 204))
    yield made
    made.close()


def test_the_token_of_a_search_is_sent_to_its_application_master_alone(world, capsys, monkeypatch, agent):
    search = world.submit()
    Folder(search.folder).token()
    Folder(search.folder).publish(agent.url, 1)

    def refusal():
        assert command("stop", search.folder) != 0
        (line,) = capsys.readouterr().err.splitlines()
        return line

    assert "is ACCEPTED, its master is being started; try again, or use --kill" in refusal()
    world.apps[YARN_APP], world.master = "RUNNING", "node-1:4711"
    assert f"has the agent at {agent.url}, but YARN says that it is at node-1:4711" in refusal()
    world.master = agent.url.removeprefix("http://")
    Folder(search.folder).address.chmod(0o666)
    assert "everybody can write agent.json; chmod o-w" in refusal()
    Folder(search.folder).address.chmod(0o644)
    with monkeypatch.context() as patched:
        patched.setattr(os, "getuid", lambda: search.folder.stat().st_uid + 1)
        assert "is another user's" in refusal()
    world.apps[YARN_APP] = "FINISHED"
    assert f"{YARN_APP} has ended already: UNDEFINED" in refusal()
    del world.apps[YARN_APP]
    assert f"{YARN_APP}: ResourceManager {world.rm.url} does not know it" in refusal().replace("'", "")
    assert not agent.asked


def test_an_application_that_yarn_does_not_know_is_not_killed(world, capsys):
    assert command("stop", "--kill", "application_1_9", "--rm", world.rm.url) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"APPLICATION 'application_1_9': ResourceManager {world.rm.url} does not know it" in line


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("application_1_1",), "was not submitted from here; give its folder, or --kill and --rm URL"),
        (("application_1_1", "--kill"), "--rm: required with --kill"),
        (
            ("application_1_1", "--kill", "--for-good"),
            "--for-good: not with --kill",
        ),
        (("EMPTY",), "holds no search that has begun"),
        (("EMPTY", "--kill"), "holds no search that was submitted"),
    ],
)
def test_what_cannot_be_stopped_is_one_line(world, capsys, words, problem):
    words = [str(world.home) if word == "EMPTY" else word for word in words]
    assert command("stop", *words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert problem in line


def test_staged_archives_are_made_once_and_named_by_what_is_in_them(tmp_path):
    one = tmp_path / "one.py"
    one.write_text("1")
    folder = staging.staging_folder(tmp_path, tmp_path)
    first = staging.staged_archive(folder, "code", {"a/one.py": one}, "code")
    made = Path(first.url.removeprefix("file://")).stat()
    assert staging.staged_archive(folder, "code", {"a/one.py": one}, "code") == first
    assert Path(first.url.removeprefix("file://")).stat().st_ino == made.st_ino
    assert stat.S_IMODE(made.st_mode) == 0o644
    # Another submission at the same time has not seen it and writes it too: YARN must find the same.
    Path(first.url.removeprefix("file://")).unlink()
    assert staging.staged_archive(folder, "code", {"a/one.py": one}, "code") == first
    one.write_text("2")
    other = staging.staged_archive(folder, "code", {"a/one.py": one}, "code")
    assert other.url != first.url
    assert {path.suffix for path in folder.iterdir()} == {".zip"}
    with zipfile.ZipFile(other.url.removeprefix("file://")) as archive:
        assert archive.read("a/one.py") == b"2"


def test_code_that_somebody_else_staged_is_not_run(tmp_path, monkeypatch):
    foreign = tmp_path / f".staging-{os.getuid()}"
    foreign.mkdir()
    monkeypatch.setattr(Path, "lstat", lambda path: SimpleNamespace(st_uid=os.getuid() + 1))
    with pytest.raises(PermissionError, match="belongs to another user"):
        staging.staging_folder(tmp_path, tmp_path)


def test_a_staging_folder_that_somebody_else_links_is_left_alone(tmp_path, monkeypatch):
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    link = tmp_path / f".staging-{os.getuid()}"
    link.symlink_to(private)
    owner = SimpleNamespace(st_uid=os.getuid() + 1)
    monkeypatch.setattr(Path, "lstat", lambda path: owner)
    with pytest.raises(PermissionError, match="belongs to another user"):
        staging.staging_folder(tmp_path, tmp_path)
    assert stat.S_IMODE(private.stat().st_mode) == 0o700


def test_what_everybody_can_read_is_public(tmp_path):
    inside = tmp_path / "open" / "file"
    inside.parent.mkdir()
    inside.write_text("")
    inside.chmod(0o644)
    # The folders of tests are closed to others.
    assert not staging.is_public(inside)
    assert staging.is_public(Path("/etc/passwd"))


def test_the_staged_packages_are_enough_for_the_agent_and_need_nothing_of_this_environment(tmp_path):
    for name, content in (("code", packages.own_code()), ("packages", packages.dependencies())):
        staged = staging.staged_archive(tmp_path, name, content, name)
        with zipfile.ZipFile(staged.url.removeprefix("file://")) as archive:
            archive.extractall(tmp_path / name)
    modules = [
        f"themis_agent.{name}"
        for name in ("yarn.application_master", "yarn.gateway", "yarn.submission", "trial.launcher", "local.driver")
    ]
    script = f"import sys, {', '.join(modules)}\nprint(*(getattr(m, '__file__', None) for m in sys.modules.values()))"
    path = f"{tmp_path}/code:{tmp_path}/packages"
    done = subprocess.run(
        [sys.executable, "-S", "-c", script],
        cwd=tmp_path,
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    site = str(Path(pytest.__file__).parents[1])
    assert not [
        file for file in done.stdout.split() if file.startswith((site, str(Path(themis_agent.__file__).parent)))
    ]


def test_a_database_driver_is_staged_too():
    assert packages.drivers("sqlite:///a.db") == []
    assert packages.drivers("a.log") == []
    with pytest.raises(packages.NotInstalledError, match="storage 'nodb://h/d': its driver is not installed"):
        packages.drivers("nodb://h/d")


def test_the_status_of_a_search_that_has_not_begun_is_what_it_waits_for(world, capsys, monkeypatch):
    search = world.submit()
    assert command("status", search.folder, "--json", world.home / "status.json") == 0
    said = f"waiting: the search has not begun; {YARN_APP} is ACCEPTED"
    assert capsys.readouterr().out.splitlines() == [said]
    assert json.loads((world.home / "status.json").read_text())["trials"] == []

    def begin(seconds):
        agent = LiveAgent(RecordFile(Folder(search.folder).journal), lambda command: None)
        for event in (events.Begun(world.app().settings()), events.StopRequested()):
            agent.put(event)
        agent.run(lambda state: state is not None and state.finished)
        agent.close()

    with monkeypatch.context() as patched:
        patched.setattr(watching.time, "sleep", begin)
        assert command("status", search.folder, "--watch") == 0
    first, *happened = capsys.readouterr().out.splitlines()
    assert first == said
    assert any("is over: stopped by the user" in line for line in happened)


def test_the_status_of_a_search_that_will_not_begin_is_an_error(world, capsys):
    search = world.submit()
    world.apps[YARN_APP] = "FAILED"
    assert command("status", search.folder, "--watch") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"has not begun, and {YARN_APP} has ended: UNDEFINED; `themis-agent resume {search.folder}`" in line


def test_certificates_reach_nodes_whatever_is_written_beside_them(tmp_path):
    (tmp_path / "ca.pem").write_bytes("# Büro\n".encode("latin-1") + b"-----BEGIN CERTIFICATE-----\n")
    arbiter = SimpleNamespace(url="https://arbiter", verify=str(tmp_path / "ca.pem"))
    (tmp_path / "search").mkdir()
    copy = transaction._certificates(arbiter, tmp_path / "search")
    assert Path(copy).read_bytes().endswith(b"\n-----BEGIN CERTIFICATE-----\n")


@pytest.mark.parametrize("words", [("status",), ("status", "--watch")])
def test_the_status_of_a_search_trusts_the_certificates_that_it_is_given(world, capsys, words):
    search = world.submit()
    ended = {"app": {**world._app(YARN_APP), "state": "FAILED", "diagnostics": "no room"}}
    server = RawServer(answer(json.dumps(ended)), tls=True)
    try:
        written = submission.read(search.folder).model_copy(update={"resource_manager": server.url})
        submission.write(search.folder, written)
        assert command(words[0], search.folder) == 0
        assert "certificate verify failed" in capsys.readouterr().out
        assert command(*words, search.folder, "--ca-file", CERTIFICATE) == 2
        assert "has ended: no room" in capsys.readouterr().err
    finally:
        server.close()
