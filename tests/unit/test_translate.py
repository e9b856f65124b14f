"""The ResourceManager's JSON in all the forms it comes in."""

import pytest

from yarn_plugin.model.resources import Resources
from yarn_plugin.observe import translate
from yarn_plugin.observe.nodes import MAX_SILENT, SILENT_TTL, parse_nodes

NODE = {"id": "127.0.1.1:8041", "rack": "/r1", "state": "RUNNING"}
TOTAL = {"resourceInformations": {"resourceInformation": [{"name": "memory-mb", "value": 4096},
                                                          {"name": "yarn.io/gpu", "value": 4}]}}  # fmt: skip
APP = {"id": "application_1_0001", "state": "RUNNING", "queue": "root.sql.x", "runningContainers": 3}


@pytest.mark.parametrize(
    "answer", [{"nodes": {}}, {"nodes": None}, {"node": []}, {"nodes": {"node": []}}, {"nodes": {"node": None}}]
)
def test_no_nodes_in_all_their_forms(answer):
    assert parse_nodes(answer) == {}


@pytest.mark.parametrize(
    "answer", [{"apps": {}}, {"apps": None}, {"app": []}, {"apps": {"app": []}}, {"apps": {"app": None}}]
)
def test_no_applications_in_all_their_forms(answer):
    assert translate.apps(answer) == {}


@pytest.mark.parametrize("answer", [{"nodes": {"node": [NODE]}}, {"node": [NODE]}, {"nodes": {"node": NODE}}])
def test_nodes_wrapped_bare_and_alone(answer):
    assert set(parse_nodes(answer)) == {"127.0.1.1:8041"}


def test_a_nodes_capacity_with_and_without_resource_types():
    new = parse_nodes({"nodes": {"node": [{**NODE, "totalResource": TOTAL}]}})
    old = parse_nodes({"nodes": {"node": [{**NODE, "usedMemoryMB": 1024, "availMemoryMB": 3072,
                                               "usedVirtualCores": 1, "availableVirtualCores": 3}]}})  # fmt: skip
    assert new["127.0.1.1:8041"].capacity == Resources.of({"memory-mb": 4096, "yarn.io/gpu": 4})
    assert old["127.0.1.1:8041"].capacity == Resources.of({"memory-mb": 4096, "vcores": 4})
    assert new["127.0.1.1:8041"].host == "127.0.1.1"


def test_nodes_that_take_no_containers_are_left_out():
    assert parse_nodes({"nodes": {"node": [{**NODE, "state": "LOST"}, {**NODE, "state": "DECOMMISSIONING"}]}}) == {}


def listed(*nodes):
    """Nodes as parsed, each given as (id, state) and further fields."""
    told = [{"id": name, "state": state, "rack": "/r1", **dict(*more)} for name, state, *more in nodes]
    return parse_nodes({"nodes": {"node": told}})


@pytest.mark.parametrize("state", ["UNHEALTHY", "LOST", "DECOMMISSIONED", "DECOMMISSIONING", "SHUTDOWN", "REBOOTED"])
def test_a_node_that_is_listed_and_takes_no_containers_is_broken(state):
    reading = listed(("a:1", "RUNNING"), ("b:1", state, {"totalResource": TOTAL}))
    assert set(reading) == {"a:1"}
    (broken,) = reading.broken.values()
    assert (broken.id, broken.rack, broken.capacity) == (
        "b:1", "/r1", Resources.of({"memory-mb": 4096, "yarn.io/gpu": 4})
    )  # fmt: skip


def test_a_node_that_is_only_being_added_is_neither_well_nor_broken():
    reading = listed(("a:1", "NEW"))
    assert (reading, reading.broken, reading.unreadable) == ({}, {}, {})


def test_a_broken_node_of_which_not_all_can_be_read_is_broken():
    reading = listed(("a:1", "LOST", {"rack": None, "totalResource": [], "lastHealthUpdate": "never"}))
    assert set(reading.broken) == {"a:1"}
    assert reading.unreadable == {}


def test_a_node_that_runs_again_under_another_port_is_not_lost():
    reading = listed(("a:1", "LOST"), ("a:2", "RUNNING"), ("b:1", "LOST"), ("b:2", "UNHEALTHY"))
    assert (set(reading), set(reading.broken)) == ({"a:2"}, {"b:2"})


def test_of_a_host_that_was_lost_often_the_last_one_counts():
    reading = listed(*((f"a:{port}", "LOST", {"lastHealthUpdate": at}) for port, at in ((1, 5), (2, 9), (3, 7))))
    assert set(reading.broken) == {"a:2"}


def test_two_nodes_of_a_host_that_report_are_both_broken():
    assert set(listed(("a:1", "UNHEALTHY"), ("a:2", "DECOMMISSIONING")).broken) == {"a:1", "a:2"}


def test_a_node_that_has_been_silent_for_a_day_does_not_count_any_more():
    now = 1_700_000_000_000
    reading = listed(
        ("a:1", "RUNNING", {"lastHealthUpdate": now}),
        ("b:1", "DECOMMISSIONED", {"lastHealthUpdate": now - SILENT_TTL}),
        ("c:1", "LOST", {"lastHealthUpdate": now - SILENT_TTL - 1}),
        ("d:-1", "DECOMMISSIONED", {"lastHealthUpdate": 0}),
        ("e:1", "UNHEALTHY", {"lastHealthUpdate": 0}),
    )
    assert set(reading.broken) == {"b:1", "e:1"}


def test_of_very_many_silent_nodes_the_last_ones_count():
    reading = listed(*((f"n{n}:1", "LOST", {"lastHealthUpdate": n}) for n in range(MAX_SILENT + 5)))
    assert len(reading.broken) == MAX_SILENT
    assert "n4:1" not in reading.broken


def test_an_application_with_what_it_uses_and_still_wants():
    usage = {"resourceUsagesByPartition": [{"used": {"memory": 2048, "vCores": 2}, "pending": TOTAL}]}
    app = translate.apps({"apps": {"app": [{**APP, "resourceInfo": usage}]}})["application_1_0001"]
    assert app.used == Resources.of({"memory-mb": 2048, "vcores": 2})
    assert app.pending == Resources.of({"memory-mb": 4096, "yarn.io/gpu": 4})
    assert (app.containers, app.waiting) == (3, False)


def test_an_application_that_has_nothing_yet_waits():
    app = translate.apps({"apps": {"app": {**APP, "state": "ACCEPTED", "runningContainers": -1, "allocatedMB": -1}}})
    assert (app["application_1_0001"].waiting, app["application_1_0001"].used) == (True, Resources())


def test_the_scheduler_must_be_the_capacity_scheduler():
    assert translate.queues({"scheduler": {"schedulerInfo": {"type": "fairScheduler"}}}) == {}


def test_each_reason_to_wait_is_listed_once_with_its_hosts():
    refused = {"diagnostic": "Node does not have sufficient resource", "nodeIds": ["a:1", "b:1"]}
    allocations = [{"children": [refused]}, {"nodeId": "c:1", "children": [{**refused, "nodeIds": ["c:1"]}]}]
    found = translate.why_waiting({"appActivities": {"allocations": allocations}})
    assert found == ["Node does not have sufficient resource (on a, b, c)"]
    assert translate.why_waiting({"appActivities": {"diagnostic": "waiting for display"}}) == []


def test_an_applications_diagnostics_are_one_line():
    said = {"app": {"diagnostics": "[Sat] Application is Activated,\n waiting for resources  for AM. "}}
    assert translate.diagnostics(said) == ["[Sat] Application is Activated, waiting for resources for AM."]
    assert translate.diagnostics({"app": {"diagnostics": None}}) == translate.diagnostics({}) == []


@pytest.mark.parametrize(("labels", "partition"), [(["gpu"], "gpu"), ("gpu", "gpu"), (None, ""), ([], ""), ([7], "")])
def test_the_label_of_a_node_is_its_partition(labels, partition):
    node = {**NODE, "totalResource": TOTAL, "nodeLabels": labels}
    (found,) = parse_nodes({"nodes": {"node": [node]}}).partitions.values() or [""]
    assert found == partition


def test_an_application_that_has_not_changed_is_not_parsed_again():
    app = {"id": "application_1_1", "state": "RUNNING", "name": "a", "user": "ann", "queue": "root.sql.a",
           "startedTime": 1, "runningContainers": 2, "allocatedMB": 2048, "allocatedVCores": 2,
           "resourceInfo": None}  # fmt: skip
    remembered = translate.remembered_apps()

    def parsed(**changed):
        return translate.apps({"apps": {"app": [{**app, **changed}]}}, remembered)

    first = parsed(elapsedTime=1)["application_1_1"]
    assert parsed(elapsedTime=2)["application_1_1"] is first
    assert parsed(runningContainers=3)["application_1_1"].containers == 3
    assert parsed(runningContainers="many").unreadable == {"application_1_1": "runningContainers is 'many'"}
    again = parsed()["application_1_1"]
    assert again == first and again is not first, "an answer without it is forgotten"
    assert not parsed(state="FINISHED")
    del app["resourceInfo"]
    assert parsed()["application_1_1"] == first and parsed()["application_1_1"] == first
