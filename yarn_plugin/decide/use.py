"""Use per node, from the container lists of applications."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import chain

from yarn_plugin.decide.commands import Command, ListContainers
from yarn_plugin.decide.events import Configured, ContainersListed, Event, LeavesSeen, ManagerReached, Registered
from yarn_plugin.decide.identity import are_same
from yarn_plugin.decide.membership import home_of, is_steering
from yarn_plugin.decide.state import State
from yarn_plugin.decide.step_cache import StepCache
from yarn_plugin.model.causes import UseAsked
from yarn_plugin.model.cluster import ClusterView, Container, Use
from yarn_plugin.model.resources import total_of
from yarn_plugin.model.share import Claim, Pool


def learn_use(before: State, state: State, pools: Collection[Pool], event: Event) -> State:
    """The state after an event, with the use per node of these pools' applications. `before`: the state before it."""
    if not pools:
        return state if not state.cluster.use else replace(state, cluster=replace(state.cluster, use={}), listed={})
    known = state.cluster
    if isinstance(event, Registered) and event.leases is not None and event.yarn_app in known.use:
        app = next((app for app, yarn_app in state.yarn_apps.items() if yarn_app == event.yarn_app), event.yarn_app)
        mine = tuple(replace(one, app=app) for one in known.use[event.yarn_app])
        known = replace(known, use={**without_use(known, known.use.keys() - {event.yarn_app}).use, app: mine})
    if isinstance(event, ContainersListed) and home_of(state, event.app) in pools:
        known = with_use(known, event)
    # After a restart, or periodically, list all again: earlier answers may be lost or outdated.
    lists_again = isinstance(event, Configured | ManagerReached | LeavesSeen)
    if known is before.cluster and state.registered is before.registered and not lists_again:
        return state
    here = {app for app in (*known.use, *state.listed) if home_of(state, app) in pools}
    listed = {} if lists_again else {app: count for app, count in state.listed.items() if app in here}
    return replace(state, cluster=without_use(known, here), listed=listed)


def ask_for_use(state: State, claims: Sequence[tuple[Claim, ...]], cache: StepCache) -> tuple[State, list[Command]]:
    """Request the containers of applications whose number of containers changed since the last list."""
    if not is_steering(state):
        return state, []
    follows_from = state.cluster.apps, state.listed, *claims
    if are_same(follows_from, cache.unlisted):
        return state, []
    listed, commands = dict(state.listed), list[Command]()
    for claim in chain.from_iterable(claims):
        running = state.cluster.apps.get(claim.yarn_app or "")
        if running is not None and listed.get(claim.app) != running.containers:
            listed[claim.app] = running.containers
            commands.append(ListContainers(claim.app, running.id, UseAsked(claim.app)))
    if commands:
        return replace(state, listed=listed), commands
    cache.unlisted = follows_from
    return state, []


def use_of(app: str, containers: Iterable[Container]) -> tuple[Use, ...]:
    """An application's use per node, sorted by node, including its master's container."""
    on: dict[str, list[Container]] = {}
    for container in sorted(containers, key=lambda one: one.id):
        on.setdefault(container.node, []).append(container)
    return tuple(
        Use(app, node, total_of(one.resources for one in on[node]), tuple(one.id for one in on[node]))
        for node in sorted(on)
    )


def with_use(known: ClusterView, event: ContainersListed) -> ClusterView:
    """The cluster view updated with an application's containers."""
    return replace(known, use={**known.use, event.app: use_of(event.app, event.containers)})


def without_use(known: ClusterView, kept: Collection[str]) -> ClusterView:
    """The cluster view with the use of these applications only; the same value if nothing changes."""
    if known.use.keys() <= set(kept):
        return known
    return replace(known, use={app: held for app, held in known.use.items() if app in kept})
