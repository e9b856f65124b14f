"""The ResourceManager's JSON in all the forms it comes in."""

import pytest

from yarn_plugin.model.resources import Resources
from yarn_plugin.observe import translate

NODE = {"id": "127.0.1.1:8041", "rack": "/r1", "state": "RUNNING"}
TOTAL = {"resourceInformations": {"resourceInformation": [{"name": "memory-mb", "value": 4096},
                                                          {"name": "yarn.io/gpu", "value": 4}]}}  # fmt: skip
APP = {"id": "application_1_0001", "state": "RUNNING", "queue": "root.sql.x", "runningContainers": 3}


@pytest.mark.parametrize(
    "answer", [{"nodes": {}}, {"nodes": None}, {"node": []}, {"nodes": {"node": []}}, {"nodes": {"node": None}}]
)
def test_no_nodes_in_all_their_forms(answer):
    assert translate.nodes(answer) == {}


@pytest.mark.parametrize(
    "answer", [{"apps": {}}, {"apps": None}, {"app": []}, {"apps": {"app": []}}, {"apps": {"app": None}}]
)
def test_no_applications_in_all_their_forms(answer):
    assert translate.apps(answer) == {}


@pytest.mark.parametrize("answer", [{"nodes": {"node": [NODE]}}, {"node": [NODE]}, {"nodes": {"node": NODE}}])
def test_nodes_wrapped_bare_and_alone(answer):
    assert set(translate.nodes(answer)) == {"127.0.1.1:8041"}


def test_a_nodes_capacity_with_and_without_resource_types():
    new = translate.nodes({"nodes": {"node": [{**NODE, "totalResource": TOTAL}]}})
    old = translate.nodes({"nodes": {"node": [{**NODE, "usedMemoryMB": 1024, "availMemoryMB": 3072,
                                               "usedVirtualCores": 1, "availableVirtualCores": 3}]}})  # fmt: skip
    assert new["127.0.1.1:8041"].capacity == Resources.of({"memory-mb": 4096, "yarn.io/gpu": 4})
    assert old["127.0.1.1:8041"].capacity == Resources.of({"memory-mb": 4096, "vcores": 4})
    assert new["127.0.1.1:8041"].host == "127.0.1.1"


def test_nodes_that_take_no_containers_are_left_out():
    assert translate.nodes({"nodes": {"node": [{**NODE, "state": "LOST"}, {**NODE, "state": "DECOMMISSIONING"}]}}) == {}


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


def test_why_one_waits_is_told_once_with_the_hosts():
    refused = {"diagnostic": "Node does not have sufficient resource", "nodeIds": ["a:1", "b:1"]}
    allocations = [{"children": [refused]}, {"nodeId": "c:1", "children": [{**refused, "nodeIds": ["c:1"]}]}]
    found = translate.why_waiting({"appActivities": {"allocations": allocations}})
    assert found == ["Node does not have sufficient resource (on a, b, c)"]
    assert translate.why_waiting({"appActivities": {"diagnostic": "waiting for display"}}) == []


def test_what_an_application_says_of_itself_is_one_line():
    said = {"app": {"diagnostics": "[Sat] Application is Activated,\n waiting for resources  for AM. "}}
    assert translate.diagnostics(said) == ["[Sat] Application is Activated, waiting for resources for AM."]
    assert translate.diagnostics({"app": {"diagnostics": None}}) == translate.diagnostics({}) == []
