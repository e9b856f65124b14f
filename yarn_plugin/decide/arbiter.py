"""The arbiter's cycle: one event in, commands out. Pure: live, simulated and replayed by the same function."""

from collections.abc import Iterator
from dataclasses import replace

from yarn_plugin.decide.commands import Admit, Command, Dismiss, SetTimer, TellShare
from yarn_plugin.decide.enforcement import (
    binding,
    choose_victims,
    deadlines,
    find_overstays,
    read_leaves,
    write_weights,
)
from yarn_plugin.decide.events import (
    ContainersListed,
    Event,
    LeavesSeen,
    Looked,
    ManagerReached,
    TimerFired,
    WeightsRefused,
    WeightsWritten,
)
from yarn_plugin.decide.membership import expected_together, is_quiet, pool_of, snapshot
from yarn_plugin.decide.observations import forget, learn
from yarn_plugin.decide.policies import Decision, Snapshot, find
from yarn_plugin.decide.state import Member, State, Step
from yarn_plugin.model.share import Grant, Pool, Share


def step(state: State, seq: int, at: float, event: Event) -> tuple[State, tuple[Command, ...]]:
    """One cycle. `seq` and `at` (epoch seconds) are the event's number and time in the journal."""
    # 1. Learn what the event says.
    before = state
    state, causes = learn(state, seq, at, event)
    commands: list[Command] = [Admit(state.registered[app]) for app in state.registered if app not in before.registered]
    # 2. Let go of registrations that YARN never saw.
    state, expired = _expire(state, at)
    causes = [*causes, *expired, *_settled(state, at)] or [_UNNAMED.get(type(event), "demands changed")]
    commands += _dismissals(before, state)
    # 3. Divide each pool among those that count in it, and tell whose share changed.
    seen = {pool.name: snapshot(state, pool, at) for pool in state.pools}
    for pool in state.pools:
        state, told = _divide(state, pool, seen[pool.name], seq, at, causes)
        commands += told
    # 4. Steer YARN: queue weights, then signals for what still overstays.
    for pool in state.pools:
        capacity = seen[pool.name].capacity
        state, found = find_overstays(state, pool, capacity, at)
        commands += found
        if isinstance(event, ContainersListed) and _home_name(state, event.app) == pool.name:
            commands += choose_victims(state, event, pool, capacity, at)
    state, read = read_leaves(state, at)
    state, written = write_weights(state, at, _listed(causes))
    commands += [*read, *written]
    # 5. Wake up when the next thing is due.
    state, timer = _set_timer(state, at)
    return state, (*commands, *timer)


def _expire(state: State, now: float) -> tuple[State, list[str]]:
    """A registered application that YARN does not see in time is no longer counted.

    While YARN was not looked at, nothing is late: it may have been submitted meanwhile.
    """
    pools = {pool.name: pool for pool in state.pools}
    homeless: dict[str, str] = {}
    late: dict[str, str] = {}
    for app, registration in state.registered.items():
        pool = pools.get(registration.pool)
        if pool is None:
            homeless[app] = f"{app} ended: its pool {registration.pool} is gone"
        elif state.looked and app not in state.yarn_apps and now >= registration.registered_at + pool.submit_within:
            late[app] = f"{app} ended: not submitted within {pool.submit_within:g} s"
    if homeless:
        state = forget(state, homeless, now, final=True)
    if late:
        state = forget(state, late, now, final=False)
    return state, [*homeless.values(), *late.values()]


def _dismissals(before: State, state: State) -> list[Command]:
    gone = [app for app in before.registered if app not in state.registered]
    return [Dismiss(app, state.dismissed[app].reason if app in state.dismissed else f"{app} ended") for app in gone]


def _settled(state: State, now: float) -> list[str]:
    """The unregistered applications that have counted until now, and want nothing any more."""
    quiet = [(app, state.quiet_since[app]) for app in state.members if app in state.quiet_since]
    homes = {app: pool_of(state, state.cluster.apps[app].queue) for app, _ in quiet}
    return [f"{app} wants nothing now" for app, since in quiet if (pool := homes[app]) and now >= since + pool.settle]


def _divide(
    state: State, pool: Pool, seen: Snapshot, seq: int, now: float, causes: list[str]
) -> tuple[State, list[Command]]:
    policy_states = state.policy_states
    decision = find(pool.policy).decide(seen, policy_states.get(pool.name))
    granted = dict(_granted(decision, expected_together(state, pool)))
    members = {
        app: member
        for app, member in state.members.items()
        if app in granted or _home_name(state, app) not in (pool.name, None)
    }
    commands: list[Command] = []
    said = _causes(causes, len(seen.claims))
    for app, (grant, reason) in granted.items():
        member = members.get(app)
        if member is not None and member.share.grant.same_share(grant) and member.share.capacity == seen.capacity:
            if member.share.grant != grant or member.share.apps != len(seen.claims):
                members[app] = replace(member, share=replace(member.share, grant=grant, apps=len(seen.claims)))
            continue
        schedule = _schedule(state, app, member, grant, now)
        share = Share(seq, now, schedule[-1].at, grant, len(seen.claims), seen.capacity, f"{said} ({reason})")
        members[app] = Member(app, share, schedule, member.over_since if member else None)
        commands.append(TellShare(app, share))
    policy_states = {**policy_states, pool.name: decision.policy_state}
    return replace(state, members=members, policy_states=policy_states), commands


def _granted(decision: Decision, expected: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, tuple[Grant, str]]]:
    """What each application is granted, with the reason: those that count together, the same."""
    for claim, grant in decision.grants.items():
        for app in expected.get(claim, (claim,)):
            yield app, (grant, decision.reasons[claim])


def _home_name(state: State, app: str) -> str | None:
    """The pool that an application belongs to, registered or not; None once it is gone."""
    if app in state.registered:
        return state.registered[app].pool
    running = state.cluster.apps.get(app)
    home = pool_of(state, running.queue) if running else None
    return home.name if home else None


def _schedule(state: State, app: str, member: Member | None, grant: Grant, now: float) -> tuple[Step, ...]:
    """The steps of what is enforced from now on: more at once, less after its grace (nobody to tell: at once)."""
    target = grant.entitlement_fraction
    if member is None:
        return (Step(now, target),)
    held = binding(member, now)
    if target >= held:
        return (Step(now, target),)
    grace = state.registered[app].grace if app in state.registered else 0.0
    to_come = [step for step in member.schedule if step.at > now]
    above = [step for step in to_come if step.fraction > target]
    # Told earlier to be as small by then: being told again does not lengthen the grace.
    by = min([now + grace, *(step.at for step in to_come if step.fraction <= target)])
    return (Step(now, held), *above, Step(by, target))


def _causes(causes: list[str], count: int) -> str:
    """ "app_17 arrived: 3 apps now"."""
    return f"{_listed(causes)}: {count} app{'' if count == 1 else 's'} now"


_UNNAMED = {
    TimerFired: "a grace is over",
    ManagerReached: "the ResourceManager answers",
    Looked: "the ResourceManager was read again",
    LeavesSeen: "queue weights were read",
    WeightsWritten: "weights written",
    WeightsRefused: "weights refused",
}


def _listed(causes: list[str]) -> str:
    shown = causes if len(causes) <= 3 else [*causes[:2], f"{len(causes) - 2} more"]
    return "; ".join(shown)


def _set_timer(state: State, now: float) -> tuple[State, tuple[Command, ...]]:
    due = [at for at in (*deadlines(state), *_membership_deadlines(state)) if at > now]
    earliest = min(due, default=None)
    if earliest is None or earliest == state.timer:
        return replace(state, timer=earliest), ()
    return replace(state, timer=earliest), (SetTimer(earliest),)


def _membership_deadlines(state: State) -> list[float]:
    """When someone stops counting although nothing happens."""
    pools = {pool.name: pool for pool in state.pools}
    due = [
        registration.registered_at + pools[registration.pool].submit_within
        for app, registration in state.registered.items()
        if state.looked and app not in state.yarn_apps and registration.pool in pools
    ]
    for app, since in state.quiet_since.items():
        running = state.cluster.apps.get(app)
        pool = pool_of(state, running.queue) if running and is_quiet(running) else None
        if pool:
            due.append(since + pool.settle)
    return due
