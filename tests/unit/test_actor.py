"""Commands carried out on a server that plays a ResourceManager; every outcome comes back as an event."""

import queue
import time

import pytest

from tests.http_servers import WebServer, reply
from yarn_plugin.act import actor as actor_module
from yarn_plugin.act.actor import Actor
from yarn_plugin.act.ownership import OwnedError, Owner, Ownership
from yarn_plugin.act.weights import leaves_in
from yarn_plugin.decide.commands import ListContainers, ReadLeaves, SignalContainers, WriteWeights
from yarn_plugin.decide.events import (
    ContainersListed,
    ContainersSignalled,
    LeavesSeen,
    LeavesUnread,
    Superseded,
    WeightsRefused,
    WeightsWritten,
)
from yarn_plugin.model.causes import LegacyText
from yarn_plugin.observe.delivery import Stopped
from yarn_plugin.observe.resource_manager import ResourceManager
from yarn_plugin.observe.scheduler_configuration import SchedulerConfiguration, weight_of

CAPACITY = "yarn.scheduler.capacity.{}.capacity"
OWNER = "yarn.scheduler.capacity.root.sql.arbiter-owner"


class Manager:
    """Stores what is written, unless its mood is to ignore, refuse or answer nonsense."""

    def __init__(self):
        self.conf, self.mood, self.signalled = {CAPACITY.format("root.sql.old"): "5w"}, "obeys", []
        self.bad, self.puts = set(), 0

    def __call__(self, asked):
        path = asked.path.removeprefix("/ws/v1/cluster")
        if self.mood == "refuses":
            return 400, {}, "Configuration change only supported by mutable configuration store."
        if self.mood == "nonsense":
            return reply({"property": [{"what": 1}], "appAttempts": {"appAttempt": [3]}})
        if self.mood == "fails":
            return 500, {}, "oh no"
        if path == "/scheduler-conf" and asked.method == "PUT":
            self.puts += 1
            if self.bad & {change["queue-name"] for change in asked.body["update-queue"]}:
                return 400, {}, "Failed to re-init queues : mixed of weight mode and percentage"
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
                self.conf[f"yarn.scheduler.capacity.{change['queue-name']}.{entry['key']}"] = entry["value"]
        self.conf = {name: value for name, value in self.conf.items() if value}


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    """Weights may be written again without a wait of a second."""
    monkeypatch.setattr(actor_module, "WRITE_INTERVAL", 0.02)


@pytest.fixture
def manager():
    return Manager()


@pytest.fixture
def acting(manager):
    """Makes an actor; returns what carries a command out and returns its outcome."""
    server, made = WebServer(manager), []

    def start(**options):
        outcomes = queue.SimpleQueue()
        actor = Actor(ResourceManager([server.url], "ann"), outcomes.put, **options)
        made.append(actor)

        def one(command):
            actor.carry_out(command)
            return outcomes.get(timeout=60)

        one.send, one.outcome, one.actor = actor.carry_out, lambda: outcomes.get(timeout=60), actor
        return one

    yield start
    for actor in made:
        actor.close()
    server.close()


@pytest.fixture
def carry_out(acting):
    """Carries a command out; returns its outcome."""
    return acting()


WEIGHTS = WriteWeights((("root.sql.a", 33.33),), ("root.sql.old",), LegacyText("a arrived"))


def test_weights_are_written_and_taken_back_and_read_back(carry_out, manager):
    assert carry_out(WEIGHTS) == WeightsWritten((("root.sql.a", 33.33),), ("root.sql.old",))
    assert manager.conf == {CAPACITY.format("root.sql.a"): "33.33w"}


def test_weights_that_yarn_does_not_store_count_as_refused(carry_out, manager):
    manager.mood = "ignores"
    outcome = carry_out(WEIGHTS)
    assert isinstance(outcome, WeightsRefused)
    assert "root.sql.a: capacity '33.33w'" in outcome.error


def test_a_refusal_and_an_answer_that_cannot_be_read_are_outcomes_and_the_next_command_is_carried_out(
    carry_out, manager
):
    manager.mood = "refuses"
    assert "mutable configuration store" in carry_out(WEIGHTS).error
    manager.mood = "nonsense"
    assert "/scheduler-conf" in carry_out(WEIGHTS).error
    manager.mood = "obeys"
    assert isinstance(carry_out(WEIGHTS), WeightsWritten)


def test_writes_keep_an_interval_and_other_commands_do_not_wait_for_it(acting, monkeypatch):
    monkeypatch.setattr(actor_module, "WRITE_INTERVAL", 3600.0)
    carry_out = acting()
    assert isinstance(carry_out(WEIGHTS), WeightsWritten)
    carry_out.send(WEIGHTS)
    listed = carry_out(ListContainers("app_1", "application_1_1", LegacyText("overstays")))
    assert isinstance(listed, ContainersListed), "the second write waits"


def test_containers_are_listed_with_their_master(carry_out):
    outcome = carry_out(ListContainers("app_1", "application_1_1", LegacyText("overstays")))
    assert isinstance(outcome, ContainersListed)
    assert [(one.id, one.master) for one in outcome.containers] == [("c_1", True), ("c_2", False)]


def test_a_list_of_containers_that_took_long_is_read_again(carry_out, monkeypatch):
    """The process was stopped while it waited, say: the list tells what ran before."""
    read, lists = actor_module.list_containers, []

    def read_slowly(manager, yarn_app):
        lists.append(read(manager, yarn_app) if lists else ())
        if len(lists) == 1:
            time.sleep(0.05)
        return lists[-1]

    monkeypatch.setattr(actor_module, "MAX_LIST_AGE", 0.04)
    monkeypatch.setattr(actor_module, "list_containers", read_slowly)
    outcome = carry_out(ListContainers("app_1", "application_1_1", LegacyText("overstays")))
    assert len(lists) == 2
    assert [one.id for one in outcome.containers] == ["c_1", "c_2"]


def test_containers_are_signalled_and_those_that_are_gone_are_named(carry_out, manager):
    outcome = carry_out(SignalContainers("app_1", ("c_2", "c_gone"), LegacyText("overstays")))
    assert isinstance(outcome, ContainersSignalled)
    assert manager.signalled == ["c_2", "c_gone"]
    (failed,) = outcome.failed
    assert failed.startswith("c_gone: ")
    assert failed.endswith("(404): no such container")


def test_an_application_that_cannot_be_listed_has_no_outcome(carry_out, manager):
    """Its overuse is found again later; nothing waits for it, and the next command is carried out."""
    manager.mood = "nonsense"
    carry_out.send(ListContainers("app_1", "application_1_1", LegacyText("overstays")))
    assert isinstance(carry_out(WEIGHTS), WeightsRefused)


def many(count):
    weights = tuple((f"root.sql.a{n}", float(n)) for n in range(1, count + 1))
    return WriteWeights(weights, ("root.sql.old",), LegacyText("many"))


@pytest.mark.parametrize("bad", [{"root.sql.a7"}, {"root.sql.a1", "root.sql.a40"}, {"root.sql.old"}])
def test_queues_that_are_refused_do_not_keep_the_others_from_their_weights(carry_out, manager, bad):
    manager.bad = bad
    command = many(40)
    outcome = carry_out(command)
    assert dict(outcome.refused).keys() == bad
    assert all("mixed of weight mode" in said for _, said in outcome.refused)
    assert outcome.weights == tuple(one for one in command.weights if one[0] not in bad)
    assert outcome.forgotten == (() if "root.sql.old" in bad else ("root.sql.old",))
    assert {manager.conf.get(CAPACITY.format(name)) for name, _ in outcome.weights} == {
        f"{n:g}w" for _, n in outcome.weights
    }
    assert manager.puts <= 1 + 4 * 6


def test_where_everything_is_refused_it_is_not_tried_queue_by_queue(carry_out, manager):
    command = many(1000)
    manager.bad = {name for name, _ in command.weights} | set(command.forget)
    assert "mixed of weight mode" in carry_out(command).error
    assert manager.puts < 100


def test_a_manager_that_fails_is_asked_once(carry_out, manager):
    manager.mood = "fails"
    assert carry_out(many(40)) == WeightsRefused(
        "the ResourceManager refused PUT /scheduler-conf as user ann (500): oh no"
    )


def test_one_weight_that_yarn_does_not_store_is_refused_and_the_others_are_written(carry_out, manager):
    keep = manager._keep

    def lose_one(body):
        keep(body)
        manager.conf[CAPACITY.format("root.sql.a2")] = "[memory=1024]"

    manager._keep = lose_one
    outcome = carry_out(many(3))
    assert outcome.weights == (("root.sql.a1", 1.0), ("root.sql.a3", 3.0))
    ((queue, error),) = outcome.refused
    assert (queue, "'2w'" in error, "'[memory=1024]'" in error) == ("root.sql.a2", True, True)


@pytest.mark.parametrize("foreign", ["[memory=1024]", "50%", "abc", "w", "nanw", "50", "", "1e999w"])
def test_capacities_of_other_kinds_are_no_weights(foreign):
    assert weight_of(foreign) is None
    conf = {CAPACITY.format("root.sql.x"): foreign, CAPACITY.format("root.sql.y"): " 33.3w "}
    assert leaves_in(SchedulerConfiguration(conf), ["root.sql"]) == LeavesSeen((), (("root.sql.y", 33.3),))


def test_only_leaves_of_the_pools_that_the_configuration_does_not_define_are_written(acting, manager):
    manager.conf |= {"yarn.scheduler.capacity.root.sql.queues": "etl, nightly", CAPACITY.format("root.sql.etl"): "7w"}
    carry_out = acting(parents=("root.sql",))
    foreign = ("root.sql.etl", "root.default", "root.sql", "root.sql.a.b", "sql.a", "")
    weights = (*((name, 1.0) for name in foreign), ("root.sql.a", 50.0))
    outcome = carry_out(WriteWeights(weights, ("root.sql.nightly", "root.other.x"), LegacyText("hostile")))
    assert outcome.weights == (("root.sql.a", 50.0),)
    assert dict(outcome.refused).keys() == {*foreign, "root.sql.nightly", "root.other.x"}
    assert dict(outcome.refused)["root.sql.etl"] == (
        "a static queue, defined in the configuration; only dynamic (auto-created) queues are changed"
    )
    assert manager.conf[CAPACITY.format("root.sql.etl")] == "7w"
    assert carry_out.actor.counters["queues_refused"] == 8
    outcome = carry_out(WriteWeights((), ("root.sql.etl",), LegacyText("hostile")))
    assert (outcome.weights, outcome.forgotten, len(outcome.refused)) == ((), (), 1)
    assert manager.puts == 1, "nothing is sent where nothing may be written"


def test_leaves_are_read_as_configured(carry_out, manager):
    manager.conf |= {
        "yarn.scheduler.capacity.root.sql.queues": "etl",
        CAPACITY.format("root.sql.etl"): "7w",
        CAPACITY.format("root.sql.app-1_7"): "33.3w",
        CAPACITY.format("root.sql.auto-queue-creation-v2.leaf-template"): "1w",
        CAPACITY.format("root.sql.a.b"): "3w",
        CAPACITY.format("root.sqlx.c"): "3w",
        CAPACITY.format("root.gpu.d"): "4w",
        CAPACITY.format("root.sql"): "8w",
    }
    seen = carry_out(ReadLeaves(("root.sql", "root.gpu")))
    assert seen.static == ("root.sql.etl",)
    assert seen.weights == (("root.gpu.d", 4.0), ("root.sql.app-1_7", 33.3), ("root.sql.old", 5.0))


@pytest.mark.parametrize(("mood", "refused"), [("refuses", True), ("fails", False), ("nonsense", False)])
def test_unreadable_leaf_queues_are_reported_as_temporary_or_permanent(carry_out, manager, mood, refused):
    manager.mood = mood
    outcome = carry_out(ReadLeaves(("root.sql",)))
    assert (type(outcome), outcome.refused) == (LeavesUnread, refused)


def owned(epoch=3):
    return Ownership(Owner("me", "http://me:1", epoch), ("root.sql",))


def test_an_arbiter_that_finds_another_owner_reports_it_once_and_stops_writing(acting, manager):
    manager.conf[OWNER] = "you|http://you:2|4"
    carry_out = acting(ownership=owned(), parents=("root.sql",))
    assert carry_out(WEIGHTS) == Superseded("http://you:2")
    assert "http://you:2" in carry_out.outcome().error
    assert isinstance(carry_out(WEIGHTS), WeightsRefused)
    assert isinstance(carry_out(ReadLeaves(("root.sql",))), LeavesSeen)
    assert manager.puts == 0


def test_another_owner_is_found_in_what_is_read_back(acting, manager):
    keep = manager._keep

    def overtaken(body):
        keep(body)
        manager.conf[OWNER] = "you|http://you:2|4"

    manager.conf[OWNER] = "me|http://me:1|3"
    manager._keep = overtaken
    carry_out = acting(ownership=owned(), parents=("root.sql",))
    assert carry_out(WEIGHTS) == Superseded("http://you:2")
    assert isinstance(carry_out.outcome(), WeightsRefused)


def test_another_owner_is_found_when_leaves_are_read(acting, manager):
    manager.conf[OWNER] = "you|http://you:2|3"
    carry_out = acting(ownership=owned(), parents=("root.sql",))
    assert carry_out(ReadLeaves(("root.sql",))) == Superseded("http://you:2")
    assert isinstance(carry_out.outcome(), LeavesSeen)
    assert isinstance(carry_out(WEIGHTS), WeightsRefused)


def test_another_owner_is_found_within_seconds_without_any_command(acting, manager):
    manager.conf[OWNER] = "me|http://me:1|3"
    carry_out = acting(ownership=owned(), parents=("root.sql",), check_every=0.01)
    carry_out(ReadLeaves(("root.sql",)))
    manager.conf[OWNER] = "you|http://you:2|4"
    assert carry_out.outcome() == Superseded("http://you:2")
    assert isinstance(carry_out(ReadLeaves(("root.sql",))), LeavesSeen), "it is reported once"


def test_an_owner_that_cannot_be_read_is_read_again(acting, manager):
    manager.mood = "fails"
    carry_out = acting(ownership=owned(), parents=("root.sql",), check_every=0.01)
    assert isinstance(carry_out(ReadLeaves(("root.sql",))), LeavesUnread)
    manager.conf[OWNER] = "you|http://you:2|4"
    manager.mood = "obeys"
    assert carry_out.outcome() == Superseded("http://you:2")


def test_a_superseded_arbiter_signals_no_container_that_it_decided_on_before(acting, manager):
    manager.conf[OWNER] = "you|http://you:2|4"
    carry_out = acting(ownership=owned(), parents=("root.sql",))
    assert carry_out(ReadLeaves(("root.sql",))) == Superseded("http://you:2")
    carry_out.outcome()
    outcome = carry_out(SignalContainers("app_1", ("c_2",), LegacyText("overstays")))
    assert "http://you:2" in outcome.failed[0]
    assert not manager.signalled


def test_an_arbiter_that_could_not_claim_signals_no_container_of_another_one(acting, manager):
    def claim():
        raise OwnedError("root.sql", "http://you:2")

    carry_out = acting(claim=claim, parents=("root.sql",))
    assert carry_out(SignalContainers("app_1", ("c_2",), LegacyText("overstays"))) == Superseded("http://you:2")
    assert "http://you:2" in carry_out.outcome().failed[0]
    assert not manager.signalled


def test_a_list_of_containers_says_when_it_was_asked_for(acting):
    carry_out = acting()
    carry_out.send(ListContainers("app_1", "application_1", LegacyText("asked")), 12.5)
    assert carry_out.outcome().asked_at == 12.5


def test_commands_are_carried_out_after_a_look_at_the_owner_that_fails_in_an_unexpected_way(acting, monkeypatch):
    def unread(manager):
        raise KeyError(1)

    monkeypatch.setattr(actor_module.scheduler_configuration, "read", unread)
    carry_out = acting(ownership=owned(), parents=("root.sql",), check_every=0.01)
    assert isinstance(carry_out(ListContainers("app_1", "application_1", LegacyText("asked"))), ContainersListed)
    time.sleep(0.05)
    assert isinstance(carry_out(ListContainers("app_1", "application_1", LegacyText("asked"))), ContainersListed)
    assert carry_out.actor.counters["commands_failed"]


@pytest.mark.parametrize("there", [None, "you|http://you:2|2", "rubbish"])
def test_an_ownership_record_that_was_removed_is_written_again(acting, manager, there):
    if there:
        manager.conf[OWNER] = there
    assert isinstance(acting(ownership=owned(), parents=("root.sql",))(WEIGHTS), WeightsWritten)
    assert manager.conf[OWNER] == "me|http://me:1|3"


@pytest.mark.parametrize(
    "problem", [OverflowError("too large"), OSError("x"), MemoryError(), RecursionError(), KeyError(1)]
)
@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        (WEIGHTS, WeightsRefused),
        (ReadLeaves(("root.sql",)), LeavesUnread),
        (SignalContainers("app_1", ("c_2",), LegacyText("overstays")), ContainersSignalled),
    ],
)
def test_whatever_happens_a_command_has_its_outcome_and_the_next_is_carried_out(
    carry_out, monkeypatch, problem, command, outcome
):
    def fail(*arguments, **more):
        raise problem

    with monkeypatch.context() as patched:
        for method in ("get", "put", "post"):
            patched.setattr(ResourceManager, method, fail)
        assert isinstance(carry_out(command), outcome)
        carry_out.send(ListContainers("app_1", "application_1_1", LegacyText("overstays")))
        assert isinstance(carry_out(command), outcome)
    assert carry_out.actor.counters["commands_failed"] == 3
    assert isinstance(carry_out(WEIGHTS), WeightsWritten)


def test_an_outcome_that_is_not_taken_in_ends_nothing(manager):
    server, told = WebServer(manager), queue.SimpleQueue()

    def tell(outcome):
        told.put(outcome)
        raise OSError("disk")

    actor = Actor(ResourceManager([server.url], "ann"), tell)
    try:
        for _ in range(2):
            actor.carry_out(WEIGHTS)
            assert isinstance(told.get(timeout=60), WeightsWritten)
        assert actor.is_alive()
    finally:
        actor.close()
        server.close()
    assert actor.counters["outcomes_lost"] == 2
    assert not actor.is_alive()


def test_the_end_of_the_arbiter_ends_the_actor_quietly(manager, caplog):
    server = WebServer(manager)

    def tell(outcome):
        raise Stopped

    actor = Actor(ResourceManager([server.url], "ann"), tell)
    actor.carry_out(WEIGHTS)
    actor._thread.join(30)
    assert not actor.is_alive()
    assert "Traceback" not in caplog.text
    server.close()
