"""The one walk over the queues of /scheduler, and what is read of each."""

import pytest

from yarn_plugin.model.resources import Resources
from yarn_plugin.observe import translate
from yarn_plugin.observe.answers import MAX_DEPTH
from yarn_plugin.observe.queue_tree import queue_tree
from yarn_plugin.observe.resource_manager import NotAManagerError

LEAF = {"queueName": "leaf", "absoluteCapacity": 50.0, "absoluteMaxCapacity": 100.0}


def scheduler(*queues, **more):
    return {"scheduler": {"schedulerInfo": {"type": "capacityScheduler", "queues": {"queue": list(queues)}, **more}}}


def nested(depth):
    queue = LEAF
    for _ in range(depth - 1):
        queue = {"queueName": "in", "queues": {"queue": [queue]}}
    return scheduler(queue)


@pytest.mark.parametrize(
    "answer",
    [
        scheduler({"queueName": "a", "queues": {"queue": [LEAF]}}, {"queueName": "b"}),
        scheduler({"queuePath": "root.a", "queues": {"queue": LEAF}}, {"queuePath": "root.b", "queues": None}),
        scheduler({"queueName": "a", "queues": [LEAF]}, {"queueName": "b", "queues": {}}),
        scheduler({"queueName": "a", "queues": {"queue": [LEAF]}}, {"queueName": "b", "queues": []})["scheduler"],
    ],
)
def test_queues_in_all_their_forms_come_parents_first(answer):
    assert list(queue_tree(answer)) == list(translate.queues(answer)) == ["root", "root.a", "root.a.leaf", "root.b"]


@pytest.mark.parametrize("child", [3, "x", {}, {"queueName": ""}, {"queueName": "a\nb"}, {"queuePath": 3}])
def test_a_queue_without_a_name_keeps_no_other_from_the_watch_and_makes_no_tree(child):
    reading = translate.queues(scheduler(child, LEAF))
    assert (list(reading), len(reading.without_id)) == (["root", "root.leaf"], 1)
    with pytest.raises(NotAManagerError, match="the answer to /scheduler"):
        queue_tree(scheduler(child, LEAF))


def test_queues_lie_in_one_another_only_so_deep():
    assert len(queue_tree(nested(MAX_DEPTH))) == len(translate.queues(nested(MAX_DEPTH))) == MAX_DEPTH + 1
    for depth in (MAX_DEPTH + 1, 5000):
        assert len(translate.queues(nested(depth)).without_id) == 1
        with pytest.raises(NotAManagerError):
            queue_tree(nested(depth))


@pytest.mark.parametrize("kind", [None, 3, ["capacityScheduler"]])
def test_a_scheduler_without_a_type_is_rejected(kind):
    for read in (queue_tree, translate.queues):
        with pytest.raises(NotAManagerError):
            read(scheduler(LEAF, type=kind))


@pytest.mark.parametrize("kind", ["fairScheduler", "fifoScheduler"])
def test_another_scheduler_has_no_queues_of_ours(kind):
    assert queue_tree(scheduler(LEAF, type=kind)) == translate.queues(scheduler(LEAF, type=kind)) == {}


def amounts(**values):
    entries = [{"name": name.replace("_", "-"), "value": value} for name, value in values.items()]
    return {"resourceInformations": {"resourceInformation": entries}}


@pytest.mark.parametrize(
    ("used", "held"),
    [
        (None, {}),
        ({}, {}),
        ({"memory": 2048, "vCores": 2}, {"memory-mb": 2048, "vcores": 2}),
        ({"memory": -2048, "vCores": 2}, {"vcores": 2}),
        (amounts(memory_mb=1024, vcores=1), {"memory-mb": 1024, "vcores": 1}),
        (amounts(memory_mb=-1024, vcores=1), {"vcores": 1}),
    ],
)
def test_what_a_queue_holds_is_never_below_nothing(used, held):
    assert queue_tree(scheduler({**LEAF, "resourcesUsed": used}))["root.leaf"].held == Resources.of(held)


@pytest.mark.parametrize("used", [3, {"memory": "x"}, {"resourceInformations": 3}, amounts(vcores=None)])
def test_what_a_queue_holds_must_be_amounts(used):
    with pytest.raises(NotAManagerError):
        queue_tree(scheduler({**LEAF, "resourcesUsed": used}))
