"""A step with what the last ones derived decides as one that starts from its state alone."""

from hypothesis import given, settings
from hypothesis import strategies as st

from yarn_plugin.decide.arbiter import BUILT_IN, step
from yarn_plugin.decide.events import (
    AppsChanged,
    Configured,
    Deregistered,
    JobsDeclared,
    LeavesSeen,
    Looked,
    ManagerReached,
    NodesChanged,
    QueuesChanged,
    Registered,
    Revised,
    Superseded,
    TimerFired,
    WeightsWritten,
)
from yarn_plugin.decide.membership import view_of
from yarn_plugin.decide.state import State
from yarn_plugin.decide.step_cache import StepCache
from yarn_plugin.decide.views import Views
from yarn_plugin.model.causes import Causes
from yarn_plugin.model.cluster import Capabilities, Node, Queue, YarnApp
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Demand, Job, Pool

POOLS = (
    Pool("a", "root.a", ("memory-mb", "vcores"), idle_timeout=3.0, submit_timeout=20.0, preempt_after=4.0),
    Pool("inner", "root.a.inner", ("vcores",), policy="max_min_users", idle_timeout=1.0, submit_timeout=9.0),
    Pool("gpu", "root.gpu", ("vcores", GPU), controller="lease", submit_timeout=30.0),
)
QUEUES = ("root.a", "root.a.inner", "root.gpu", "root.other")
NO_CAUSES = Causes(())
NAMES = st.integers(0, 5)
AMOUNTS = st.integers(0, 3)


def resources(vcores, gpus=0):
    return Resources.of({"vcores": vcores, "memory-mb": 1024 * vcores, GPU: gpus})


def running(number, place, containers, pending, waiting):
    queue = f"{QUEUES[place]}.q{number}"
    used = resources(containers, containers if place == 2 else 0)
    state = False if containers else waiting
    name, user = f"application_1_{number}", f"y{number % 2}"
    return YarnApp(name, name, user, queue, state, 1.0, used, resources(pending), containers)


def jobs(count):
    return tuple(Job(f"j{number}", "ann", demand=Demand((resources(number + 1),))) for number in range(count))


RUNNING = st.builds(running, NAMES, st.integers(0, 3), AMOUNTS, st.integers(0, 1), st.booleans())
DEMANDS = st.none() | AMOUNTS.map(lambda vcores: Demand((resources(vcores),)))
REGISTERED = st.builds(
    lambda number, pool, user, demand, yarn_app, users: Registered(
        f"request-{number}", "x", user, pool, 1.0 + number % 2, demand, None,
        yarn_app and f"application_1_{number}", users,
    ),
    st.integers(0, 30), st.sampled_from([pool.name for pool in POOLS]), st.sampled_from(["ann", "eve"]),
    DEMANDS, st.booleans(), st.none() | st.sampled_from([("y0",), ("y0", "y1")]),
)  # fmt: skip
NODES = st.builds(lambda number, size: Node(f"n{number}:1", "/r", resources(8 * size, 4)), NAMES, st.integers(1, 2))


def with_app(make):
    """An event about a registered application: the number-th of those there are."""
    return st.tuples(st.integers(0, 9), st.builds(lambda *given: lambda app: make(app, *given), AMOUNTS))


EVENTS = st.one_of(
    st.builds(lambda present, gone: AppsChanged(tuple({one.id: one for one in present}.values()), tuple(gone)),
              st.lists(RUNNING, max_size=3), st.sets(NAMES.map("application_1_{}".format), max_size=2)),
    REGISTERED,
    st.builds(lambda node, broken: NodesChanged(() if broken else (node,), (node.id,), (node,) if broken else ()),
              NODES, st.booleans()),
    st.builds(lambda queue, part: QueuesChanged((Queue(queue, part / 3, 1.0),), ()), st.sampled_from(QUEUES), AMOUNTS),
    with_app(lambda app, amount: Revised(app, 1.0 + amount, None)),
    with_app(lambda app, amount: Deregistered(app)),
    with_app(lambda app, amount: JobsDeclared(app, jobs(amount))),
    st.just(Looked()),
    st.just(TimerFired()),
    st.just(LeavesSeen((), ())),
    st.just(Configured(POOLS)),
    st.just(Superseded("http://other")),
    st.just("write"),
    st.just("undo"),
)  # fmt: skip


@given(st.lists(st.tuples(EVENTS, st.sampled_from([0.0, 0.5, 2.0, 5.0])), max_size=25))
@settings(max_examples=120, deadline=None)
def test_a_kept_cache_changes_no_decision(events):
    cache, views = StepCache(BUILT_IN), Views()
    beginning = [Configured(POOLS), ManagerReached("http://rm", Capabilities("3.5.0", True, True)),
                 NodesChanged((Node("n0:1", "/r", resources(16, 4)),), ()), LeavesSeen((), ()), Looked()]  # fmt: skip
    state, at, last = State(), 10.0, None
    for seq, (event, after) in enumerate([*((one, 0.1) for one in beginning), *events], 1):
        if event == "undo" and last is not None:
            # A step that failed, or another state altogether: the cache has seen one that never was.
            state, at = last
            continue
        if event == "write":
            wanted = [queue for kept in state.pool_states.values() for queue in kept.weights or ()]
            event = WeightsWritten(tuple(wanted), ())
        if isinstance(event, tuple):
            place, make = event
            apps = sorted(state.registered) or ["app_none"]
            event = make(apps[place % len(apps)])
        last, at = (state, at), at + after
        alone = step(state, seq, at, event)
        state, commands = step(state, seq, at, event, cache)
        assert (state, commands) == alone
        views.update(state, at)
        for pool in state.pools:
            assert views.of(pool, seq, NO_CAUSES) == view_of(state, pool, at, seq, NO_CAUSES)
