"""The arbiter on a real cluster: the shares it sends, the weights it writes, and what survives a kill."""

import os
import signal
import threading
import time

import pytest
import requests

from tests.integration.arbiter_process import CONFIG, ArbiterProcess, check_journal, run
from tests.integration.sleepers import Sleepers, eventually
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
    """The arbiter, running, with nothing in its pool; started again if a test has killed it."""
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
    told = a.share(guaranteed(1.0), "is told the whole pool")
    assert told.guarantee.resources["vcores"] == told.capacity["vcores"] == 32
    running = yarn.submit(a.queue)
    eventually(lambda: yarn.weights().get(a.queue) == 100.0, "its queue weighs all")

    b = register("second")
    told = a.share(guaranteed(0.5), "is told its half")
    assert (told.apps, f"{b.app} arrived; the pool now has 2 applications" in told.reason) == (2, True)
    assert told.effective_at == pytest.approx(told.told_at + 3, abs=0.01)
    assert b.share(guaranteed(0.5), "is told its half").guarantee.resources["vcores"] == 16
    second = yarn.submit(b.queue)
    eventually(lambda: yarn.weights().get(b.queue) is not None, "the second is there")
    if time.time() < told.effective_at - 1:
        assert yarn.weights()[a.queue] == 100.0, "nothing is taken before the grace is over"
    eventually(lambda: {yarn.weights()[one.queue] for one in (a, b)} == {50.0}, "both queues weigh the same")
    state = {app.app: app for app in arbiter.admin().list_apps()}
    assert [state[one.app].yarn_app for one in (a, b)] == [running, second]

    seen = len(a.shares)
    yarn.kill(second)
    told = a.after(seen, guaranteed(1.0), "is told the whole pool again")
    assert told.reason.startswith(f"{b.app} ended: 1 app now")
    assert b.ended.wait(30), "the stream of one that has ended ends"
    eventually(lambda: yarn.weights().get(a.queue) == 100.0, "its queue weighs all again")


def test_vacating_early_ends_the_grace_period(arbiter, yarn, register):
    a = register("polite", grace_s=300)
    yarn.submit(a.queue)
    eventually(lambda: yarn.weights().get(a.queue) == 100.0, "its queue weighs all")
    b = register("waiting")
    yarn.submit(b.queue)
    told = a.share(guaranteed(0.5), "is told its half")
    ArbiterClient(arbiter.url, a.token).report_vacated(a.app, told.seq)
    eventually(lambda: {yarn.weights().get(one.queue) for one in (a, b)} == {50.0}, "both queues weigh the same")


def test_an_application_that_never_registered_counts_and_is_not_touched(arbiter, yarn, register):
    a = register("registered")
    a.share(guaranteed(1.0), "is told the whole pool")
    waiting = yarn.submit(f"root.sql.guest_{int(time.time()):x}")
    told = a.share(guaranteed(0.5), "the guest counts")
    assert f"{waiting} arrived" in told.reason
    # It holds its master alone and asks for nothing: it counts no more, and that container is not divided.
    told = a.after(len(a.shares), guaranteed(1.0), "the guest counts no more")
    assert told.capacity["vcores"] == 31
    outside = yarn.submit("root.default")
    told = a.share(lambda share: share.capacity["vcores"] == 30, "what others use is not divided")
    assert told.apps == 1
    assert yarn.runs(outside)


def test_a_killed_node_shrinks_the_share_and_its_return_grows_it(cluster, arbiter, register):
    a = register("on nodes")
    before = a.share(guaranteed(1.0), "is told the whole pool").capacity["vcores"]
    seen = len(a.shares)
    host = "127.0.2.1"
    os.kill(cluster.daemons[f"nm-{host}"], signal.SIGKILL)
    told = a.after(seen, lambda share: share.capacity["vcores"] == before - 8, "is told of the loss")
    assert told.reason.startswith(f"node {host} lost: 1 app now")
    assert told.guarantee.resources["vcores"] == before - 8
    seen = len(a.shares)
    cluster.start(f"nm-{host}")
    told = a.after(seen, lambda share: share.capacity["vcores"] == before, "is told of the return")
    assert told.reason.startswith(f"node {host} joined: 1 app now")


def test_a_killed_arbiter_resumes_and_streams_miss_nothing(arbiter, yarn, register):
    a, b, c = (register(name) for name in ("one", "two", "three"))
    apps = [yarn.submit(one.queue) for one in (a, b, c)]
    for one in (a, b, c):
        one.share(guaranteed(1 / 3), "is told its third")
    eventually(lambda: {round(yarn.weights().get(one.queue, 0)) for one in (a, b, c)} == {33}, "weights are written")
    eventually(lambda: all(app.yarn_app for app in arbiter.admin().list_apps()), "all run")
    before = {app.app: app for app in arbiter.admin().list_apps()}

    arbiter.kill()
    records = len(arbiter.journal())
    yarn.kill(apps[1])  # while nobody looks
    eventually(lambda: all(one.lost for one in (a, b, c)), "those who follow notice")
    arbiter.start()
    for one in (a, c):
        one.share(guaranteed(0.5), "is told its half, over the same stream")
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


def test_killed_while_many_register_each_is_registered_once(arbiter, register):
    """Requests that get no answer are sent again with the same id."""
    first = register("present")
    users = [arbiter.admin().issue_token(f"user-{n}").token for n in range(12)]
    requests_made = [wire.Register(name=f"crowd {n}", request_id=new_request_id()) for n in range(12)]
    made, killed = [], threading.Event()

    def insist(token, request):
        client = ArbiterClient(arbiter.url, token)
        while True:
            try:
                made.append(client.register(request))
                return
            except ArbiterError:
                killed.wait(0.2)

    crowd = [threading.Thread(target=insist, args=each) for each in zip(users, requests_made, strict=True)]
    for number, thread in enumerate(crowd):
        thread.start()
        if number == 5:
            arbiter.kill()
            killed.set()
    arbiter.start()
    for thread in crowd:
        thread.join(60)
    assert len({one.app for one in made}) == len(made) == 12
    told = first.share(guaranteed(1 / 13), "is told that there are thirteen")
    assert told.apps == 13
    check_journal(arbiter.journal(), [first])
    for one in made:
        arbiter.admin().deregister(one.app)
    first.after(first.shares.index(told), guaranteed(1.0), "is alone again")


def test_a_killed_resource_manager_loses_nothing_and_no_node_is_taken_for_lost(cluster, arbiter, yarn, register):
    a, b = register("one"), register("two")
    running = yarn.submit(a.queue), yarn.submit(b.queue)
    eventually(lambda: {yarn.weights().get(one.queue) for one in (a, b)} == {50.0}, "both queues weigh the same")
    seen = len(arbiter.admin().list_decisions(1000))
    os.kill(cluster.daemons["rm"], signal.SIGKILL)
    eventually(lambda: arbiter.admin().get_cluster().manager_error, "the arbiter notices")
    c = register("told although there is no manager")
    c.share(guaranteed(1 / 3), "is told its third")
    cluster.start("rm")
    eventually(lambda: arbiter.admin().get_cluster().manager_error is None, "the arbiter finds it again")
    eventually(lambda: all(map(yarn.runs, running)), "the applications go on")
    eventually(lambda: len(arbiter.admin().get_cluster().nodes) == 4, "all nodes are there")
    third = yarn.submit(c.queue)
    eventually(lambda: {round(yarn.weights().get(one.queue, 0)) for one in (a, b, c)} == {33}, "weights follow")
    assert {app.yarn_app for app in arbiter.admin().list_apps()} == {*running, third}
    reasons = [decision.reason for decision in arbiter.admin().list_decisions(1000)[seen:]]
    assert not [reason for reason in reasons if "lost" in reason or "ended" in reason]
    assert {share.apps for share in a.shares} == {1, 2, 3}


def test_an_application_over_its_share_is_listed_while_another_waits(arbiter, yarn, register):
    """Its only container is its master, which is never taken away."""
    small, large = register("small", weight=0.01), register("large", weight=10.0)
    held = yarn.submit(small.queue, memory_mb=1024)
    eventually(lambda: yarn.runs(held), "it runs")
    nodes = arbiter.admin().get_cluster().nodes
    for _ in nodes:
        # As large as a node each, so that the last one waits for the node on which the small one runs.
        yarn.submit(large.queue, memory_mb=max(node.capacity["memory-mb"] for node in nodes))
    about_small = lambda: [one.kind for one in arbiter.admin().list_decisions(1000) if one.app == small.app]  # noqa: E731
    eventually(lambda: "ListContainers" in about_small(), "it overstays")
    assert "SignalContainers" not in about_small()


def test_the_live_run_is_reproduced_in_virtual_time(arbiter):
    """The journal of the tests above: arrivals, a preemption, the loss of a node and of the ResourceManager."""
    arbiter.kill()
    journal = arbiter.state / "journal"
    records = list(read_records(journal))
    happened = {record["event"]["type"] for record in records if record["kind"] == "input"}
    assert {"Registered", "ContainersListed", "ManagerLost", "TimerFired", "WeightsWritten"} <= happened
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
    eventually(lambda: arbiter.admin().get_app(a.app).yarn_app == waiting, "it is known to wait")
    access = ("--arbiter", arbiter.url, "--token-file", arbiter.admin_token_file)
    answer = run("why", a.app, *access, "--json", tmp_path / "why.json")
    assert answer.returncode == 0, answer.stderr
    assert f"{a.app} arrived: 1 app now" in answer.stdout
    assert "ResourceManager: " in answer.stdout
    assert "resource" in answer.stdout.partition("ResourceManager: ")[2]
    listed = run("apps", *access)
    assert (listed.returncode, a.app in listed.stdout) == (0, True)
    gone = run("why", "app_99999", *access)
    assert (gone.returncode, gone.stderr.count("\n")) == (1, 1)


def test_metrics_and_routes_are_served(arbiter):
    assert requests.get(f"{arbiter.url}/metrics", timeout=20).status_code == 401
    scraper = {"Authorization": f"Bearer {(arbiter.state / 'scrape.token').read_text().strip()}"}
    text = requests.get(f"{arbiter.url}/metrics", headers=scraper, timeout=20).text
    assert "yarn_arbiter_manager_up 1.0" in text
    assert requests.get(f"{arbiter.url}/v1/cluster", headers=scraper, timeout=20).status_code == 403
    assert requests.get(f"{arbiter.url}/openapi.json", timeout=20).json()["openapi"].startswith("3.")


def test_a_second_arbiter_on_the_same_state_is_refused(arbiter):
    answer = run("arbiter", "--rm", arbiter.rm_url, "--state", arbiter.state, "--listen", "127.0.0.1:0", "--quiet")
    assert (answer.returncode, answer.stderr.count("\n")) == (1, 1)
    assert "--state" in answer.stderr


def test_a_port_that_is_taken_is_refused(arbiter, tmp_path):
    taken = arbiter.url.removeprefix("http://")
    answer = run("arbiter", "--rm", arbiter.rm_url, "--state", tmp_path, "--listen", taken, "--quiet")
    assert (answer.returncode, answer.stderr.count("\n")) == (1, 1)
    assert f"--listen {taken!r}: address already in use" in answer.stderr


@pytest.mark.parametrize(
    ("rm", "config", "said"),
    [
        ("http://127.0.0.1:1", CONFIG, "ResourceManager http://127.0.0.1:1: no connection"),
        ("{arbiter}", CONFIG, "not a ResourceManager"),
        ("127.0.0.1:8088", CONFIG, "--rm '127.0.0.1:8088': "),
        ("{rm}", CONFIG.replace("root.sql", "root.nope"), "queue 'root.nope'"),
        ("{rm}", CONFIG.replace("grace_s = 3", "grace_s = -3"), "pools.sql.grace_s -3: "),
    ],
)
def test_what_cannot_be_is_one_line(arbiter, tmp_path, rm, config, said):
    (tmp_path / "pools.toml").write_text(config)
    url = rm.format(rm=arbiter.rm_url, arbiter=arbiter.url)
    words = ("--state", tmp_path / "state", "--listen", "127.0.0.1:0", "--quiet", "--config", tmp_path / "pools.toml")
    answer = run("arbiter", "--rm", url, *words)
    assert answer.returncode in (1, 2)
    assert (answer.stdout, answer.stderr.count("\n")) == ("", 1)
    assert said in answer.stderr
