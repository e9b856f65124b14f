"""The arbiter's cycle as lists of events and commands."""

from dataclasses import replace

import pytest

from yarn_plugin.api.causes import text
from yarn_plugin.decide.arbiter import step
from yarn_plugin.decide.commands import ListContainers, SignalContainers, TellShare, WriteWeights
from yarn_plugin.decide.events import (
    AppsChanged,
    Configured,
    ContainersListed,
    Deregistered,
    LeavesSeen,
    Looked,
    ManagerReached,
    NodesChanged,
    PartitionsChanged,
    Registered,
    TimerFired,
    Vacated,
    WeightsRefused,
    WeightsWritten,
)
from yarn_plugin.decide.state import State
from yarn_plugin.model.cluster import Capabilities, Container, Node, YarnApp
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Demand, Pool

SQL = Pool("sql", "root.sql", ("memory-mb", "vcores"))


def amount(cores):
    return Resources.of({"memory-mb": 1024 * cores, "vcores": cores})


def node(number, cores=4):
    return Node(f"127.0.1.{number}:8041", "/rack1", amount(cores))


def running(app, queue, cores=1, pending=0, containers=2, waiting=False):
    return YarnApp(app, app, "ann", queue, waiting, 0.0, amount(cores), amount(pending), containers)


def register(name, grace=10.0, weight=1.0, demand=None):
    return Registered(name, name, name, "sql", weight, demand, grace, None)


class Arbiter:
    """Feeds events to `step` and keeps what came of them."""

    def __init__(self, *pools):
        self.state, self.seq, self.commands = State(), 0, []
        self(0, Configured(pools or (SQL,)))
        self(0, ManagerReached("rm", Capabilities("3.5.0", True, True)))
        self(0, NodesChanged(tuple(node(n) for n in range(1, 5)), ()))
        for seen in (LeavesSeen((), ()), Looked()):
            self.state, _ = step(self.state, self.seq, 0, seen)

    def __call__(self, at, event):
        self.seq += 1
        self.state, self.commands = step(self.state, self.seq, at, event)
        return self.commands

    def told(self):
        return {command.app: command.share for command in self.commands if isinstance(command, TellShare)}

    def written(self):
        return next((dict(command.weights) for command in self.commands if isinstance(command, WriteWeights)), None)

    def queue(self, app):
        return self.state.registered[app].queue


@pytest.fixture
def arbiter():
    return Arbiter()


def test_a_single_application_gets_the_whole_pool_with_the_reason(arbiter):
    arbiter(1, register("a"))
    (share,) = arbiter.told().values()
    assert share.grant.guarantee == amount(16)
    assert text(share.cause).startswith("app_4 arrived; the pool now has 1 application (")
    assert share.effective_at == 1


def test_an_arrival_halves_the_share_and_leaves_time_to_vacate(arbiter):
    arbiter(1, register("a"))
    arbiter(5, register("b"))
    told = arbiter.told()
    assert told["app_4"].grant.guarantee == told["app_5"].grant.guarantee == amount(8)
    assert told["app_4"].effective_at == 15
    assert told["app_5"].effective_at == 5
    assert text(told["app_4"].cause).startswith("app_5 arrived; the pool now has 2 applications (")


def test_weights_protect_allocations_until_the_grace_period_ends(arbiter):
    arbiter(1, register("a"))
    a = arbiter.queue("app_4")
    arbiter(2, AppsChanged((running("application_1", a, 16, containers=16),), ()))
    assert arbiter.written() == {a: 100.0}
    arbiter(2, WeightsWritten(((a, 100.0),), ()))
    arbiter(5, register("b"))
    b = arbiter.queue("app_7")
    arbiter(6, AppsChanged((running("application_2", b, 1, containers=1),), ()))
    assert arbiter.written() == {b: 0.01}, "a may hold everything until 15"
    arbiter(6, WeightsWritten(((b, 0.01),), ()))
    arbiter(15, TimerFired())
    assert arbiter.written() == {a: 50.0, b: 50.0}


def test_a_vacated_application_ends_its_grace_period(arbiter):
    arbiter(1, register("a"))
    a = arbiter.queue("app_4")
    arbiter(2, AppsChanged((running("application_1", a, 16, containers=16),), ()))
    arbiter(2, WeightsWritten(((a, 100.0),), ()))
    arbiter(5, register("b"))
    arbiter(8, Vacated("app_4", arbiter.told()["app_4"].seq))
    assert arbiter.written() == {a: 50.0}


def test_a_further_notification_does_not_extend_the_grace_period(arbiter):
    arbiter(1, register("a"))
    arbiter(5, register("b"))
    arbiter(9, NodesChanged((), ("127.0.1.4:8041",)))
    assert arbiter.told()["app_4"].effective_at == 15
    assert arbiter.told()["app_4"].grant.guarantee == amount(6)


def test_the_first_promise_stands_when_a_second_arrival_follows(arbiter):
    arbiter(1, register("a"))
    arbiter(5, register("b"))
    arbiter(9, register("c"))
    member = arbiter.state.members["app_4"]
    assert [(round(s.fraction, 3), s.at) for s in member.schedule] == [(1.0, 9), (0.5, 15), (0.333, 19)]


def test_a_share_grows_at_once(arbiter):
    arbiter(1, register("a"))
    arbiter(1, register("b"))
    arbiter(30, Deregistered("app_5"))
    assert arbiter.told()["app_4"].grant.guarantee == amount(16)
    assert arbiter.told()["app_4"].effective_at == 30
    assert text(arbiter.told()["app_4"].cause).startswith("app_5 ended; the pool now has 1 application (")


def test_node_loss_and_return_change_the_share(arbiter):
    arbiter(1, register("a"))
    arbiter(2, NodesChanged((), ("127.0.1.2:8041",)))
    assert arbiter.told()["app_4"].grant.guarantee == amount(12)
    assert "node 127.0.1.2 lost" in text(arbiter.told()["app_4"].cause)
    arbiter(3, NodesChanged((node(2),), ()))
    assert arbiter.told()["app_4"].grant.guarantee == amount(16)


def test_applications_outside_every_pool_are_left_alone_and_subtracted(arbiter):
    arbiter(1, register("a"))
    arbiter(2, AppsChanged((running("application_9", "root.default", 4),), ()))
    assert set(arbiter.told()) == {"app_4"}
    assert arbiter.told()["app_4"].grant.guarantee == amount(12)


def test_an_unregistered_application_counts_while_it_wants_anything(arbiter):
    arbiter(1, register("a"))
    arbiter(2, AppsChanged((running("application_9", "root.sql.x", 0, containers=0, waiting=True),), ()))
    assert arbiter.told()["app_4"].apps == 2
    arbiter(3, AppsChanged((running("application_9", "root.sql.x", 1, containers=1),), ()))
    assert arbiter.state.members["app_4"].share.apps == 2, "it mostly asks again"
    arbiter(8, TimerFired())
    assert arbiter.told()["app_4"].apps == 1
    assert arbiter.told()["app_4"].grant.guarantee == amount(15), "its master's core is not divided"


def test_what_others_do_not_want_is_shared(arbiter):
    arbiter(1, register("a"))
    arbiter(1, register("b", demand=Demand((amount(2),))))
    share = arbiter.told()["app_4"]
    assert share.grant.guarantee == amount(8)
    assert share.grant.entitlement == amount(14)


def test_a_registration_that_yarn_never_sees_expires(arbiter):
    arbiter(1, register("a"))
    arbiter(2, register("b"))
    arbiter(121, TimerFired())
    assert "app_4" not in arbiter.state.registered
    assert text(arbiter.told()["app_5"].cause).startswith("app_4 ended: not submitted within 120 s")


def test_the_same_request_registers_once(arbiter):
    arbiter(1, register("a"))
    arbiter(2, register("a"))
    assert list(arbiter.state.registered) == ["app_4"]


def test_refused_weights_are_tried_again_later(arbiter):
    arbiter(1, register("a"))
    arbiter(2, AppsChanged((running("application_1", arbiter.queue("app_4")),), ()))
    arbiter(3, WeightsRefused("400"))
    assert arbiter.written() is None
    arbiter(8, TimerFired())
    assert arbiter.written() is not None


def test_without_a_writable_store_there_is_feedback_only(arbiter):
    arbiter(1, ManagerReached("rm", Capabilities("3.5.0", False, False)))
    arbiter(1, register("a"))
    arbiter(2, AppsChanged((running("application_1", arbiter.queue("app_5")),), ()))
    assert arbiter.written() is None
    assert "app_5" in arbiter.state.members


def test_weights_of_ended_applications_are_taken_back(arbiter):
    arbiter(1, register("a"))
    a = arbiter.queue("app_4")
    arbiter(2, AppsChanged((running("application_1", a),), ()))
    arbiter(2, WeightsWritten(((a, 100.0),), ()))
    (command,) = [c for c in arbiter(9, AppsChanged((), ("application_1",))) if isinstance(c, WriteWeights)]
    assert command.forget == (a,)


def test_containers_are_signalled_only_after_preempt_after_and_while_others_wait(arbiter):
    arbiter(1, register("a", grace=0))
    a = arbiter.queue("app_4")
    arbiter(2, AppsChanged((running("application_1", a, 16, containers=16),), ()))
    arbiter(3, register("b"))
    b = arbiter.queue("app_6")
    arbiter(4, AppsChanged((running("application_2", b, 0, pending=8, containers=0, waiting=True),), ()))
    assert not [c for c in arbiter.commands if isinstance(c, ListContainers)]
    commands = arbiter(19, TimerFired())
    assert [c.yarn_app for c in commands if isinstance(c, ListContainers)] == ["application_1"]
    listed = tuple(Container(f"container_1_{n:06}", "n", amount(1), n == 1) for n in range(1, 17))
    (signal,) = [c for c in arbiter(19, ContainersListed("app_4", listed)) if isinstance(c, SignalContainers)]
    assert signal.containers == tuple(f"container_1_{n:06}" for n in range(16, 8, -1))


def test_two_pools_divide_the_resource_they_share_and_are_counted_apart():
    gpu = Pool("gpu", "root.gpu", ("yarn.io/gpu", "memory-mb", "vcores"))
    arbiter = Arbiter(SQL, gpu)
    arbiter(1, register("a"))
    arbiter(1, Registered("g", "g", "bob", "gpu", 1.0, None, 0.0, None))
    assert arbiter.state.members["app_4"].share.apps == 1
    assert arbiter.state.members["app_5"].share.apps == 1
    assert arbiter.state.members["app_4"].share.grant.guarantee == amount(8)


def test_an_application_that_runs_is_registered_once_whoever_asks_at_the_same_time(arbiter):
    arbiter(1, AppsChanged((running("application_1", "root.sql.etl"),), ()))
    asked = [
        Registered(f"request-{n}", "etl", "ann", "sql", 1.0, None, None, "application_1", ("ann",)) for n in (1, 2)
    ]
    for request in asked:
        arbiter(2, request)
    assert [one.request_id for one in arbiter.state.registered.values()] == ["request-1"]


def test_an_application_that_has_ended_meanwhile_is_not_registered(arbiter):
    arbiter(2, Registered("request-1", "etl", "ann", "sql", 1.0, None, None, "application_9", ("ann",)))
    assert not arbiter.state.registered


def test_a_user_has_no_more_applications_than_the_pool_allows():
    arbiter = Arbiter(replace(SQL, max_apps_per_user=2))
    for n, users in enumerate((("ann",), ("ann",), ("ann",), None)):
        arbiter(n, Registered(f"request-{n}", "x", "ann", "sql", 1.0, None, None, None, users))
    assert [one.request_id for one in arbiter.state.registered.values()] == ["request-0", "request-1", "request-3"]


def test_a_returning_application_keeps_its_identity_beside_others_in_its_queue(arbiter):
    """Two in one queue, one of them registered; both are missed for a while, and come back in the other order."""
    x, y = (running(f"application_{name}", "root.sql.shared") for name in "xy")
    arbiter(1, AppsChanged((x, y), ()))
    arbiter(2, Registered("request-x", "x", "ann", "sql", 1.0, None, None, x.id, ("ann",)))
    (app,) = arbiter.state.registered
    arbiter(3, AppsChanged((), (x.id, y.id)))
    assert not arbiter.state.registered
    arbiter(4, AppsChanged((y, x), ()))
    assert arbiter.state.yarn_apps == {app: x.id}


def test_what_returns_counts_for_the_limit_of_its_user():
    arbiter = Arbiter(replace(SQL, max_apps_per_user=1, submit_timeout=10.0))
    arbiter(1, Registered("request-1", "first", "ann", "sql", 1.0, None, None, None, ("ann",)))
    queue = next(iter(arbiter.state.registered.values())).queue
    arbiter(20, TimerFired())
    arbiter(21, Registered("request-1", "first", "ann", "sql", 1.0, None, None, None, ("ann",)))
    arbiter(22, AppsChanged((running("application_1", queue),), ()))
    assert len(arbiter.state.registered) == 1


def test_the_nodes_of_a_partition_are_not_shared():
    arbiter = Arbiter()
    arbiter(1, register("one"))
    arbiter(2, PartitionsChanged(((node(5).id, "gpu"),)))
    arbiter(2, NodesChanged((node(5),), ()))
    assert arbiter.state.cluster.capacity() == amount(16)
    (member,) = arbiter.state.members.values()
    assert member.share.capacity == amount(16)
    arbiter(3, PartitionsChanged(()))
    (member,) = arbiter.state.members.values()
    assert member.share.capacity == arbiter.state.cluster.capacity() == amount(20)
    assert text(member.share.cause).startswith("node 127.0.1.5 changed")
