"""The application master of a search, with containers as processes of this machine and without an arbiter."""

import json
import sys
import threading
import time
from pathlib import Path

import pytest
import requests

from tests.fake_yarn import FakeYarn
from tests.sampled import one_in
from themis_agent.agent import events
from themis_agent.agent.cell_names import slot_name
from themis_agent.agent.commands import DeclareTrials, ReleaseGpus, SendSlowdown, SendSpeed
from themis_agent.app_file import read
from themis_agent.local.folder import Folder
from themis_agent.submitting import stopping
from themis_agent.trial.wire import AgentAddress
from themis_agent.yarn import driver, launches, main
from themis_agent.yarn.submission import ARBITER_TOKEN, ArbiterAccess, ContainerSize, Submission
from themis_agent.yarn.takeover import SupersededAttemptError

TRAIN = Path(__file__).parents[1] / "data" / "train_quadratic.py"


class Leases:
    """In place of the arbiter: two GPUs, at once, of one node or of `hosts`."""

    hosts = ("node", "node")

    def __init__(self, access, token, translation, put, check, answers, max_gpus, alternatives=(), recovery=None):
        self.put = put
        self.said = []

    def start(self):
        gpus = tuple(
            events.Gpu(f"{host}/{number}", host, host, "", host, number) for number, host in enumerate(self.hosts)
        )
        self.put(events.Granted("lease-1", gpus))

    def say(self, command):
        self.said.append(command)

    def leave(self, wait_s):
        self.left = True
        return True

    def check(self):
        pass


class Parts(Leases):
    """In place of the arbiter: two parts of one GPU."""

    def start(self):
        for number in range(2):
            part = events.Gpu(f"node/0#worker-{number}", "node", "node", "", "node")
            self.put(events.Granted(f"lease-{number}", (part,)))


@pytest.fixture
def yarn(tmp_path, monkeypatch):
    monkeypatch.setattr(main, "ArbiterLink", Leases)
    # Launchers and nodes are asked more often than in a cluster: the tests wait for them.
    for module, name in ((driver, "BEAT_S"), (driver, "IDLE_BEAT_S"), (launches, "HEARTBEAT_S")):
        monkeypatch.setattr(module, name, 0.1)
    made = FakeYarn(tmp_path)
    yield made
    made.close()


class Attempt:
    """An attempt of the master of a search, in a thread."""

    def __init__(self, yarn, number=1, before=0, registered_as="app-1", folder=None, **fields):
        root, self.hold = yarn.folder / "search", yarn.folder / "hold"
        self.executed, self.folder, self.problem = yarn.folder / "executed", folder or Folder(root), None
        command = f"python {TRAIN} --rate={{rate}} --executed={self.executed} --hold={self.hold}"
        command += f" --step-s={fields.pop('step_s', 0.0)} --hold-at={fields.pop('hold_at', 5)}"
        rates = {"rate": {"type": "float", "low": 0.1, "high": 0.9}}
        known = {"name": "quadratic", "algorithm": "plain", "trials": 2, "max_steps": 5, "grace_s": 5, "space": rates}
        app = read({**known, "command": command, **fields}, "app")
        self.folder.begin(app, root)
        self.folder.write(self.folder.root / ARBITER_TOKEN, "token")
        submission = Submission(
            yarn_app="application_1_0001",
            resource_manager="",
            arbiter=ArbiterAccess(url="", app=registered_as),
            python=sys.executable,
            container=ContainerSize(memory_mb=128),
            attempts_before=before,
        )
        self.search = main.Search(self.folder, app, submission, number, "127.0.0.1", 0.0)
        self._thread = threading.Thread(target=self._run, args=(yarn.master(number),), daemon=True)
        self._thread.start()

    def _run(self, master):
        try:
            self.search.run(master)
        except Exception as problem:  # noqa: BLE001 - for the test to look at
            self.problem = problem

    def join(self, limit_s=180):
        self._thread.join(limit_s)
        assert not self._thread.is_alive()
        return self

    def steps(self):
        found = {}
        for line in self.executed.read_text().splitlines() if self.executed.exists() else ():
            rate, step, _ = json.loads(line)
            found.setdefault(rate, []).append(step)
        return list(found.values())

    def until(self, condition, limit_s=120):
        deadline = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < deadline
            assert self.problem is None, self.problem
            time.sleep(0.05)

    def until_steps(self, number):
        """Wait until each of two trials has executed so many steps."""
        self.until(lambda: len(self.steps()) == 2 and min(map(len, self.steps())) >= number)


@pytest.fixture
def held(yarn):
    """A file: while it exists, no trial ends by itself, however slow the machine."""
    file = yarn.folder / "hold"
    file.touch()
    return file


def test_a_search_runs_in_containers_and_ends_the_application(yarn):
    attempt = Attempt(yarn).join()
    assert attempt.problem is None
    ((succeeded, message),) = yarn.ended
    assert succeeded
    assert message.startswith("all trials have ended; best: trial-0000")
    assert attempt.steps() == [[1, 2, 3, 4, 5]] * 2
    specs = sorted(attempt.folder.root.glob("trials/*/epoch-1/launcher-0.json"))
    assert [json.loads(one.read_text())["devices"] for one in specs] == [["0"], ["1"]]


class SideLeases(Leases):
    """In place of the arbiter: a GPU for the first trial, a slot of cores for the second."""

    def start(self):
        self.grant("lease-1", "trial-00000", "node/0")
        self.grant("lease-2", "trial-00001", slot_name("node", "lease-2"))

    def grant(self, lease, trial, cell, is_sample=False):
        gpu = events.Gpu(cell, "node", "node", "", "node")
        self.put(events.Granted(lease, (gpu,), trial=trial, is_sample=is_sample))


def test_a_trial_is_moved_from_a_slot_of_cores_to_a_gpu_and_goes_on_from_its_checkpoint(yarn, held, monkeypatch):
    monkeypatch.setattr(main, "ArbiterLink", SideLeases)
    attempt = Attempt(yarn, step_s=0.1, max_steps=15, gpu={"speed": 5}, cpu={"env": {"OMP_NUM_THREADS": "1"}})
    attempt.until_steps(4)
    link = attempt.search._link
    link.put(events.Revoked("lease-2", attempt.search._agent.now() + 5))
    attempt.until(lambda: ReleaseGpus("lease-2", ()) in link.said)
    held.unlink()
    link.grant("lease-3", "trial-00001", "node/1")
    assert attempt.join().problem is None
    assert attempt.steps() == [list(range(1, 16))] * 2, "no step is lost"
    specs = [
        json.loads(one.read_text()) for one in sorted(attempt.folder.root.glob("trials/*/epoch-*/launcher-0.json"))
    ]
    assert [(one["trial"][-1], one["env"]["THEMIS_SIDE"]) for one in specs] == [
        ("0", "gpu"),
        ("1", "cpu"),
        ("1", "gpu"),
    ]
    assert [one.get("env", {}).get("OMP_NUM_THREADS") for one in specs] == [None, "1", None]
    declared = [[job.trial for job in one.jobs] for one in link.said if isinstance(one, DeclareTrials)]
    assert declared[0] == ["trial-00000", "trial-00001"]


class SampleLeases(SideLeases):
    """In place of the arbiter: samples on both sides for the only trial; a GPU when both are answered."""

    def start(self):
        self.grant("sample-1", "trial-00000", "node/0", is_sample=True)
        self.grant("sample-2", "trial-00000", slot_name("node", "sample-2"), is_sample=True)

    def say(self, command):
        super().say(command)
        if command == ReleaseGpus("sample-2", ()):
            self.grant("lease-3", "trial-00000", "node/0")


def test_samples_are_answered_and_no_step_of_them_is_executed_again(yarn, monkeypatch):
    monkeypatch.setattr(main, "ArbiterLink", SampleLeases)
    attempt = Attempt(yarn, step_s=0.3, max_steps=9, trials=1, gpu={}, cpu={}).join(90)
    measured = [one for one in attempt.search._link.said if isinstance(one, SendSpeed) and one.lease]
    assert [(one.lease, one.is_slot) for one in measured] == [("sample-1", False), ("sample-2", True)]
    assert all(one.seconds > 0.3 * one.steps for one in measured)
    assert attempt.steps() == [list(range(1, 10))]
    assert len(list(attempt.folder.root.glob("trials/*/epoch-*"))) == 3


def test_a_later_attempt_adopts_the_launchers_and_the_earlier_one_ends(yarn, held):
    first = Attempt(yarn, step_s=0.1, max_steps=20)
    first.until_steps(3)
    second = Attempt(yarn, 2, step_s=0.1, max_steps=20)
    assert isinstance(first.join().problem, SupersededAttemptError | OSError)
    held.unlink()
    assert second.join().problem is None
    assert len(yarn.started) == 2
    assert second.steps() == [list(range(1, 21))] * 2
    assert [one[0] for one in yarn.ended] == [True]
    assert AgentAddress.model_validate_json(second.folder.address.read_text()).attempt == 2


SHARING = {"step_s": 0.15, "max_steps": 30, "sharing": {"computing": 0.5, "memory": 0.4}}


def test_trials_that_share_a_gpu_run_in_one_container(yarn, monkeypatch):
    monkeypatch.setattr(main, "ArbiterLink", Parts)
    attempt = Attempt(yarn, **SHARING).join()
    assert attempt.problem is None
    assert yarn.ended[0][0]
    assert len(yarn.started) == 1
    assert attempt.steps() == [list(range(1, 31))] * 2
    told = [one for one in attempt.search._link.said if isinstance(one, SendSlowdown)]
    assert "worker-0" in {one.job for one in told}


def test_a_later_attempt_adopts_the_host_of_a_shared_gpu(yarn, held, monkeypatch):
    monkeypatch.setattr(main, "ArbiterLink", Parts)
    first = Attempt(yarn, hold_at=25, **SHARING)
    first.until_steps(3)
    second = Attempt(yarn, 2, hold_at=25, **SHARING)
    first.join()
    held.unlink()
    assert second.join().problem is None
    assert (len(yarn.started), yarn.ended[0][0]) == (1, True)
    assert second.steps() == [list(range(1, 31))] * 2


def test_a_user_stops_a_search(yarn):
    attempt = Attempt(yarn, step_s=0.2, max_steps=1000)
    attempt.until_steps(5)
    url = AgentAddress.model_validate_json(attempt.folder.address.read_text()).url
    assert requests.post(f"{url}/v1/stop", timeout=60).status_code == 401
    page = requests.get(yarn.tracking_url, timeout=60)
    assert "The search goes on: 2 running." in page.text
    assert requests.get(f"{url}/", timeout=60).status_code in (401, 404)
    stopping.stop(attempt.folder.root, None, None, for_good=True)
    attempt.join()
    assert yarn.ended[0][1].startswith("stopped by the user; best:")


def test_a_search_that_is_stopped_is_resumed_where_it_was(yarn, held):
    first = Attempt(yarn, step_s=0.1, max_steps=12)
    first.until_steps(4)
    stopping.stop(first.folder.root, None, None)
    assert first.join().problem is None
    assert not yarn.processes
    ((succeeded, message),) = yarn.ended
    assert (succeeded, message) == (None, f"suspended; `themis-agent resume {first.folder}` continues it")
    assert first.search._link.left
    held.unlink()
    second = Attempt(yarn, 1, before=1, registered_as="app-2", step_s=0.1, max_steps=12).join()
    assert yarn.ended[1][0] is True
    assert second.steps() == [list(range(1, 13))] * 2, "every trial has saved a checkpoint of its last step"


@pytest.mark.usefixtures("held")
def test_a_search_that_is_being_suspended_stays_so_when_yarn_starts_its_master_again(yarn):
    first = Attempt(yarn, step_s=0.05, max_steps=10)
    first.until_steps(2)
    # As soon as that is decided: before its next heartbeat, and before it could end.
    first.search._agent.put(events.Suspended()).add_done_callback(lambda _: setattr(yarn, "attempt", 5))
    assert isinstance(first.join().problem, OSError)
    for container in yarn.processes.values():
        container.kill()
        container.wait()
    second = Attempt(yarn, 6, step_s=0.05, max_steps=10).join()
    assert second.problem is None
    assert (yarn.ended[0][0], len(yarn.started)) == (None, 2)


def test_a_launcher_that_is_killed_is_started_again_from_its_checkpoint(yarn, held):
    attempt = Attempt(yarn, step_s=0.2, max_steps=15)
    attempt.until_steps(5)
    next(iter(yarn.processes.values())).kill()
    held.unlink()
    attempt.join()
    assert attempt.problem is None
    assert yarn.ended[0][0]
    for steps in attempt.steps():
        assert sorted(set(steps)) == list(range(1, 16))
        assert len(steps) <= 15 + 1


def test_a_search_whose_commands_fail_says_why(yarn):
    attempt = Attempt(yarn, command="python -c import+no_such_module {rate}", retries=0).join()
    assert attempt.problem is None
    ((succeeded, message),) = yarn.ended
    assert not succeeded
    assert message == "every trial failed: exit code 1: SyntaxError: invalid syntax"


def test_a_search_that_failures_stopped_goes_on_in_another_application(yarn):
    """And not when YARN starts its master again by itself."""
    command = f"sh -c '[ -e {yarn.folder}/fixed ] && echo step=5 loss={{rate}}'"
    fields = {"command": command, "trials": 6, "retries": 0}
    first = Attempt(yarn, **fields).join()
    assert first.problem is None
    assert yarn.ended[0][1].startswith("5 of the first 5 trials that ended failed; the last one: exit code 1")
    (yarn.folder / "fixed").touch()
    Attempt(yarn, 2, **fields).join()
    assert yarn.ended[1] == yarn.ended[0]
    Attempt(yarn, 1, before=2, registered_as="app-2", **fields).join()
    # The one that was left, which any of them may be, as two run at the same time.
    assert yarn.ended[2][1].startswith("all trials have ended; best: trial-0000")


def test_what_a_launcher_reported_to_nobody_counts_when_an_agent_is_back(yarn, held):
    first = Attempt(yarn, step_s=0.1, max_steps=12)
    first.until_steps(3)
    first.folder.publish("http://127.0.0.1:1", 5)
    yarn.attempt = 5
    assert isinstance(first.join().problem, SupersededAttemptError | OSError)
    held.unlink()
    for container in yarn.processes.values():
        assert container.wait(120) == 0
    second = Attempt(yarn, 6, step_s=0.1, max_steps=12).join()
    assert second.problem is None
    assert len(yarn.started) == 2, "no trial is started again"
    assert second.steps() == [list(range(1, 13))] * 2
    assert "at step 12 with" in yarn.ended[0][1]


def test_a_gang_has_a_launcher_on_each_host_and_its_processes_meet(yarn, monkeypatch):
    monkeypatch.setattr(Leases, "hosts", ("127.0.0.1", "localhost"))
    command = f"python {TRAIN.with_name('train_together.py')} --rate={{rate}}"
    attempt = Attempt(yarn, command=command, trials=1, gpus_per_trial={"min": 2, "max": 2}).join()
    assert attempt.problem is None
    assert [one.host for one in yarn.started] == ["127.0.0.1", "localhost"]
    specs = [json.loads(one.read_text()) for one in sorted(attempt.folder.root.glob("trials/*/epoch-1/launcher-*"))]
    assert [(one["ranks"], one["devices"]) for one in specs] == [([0], ["0"]), ([1], ["1"])]
    assert "loss -1 at step 5" in yarn.ended[0][1]


def test_a_node_that_starts_nothing_is_tried_again(yarn):
    yarn.refuses = True
    attempt = Attempt(yarn, trials=1)
    attempt.until(lambda: (attempt.folder.root / "trials/trial-00000/epoch-2").exists())
    yarn.refuses = False
    attempt.join()
    assert yarn.ended[0][0]
    assert attempt.steps() == [[1, 2, 3, 4, 5]]


def test_a_gpu_is_given_back_when_the_container_on_it_has_ended(yarn, held):
    attempt = Attempt(yarn, step_s=0.1, max_steps=20)
    attempt.until_steps(3)
    link, running = attempt.search._link, dict(yarn.processes)
    link.put(events.Revoked("lease-1", attempt.search._agent.now() + 5, ("node/1",)))
    attempt.until(lambda: ReleaseGpus("lease-1", ("node/1",)) in link.said)
    assert len([one for one in running.values() if one.poll() is None]) == 1
    held.unlink()
    attempt.join()
    assert yarn.ended[0][0]
    assert len(yarn.started) == 3, "the trial went on when the other GPU was free"
    for steps in attempt.steps():
        assert sorted(set(steps)) == list(range(1, 21))
        assert len(steps) <= 20 + 1


@one_in(2, "number", [1, 2], ids=["first attempt", "the first one died before it wrote its restart"])
def test_a_search_that_goes_on_in_another_application_has_no_lease_of_the_one_before(yarn, held, monkeypatch, number):
    first = Attempt(yarn, step_s=0.05, max_steps=10)
    first.until_steps(3)
    # The master first: one that sees its containers end starts others.
    yarn.attempt = 5
    assert isinstance(first.join().problem, OSError)
    for container in yarn.processes.values():
        container.kill()
        container.wait()
    yarn.processes.clear()
    held.unlink()
    grant = Leases.start
    monkeypatch.setattr(Leases, "start", lambda self: None)
    second = Attempt(yarn, number, before=1, registered_as="app-2", step_s=0.05, max_steps=10)
    second.until(lambda: hasattr(second.search, "_agent") and not second.search._agent.state.leases)
    second.until(lambda: not any(second.search._agent.state.attempts))
    assert len(yarn.started) == 2, "nothing is started without a lease"
    # A new arbiter may give a lease the name of an earlier one.
    grant(second.search._link)
    assert second.join().problem is None
    assert yarn.ended[0][0]
    assert len(yarn.started) == 4


@pytest.mark.parametrize(
    ("environment", "waited_s"),
    [({"APP_SUBMIT_TIME_ENV": "1700000000500"}, 9.5), ({"APP_SUBMIT_TIME_ENV": "1700000011000"}, 0.0), ({}, 0.0)],
    ids=["earlier", "by a clock that is ahead", "unknown"],
)
def test_a_search_knows_how_long_it_has_waited(environment, waited_s):
    assert main.since_submission(environment, 1_700_000_010.0) == waited_s
