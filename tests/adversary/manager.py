"""Attacks through the ResourceManager: its answers, its other users, other writers, other arbiters."""

import json
import time
from typing import Any

from tests.adversary import proxy
from tests.adversary.checks import Result, check
from tests.adversary.lab import FOREIGN, Arbiter, Lab, happens_within
from tests.eventually import eventually

CLUSTER = "/ws/v1/cluster"
APPS, NODES, CONF, INFO = f"{CLUSTER}/apps$", f"{CLUSTER}/nodes$", f"{CLUSTER}/scheduler-conf$", f"{CLUSTER}/info$"


def _running(arbiter: Arbiter, count: int = 4) -> list[dict[str, Any]]:
    return [arbiter.run(("alice", "bob")[number % 2], f"running {number}") for number in range(count)]


def _known(arbiter: Arbiter, apps: list[dict[str, Any]]) -> int:
    """How many of them the arbiter still knows to be running."""
    return sum(bool(arbiter.app(app["app"]).get("yarn_app")) for app in apps)


@check
def a_malformed_list_of_apps_is_ignored(lab: Lab) -> Result:
    """A 200 with {} or {"message": ..} for /apps is treated as a failed poll; it used to remove every application."""
    arbiter = lab.arbiter().start()
    running, found = _running(arbiter), {}
    for answer in ({}, {"message": "maintenance"}, {"apps": "soon"}, {"apps": {"message": "x"}}):
        lab.proxy.set(APPS, proxy.json_reply(answer))
        arbiter.wait_for_polls(2.5)
        found[json.dumps(answer)] = _known(arbiter, running)
        lab.proxy.clear_faults()
        arbiter.wait_for_polls(1)
    return set(found.values()) == {4}, "of 4 running are known during " + ", ".join(
        f"{a}: {n}" for a, n in found.items()
    )


@check
def a_malformed_list_of_nodes_is_ignored(lab: Lab) -> Result:
    """A 200 with {} or {"message": ..} for /nodes is treated as a failed poll; it used to remove every node."""
    arbiter = lab.arbiter().start()
    nodes = len(eventually(lambda: arbiter.cluster().get("nodes"), "the nodes are known"))
    found = {}
    for answer in ({}, {"message": "maintenance"}, {"nodes": "soon"}):
        lab.proxy.set(NODES, proxy.json_reply(answer))
        arbiter.wait_for_polls(2)
        found[json.dumps(answer)] = len(arbiter.cluster().get("nodes", []))
        lab.proxy.clear_faults()
        arbiter.wait_for_polls(1)
    return set(found.values()) == {nodes}, f"of {nodes} known during " + ", ".join(
        f"{a}: {n}" for a, n in found.items()
    )


@check
def a_mass_disappearance_needs_a_second_poll(lab: Lab) -> Result:
    """One poll of {"apps": null} removes nothing: a second poll must confirm it. A single end needs only one."""
    arbiter = lab.arbiter().start()
    running = _running(arbiter)
    used = lab.proxy.set(APPS, proxy.json_reply({"apps": None}), times=1)
    eventually(used, "the empty answer was sent")
    arbiter.wait_for_polls(2)
    known = _known(arbiter, running)
    started = time.monotonic()
    lab.yarn.kill(running[0]["yarn_app"])
    single = happens_within(lambda: not arbiter.app(running[0]["app"]), 10)
    observed = f"{known} of 4 known after it; a single end is seen after {time.monotonic() - started:.1f} s"
    return known == 4 and single, observed


@check
def removed_applications_come_back_when_listed_again(lab: Lab) -> Result:
    """Several polls of {"apps": null} remove all applications; they come back when YARN lists them again."""
    arbiter = lab.arbiter().start()
    running = _running(arbiter)
    lab.proxy.set(APPS, proxy.json_reply({"apps": None}))
    arbiter.wait_for_polls(5)
    during = _known(arbiter, running)
    lab.proxy.clear_faults()
    happens_within(lambda: _known(arbiter, running) == 4, 8)
    after = _known(arbiter, running)
    return after == 4, f"{during} of 4 known during it, {after} after it"


@check
def a_static_queue_below_a_pool_is_never_written(lab: Lab) -> Result:
    """The weight of the static queue root.sql.etl is never written, even with an unregistered application in it."""
    before = lab.yarn.capacity(FOREIGN)
    arbiter = lab.arbiter().start()
    arbiter.run("alice", "beside it")
    unregistered = lab.yarn.submit(FOREIGN, "erin", "nightly load")
    eventually(lambda: any(app["yarn_app"] == unregistered for app in arbiter.apps()), "it is observed")
    arbiter.wait_for_polls(2)
    lab.yarn.kill(unregistered)
    eventually(lambda: all(app["yarn_app"] != unregistered for app in arbiter.apps()), "its end is observed")
    arbiter.wait_for_polls(2)
    wrong, after = lab.foreign_writes(), lab.yarn.capacity(FOREIGN)
    if after != before:
        lab.yarn.set(FOREIGN, capacity=before or "1w")
    return (
        not wrong and after == before,
        f"capacity before {before!r}, after {after!r}; written: {wrong[:2] or 'never'}",
    )


@check
def submit_timeout_waits_for_the_first_poll(lab: Lab) -> Result:
    """Submitted while the arbiter is down for longer than submit_timeout_s (3 s here): nothing expires."""
    arbiter = lab.arbiter(pools={"submit_timeout_s": 3}).start()
    made = arbiter.register("alice", "patient")
    arbiter.kill()
    app = lab.yarn.submit(made["queue"], "alice")
    time.sleep(4)
    arbiter.start()
    happens_within(lambda: arbiter.app(made["app"]).get("yarn_app") == app, 5)
    found = arbiter.app(made["app"])
    return found.get("yarn_app") == app, f"after the start it is {found.get('state', 'removed')}"


@check
def submit_timeout_is_suspended_while_the_manager_is_down(lab: Lab) -> Result:
    """Submitted while the RM is down for longer than submit_timeout_s (3 s here): nothing expires meanwhile."""
    arbiter = lab.arbiter(pools={"submit_timeout_s": 3}).start()
    made = arbiter.register("alice", "patient")
    lab.proxy.set("", proxy.drop, method=None)
    app = lab.yarn.submit(made["queue"], "alice")
    time.sleep(5)
    during = bool(arbiter.app(made["app"]))
    lab.proxy.clear_faults()
    happens_within(lambda: arbiter.app(made["app"]).get("yarn_app") == app, 5)
    found = arbiter.app(made["app"])
    observed = f"while it was down {'known' if during else 'removed'}, then {found.get('state', 'removed')}"
    return found.get("yarn_app") == app, observed


@check
def an_application_of_another_user_is_not_matched(lab: Lab) -> Result:
    """Bob submits to the leaf queue that Alice was given. His application is not matched with her registration."""
    arbiter = lab.arbiter().start()
    made = arbiter.register("alice", "hers")
    his = lab.yarn.submit(made["queue"], "bob", "intruder")
    arbiter.wait_for_polls(2)
    taken = arbiter.app(made["app"]).get("yarn_app")
    hers = lab.yarn.submit(made["queue"], "alice", "hers")
    happens_within(lambda: arbiter.app(made["app"]).get("yarn_app") == hers, 5)
    after = arbiter.app(made["app"]).get("yarn_app")
    owners = {his: "Bob's", hers: "Alice's", None: "no"}
    observed = (
        f"her registration is matched with {owners[taken]} application, and with {owners[after]} after she submitted"
    )
    return taken is None and after == hers, observed


@check
def an_application_of_a_mapped_user_is_matched(lab: Lab) -> Result:
    """With [users] alice = ["alice", "etl"], an application of etl is matched with Alice's registration."""
    arbiter = lab.arbiter(users={"alice": ["alice", "etl"]}).start()
    made = arbiter.register("alice", "hers")
    app = lab.yarn.submit(made["queue"], "etl")
    matched = happens_within(lambda: arbiter.app(made["app"]).get("yarn_app") == app, 5)
    known = "users" in (arbiter.folder / "arbiter.toml").read_text()
    observed = f"etl's application is {'hers' if matched else 'not hers'}"
    return matched and known, observed if known else f"{observed}; this version has no such setting"


@check
def enforcement_resumes_after_scheduler_conf_fails(lab: Lab) -> Result:
    """GET /scheduler-conf fails while the RM restarts: it is retried, and enforcement resumes."""
    arbiter = lab.arbiter().start()
    eventually(lambda: arbiter.cluster().get("enforcement", "").startswith("queue weights"), "weights are written")
    lab.proxy.set("", proxy.drop, method=None)
    eventually(lambda: arbiter.cluster().get("manager_error"), "the RM is lost")
    used = lab.proxy.set(CONF, proxy.json_reply({"RemoteException": {"message": "busy"}}, 500), times=2)
    lab.proxy.allow("")
    eventually(lambda: used() and not arbiter.cluster().get("manager_error"), "the RM is back")
    arbiter.wait_for_polls(1)
    ok = happens_within(lambda: arbiter.cluster().get("enforcement", "").startswith("queue weights"), 15)
    return ok, f"failed {used()} times; at most 15 s later: {arbiter.cluster().get('enforcement')!r}"


@check
def the_enforcement_mode_is_reported(lab: Lab) -> Result:
    """Whether shares are enforced is reported in the metrics, by `apps` and by `doctor`."""
    arbiter = lab.arbiter().start()
    metrics = [name for name in arbiter.metrics() if "mode" in name or "enforce" in name]
    access = ("--arbiter", arbiter.url, "--token-file", arbiter.state / "admin.token")
    apps = lab.run("apps", *access).stdout
    doctor = lab.run("doctor", "--rm", lab.rm_url).stdout
    in_apps = "weights" in apps or "enforce" in apps
    in_doctor = "weights" in doctor or "shares hold" in doctor
    return bool(metrics) and in_apps and in_doctor, f"metrics {metrics[:2]}, apps {in_apps}, doctor {in_doctor}"


@check
def a_weight_changed_by_another_writer_is_restored(lab: Lab) -> Result:
    """A weight changed by another writer is restored by the next reconciliation (every 2 s here)."""
    arbiter = lab.arbiter().start()
    first, _ = arbiter.run("alice", "one"), arbiter.run("bob", "two")
    mine = eventually(lambda: _settled(lab, first["queue"]), "its weight is written")
    answer = lab.yarn.set(first["queue"], capacity="77w")
    assert lab.yarn.capacity(first["queue"]) == "77w", f"could not be changed: {answer.text[:100]}"
    back = happens_within(lambda: lab.yarn.capacity(first["queue"]) == mine, 15)
    return back, f"{mine!r} was changed to '77w'; at most 15 s later: {lab.yarn.capacity(first['queue'])!r}"


def _settled(lab: Lab, queue: str) -> str | None:
    """The weight of a leaf queue if it has not changed for two seconds."""
    before = lab.yarn.capacity(queue)
    time.sleep(2)
    after = lab.yarn.capacity(queue)
    return after if before == after else None


@check
def weights_of_a_lost_state_are_removed(lab: Lab) -> Result:
    """The state directory is lost: a new arbiter removes the weights of its leaf queues (within 25 s here)."""
    arbiter = lab.arbiter().start()
    made = arbiter.run("alice", "orphan")
    eventually(lambda: lab.yarn.capacity(made["queue"]), "its weight is written")
    arbiter.kill()
    lab.yarn.kill_all()
    lab.arbiter().start()
    swept = happens_within(lambda: lab.yarn.capacity(made["queue"]) is None, 25)
    left = lab.yarn.capacity(made["queue"])
    if left:
        lab.yarn.set(made["queue"], capacity="")
    wrong = lab.foreign_writes()
    return swept and not wrong, f"{made['queue']}: capacity {left!r}; foreign writes: {wrong[:2] or 'none'}"


@check
def a_rejected_leaf_does_not_fail_the_others(lab: Lab) -> Result:
    """The RM rejects the weight of one leaf queue; the other weights are written."""
    arbiter = lab.arbiter().start()
    bad, good = arbiter.register("alice", "bad"), arbiter.register("bob", "good")

    def refuse(request: proxy.Request, forward: proxy.Forward) -> proxy.Reply:
        if bad["queue"].encode() in request.body:
            return proxy.Reply(400, json.dumps({"RemoteException": {"message": "leaf refused"}}).encode())
        return forward()

    lab.proxy.set(CONF, refuse, method="PUT")
    for made, user in ((bad, "alice"), (good, "bob")):
        lab.yarn.submit(made["queue"], user)
    written = happens_within(lambda: lab.yarn.capacity(good["queue"]), 20)
    return written, f"at most 20 s later the other leaf has {lab.yarn.capacity(good['queue'])!r}"


@check
def invalid_numbers_in_a_poll_are_survived(lab: Lab) -> Result:
    """1e999, NaN and 400 digits in an answer of the RM: polling continues and sees what comes next."""
    arbiter = lab.arbiter().start()
    found = {}
    for number in ("1e999", "-7", "NaN", "9" * 400):
        lab.proxy.set(f"{NODES}|{APPS}", proxy.numbers(number))
        arbiter.wait_for_polls(2)
        lab.proxy.clear_faults()
        app = lab.yarn.submit(f"root.sql.probe-{len(number)}-{time.time_ns()}", "erin")
        found[number[:8]] = happens_within(lambda app=app: any(one["yarn_app"] == app for one in arbiter.apps()), 10)
    blind = [number for number, sees in found.items() if not sees]
    return not blind, f"sees new applications after it: {found}; health {arbiter.health().text[:80]}"


@check
def finished_applications_in_a_poll_are_ignored(lab: Lab) -> Result:
    """A gateway drops the query, and the RM lists 10,000 finished applications. They are ignored."""
    arbiter = lab.arbiter().start()
    made = arbiter.run("alice", "alone")
    before, size = arbiter.guarantee(made["app"]), arbiter.journal.stat().st_size
    lab.proxy.set(APPS, proxy.finished_apps(10_000))
    arbiter.wait_for_polls(6)
    listed, after = len(arbiter.apps()), arbiter.guarantee(made["app"])
    grown = (arbiter.journal.stat().st_size - size) // 1024
    observed = f"{listed} listed; the one that runs is guaranteed {before:.1%}, then {after:.1%}; journal +{grown} KiB"
    return listed == 1 and after == before and grown < 512, observed


@check
def shares_are_served_while_polls_are_slow(lab: Lab) -> Result:
    """While the RM answers slowly, shares are served; afterwards new applications are observed."""
    arbiter = lab.arbiter().start()
    made = arbiter.run("alice", "alone")
    lab.proxy.set("", proxy.trickle)
    time.sleep(4)
    answer = arbiter.ask("GET", f"/v1/apps/{made['app']}", made["token"], timeout=5)
    lab.proxy.clear_faults()
    app = lab.yarn.submit(f"root.sql.later-{time.time_ns()}", "erin")
    sees = happens_within(lambda: any(one["yarn_app"] == app for one in arbiter.apps()), 20)
    return (
        answer.status == 200 and sees,
        f"meanwhile {answer.status} in {answer.seconds:.1f} s; afterwards it sees: {sees}",
    )


@check
def nodes_may_register_late_after_a_manager_restart(lab: Lab) -> Result:
    """After an RM restart, nodes take up to 30 s to register again; they are not lost before (reregister_timeout_s)."""
    arbiter = lab.arbiter().start()
    eventually(lambda: arbiter.cluster().get("nodes"), "the node is known")
    lab.proxy.set("", proxy.drop, method=None)
    eventually(lambda: arbiter.cluster().get("manager_error"), "the RM is lost")
    lab.proxy.clear_faults()
    lab.proxy.set(INFO, proxy.edited(_started_later))
    lab.proxy.set(NODES, proxy.json_reply({"nodes": {}}))
    eventually(lambda: not arbiter.cluster().get("manager_error"), "the RM is back")
    lost = happens_within(lambda: not arbiter.cluster().get("nodes"), 26)
    return not lost, "its node was lost within 26 s" if lost else "its node remained for 26 s"


def _started_later(info: Any) -> Any:
    info["clusterInfo"]["startedOn"] += 60_000
    return info


@check
def the_order_of_an_ha_pair_does_not_matter(lab: Lab) -> Result:
    """`--rm A,B` and `--rm B,A` use the same state directory and secret."""
    other = lab.proxy_before(lab.rm_url)
    home = lab.folder()
    folders = []
    for rm in (f"{lab.proxy.url},{other.url}", f"{other.url},{lab.proxy.url}"):
        before = set(home.rglob("secret"))
        process = lab.spawn(["arbiter", "--rm", rm, "--listen", "127.0.0.1:0"], XDG_STATE_HOME=str(home))
        started = happens_within(
            lambda process=process: list(home.rglob("arbiter.json")) or process.poll() is not None, 20
        )
        time.sleep(1)
        process.terminate()
        process.wait(30)
        for file in home.rglob("arbiter.json"):
            file.unlink()
        made = set(home.rglob("secret")) - before
        folders.append(f"{len(made)} created" if started else "did not start")
    count = len(list(home.rglob("secret")))
    return count == 1, f"state folders after both orders: {count} ({'; '.join(folders)})"


@check
def a_second_arbiter_is_refused(lab: Lab) -> Result:
    """A second arbiter with another state directory does not start while the first one runs on the same queues."""
    first = lab.arbiter().start()
    made = first.run("alice", "first's")
    eventually(lambda: lab.yarn.capacity(made["queue"]), "the first writes")
    second = lab.arbiter()
    try:
        second.start(20)
    except AssertionError:
        code = second.process.poll() if second.process else None
        lines = [line for line in second.log.splitlines() if line.strip()]
        one_line = len(lines) >= 1 and "Traceback" not in second.log
        return code not in (None, 0) and one_line, f"refused with {code}: {lines[-1][:200] if lines else ''}"
    return False, "both run"


@check
def a_second_arbiter_takes_over_from_a_killed_one(lab: Lab) -> Result:
    """After the first arbiter is killed, one with another state directory takes over and writes weights."""
    first = lab.arbiter().start()
    first.run("alice", "first's")
    first.kill()
    second = lab.arbiter().start()
    made = second.run("bob", "second's")
    written = happens_within(lambda: lab.yarn.capacity(made["queue"]), 15)
    return written, f"its leaf has {lab.yarn.capacity(made['queue'])!r}"


@check
def every_manager_endpoint_with_every_fault(lab: Lab) -> Result:
    """Each RM endpoint with each fault in turn: no traceback, all applications known, new ones observed afterwards."""
    arbiter = lab.arbiter().start()
    running = _running(arbiter, 3)
    arbiter.wait_for_polls(1)
    bad = []
    for path in ("metrics", "nodes", "apps", "scheduler", "scheduler-conf", "info"):
        for name, fault in FAULTS.items():
            lab.proxy.set(f"{CLUSTER}/{path}$", fault)
            time.sleep(0.7)
            lab.proxy.clear_faults()
            if not arbiter.is_running:
                return False, f"it exited at {path} {name}: {arbiter.log[-200:]}"
    happens_within(lambda: _known(arbiter, running) == 3, 10)
    known = _known(arbiter, running)
    app = lab.yarn.submit(f"root.sql.later-{time.time_ns()}", "erin")
    sees = happens_within(lambda: any(one["yarn_app"] == app for one in arbiter.apps()), 15)
    traces = arbiter.log.count("Traceback")
    if traces:
        bad.append(f"{traces} tracebacks")
    observed = f"{known} of 3 known, sees new ones: {sees}, tracebacks in the log: {traces}"
    return known == 3 and sees and not traces and not lab.foreign_writes(), observed


FAULTS: dict[str, proxy.Fault] = {
    "empty": proxy.json_reply({}),
    "message": proxy.json_reply({"message": "maintenance"}),
    "null": proxy.text(b"null", 200, "application/json"),
    "list": proxy.json_reply([]),
    "page": proxy.text(b"<html>login</html>"),
    "half": proxy.half,
    "truncated": proxy.truncated,
    "wrong types": proxy.wrong_types,
    "nested": proxy.nested,
    "1e999": proxy.numbers("1e999"),
    "drop": proxy.drop,
    "redirect": proxy.redirect,
    **{str(status): proxy.json_reply({"message": "no"}, status) for status in (400, 401, 403, 404, 429, 500, 503)},
}
