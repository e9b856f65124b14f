"""Commands carried out on a server that plays a ResourceManager; every outcome comes back as an event."""

import queue

import pytest

from tests.web import WebServer, reply
from yarn_plugin.act.actor import Actor
from yarn_plugin.decide.commands import ListContainers, SignalContainers, WriteWeights
from yarn_plugin.decide.events import ContainersListed, ContainersSignalled, WeightsRefused, WeightsWritten
from yarn_plugin.observe.resource_manager import ResourceManager

CAPACITY = "yarn.scheduler.capacity.{}.capacity"


class Manager:
    """Keeps what is written, unless told to ignore, refuse or talk nonsense."""

    def __init__(self):
        self.conf, self.mood, self.signalled = {CAPACITY.format("root.sql.old"): "5w"}, "obeys", []

    def __call__(self, asked):
        path = asked.path.removeprefix("/ws/v1/cluster")
        if self.mood == "refuses":
            return 400, {}, "Configuration change only supported by mutable configuration store."
        if self.mood == "nonsense":
            return reply({"property": [{"what": 1}], "appAttempts": {"appAttempt": [3]}})
        if path == "/scheduler-conf" and asked.method == "PUT":
            if self.mood == "obeys":
                self._keep(asked.body)
            return 200, {}, "Configuration change successfully applied."
        if path == "/scheduler-conf":
            return reply({"property": [{"name": name, "value": value} for name, value in self.conf.items()]})
        if path.endswith("/appattempts"):
            return reply({"appAttempts": {"appAttempt": [{"appAttemptId": "appattempt_1", "containerId": "c_1"}]}})
        if path.endswith("/containers"):
            found = [{"containerId": f"c_{n}", "allocatedMB": 128, "allocatedVCores": 1} for n in (1, 2)]
            return reply({"containers": {"container": found}})
        self.signalled.append(path.split("/")[2])
        return (404, {}, "no such container") if "c_gone" in path else reply({})

    def _keep(self, body):
        for change in body["update-queue"]:
            for entry in change["params"]["entry"]:
                self.conf[CAPACITY.format(change["queue-name"])] = entry["value"]
        self.conf = {name: value for name, value in self.conf.items() if value}


@pytest.fixture
def manager():
    return Manager()


@pytest.fixture
def carry_out(manager):
    """Carries a command out; returns its outcome."""
    server, outcomes = WebServer(manager), queue.SimpleQueue()
    actor = Actor(ResourceManager([server.url], "ann"), outcomes.put)

    def one(command):
        actor.carry_out(command)
        return outcomes.get(timeout=30)

    one.send = actor.carry_out
    yield one
    actor.close()
    server.close()


WEIGHTS = WriteWeights((("root.sql.a", 33.33),), ("root.sql.old",), "a arrived")


def test_weights_are_written_and_taken_back_and_read_back(carry_out, manager):
    assert carry_out(WEIGHTS) == WeightsWritten((("root.sql.a", 33.33),), ("root.sql.old",))
    assert manager.conf == {CAPACITY.format("root.sql.a"): "33.33w"}


def test_weights_that_are_not_kept_are_refused_weights(carry_out, manager):
    manager.mood = "ignores"
    outcome = carry_out(WEIGHTS)
    assert outcome == WeightsRefused("queue root.sql.a: capacity '33.33w' was written, the RM has ''")


def test_a_refusal_and_an_answer_that_cannot_be_read_are_outcomes_and_the_next_command_is_carried_out(
    carry_out, manager
):
    manager.mood = "refuses"
    assert "mutable configuration store" in carry_out(WEIGHTS).error
    manager.mood = "nonsense"
    assert "cannot be read" in carry_out(WEIGHTS).error
    manager.mood = "obeys"
    assert isinstance(carry_out(WEIGHTS), WeightsWritten)


def test_containers_are_listed_with_their_master(carry_out):
    outcome = carry_out(ListContainers("app_1", "application_1_1", "overstays"))
    assert isinstance(outcome, ContainersListed)
    assert [(one.id, one.master) for one in outcome.containers] == [("c_1", True), ("c_2", False)]


def test_containers_are_signalled_and_those_that_are_gone_are_named(carry_out, manager):
    outcome = carry_out(SignalContainers("app_1", ("c_2", "c_gone"), "overstays"))
    assert isinstance(outcome, ContainersSignalled)
    assert manager.signalled == ["c_2", "c_gone"]
    assert outcome.failed == ("c_gone: the ResourceManager refused (404): no such container",)


def test_an_application_that_cannot_be_listed_has_no_outcome(carry_out, manager):
    """It is found to overstay again; nothing waits for it, and the next command is carried out."""
    manager.mood = "nonsense"
    carry_out.send(ListContainers("app_1", "application_1_1", "overstays"))
    assert isinstance(carry_out(WEIGHTS), WeightsRefused)
