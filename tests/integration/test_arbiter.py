"""The arbiter on a real cluster: the shares that it sends, the weights that it writes, and recovery after kills."""

import os
import signal
import threading
import time

import pytest
import requests

from tests.eventually import eventually
from tests.integration.arbiter_process import CONFIG, ArbiterProcess, check_journal, run
from tests.integration.sleepers import Sleepers
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, ArbiterError, new_request_id
from yarn_plugin.drive.replay import rerun, rerun_records
from yarn_plugin.journal.records import read_records

pytestmark = pytest.mark.integration


@pytest.fixture
def yarn(cluster):
    sleepers = Sleepers(cluster.rm_url)
    sleepers.kill_all()
    yield sleepers
    sleepers.kill_all()


@pytest.fixture(scope="module")
def shared_arbiter(shared_cluster, tmp_path_factory):
    made = ArbiterProcess(shared_cluster.rm_url, tmp_path_factory.mktemp("arbiter"))
    yield made
    if made.process is not None:
        assert made.stop() == 0
        assert "Traceback" not in made.log()


@pytest.fixture
def arbiter(yarn, shared_arbiter):
    """The running arbiter with an empty pool; started again if a test has killed it."""
    if shared_arbiter.process is None or shared_arbiter.process.poll() is not None:
        shared_arbiter.start()
    eventually(lambda: not shared_arbiter.admin().list_apps(), "the pool is empty")
    return shared_arbiter


@pytest.fixture
def register(arbiter):
    """Registers applications and follows them."""
    followers = []

    def one(name, **more):
        followers.append(arbiter.register(name, **more))
        return followers[-1]

    yield one
    for follower in followers:
        follower.close()
        arbiter.admin().deregister(follower.app)


def guaranteed(fraction):
    return lambda share: abs(share.guarantee.fraction - fraction) < 0.001


def test_shares_are_sent_on_arrival_and_end_and_weights_follow_after_the_grace_period(arbiter, yarn, register):
    a = register("first")
    share = a.share(guaranteed(1.0), "its share is the whole pool")
    assert share.guarantee.resources["vcores"] == share.capacity["vcores"] == 32
    running = yarn.submit(a.queue)
    eventually(lambda: yarn.weights().get(a.queue) == 100.0, "its queue has the whole weight")

    b = register("second")
    share = a.share(guaranteed(0.5), "its share is half")
    assert (share.apps, f"{b.app} arrived; the pool now has 2 applications" in share.reason) == (2, True)
    assert share.effective_at == pytest.approx(share.told_at + 3, abs=0.01)
    assert b.share(guaranteed(0.5), "its share is half").guarantee.resources["vcores"] == 16
    second = yarn.submit(b.queue)
    eventually(lambda: yarn.weights().get(b.queue) is not None, "the second queue exists")
    if time.time() < share.effective_at - 1:
        assert yarn.weights()[a.queue] == 100.0, "weights stay until the grace period ends"
    eventually(lambda: {yarn.weights()[one.queue] for one in (a, b)} == {50.0}, "both queues have the same weight")
    state = {app.app: app for app in arbiter.admin().list_apps()}
    assert [state[one.app].yarn_app for one in (a, b)] == [running, second]

    seen = len(a.shares)
    yarn.kill(second)
    share = a.after(seen, guaranteed(1.0), "its share is the whole pool again")
    assert share.reason.startswith(f"{b.app} ended; the pool now has 1 application")
    assert b.ended.wait(30), "the stream ends with its application"
    eventually(lambda: yarn.weights().get(a.queue) == 100.0, "its queue has the whole weight again")


def test_vacating_early_ends_the_grace_period(arbiter, yarn, register):
    a = register("polite", grace_s=300)
    yarn.submit(a.queue)
    eventually(lambda: yarn.weights().get(a.queue) == 100.0, "its queue has the whole weight")
    b = register("waiting")
    yarn.submit(b.queue)
    share = a.share(guaranteed(0.5), "its share is half")
    ArbiterClient(arbiter.url, a.token).report_vacated(a.app, share.seq)
    eventually(lambda: {yarn.weights().get(one.queue) for one in (a, b)} == {50.0}, "both queues have the same weight")


def test_an_unregistered_application_reduces_shares_and_is_left_alone(arbiter, yarn, register):
    a = register("registered")
    a.share(guaranteed(1.0), "its share is the whole pool")
    waiting = yarn.submit(f"root.sql.guest_{int(time.time()):x}")
    share = a.share(guaranteed(0.5), "the unregistered application counts")
    assert f"{waiting} arrived" in share.reason
    # It has only its master and requests nothing: it no longer counts, and that container is not divided.
    share = a.after(len(a.shares), guaranteed(1.0), "the unregistered application no longer counts")
    assert share.capacity["vcores"] == 31
    outside = yarn.submit("root.default")
    share = a.share(lambda share: share.capacity["vcores"] == 30, "what other queues use is not divided")
    assert share.apps == 1
    assert yarn.runs(outside)


def test_a_killed_node_shrinks_the_share_and_its_return_grows_it(cluster, arbiter, register):
    a = register("on nodes")
    before = a.share(guaranteed(1.0), "its share is the whole pool").capacity["vcores"]
    seen = len(a.shares)
    host = "127.0.2.1"
    os.kill(cluster.daemons[f"nm-{host}"], signal.SIGKILL)
    share = a.after(seen, lambda share: share.capacity["vcores"] == before - 8, "the loss shrinks its share")
    assert share.reason.startswith(f"node {host} lost; the pool now has 1 application")
    assert share.guarantee.resources["vcores"] == before - 8
    seen = len(a.shares)
    cluster.start(f"nm-{host}")
    share = a.after(seen, lambda share: share.capacity["vcores"] == before, "the return grows its share")
    assert share.reason.startswith(f"node {host} joined; the pool now has 1 application")


def test_a_killed_arbiter_recovers_and_streams_lose_no_share(arbiter, yarn, register):
    a, b, c = (register(name) for name in ("one", "two", "three"))
    apps = [yarn.submit(one.queue) for one in (a, b, c)]
    for one in (a, b, c):
        one.share(guaranteed(1 / 3), "its share is a third")
    eventually(lambda: {round(yarn.weights().get(one.queue, 0)) for one in (a, b, c)} == {33}, "weights are written")
    eventually(lambda: all(app.yarn_app for app in arbiter.admin().list_apps()), "all run")
    before = {app.app: app for app in arbiter.admin().list_apps()}

    arbiter.kill()
    records = len(arbiter.journal())
    yarn.kill(apps[1])  # while no arbiter runs
    eventually(lambda: all(one.lost for one in (a, b, c)), "the followers notice")
    arbiter.start()
    for one in (a, c):
        one.share(guaranteed(0.5), "its share is half, over the same stream")
    assert b.ended.wait(30)
    assert "recovered from" in arbiter.log()
    after = {app.app: app for app in arbiter.admin().list_apps()}
    assert set(after) == {a.app, c.app}
    for app, known in after.items():
        same = ("yarn_app", "queue", "weight", "user", "name", "registered")
        assert [getattr(known, name) for name in same] == [getattr(before[app], name) for name in same]
    eventually(lambda: {yarn.weights().get(one.queue) for one in (a, c)} == {50.0}, "weights follow")
    assert len(arbiter.journal()) > records
    check_journal(arbiter.journal(), (a, b, c))


def test_each_of_many_applications_is_registered_once_although_the_arbiter_is_killed(arbiter, register):
    """Requests without an answer are repeated with the same id."""
    first = register("present")
    users = [arbiter.admin().issue_token(f"user-{n}").token for n in range(12)]
    requests_made = [wire.Register(name=f"crowd {n}", request_id=new_request_id()) for n in range(12)]
    made, killed = [], threading.Event()

    def register_until_answered(token, request):
        client = ArbiterClient(arbiter.url, token)
        while True:
            try:
                made.append(client.register(request))
                return
            except ArbiterError:
                killed.wait(0.2)

    crowd = [
        threading.Thread(target=register_until_answered, args=each) for each in zip(users, requests_made, strict=True)
    ]
    for number, thread in enumerate(crowd):
        thread.start()
        if number == 5:
            arbiter.kill()
            killed.set()
    arbiter.start()
    for thread in crowd:
        thread.join(60)
    assert len({one.app for one in made}) == len(made) == 12
    share = first.share(guaranteed(1 / 13), "its share is a thirteenth")
    assert share.apps == 13
    check_journal(arbiter.journal(), [first])
    for one in made:
        arbiter.admin().deregister(one.app)
    first.after(first.shares.index(share), guaranteed(1.0), "its share is the whole pool again")


def test_a_killed_resource_manager_loses_no_application_node_or_weight(cluster, arbiter, yarn, register):
    a, b = register("one"), register("two")
    running = yarn.submit(a.queue), yarn.submit(b.queue)
    eventually(lambda: {yarn.weights().get(one.queue) for one in (a, b)} == {50.0}, "both queues have the same weight")
    eventually(lambda: all(map(yarn.has_started, running)), "the applications run")
    seen = len(arbiter.admin().list_decisions(1000))
    os.kill(cluster.daemons["rm"], signal.SIGKILL)
    eventually(lambda: arbiter.admin().get_cluster().manager_error, "the arbiter notices")
    c = register("registered without a manager")
    c.share(guaranteed(1 / 3), "its share is a third")
    cluster.start("rm")
    eventually(lambda: arbiter.admin().get_cluster().manager_error is None, "the arbiter reaches it again")
    eventually(lambda: all(map(yarn.runs, running)), "the applications still run")
    eventually(lambda: len(arbiter.admin().get_cluster().nodes) == 4, "all nodes are known")
    third = yarn.submit(c.queue)
    eventually(lambda: {round(yarn.weights().get(one.queue, 0)) for one in (a, b, c)} == {33}, "weights follow")
    assert {app.yarn_app for app in arbiter.admin().list_apps()} == {*running, third}
    reasons = [decision.reason for decision in arbiter.admin().list_decisions(1000)[seen:]]
    # On a slow machine the grace period of the third application's share ends before that one runs.
    others = [reason for reason in reasons if reason != "a grace period ended"]
    assert not [reason for reason in others if "lost" in reason or "ended" in reason]
    assert {share.apps for share in a.shares} == {1, 2, 3}


def test_an_application_over_its_share_is_listed_while_another_waits(arbiter, yarn, register):
    """Its only container is its application master, which is never preempted."""
    small, large = register("small", weight=0.01), register("large", weight=10.0)
    held = yarn.submit(small.queue, memory_mb=1024)
    eventually(lambda: yarn.runs(held), "it runs")
    node_mb = max(node.capacity["memory-mb"] for node in arbiter.admin().get_cluster().nodes)
    # Each as large as one of the four nodes, so that the last one waits for the node on which the small one runs.
    waiting = [yarn.submit(large.queue, memory_mb=node_mb) for _ in range(4)]
    about_small = lambda: [one.kind for one in arbiter.admin().list_decisions(1000) if one.app == small.app]  # noqa: E731
    try:
        eventually(lambda: "ListContainers" in about_small(), "it is over its share too long")
    except AssertionError as problem:
        problem.add_note(f"{arbiter.log()[-4000:]}\n{[yarn.get(f'/apps/{one}') for one in waiting]}")
        raise
    assert "SignalContainers" not in about_small()


def test_the_live_run_is_reproduced_in_virtual_time(arbiter):
    """The journal of the tests above: arrivals, a preemption, a lost node and a lost ResourceManager."""
    arbiter.kill()
    journal = arbiter.state / "journal"
    records = list(read_records(journal))
    events = {record["event"]["type"] for record in records if record["kind"] == "input"}
    assert {"Registered", "ContainersListed", "ManagerLost", "TimerFired", "WeightsWritten"} <= events
    lost = [one for one in records if one["kind"] == "input" and one["event"]["type"] == "NodesChanged"]
    assert any(one["event"]["gone"] for one in lost), "a node was lost"
    again = rerun(journal)
    assert again.first_difference() is None
    assert again.timers == sum(one["kind"] == "input" and one["event"]["type"] == "TimerFired" for one in records)
    altered = next(n for n, one in enumerate(records) if one.get("event", {}).get("type") == "Registered")
    records[altered]["event"]["weight"] = 7.5
    assert rerun_records(records).first_difference() is not None


def test_why_shows_decisions_and_diagnostics_of_a_waiting_application(arbiter, yarn, register, tmp_path):
    a = register("too large")
    fill = [yarn.submit(f"root.sql.fill_{n}_{int(time.time()):x}", memory_mb=4096) for n in range(4)]
    eventually(lambda: all(map(yarn.runs, fill)), "the nodes are full")
    waiting = yarn.submit(a.queue, memory_mb=4096)
    eventually(lambda: arbiter.admin().get_app(a.app).yarn_app == waiting, "the arbiter knows that it waits")
    access = ("--arbiter", arbiter.url, "--token-file", arbiter.admin_token_file)
    answer = run("why", a.app, *access, "--json", tmp_path / "why.json")
    assert answer.returncode == 0, answer.stderr
    assert f"{a.app} arrived; the pool now has 1 application" in answer.stdout
    assert "ResourceManager: " in answer.stdout
    assert "resource" in answer.stdout.partition("ResourceManager: ")[2]
    listed = run("apps", *access)
    assert (listed.returncode, a.app in listed.stdout) == (0, True)
    unknown = run("why", "app_99999", *access)
    assert (unknown.returncode, unknown.stderr.count("\n")) == (1, 1)


def test_metrics_and_routes_are_served(arbiter):
    assert requests.get(f"{arbiter.url}/metrics", timeout=20).status_code == 401
    scraper = {"Authorization": f"Bearer {(arbiter.state / 'scrape.token').read_text().strip()}"}
    text = requests.get(f"{arbiter.url}/metrics", headers=scraper, timeout=20).text
    assert "yarn_arbiter_manager_up 1.0" in text
    assert requests.get(f"{arbiter.url}/v1/cluster", headers=scraper, timeout=20).status_code == 403
    assert requests.get(f"{arbiter.url}/openapi.json", timeout=20).json()["openapi"].startswith("3.")


def test_a_second_arbiter_with_the_same_state_does_not_start(arbiter):
    answer = run("arbiter", "--rm", arbiter.rm_url, "--state", arbiter.state, "--listen", "127.0.0.1:0", "--quiet")
    assert (answer.returncode, answer.stderr.count("\n")) == (1, 1)
    assert "--state" in answer.stderr


def test_a_port_in_use_is_an_error_of_one_line(arbiter, tmp_path):
    taken = arbiter.url.removeprefix("http://")
    answer = run("arbiter", "--rm", arbiter.rm_url, "--state", tmp_path, "--listen", taken, "--quiet")
    assert (answer.returncode, answer.stderr.count("\n")) == (1, 1)
    assert f"--listen {taken!r}: address already in use" in answer.stderr


@pytest.mark.parametrize(
    ("rm", "config", "expected"),
    [
        ("http://127.0.0.1:1", CONFIG, "ResourceManager http://127.0.0.1:1: no connection"),
        ("{arbiter}", CONFIG, "not a ResourceManager"),
        ("127.0.0.1:8088", CONFIG, "--rm '127.0.0.1:8088': "),
        ("{rm}", CONFIG.replace("root.sql", "root.nope"), "queue 'root.nope'"),
        ("{rm}", CONFIG.replace("grace_s = 3", "grace_s = -3"), "pools.sql.grace_s -3: "),
    ],
)
def test_a_wrong_setting_is_an_error_of_one_line(arbiter, tmp_path, rm, config, expected):
    (tmp_path / "pools.toml").write_text(config)
    url = rm.format(rm=arbiter.rm_url, arbiter=arbiter.url)
    words = ("--state", tmp_path / "state", "--listen", "127.0.0.1:0", "--quiet", "--config", tmp_path / "pools.toml")
    answer = run("arbiter", "--rm", url, *words)
    assert answer.returncode in (1, 2)
    assert (answer.stdout, answer.stderr.count("\n")) == ("", 1)
    assert expected in answer.stderr
