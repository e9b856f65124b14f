"""The arbiter's cycle: one event in, commands out. The same pure function runs live, simulated and replayed."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from yarn_plugin.decide.allocators import allox, auction, buddy_cells, fifo, gpu_queues, job_rounds, shared_gpus
from yarn_plugin.decide.commands import Admit, Command, Dismiss, SetTimer, TellShare
from yarn_plugin.decide.enforcement import read_leaves, weight_deadlines, write_weights
from yarn_plugin.decide.events import (
    AppSaid,
    Configured,
    ContainersListed,
    Event,
    JobsDeclared,
    LeavesSeen,
    Looked,
    ManagerReached,
    NodeUseChanged,
    PartitionsChanged,
    PoolReconfigured,
    Registered,
    Revised,
    Solved,
    TimerFired,
    Vacated,
    WeightsRefused,
    WeightsWritten,
)
from yarn_plugin.decide.membership import home_of, pool_of
from yarn_plugin.decide.observations import forget, learn
from yarn_plugin.decide.policies import capacity, max_min, max_min_users
from yarn_plugin.decide.policies import fifo as first_in_first_out
from yarn_plugin.decide.policies.lease import LEASE_POLICIES
from yarn_plugin.decide.pools import advance, lease, ledger, share
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.decide.pools.inputs import FromApp, Input, Outcome, Reconfigured, Restarted
from yarn_plugin.decide.state import State
from yarn_plugin.decide.step_cache import StepCache
from yarn_plugin.decide.topology import with_cells
from yarn_plugin.decide.use import ask_for_use, learn_use
from yarn_plugin.model.causes import (
    AppEnded,
    AppQuiet,
    Causes,
    DemandsChanged,
    GraceOver,
    Happening,
    ManagerAnswers,
    ManagerPolled,
    NotSubmitted,
    PoolGone,
    WeightsApplied,
    WeightsRead,
    WeightsRejected,
)
from yarn_plugin.model.share import Pool, Registration

ALLOCATORS = (
    allox.KIND,
    auction.KIND,
    buddy_cells.KIND,
    fifo.KIND,
    gpu_queues.KIND,
    job_rounds.KIND,
    shared_gpus.KIND,
)

BUILT_IN = Registry(
    {kind.name: kind for kind in (share.KIND, lease.KIND, ledger.KIND)},
    {
        "max_min": max_min,
        "max_min_users": max_min_users,
        "fifo": first_in_first_out,
        "fair": max_min,
        "capacity": capacity,
    },
    lease_policies=LEASE_POLICIES,
    allocators={kind.name: kind for kind in ALLOCATORS},
)
"""The built-in controllers, policies and allocators. Drivers add those of entry points (see `drive.registry`)."""


def step(
    state: State, seq: int, at: float, event: Event, cache: StepCache | None = None
) -> tuple[State, tuple[Command, ...]]:
    """Run one cycle. `seq` and `at` (seconds): the event's number and time in the journal. `cache`: the driver's, with
    the available controllers and policies; None: a new one, with the built-in ones."""
    cache = StepCache(BUILT_IN) if cache is None else cache
    # 1. Apply the event to what is known.
    before = state
    state, happened = learn(state, seq, at, event)
    commands: list[Command] = [Admit(state.registered[app]) for app in _added(before.registered, state.registered)]
    # 2. Unregister applications that were not submitted in time.
    state, expired = _expire(before, state, at)
    happened = [*happened, *expired, *_idle(state, at)] or [_DEFAULT_HAPPENINGS.get(type(event), DemandsChanged())]
    causes = Causes.of(happened)
    commands += _dismissals(before, state)
    # 3. Let each pool's controller decide.
    state, given = _advance_pools(before, state, cache, seq, at, event, causes)
    commands += given
    # 4. Enforce: read YARN's queue weights, write those that differ.
    state, read = read_leaves(state, at)
    state, written = write_weights(state, at, causes, cache)
    commands += [*read, *written]
    # 5. Set the timer for the next deadline.
    state, timer = _set_timer(state, at, cache)
    return state, (*commands, *timer)


def _advance_pools(
    before: State, state: State, cache: StepCache, seq: int, at: float, event: Event, causes: Causes
) -> tuple[State, list[Command]]:
    """The pools after this event, and their controllers' commands; notifications of shares come first.

    An arbiter that another one has superseded shows its controllers that, and then decides nothing more for its pools.
    """
    if _has_stood_down(before) and _has_stood_down(state):
        return state, []
    reads = {pool.name: cache.controllers.of(pool).reads for pool in state.pools}
    if any("topology" in read for read in reads.values()):
        state = with_cells(before, state)
    elif state.cells is not None:
        # No controller reads the cells now. They would be outdated when one reads them again.
        state = replace(state, cells=None)
    by_use = [pool for pool in state.pools if "use" in reads[pool.name]]
    state = learn_use(before, state, by_use, event)
    cache.views.update(state, at)
    views = {pool.name: cache.views.of(pool, seq, causes) for pool in state.pools}
    kept, commands = {}, list[Command]()
    for pool in state.pools:
        inputs = tuple(_inputs(before, state, pool, event))
        refusable = _request_pool(state, event) == pool.name
        known = before.pool_states.get(pool.name)
        kept[pool.name], given = advance.advance(
            pool, cache.controllers, known, views[pool.name], at, inputs, refusable
        )
        commands += given
    commands.sort(key=lambda command: not isinstance(command, TellShare))
    state, asked = ask_for_use(state, [views[pool.name].claims for pool in by_use], cache)
    return replace(state, pool_states=kept), [*commands, *asked]


def _has_stood_down(state: State) -> bool:
    """Whether another arbiter controls the pools, and all controllers have been shown that."""
    is_superseded = state.enforcement.superseded is not None
    return is_superseded and all(kept.failure is None for kept in state.pool_states.values())


def _request_pool(state: State, event: Event) -> str | None:
    """The pool that an application's request is for: only its controller may reject the request."""
    match event:
        case Registered():
            return event.pool
        case Revised(app) | JobsDeclared(app) | Vacated(app) | AppSaid(app):
            home = home_of(state, app)
            return home.name if home is not None else None
    return None


def _inputs(before: State, state: State, pool: Pool, event: Event) -> Iterator[Input]:
    """The inputs of a pool's controller that follow from an event."""
    match event:
        case Configured():
            if any(known.name == pool.name and known != pool for known in before.pools):
                yield Reconfigured()
            if pool.name in before.pool_states:
                yield Restarted()
        case PoolReconfigured(changed) if changed == pool and changed not in before.pools:
            yield Reconfigured()
        case Vacated(app, _) | ContainersListed(app) if home_of(state, app) == pool:
            yield Outcome(app, "done", event) if isinstance(event, ContainersListed) else FromApp(app, event)
        case Registered(pool=name) if event.leases and name == pool.name:
            yield from (FromApp(app, event) for app in _added(before.registered, state.registered))
        case AppSaid(app, message) if app in state.registered and home_of(state, app) == pool:
            yield FromApp(app, message)
        case Solved(name, command, kind, result, error) if name == pool.name:
            yield Outcome(command, kind, result, error)


def _expire(before: State, state: State, now: float) -> tuple[State, list[Happening]]:
    """Unregister applications that were not submitted in time, or whose pool is gone.

    Nothing expires before YARN was polled: an application may have been submitted meanwhile.
    """
    pools = {pool.name: pool for pool in state.pools}
    is_same = state.registered is before.registered and state.pools is before.pools
    known = () if is_same else state.registered.items()
    without_pool = {app: PoolGone(app, one.pool) for app, one in known if one.pool not in pools}
    late: dict[str, NotSubmitted] = {}
    for app, registration in _unsubmitted(state) if state.looked else ():
        pool = pools.get(registration.pool)
        if pool is not None and now >= registration.registered_at + pool.submit_timeout:
            late[app] = NotSubmitted(app, pool.submit_timeout)
    if without_pool:
        state = forget(state, without_pool, now, final=True)
    if late:
        state = forget(state, late, now, final=False)
    return state, [*without_pool.values(), *late.values()]


def _dismissals(before: State, state: State) -> list[Command]:
    gone = _added(state.registered, before.registered)
    return [Dismiss(app, state.dismissed[app].cause if app in state.dismissed else AppEnded(app)) for app in gone]


def _added(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    return [] if before is after else [key for key in after if key not in before]


def _unsubmitted(state: State) -> list[tuple[str, Registration]]:
    if len(state.yarn_apps) == len(state.registered):
        # YARN knows no application that is not registered.
        return []
    return [(app, one) for app, one in state.registered.items() if app not in state.yarn_apps]


def _idle(state: State, now: float) -> list[Happening]:
    """The unregistered applications whose idle timeout has passed."""
    unregistered = {app for members in state.share_members() for app in state.quiet_since.keys() & members.keys()}
    quiet = [(app, since) for app, since in state.quiet_since.items() if app in unregistered] if unregistered else []
    homes = {app: pool_of(state, state.cluster.apps[app].queue) for app, _ in quiet}
    return [AppQuiet(app) for app, since in quiet if (pool := homes[app]) and now >= since + pool.idle_timeout]


_DEFAULT_HAPPENINGS: dict[type, Happening] = {
    TimerFired: GraceOver(),
    ManagerReached: ManagerAnswers(),
    Looked: ManagerPolled(),
    NodeUseChanged: ManagerPolled(),
    PartitionsChanged: ManagerPolled(),
    LeavesSeen: WeightsRead(),
    WeightsWritten: WeightsApplied(),
    WeightsRefused: WeightsRejected(),
}
"""The happening of an event that reports no other."""


def _set_timer(state: State, now: float, cache: StepCache) -> tuple[State, tuple[Command, ...]]:
    pools = () if _has_stood_down(state) else state.pool_states.values()
    times = (*weight_deadlines(state), *_membership_deadlines(state, now, cache), *map(advance.deadline, pools))
    due = [at for at in times if now < at < float("inf")]
    earliest = min(due, default=None)
    if earliest is None or earliest == state.timer:
        return replace(state, timer=earliest), ()
    return replace(state, timer=earliest), (SetTimer(earliest),)


def _membership_deadlines(state: State, now: float, cache: StepCache) -> list[float]:
    """The times at which an application expires or becomes idle, without any event."""
    pools = {pool.name: pool for pool in state.pools}
    due = [
        registration.registered_at + pools[registration.pool].submit_timeout
        for _, registration in (_unsubmitted(state) if state.looked else ())
        if registration.pool in pools
    ]
    cache.views.update(state, now)
    return [*due, cache.views.next_idle(now)]
