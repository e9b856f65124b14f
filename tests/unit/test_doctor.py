"""The findings of `doctor`."""

import dataclasses
import json
import re

import pytest

from tests.fake_scheduler import FakeScheduler
from tests.http_servers import WebServer, reply
from yarn_plugin import console
from yarn_plugin.cli import cli
from yarn_plugin.cli import doctor as doctor_command
from yarn_plugin.decide.pools.lease.settings import LeaseSettings
from yarn_plugin.model.share import Pool
from yarn_plugin.observe.capabilities import ManagerFacts, PreemptionSettings, probe
from yarn_plugin.observe.findings import Finding, can_run, diagnose
from yarn_plugin.observe.nodes import isolate_gpus
from yarn_plugin.observe.partitions import read_with_nodes
from yarn_plugin.observe.queue_tree import queue_tree
from yarn_plugin.observe.resource_manager import ManagerRefusedError, NotAManagerError, ResourceManager

SQL = Pool("sql", "root.sql", ("memory-mb", "vcores"), grace=10.0, preempt_after=15.0)
GPU = Pool("gpu", "root.sql", ("yarn.io/gpu",))
BEST = ManagerFacts(
    url="http://rm:8088",
    version="3.5.0",
    state="ACTIVE",
    started_at=1.0,
    scheduler="CapacityScheduler",
    store="fs",
    writable=True,
    policies=("ProportionalCapacityPreemptionPolicy", "AutoCreatedQueueDeletionPolicy"),
    preemption=PreemptionSettings(1000, 1.0, 1.0, 0.0),
    security="simple",
    resources=("memory-mb", "vcores", "yarn.io/gpu"),
    least_memory_mb=128,
    calculator="DominantResourceCalculator",
    recovers=True,
    isolates_gpus=True,
)
LEAF = "root.sql.auto-queue-creation-v2.leaf-template"


def tree(**changed):
    settings = {f"{LEAF}.user-limit-factor": "1000", **changed}
    return queue_tree(FakeScheduler(**settings).get("/scheduler"))


def limits(facts=BEST, queues=None, pools=(SQL,), partitions=None):
    """The findings that are not good, by topic."""
    found = diagnose(facts, tree() if queues is None else queues, pools, partitions)
    return {finding.topic: (finding.verdict, f"{finding.found}: {finding.follows}") for finding in found
            if finding.verdict != "good"}  # fmt: skip


def changed(**fields):
    return dataclasses.replace(BEST, **fields)


def test_a_manager_that_allows_everything_has_no_limits():
    assert limits() == {}


@pytest.mark.parametrize(
    ("facts", "topic", "verdict", "text"),
    [
        (changed(version="3.3.6"), "version", "limited", "3.4"),
        (changed(state="STANDBY"), "state", "stops", "HA"),
        (changed(security="kerberos"), "security", "limited", "simple authentication"),
        (changed(calculator="DefaultResourceCalculator"), "resource calculator", "limited", "memory only"),
        (
            changed(calculator=None),
            "resource calculator",
            "limited",
            "Dominant",
        ),
        (
            changed(store="file", writable=False),
            "configuration store",
            "limited",
            "Set yarn.scheduler.configuration.store.class=fs",
        ),
        (changed(store="file", writable=False), "mode", "limited", "feedback only"),
        (
            changed(writable=False, unread="oh no"),
            "mode",
            "limited",
            "unknown",
        ),
        (changed(unread="oh no"), "configuration store", "limited", "could not be read: oh no"),
        (changed(policies=()), "preemption", "limited", "scheduler.monitor.enable=true"),
        (changed(policies=()), "queue deletion", "limited", "AutoCreatedQueueDeletionPolicy"),
        (changed(recovers=False), "recovery", "limited", "restart"),
        (
            changed(preemption=PreemptionSettings(15_000, 1.0, 1.0, 0.0)),
            "preemption wait",
            "limited",
            "15 s",
        ),
        (
            changed(preemption=PreemptionSettings(wait_ms=1000)),
            "preemption speed",
            "limited",
            "20%",
        ),
    ],
)
def test_each_limitation_is_reported_with_its_remedy(facts, topic, verdict, text):
    found = limits(facts)
    assert found[topic][0] == verdict
    assert text in found[topic][1]


def test_another_version_is_good_and_reported_as_untested():
    (version,) = [one for one in diagnose(changed(version="3.4.1"), tree(), [SQL]) if one.topic == "version"]
    assert (version.verdict, "3.5.0" in version.follows) == ("good", True)


def test_the_wait_of_preemption_follows_the_grace_period():
    (wait,) = [one for one in diagnose(BEST, tree(), [SQL]) if one.topic == "preemption wait"]
    assert ("10 s" in wait.found, "11 s" in wait.follows) == (True, True)


@pytest.mark.parametrize(
    ("settings", "verdict", "text"),
    [
        ({"root.sql.auto-queue-creation-v2.enabled": "false"}, "limited", "dynamic_leaves = true"),
        ({f"{LEAF}.capacity": "5w"}, "limited", "weight = 1"),
        ({f"{LEAF}.capacity": "0.01w"}, "limited", "0.01w"),
        ({f"{LEAF}.user-limit-factor": "1"}, "limited", "user_limit_factor = 1000"),
        (
            {"root.sql.queues": "x", "root.sql.x.capacity": "100"},
            "limited",
            "root.sql.x",
        ),
    ],
)
def test_what_a_pools_queue_lacks_is_reported(settings, verdict, text):
    found = limits(queues=tree(**settings))
    assert found["pool sql"][0] == verdict
    assert text in found["pool sql"][1]


def test_a_stopped_queue_is_a_limit_and_a_missing_one_stops():
    store = FakeScheduler(**{f"{LEAF}.user-limit-factor": "1000"})
    store.states["root.sql"] = "STOPPED"
    assert "no applications" in limits(queues=queue_tree(store.get("/scheduler")))["pool sql"][1]
    missing = dataclasses.replace(SQL, queue="root.nope")
    assert limits(pools=[missing])["pool sql"][0] == "stops"
    assert not can_run(diagnose(BEST, tree(), [missing]))


def test_gpus_matter_where_a_pool_divides_them():
    without = changed(resources=("memory-mb", "vcores"))
    assert limits(without) == {}
    assert "yarn.resource-types" in limits(without, pools=[SQL, GPU])["GPUs"][1]


PART = "root.sql.accessible-node-labels"
PARTITION = {
    "root.sql.auto-queue-creation-v2.enabled": "false",
    "root.sql.default-node-label-expression": "gpu",
    PART: "gpu",
    f"{PART}.gpu.capacity": "1w",
}


@pytest.mark.parametrize(
    ("settings", "has_partitions", "size", "text"),
    [
        (PARTITION, True, 0, None),
        ({}, False, 4, None),
        ({}, False, 0, "node labels are off.*yarn.node-labels.enabled=true"),
        ({}, True, 0, r"no partition: .*add a \[queue.partition.LABEL\] to root.sql"),
        (
            {**PARTITION, "root.sql.auto-queue-creation-v2.enabled": "true"},
            True,
            0,
            "nothing of gpu.*dynamic_leaves = false",
        ),
        ({**PARTITION, f"{PART}.gpu.maximum-capacity": "0"}, True, 0, "maximum 0%: YARN gives root.sql nothing of gpu"),
        ({**PARTITION, "root.sql.default-node-label-expression": ""}, True, 0, 'default_partition = "gpu"'),
    ],
)  # fmt: skip
def test_a_pool_of_leased_gpus_has_a_partition_or_the_size_of_a_task(settings, has_partitions, size, text):
    pool = dataclasses.replace(GPU, controller="lease", parameters=LeaseSettings(task_vcores=size))
    queues = {path: dataclasses.replace(one, preemption_disabled=True) for path, one in tree(**settings).items()}
    found = limits(changed(has_partitions=has_partitions), queues, (pool,))
    if text is None:
        assert found == {}
    else:
        verdict, shown = found["pool gpu"]
        assert verdict == "limited"
        assert re.search(text, shown), shown


@pytest.mark.parametrize(
    ("exclusivity", "state", "text"),
    [
        (True, "RUNNING", None),
        (False, "RUNNING", "gpu not exclusive: .*exclusive=true"),
        (True, "LOST", "no node of gpu accepts containers: .*-replaceLabelsOnNode NODE=gpu"),
    ],
)
def test_the_partition_of_a_pool_is_exclusive_and_has_nodes(serve, exclusivity, state, text):
    manager = Manager()
    manager.store.partitions = {"gpu": exclusivity}
    manager.nodes = [{"id": "gpu-1:1", "nodeHostName": "gpu-1", "rack": "/r", "state": state, "nodeLabels": ["gpu"],
                      "usedMemoryMB": 0, "availMemoryMB": 1024, "usedVirtualCores": 0,
                      "availableVirtualCores": 1}]  # fmt: skip
    partitions = read_with_nodes(ResourceManager([serve(manager)], "ann"))
    pool = dataclasses.replace(GPU, controller="lease", parameters=LeaseSettings())
    queues = {path: dataclasses.replace(one, preemption_disabled=True) for path, one in tree(**PARTITION).items()}
    found = limits(changed(has_partitions=True), queues, (pool,), partitions)
    if text is None:
        assert found == {}
    else:
        assert re.search(text, found["pool gpu"][1])


@pytest.mark.parametrize("settings", [PARTITION, {}])
def test_a_queue_needs_a_part_of_the_partition_that_its_pool_leases(settings):
    pool = dataclasses.replace(GPU, controller="lease", parameters=LeaseSettings(partition="big"))
    queues = {path: dataclasses.replace(one, preemption_disabled=True) for path, one in tree(**settings).items()}
    verdict, shown = limits(changed(has_partitions=True), queues, (pool,))["pool gpu"]
    assert verdict == "limited"
    assert re.search(r"no part of partition big: .*root.sql nothing of it.*\[queue.partition.big\]", shown)


def test_yarn_must_not_preempt_what_holds_leases():
    pool = dataclasses.replace(GPU, controller="lease", parameters=LeaseSettings(task_vcores=4))
    assert "disable_preemption = true" in limits(pools=(pool,))["pool gpu"][1]


def test_counted_gpus_are_not_isolated():
    pool = dataclasses.replace(GPU, controller="lease", parameters=LeaseSettings(task_vcores=4))
    found = limits(changed(isolates_gpus=False), pools=(pool,))["pool gpu"][1]
    assert "isolates nothing" in found and "yarn.nodemanager.resource-plugins=yarn.io/gpu" in found


@pytest.mark.parametrize(("plugins", "isolates"), [("yarn.io/fpga, yarn.io/gpu", True), ("yarn.io/fpga", False)])
def test_isolation_is_read_from_the_configuration(plugins, isolates):
    assert isolate_gpus({"yarn.nodemanager.resource-plugins": plugins}) == isolates


def test_another_scheduler_stops():
    assert limits(changed(scheduler="FairScheduler"), queues={})["scheduler"][0] == "stops"


class Manager:
    """A ResourceManager as a web server: `conf` is its /conf page, `store` its queues."""

    def __init__(self, conf=(), **settings):
        self.conf, self.store, self.nodes = dict(conf), FakeScheduler(**settings), []

    def __call__(self, asked):
        path = asked.path.removeprefix("/ws/v1/cluster")
        if path == "/conf":
            return reply({"properties": [{"key": key, "value": value} for key, value in self.conf.items()]})
        if path == "/info":
            return reply({"clusterInfo": {"resourceManagerVersion": "3.5.0", "haState": "ACTIVE", "startedOn": 1000}})
        if path == "/nodes":
            return reply({"nodes": {"node": self.nodes}})
        if path == "/metrics":
            return reply({"clusterMetrics": {"activeNodes": 1}})
        try:
            return reply(self.store.get(path))
        except ManagerRefusedError as refused:
            return 400, {"Content-Type": "application/json"}, str(refused)


@pytest.fixture
def serve(closing):
    return lambda manager: closing(WebServer(manager)).url


def test_facts_of_a_stock_manager_are_hadoops_defaults(serve):
    manager = Manager({"yarn.scheduler.configuration.store.class": "file"})
    manager.store.writable = False
    facts = probe(ResourceManager([serve(manager)], "ann"))
    assert (facts.store, facts.writable, facts.preempts, facts.calculator) == ("file", False, False, None)
    assert facts.preemption == PreemptionSettings(15_000, 0.1, 0.2, 0.1)


def test_facts_of_a_manager_that_is_set_up_for_shares(serve):
    prefix = "yarn.resourcemanager"
    conf = {
        "yarn.scheduler.configuration.store.class": "fs",
        f"{prefix}.scheduler.monitor.enable": "true",
        f"{prefix}.scheduler.monitor.policies": "org.a.ProportionalCapacityPreemptionPolicy,org.b.Another",
        f"{prefix}.monitor.capacity.preemption.max_wait_before_kill": "1000",
        f"{prefix}.monitor.capacity.preemption.max_ignored_over_capacity": "nonsense",
        "yarn.resource-types": "yarn.io/gpu, other",
    }
    facts = probe(ResourceManager([serve(Manager(conf))], "ann"))
    assert (facts.writable, facts.preempts, facts.calculator) == (True, True, "DefaultResourceCalculator")
    assert facts.policies == ("ProportionalCapacityPreemptionPolicy", "Another")
    assert facts.preemption == PreemptionSettings(1000, 0.1, 0.2, 0.1)
    assert facts.resources == ("memory-mb", "vcores", "yarn.io/gpu", "other")


@pytest.mark.parametrize(
    ("status", "said", "store", "writable", "mode"),
    [
        (400, "only supported by mutable configuration store", "fs", False, "feedback only"),
        (403, "User dr.who is not an admin", "fs", False, "feedback only"),
        (400, "Bad Request", "fs", True, "enforced"),
        (500, "oh no", "fs", True, "enforced"),
        (500, "oh no", None, False, "unknown"),
        (503, "later", None, False, "unknown"),
        (200, "{}", "zk", True, "enforced"),
    ],
)
def test_a_refused_configuration_differs_from_an_unreadable_one(serve, status, said, store, writable, mode):
    manager = Manager({"yarn.scheduler.configuration.store.class": store} if store else {})
    usual = manager.__call__

    def answer(asked):
        failing = asked.path.endswith("/scheduler-conf")
        return (status, {"Content-Type": "application/json"}, said) if failing else usual(asked)

    facts = probe(ResourceManager([serve(answer)], "ann"))
    assert (facts.writable, facts.mode) == (writable, mode)
    assert (facts.unread is None) == (mode == "feedback only")


@pytest.fixture
def doctor(serve, tmp_path, capsys):
    def ask(manager, *more):
        arguments = ["doctor", "--rm", serve(manager), "--json", str(tmp_path / "doctor.json"), *more]
        code = console.run(cli, "yarn-plugin", arguments)
        return code, capsys.readouterr().out, json.loads((tmp_path / "doctor.json").read_text())

    return ask


def test_the_command_ends_with_0_where_the_arbiter_can_run(doctor):
    manager = Manager()
    manager.store.writable = False
    code, out, figures = doctor(manager)
    assert (code, figures["can_run"]) == (0, True)
    assert "Set yarn.scheduler.configuration.store.class=fs" in out
    assert "the arbiter can run here" in out


def test_the_command_ends_with_1_where_it_cannot(doctor, tmp_path):
    (tmp_path / "pools.toml").write_text('[[pools]]\nname = "x"\nqueue = "root.x"\n')
    code, out, figures = doctor(Manager(), "--config", str(tmp_path / "pools.toml"))
    assert (code, figures["can_run"]) == (1, False)
    assert "the arbiter cannot run here" in out
    manager = Manager()
    manager.store.capacity_scheduler = False
    assert doctor(manager)[0] == 1


def test_certificates_to_trust_reach_the_manager(monkeypatch, tmp_path):
    trusted = []

    def manager(urls, user, verify):
        trusted.append(verify)
        raise ManagerRefusedError(403, "enough was seen")

    monkeypatch.setattr("yarn_plugin.cli.doctor.ResourceManager", manager)
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    (tmp_path / "ca.pem").touch()
    ask = ["doctor", "--rm", "https://rm:8090"]
    console.run(cli, "yarn-plugin", ask)
    console.run(cli, "yarn-plugin", [*ask, "--ca-file", str(tmp_path / "ca.pem")])
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/etc/company.pem")
    console.run(cli, "yarn-plugin", ask)
    assert trusted == [True, str(tmp_path / "ca.pem"), "/etc/company.pem"]


def test_a_verdict_has_a_colour_and_what_is_found_is_not_markup(monkeypatch, capsys):
    found = Finding("[/topic]", "[found]", "limited", "[/x] " * 100)
    styled = console.PlainConsole(force_terminal=True, color_system="standard", width=1000, markup=False)
    monkeypatch.setattr(console, "out", styled)
    doctor_command._print(BEST, [found])
    _, _, line, *_ = capsys.readouterr().out.splitlines()
    assert "\x1b[33mlimited\x1b[0m" in line
    assert "[/topic]" in line and "[found]" in line and line.count("[/x]") == 100


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"message": "no"},
        {"scheduler": 3},
        {"schedulerInfo": {}},
        {"scheduler": {"schedulerInfo": {"type": "capacityScheduler", "weight": []}}},
        {"schedulerInfo": {"type": "capacityScheduler", "queues": {"queue": [3]}}},
    ],
)
def test_a_tree_that_cannot_be_read_is_not_a_managers(answer):
    with pytest.raises(NotAManagerError, match="/scheduler"):
        queue_tree(answer)
