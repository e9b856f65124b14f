"""Attacks from the side of the ResourceManager: its answers, other users of it, other writers, other arbiters."""

import json
import time
from typing import Any

from tests.adversary import proxy
from tests.adversary.checks import Seen, check
from tests.adversary.lab import FOREIGN, Arbiter, Lab, eventually, happens

CLUSTER = "/ws/v1/cluster"
APPS, NODES, CONF, INFO = f"{CLUSTER}/apps$", f"{CLUSTER}/nodes$", f"{CLUSTER}/scheduler-conf$", f"{CLUSTER}/info$"


def _running(arbiter: Arbiter, count: int = 4) -> list[dict[str, Any]]:
    return [arbiter.run(("alice", "bob")[number % 2], f"running {number}") for number in range(count)]


def _known(arbiter: Arbiter, apps: list[dict[str, Any]]) -> int:
    """How many of them are still known to run."""
    return sum(bool(arbiter.app(app["app"]).get("yarn_app")) for app in apps)


@check
def apps_answered_with_something_else(lab: Lab) -> Seen:
    """200 with {} or {"message": ..} for /apps dismisses every application for good. Is no answer."""
    arbiter = lab.arbiter().start()
    running, found = _running(arbiter), {}
    for answer in ({}, {"message": "maintenance"}, {"apps": "soon"}, {"apps": {"message": "x"}}):
        lab.proxy.set(APPS, proxy.json_reply(answer))
        arbiter.looks(2.5)
        found[json.dumps(answer)] = _known(arbiter, running)
        lab.proxy.behave()
        arbiter.looks(1)
    return set(found.values()) == {4}, "of 4 running are known during " + ", ".join(
        f"{a}: {n}" for a, n in found.items()
    )


@check
def nodes_answered_with_something_else(lab: Lab) -> Seen:
    """200 with {} or {"message": ..} for /nodes loses all nodes. Is no answer."""
    arbiter = lab.arbiter().start()
    nodes = len(eventually(lambda: arbiter.cluster().get("nodes"), "the nodes are known"))
    found = {}
    for answer in ({}, {"message": "maintenance"}, {"nodes": "soon"}):
        lab.proxy.set(NODES, proxy.json_reply(answer))
        arbiter.looks(2)
        found[json.dumps(answer)] = len(arbiter.cluster().get("nodes", []))
        lab.proxy.behave()
        arbiter.looks(1)
    return set(found.values()) == {nodes}, f"of {nodes} known during " + ", ".join(
        f"{a}: {n}" for a, n in found.items()
    )


@check
def all_applications_gone_in_one_look(lab: Lab) -> Seen:
    """One poll of {"apps": null} dismisses all. A mass disappearance needs a second poll; a single end does not."""
    arbiter = lab.arbiter().start()
    running = _running(arbiter)
    used = lab.proxy.set(APPS, proxy.json_reply({"apps": None}), times=1)
    eventually(used, "the empty answer is given")
    arbiter.looks(2)
    known = _known(arbiter, running)
    began = time.monotonic()
    lab.yarn.kill(running[0]["yarn_app"])
    single = happens(lambda: not arbiter.app(running[0]["app"]), 10)
    seen = f"{known} of 4 known after it; a single end is noticed after {time.monotonic() - began:.1f} s"
    return known == 4 and single, seen


@check
def dismissed_in_error_comes_back(lab: Lab) -> Seen:
    """After several polls of {"apps": null} all are dismissed for good. When YARN lists them again they come back."""
    arbiter = lab.arbiter().start()
    running = _running(arbiter)
    lab.proxy.set(APPS, proxy.json_reply({"apps": None}))
    arbiter.looks(5)
    during = _known(arbiter, running)
    lab.proxy.behave()
    happens(lambda: _known(arbiter, running) == 4, 8)
    after = _known(arbiter, running)
    return after == 4, f"{during} of 4 known during it, {after} after it"


@check
def an_administrators_queue_below_the_pools(lab: Lab) -> Seen:
    """An unregistered application in the static queue root.sql.etl has its weight written, later emptied. Never."""
    before = lab.yarn.capacity(FOREIGN)
    arbiter = lab.arbiter().start()
    arbiter.run("alice", "beside it")
    stranger = lab.yarn.submit(FOREIGN, "erin", "nightly load")
    eventually(lambda: any(app["yarn_app"] == stranger for app in arbiter.apps()), "it is seen")
    arbiter.looks(2)
    lab.yarn.kill(stranger)
    eventually(lambda: all(app["yarn_app"] != stranger for app in arbiter.apps()), "its end is seen")
    arbiter.looks(2)
    wrong, after = lab.foreign_writes(), lab.yarn.capacity(FOREIGN)
    if after != before:
        lab.yarn.set(FOREIGN, capacity=before or "1w")
    return (
        not wrong and after == before,
        f"capacity before {before!r}, after {after!r}; written: {wrong[:2] or 'never'}",
    )


@check
def submitted_while_the_arbiter_was_down(lab: Lab) -> Seen:
    """Down for longer than submit_timeout_s (3 s here): dismissed before the first poll. Nothing expires before one."""
    arbiter = lab.arbiter(pools={"submit_timeout_s": 3}).start()
    made = arbiter.register("alice", "patient")
    arbiter.kill()
    app = lab.yarn.submit(made["queue"], "alice")
    time.sleep(4)
    arbiter.start()
    happens(lambda: arbiter.app(made["app"]).get("yarn_app") == app, 5)
    found = arbiter.app(made["app"])
    return found.get("yarn_app") == app, f"after the start it is {found.get('state', 'dismissed')}"


@check
def submitted_while_the_manager_was_away(lab: Lab) -> Seen:
    """The RM away for longer than submit_timeout_s (3 s here): dismissed. Nothing expires while it is away."""
    arbiter = lab.arbiter(pools={"submit_timeout_s": 3}).start()
    made = arbiter.register("alice", "patient")
    lab.proxy.set("", proxy.drop, method=None)
    app = lab.yarn.submit(made["queue"], "alice")
    time.sleep(5)
    during = bool(arbiter.app(made["app"]))
    lab.proxy.behave()
    happens(lambda: arbiter.app(made["app"]).get("yarn_app") == app, 5)
    found = arbiter.app(made["app"])
    seen = f"while it was away {'known' if during else 'dismissed'}, then {found.get('state', 'dismissed')}"
    return found.get("yarn_app") == app, seen


@check
def another_user_in_her_leaf(lab: Lab) -> Seen:
    """Bob submits into the leaf that Alice was given and becomes her registration. The user is compared."""
    arbiter = lab.arbiter().start()
    made = arbiter.register("alice", "hers")
    his = lab.yarn.submit(made["queue"], "bob", "intruder")
    arbiter.looks(2)
    taken = arbiter.app(made["app"]).get("yarn_app")
    hers = lab.yarn.submit(made["queue"], "alice", "hers")
    happens(lambda: arbiter.app(made["app"]).get("yarn_app") == hers, 5)
    after = arbiter.app(made["app"]).get("yarn_app")
    said = {his: "Bob's", hers: "Alice's", None: "nobody's"}
    seen = f"her registration is {said[taken]} application, and {said[after]} after she submitted"
    return taken is None and after == hers, seen


@check
def a_mapped_user_in_her_leaf(lab: Lab) -> Seen:
    """An administrator maps an arbiter's user to YARN's: [users] alice = ["alice", "etl"]. Then etl's is hers."""
    arbiter = lab.arbiter(users={"alice": ["alice", "etl"]}).start()
    made = arbiter.register("alice", "hers")
    app = lab.yarn.submit(made["queue"], "etl")
    matched = happens(lambda: arbiter.app(made["app"]).get("yarn_app") == app, 5)
    known = "users" in (arbiter.folder / "arbiter.toml").read_text()
    seen = f"etl's application is {'hers' if matched else 'not hers'}"
    return matched and known, seen if known else f"{seen}; this version has no such setting"


@check
def scheduler_conf_fails_for_a_moment(lab: Lab) -> Seen:
    """GET /scheduler-conf fails as the RM comes back: enforcement is off until it is lost again. It is tried again."""
    arbiter = lab.arbiter().start()
    eventually(lambda: arbiter.cluster().get("enforcement", "").startswith("queue weights"), "weights are written")
    lab.proxy.set("", proxy.drop, method=None)
    eventually(lambda: arbiter.cluster().get("manager_error"), "the RM is lost")
    used = lab.proxy.set(CONF, proxy.json_reply({"RemoteException": {"message": "busy"}}, 500), times=2)
    lab.proxy.allow("")
    eventually(lambda: used() and not arbiter.cluster().get("manager_error"), "the RM is back")
    arbiter.looks(1)
    ok = happens(lambda: arbiter.cluster().get("enforcement", "").startswith("queue weights"), 15)
    return ok, f"asked {used()} times in vain; 15 s later at most: {arbiter.cluster().get('enforcement')!r}"


@check
def the_mode_is_shown(lab: Lab) -> Seen:
    """Enforcement off is shown nowhere but in /v1/cluster. The mode is in metrics, `apps` and `doctor`."""
    arbiter = lab.arbiter().start()
    metrics = [name for name in arbiter.metrics() if "mode" in name or "enforce" in name]
    access = ("--arbiter", arbiter.url, "--token-file", arbiter.state / "admin.token")
    apps = lab.run("apps", *access).stdout
    doctor = lab.run("doctor", "--rm", lab.rm_url).stdout
    in_apps = "weights" in apps or "enforce" in apps
    in_doctor = "weights" in doctor or "shares hold" in doctor
    return bool(metrics) and in_apps and in_doctor, f"metrics {metrics[:2]}, apps {in_apps}, doctor {in_doctor}"


@check
def somebody_else_changes_a_weight(lab: Lab) -> Seen:
    """Another writer's weight on a leaf stays unnoticed. The reconcile (every 2 s here) puts it back."""
    arbiter = lab.arbiter().start()
    first, _ = arbiter.run("alice", "one"), arbiter.run("bob", "two")
    mine = eventually(lambda: _settled(lab, first["queue"]), "its weight is written")
    answer = lab.yarn.set(first["queue"], capacity="77w")
    assert lab.yarn.capacity(first["queue"]) == "77w", f"could not be changed: {answer.text[:100]}"
    back = happens(lambda: lab.yarn.capacity(first["queue"]) == mine, 15)
    return back, f"{mine!r} was made '77w'; 15 s later at most: {lab.yarn.capacity(first['queue'])!r}"


def _settled(lab: Lab, queue: str) -> str | None:
    """The weight that a leaf has had for two seconds."""
    before = lab.yarn.capacity(queue)
    time.sleep(2)
    after = lab.yarn.capacity(queue)
    return after if before == after else None


@check
def an_orphaned_leaf_after_a_lost_state(lab: Lab) -> Seen:
    """The state folder is lost: its leaves' properties stay for ever. A new arbiter sweeps them (20 s here)."""
    arbiter = lab.arbiter().start()
    made = arbiter.run("alice", "orphan")
    eventually(lambda: lab.yarn.capacity(made["queue"]), "its weight is written")
    arbiter.kill()
    lab.yarn.kill_all()
    lab.arbiter().start()
    swept = happens(lambda: lab.yarn.capacity(made["queue"]) is None, 25)
    left = lab.yarn.capacity(made["queue"])
    if left:
        lab.yarn.set(made["queue"], capacity="")
    wrong = lab.foreign_writes()
    return swept and not wrong, f"{made['queue']}: capacity {left!r}; foreign writes: {wrong[:2] or 'none'}"


@check
def one_leaf_is_refused(lab: Lab) -> Seen:
    """The RM refuses one leaf's weight and the whole batch fails. The refused leaf is isolated."""
    arbiter = lab.arbiter().start()
    bad, good = arbiter.register("alice", "bad"), arbiter.register("bob", "good")

    def refuse(asked: proxy.Asked, forward: proxy.Forward) -> proxy.Reply:
        if bad["queue"].encode() in asked.body:
            return proxy.Reply(400, json.dumps({"RemoteException": {"message": "leaf refused"}}).encode())
        return forward()

    lab.proxy.set(CONF, refuse, method="PUT")
    for made, user in ((bad, "alice"), (good, "bob")):
        lab.yarn.submit(made["queue"], user)
    written = happens(lambda: lab.yarn.capacity(good["queue"]), 20)
    return written, f"20 s later at most the other leaf has {lab.yarn.capacity(good['queue'])!r}"


@check
def a_number_too_large_in_an_answer(lab: Lab) -> Seen:
    """1e999 in /nodes: OverflowError ends the watch thread, silently. It goes on, and sees what comes next."""
    arbiter = lab.arbiter().start()
    found = {}
    for spelt in ("1e999", "-7", "NaN", "9" * 400):
        lab.proxy.set(f"{NODES}|{APPS}", proxy.numbers(spelt))
        arbiter.looks(2)
        lab.proxy.behave()
        app = lab.yarn.submit(f"root.sql.probe-{len(spelt)}-{time.time_ns()}", "erin")
        found[spelt[:8]] = happens(lambda app=app: any(one["yarn_app"] == app for one in arbiter.apps()), 10)
    blind = [spelt for spelt, sees in found.items() if not sees]
    return not blind, f"sees new applications after it: {found}; health {arbiter.health().text[:80]}"


@check
def ten_thousand_finished_applications(lab: Lab) -> Seen:
    """A gateway drops the query: 10,000 finished applications count as waiting ones. They are not taken."""
    arbiter = lab.arbiter().start()
    made = arbiter.run("alice", "alone")
    before, size = arbiter.guarantee(made["app"]), arbiter.journal.stat().st_size
    lab.proxy.set(APPS, proxy.finished_apps(10_000))
    arbiter.looks(6)
    listed, after = len(arbiter.apps()), arbiter.guarantee(made["app"])
    grown = (arbiter.journal.stat().st_size - size) // 1024
    seen = f"{listed} listed; the one that runs is guaranteed {before:.1%}, then {after:.1%}; journal +{grown} KiB"
    return listed == 1 and after == before and grown < 512, seen


@check
def a_slow_trickle(lab: Lab) -> Seen:
    """Kept: while answers trickle, shares are still answered; what comes after it is seen."""
    arbiter = lab.arbiter().start()
    made = arbiter.run("alice", "alone")
    lab.proxy.set("", proxy.trickle)
    time.sleep(4)
    answer = arbiter.ask("GET", f"/v1/apps/{made['app']}", made["token"], timeout=5)
    lab.proxy.behave()
    app = lab.yarn.submit(f"root.sql.later-{time.time_ns()}", "erin")
    sees = happens(lambda: any(one["yarn_app"] == app for one in arbiter.apps()), 20)
    return (
        answer.status == 200 and sees,
        f"meanwhile {answer.status} in {answer.seconds:.1f} s; afterwards it sees: {sees}",
    )


@check
def nodes_that_report_late_after_a_restart(lab: Lab) -> Seen:
    """After an RM restart Hadoop's nodes report within 30 s, and are lost after 20. Configurable, above Hadoop's."""
    arbiter = lab.arbiter().start()
    eventually(lambda: arbiter.cluster().get("nodes"), "the node is known")
    lab.proxy.set("", proxy.drop, method=None)
    eventually(lambda: arbiter.cluster().get("manager_error"), "the RM is lost")
    lab.proxy.behave()
    lab.proxy.set(INFO, proxy.edited(_started_later))
    lab.proxy.set(NODES, proxy.json_reply({"nodes": {}}))
    eventually(lambda: not arbiter.cluster().get("manager_error"), "the RM is back")
    lost = happens(lambda: not arbiter.cluster().get("nodes"), 26)
    return not lost, "its node was lost within 26 s" if lost else "its node is kept for 26 s"


def _started_later(info: Any) -> Any:
    info["clusterInfo"]["startedOn"] += 60_000
    return info


@check
def an_ha_pair_in_the_other_order(lab: Lab) -> Seen:
    """`--rm A,B` and `--rm B,A` have different state folders and secrets. The folder is found under either."""
    other = lab.proxy_before(lab.rm_url)
    home = lab.folder()
    folders = []
    for rm in (f"{lab.proxy.url},{other.url}", f"{other.url},{lab.proxy.url}"):
        before = set(home.rglob("secret"))
        process = lab.spawn(["arbiter", "--rm", rm, "--listen", "127.0.0.1:0"], XDG_STATE_HOME=str(home))
        started = happens(lambda process=process: list(home.rglob("arbiter.json")) or process.poll() is not None, 20)
        time.sleep(1)
        process.terminate()
        process.wait(30)
        for file in home.rglob("arbiter.json"):
            file.unlink()
        made = set(home.rglob("secret")) - before
        folders.append(f"{len(made)} made" if started else "did not start")
    count = len(list(home.rglob("secret")))
    return count == 1, f"state folders after both orders: {count} ({'; '.join(folders)})"


@check
def a_second_arbiter_elsewhere(lab: Lab) -> Seen:
    """A second arbiter with another state folder writes the same queues. Refused while the first one lives."""
    first = lab.arbiter().start()
    made = first.run("alice", "first's")
    eventually(lambda: lab.yarn.capacity(made["queue"]), "the first writes")
    second = lab.arbiter()
    try:
        second.start(20)
    except AssertionError:
        code = second.process.poll() if second.process else None
        said = [line for line in second.log.splitlines() if line.strip()]
        one_line = len(said) >= 1 and "Traceback" not in second.log
        return code not in (None, 0) and one_line, f"refused with {code}: {said[-1][:200] if said else ''}"
    return False, "both run"


@check
def the_first_arbiter_died(lab: Lab) -> Seen:
    """Kept: once the first one is dead, one with another state folder takes over and writes."""
    first = lab.arbiter().start()
    first.run("alice", "first's")
    first.kill()
    second = lab.arbiter().start()
    made = second.run("bob", "second's")
    written = happens(lambda: lab.yarn.capacity(made["queue"]), 15)
    return written, f"its leaf has {lab.yarn.capacity(made['queue'])!r}"


@check
def every_route_of_the_manager_in_every_mood(lab: Lab) -> Seen:
    """Each RM answer broken in each way, a second each: no traceback, all still known, and seen again afterwards."""
    arbiter = lab.arbiter().start()
    running = _running(arbiter, 3)
    arbiter.looks(1)
    bad = []
    for path in ("metrics", "nodes", "apps", "scheduler", "scheduler-conf", "info"):
        for name, mood in MOODS.items():
            lab.proxy.set(f"{CLUSTER}/{path}$", mood)
            time.sleep(0.7)
            lab.proxy.behave()
            if not arbiter.lives:
                return False, f"it ended at {path} {name}: {arbiter.log[-200:]}"
    happens(lambda: _known(arbiter, running) == 3, 10)
    known = _known(arbiter, running)
    app = lab.yarn.submit(f"root.sql.later-{time.time_ns()}", "erin")
    sees = happens(lambda: any(one["yarn_app"] == app for one in arbiter.apps()), 15)
    traces = arbiter.log.count("Traceback")
    if traces:
        bad.append(f"{traces} tracebacks")
    seen = f"{known} of 3 known, sees new ones: {sees}, tracebacks in the log: {traces}"
    return known == 3 and sees and not traces and not lab.foreign_writes(), seen


MOODS: dict[str, proxy.Mood] = {
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
