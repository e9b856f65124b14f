"""Searches on a real cluster: trials in containers on leased GPUs, whatever is killed, with the same winner."""

import os
import signal
import time
from pathlib import Path

import pytest
import requests

import themis_agent
from tests.eventually import eventually
from tests.html_checks import checked
from tests.leased.intervals import overlaps
from tests.leased.lab import Lab
from tests.searches.lab import TRAIN, Submitted, app, check_progress, check_same_winner

pytestmark = pytest.mark.integration

AM_TOKEN = b"YARN_AM_RM_TOKEN"


@pytest.fixture
def lab(cluster, tmp_path):
    made = Lab(cluster, tmp_path, lease_s=60)
    yield made
    made.close()


@pytest.fixture
def short_lab(cluster, tmp_path):
    """Its leases end soon."""
    made = Lab(cluster, tmp_path, lease_s=15)
    yield made
    made.close()


def winner_alone(folder, searched):
    """The best trial of the same search on this machine."""
    fields = searched.model_dump(exclude_defaults=True, exclude={"name", "command", "space"})
    space = {name: one.model_dump() for name, one in searched.space.items()}
    command = f"python {TRAIN} --rate={{rate}}"
    return themis_agent.run(command, space=space, directory=folder, state=folder / "alone", gpus=2, **fields)


def shown_by_the_resource_manager(submitted):
    """The page at the tracking URL, which is the ResourceManager's proxy."""
    address = submitted.report["trackingUrl"]
    assert f"/proxy/{submitted.yarn_app}/" in address
    page = requests.get(address, timeout=30)
    assert "themis_agent_leases" in requests.get(f"{address}metrics", timeout=30).text
    return checked(page.text)


def test_a_search_finds_the_same_winner_as_on_one_machine(lab, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    more = f"--hold={hold} --hold-at=1"
    searched = app("quadratic", 0.2, tmp_path / "executed", more, algorithm="hyperband", max_steps=3)
    submitted = Submitted(lab, tmp_path / "search", searched)
    submitted.until_steps(1, 1)
    page = shown_by_the_resource_manager(submitted)
    hold.unlink()
    assert "The search goes on" in page.text
    assert "GPUs offered" in page.text
    report = submitted.until_ended()
    assert report["finalStatus"] == "SUCCEEDED", report["diagnostics"]
    state = submitted.state()
    alone = winner_alone(tmp_path, searched)
    assert (state.best.id, state.best.loss) == (alone.best, alone.metric)
    assert f"best: {alone.best}, loss" in report["diagnostics"]
    intervals = submitted.intervals()
    assert not overlaps(intervals)
    assert len({one.cell.partition("/")[0] for one in intervals}) >= 2
    check_progress(submitted)


def running_hosts(submitted):
    """The hosts of trials that run."""
    return {place.host for _, attempt in submitted.state().attempts for place in attempt.places}


def master_host(submitted):
    return submitted.report["amHostHttpAddress"].partition(":")[0]


def tokens(process):
    """The tokens that YARN gave to a process."""
    return Path(process.environ()["HADOOP_TOKEN_FILE_LOCATION"]).read_bytes()


def test_a_search_survives_a_killed_launcher_master_and_node(lab, tmp_path):
    searched = app("killed", 0.5, tmp_path / "executed", algorithm="plain", trials=4, max_steps=60)
    submitted = Submitted(lab, tmp_path / "search", searched)
    submitted.until_steps(4, 3)
    os.kill(submitted.launchers()[0].pid, signal.SIGKILL)
    submitted.until_steps(4, 6)
    running = {one.pid for one in submitted.launchers()}
    assert [AM_TOKEN in tokens(one) for one in (submitted.master(), submitted.launchers()[0])] == [True, False]
    submitted.kill_master()
    submitted.until_steps(4, 9)
    assert running <= {one.pid for one in submitted.launchers()}, "launchers are adopted, not started again"
    host = sorted(running_hosts(submitted) - {master_host(submitted)})[0]
    os.kill(lab.cluster.daemons[f"nm-{host}"], signal.SIGKILL)
    report = submitted.until_ended(150)
    check_same_winner(submitted, report, interruptions=4)


@pytest.mark.matrix
def test_a_search_survives_the_third_death_of_its_master(lab, tmp_path):
    searched = app("thrice", 0.5, tmp_path / "executed", algorithm="plain", trials=3, max_steps=80)
    submitted = Submitted(lab, tmp_path / "search", searched)
    submitted.until_steps(3, 3)
    submitted.kill_master()
    submitted.until_steps(3, 10)
    submitted.kill_attempt(submitted.java())
    submitted.until_steps(3, 20)
    submitted.kill_master()
    check_same_winner(submitted, submitted.until_ended(), interruptions=0)


@pytest.mark.matrix
def test_a_master_that_is_replaced_while_it_is_stopped_changes_nothing(lab, tmp_path):
    searched = app("stopped", 0.5, tmp_path / "executed", algorithm="plain", trials=3, max_steps=80)
    submitted = Submitted(lab, tmp_path / "search", searched)
    submitted.until_steps(3, 3)
    first, address = submitted.master(), submitted.folder.address.read_text()
    host, on_node = master_host(submitted), sum(one.host == master_host(submitted) for one in places(submitted))
    os.kill(first.pid, signal.SIGSTOP)
    try:
        os.kill(lab.cluster.daemons[f"nm-{host}"], signal.SIGKILL)
        eventually(lambda: submitted.folder.address.read_text() != address, "another attempt runs")
        submitted.until_steps(3, 15)
    finally:
        os.kill(first.pid, signal.SIGCONT)
    first.wait(30)
    check_same_winner(submitted, submitted.until_ended(150), interruptions=on_node)


def places(submitted):
    return [place for _, attempt in submitted.state().attempts for place in attempt.places]


@pytest.mark.matrix
def test_the_processes_of_a_gang_meet_from_two_nodes(lab, tmp_path):
    gpus = {"min": 4, "max": 4}
    searched = app("gang", 0, tmp_path / "executed", algorithm="plain", trials=1, max_steps=10, gpus_per_trial=gpus)
    command = f"python {TRAIN.with_name('train_together.py')} --rate={{rate}}"
    submitted = Submitted(lab, tmp_path / "search", searched.model_copy(update={"command": command}))
    report = submitted.until_ended()
    assert report["finalStatus"] == "SUCCEEDED", report["diagnostics"]
    assert "loss -6 at step 10" in report["diagnostics"], "rank 0 heard all others"
    assert len({one.cell.partition("/")[0] for one in submitted.intervals()}) == 2
    assert not overlaps(submitted.intervals())


@pytest.mark.matrix
def test_a_search_ends_without_the_arbiter(lab, tmp_path):
    searched = app("alone", 0.3, tmp_path / "executed", algorithm="plain", trials=3, max_steps=30)
    submitted = Submitted(lab, tmp_path / "search", searched)
    submitted.until_steps(3, 3)
    lab.arbiter.kill()
    try:
        report = submitted.until_ended()
    finally:
        lab.arbiter.start()
    check_same_winner(submitted, report, interruptions=0)
    assert "not deregistered; the arbiter will learn from YARN" in submitted.log.read_text()


@pytest.mark.matrix
def test_trials_go_on_where_the_arbiter_has_lost_its_journal(lab, tmp_path):
    searched = app("recorded", 0.5, tmp_path / "first", algorithm="plain", trials=3, max_steps=60)
    first = Submitted(lab, tmp_path / "recorded", searched)
    first.until_steps(3, 3)
    processes, held = {one.pid for one in first.trials()}, {one.cell for one in first.intervals()}
    lab.arbiter.kill()
    for file in lab.arbiter.state.iterdir():
        if file.name != "secret":
            file.unlink()
    lab.arbiter.start()
    other = app("other", 0.3, tmp_path / "second", algorithm="plain", trials=2, max_steps=20)
    second = Submitted(lab, tmp_path / "other", other)
    eventually(lambda: "registered again, as" in first.log.read_text(), "it is registered again", 60)
    assert {gpu.cell for lease in first.state().leases.values() for gpu in lease.gpus} >= held
    second.until_steps(1, 1, 120)
    assert {one.pid for one in first.trials()} == processes, "they run in the same containers"
    check_same_winner(second, second.until_ended(120), interruptions=0)
    check_same_winner(first, first.until_ended(120), interruptions=0)
    assert not overlaps(sorted(first.intervals() + second.intervals(), key=lambda one: (one.begun, one.cell)))


PHASES = {
    "starting": lambda submitted: eventually(lambda: submitted.attempts(), "a trial is started"),
    "training": lambda submitted: submitted.until_steps(2, 3),
    "ending": lambda submitted: submitted.until_steps(1, submitted.app.max_steps),
}


def kill(submitted, victim):
    """kill -9; returns what starts it again, if nobody else does."""
    lab = submitted.lab
    cluster = lab.cluster
    match victim:
        case "master":
            os.kill(eventually(submitted.master, "there is a master").pid, signal.SIGKILL)
        case "java":
            os.kill(eventually(submitted.java, "there is a JVM").pid, signal.SIGKILL)
        case "launcher":
            os.kill(eventually(submitted.launchers, "there is a launcher")[0].pid, signal.SIGKILL)
        case "trial":
            os.kill(eventually(submitted.trials, "there is a trial")[0].pid, signal.SIGKILL)
        case "node":
            others = set(cluster.spec.hosts) - {master_host(submitted)}
            host = min(running_hosts(submitted) & others, default=min(others))
            os.kill(cluster.daemons[f"nm-{host}"], signal.SIGKILL)
        case "master's node":
            os.kill(cluster.daemons[f"nm-{master_host(submitted)}"], signal.SIGKILL)
        case "manager":
            os.kill(cluster.daemons["rm"], signal.SIGKILL)
            return lambda: cluster.start("rm")
        case "arbiter":
            lab.arbiter.kill()
            return lab.arbiter.start
        case "solver":
            if (solver := lab.solver()) is not None:
                os.kill(solver, signal.SIGKILL)
    return lambda: None


@pytest.mark.matrix
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    "victim", ["master", "java", "launcher", "trial", "node", "master's node", "manager", "arbiter", "solver"]
)
def test_nothing_is_lost_whatever_is_killed(lab, tmp_path, victim, phase):
    searched = app("struck", 0.5, tmp_path / "executed", algorithm="plain", trials=5, max_steps=20)
    submitted = Submitted(lab, tmp_path / "search", searched)
    PHASES[phase](submitted)
    start_again = kill(submitted, victim)
    time.sleep(3)
    start_again()
    check_same_winner(submitted, submitted.until_ended(180), interruptions=5)


@pytest.mark.matrix
@pytest.mark.parametrize("victim", ["master", "other master", "arbiter"])
def test_gpus_change_hands_whatever_is_killed(short_lab, tmp_path, victim):
    """While the first search gives GPUs up: its master, that of the search that waits for them, or the arbiter."""
    many = app("many", 0.5, tmp_path / "first", algorithm="plain", trials=8, max_steps=60)
    first = Submitted(short_lab, tmp_path / "many", many)
    first.until_steps(8, 3)
    few = app("few", 0.5, tmp_path / "second", algorithm="plain", trials=4, max_steps=20)
    second = Submitted(short_lab, tmp_path / "few", few)
    eventually(lambda: any(lease.revoked for lease in first.state().leases.values()), "GPUs are revoked", 90)
    start_again = kill(second, "master") if victim == "other master" else kill(first, victim)
    time.sleep(3)
    start_again()
    second.until_steps(1, 1, 120)
    check_same_winner(second, second.until_ended(180), interruptions=8)
    check_same_winner(first, first.until_ended(240), interruptions=16)
    assert not overlaps(sorted(first.intervals() + second.intervals(), key=lambda one: (one.begun, one.cell)))


def test_a_search_that_fails_says_why_in_yarn(lab, tmp_path):
    searched = app("failing", 0.1, tmp_path / "executed", algorithm="plain", trials=1, max_steps=2, retries=0)
    searched = searched.model_copy(update={"command": "python -c import+no_such_module {rate}"})
    report = Submitted(lab, tmp_path / "search", searched).until_ended()
    assert report["finalStatus"] == "FAILED"
    assert "every trial failed: exit code 1" in report["diagnostics"]
