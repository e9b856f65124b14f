"""Use per node, from the container lists of applications."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from yarn_plugin.decide.commands import Command, ListContainers
from yarn_plugin.decide.events import Configured, ContainersListed, Event, LeavesSeen, ManagerReached
from yarn_plugin.decide.membership import home_of, is_steering
from yarn_plugin.decide.state import State
from yarn_plugin.model.causes import UseAsked
from yarn_plugin.model.cluster import ClusterView, Container, Use
from yarn_plugin.model.resources import total_of
from yarn_plugin.model.share import Claim, Pool


def learn_use(state: State, pools: Collection[Pool], event: Event) -> State:
    """The state after an event, with the use per node of these pools' applications."""
    if not pools:
        return state if not state.cluster.use else replace(state, cluster=replace(state.cluster, use={}), listed={})
    known = state.cluster
    if isinstance(event, ContainersListed) and home_of(state, event.app) in pools:
        known = with_use(known, event)
    here = {app for app in (*state.registered, *known.apps) if home_of(state, app) in pools}
    listed = {app: count for app, count in state.listed.items() if app in here}
    # After a restart, or periodically, list all again: earlier answers may be lost or outdated.
    if isinstance(event, Configured | ManagerReached | LeavesSeen):
        listed = {}
    return replace(state, cluster=without_use(known, here), listed=listed)


def ask_for_use(state: State, claims: Iterable[Claim]) -> tuple[State, list[Command]]:
    """Request the containers of applications whose number of containers changed since the last list."""
    if not is_steering(state):
        return state, []
    listed, commands = dict(state.listed), list[Command]()
    for claim in claims:
        running = state.cluster.apps.get(claim.yarn_app or "")
        if running is not None and listed.get(claim.app) != running.containers:
            listed[claim.app] = running.containers
            commands.append(ListContainers(claim.app, running.id, UseAsked(claim.app)))
    return (replace(state, listed=listed) if commands else state), commands


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
