"""What each event changes of what is known, and the causes to name when shares change."""

from dataclasses import replace

from yarn_plugin.decide.events import (
    AppsChanged,
    Configured,
    ContainersListed,
    ContainersSignalled,
    Deregistered,
    Event,
    ManagerLost,
    ManagerReached,
    NodesChanged,
    QueuesChanged,
    Registered,
    Revised,
    TimerFired,
    Vacated,
    WeightsRefused,
    WeightsWritten,
)
from yarn_plugin.decide.membership import is_quiet
from yarn_plugin.decide.state import Enforcement, State, Step
from yarn_plugin.model.cluster import YarnApp
from yarn_plugin.model.share import Registration

RETRY_AFTER = 5.0
"""Seconds until weights that the ResourceManager refused are tried again."""


def learn(state: State, seq: int, at: float, event: Event) -> tuple[State, list[str]]:
    """The state after this event, and what happened in words ("node 127.0.1.2 lost")."""
    match event:
        case Configured(pools):
            enforcement = replace(state.enforcement, asked=False, retry_at=None)
            return replace(state, pools=pools, enforcement=enforcement, timer=None), ["the arbiter started"]
        case ManagerReached(url, capabilities):
            # It may have restarted without the weights: what was written is to be written again.
            enforcement = replace(state.enforcement, unsure=bool(state.enforcement.written), retry_at=None)
            reached = replace(state, manager_url=url, manager_error=None, capabilities=capabilities)
            return replace(reached, enforcement=enforcement), []
        case ManagerLost(error):
            return replace(state, manager_error=error), []
        case NodesChanged():
            return _nodes(state, event)
        case AppsChanged():
            return _apps(state, event, at)
        case QueuesChanged(present, gone):
            queues = {path: queue for path, queue in state.cluster.queues.items() if path not in gone}
            queues |= {queue.path: queue for queue in present}
            return replace(state, cluster=replace(state.cluster, queues=queues)), ["queues changed"]
        case Registered():
            return _register(state, event, seq, at)
        case Revised(app, weight, demand):
            if app not in state.registered:
                return state, []
            revised = replace(state.registered[app], weight=weight, demand=demand)
            return replace(state, registered={**state.registered, app: revised}), [f"{app} changed what it asks"]
        case Vacated(app, told):
            return _vacate(state, app, told, at), [f"{app} has vacated"]
        case Deregistered(app):
            return forget(state, app), [f"{app} ended"] if app in state.registered else []
        case WeightsWritten(weights, forgotten):
            known = {queue: weight for queue, weight in state.enforcement.written.items() if queue not in forgotten}
            written = known | dict(weights)
            return replace(state, enforcement=Enforcement(written)), []
        case WeightsRefused(error):
            refused = replace(state.enforcement, asked=False, retry_at=at + RETRY_AFTER, error=error)
            return replace(state, enforcement=refused), []
        case ContainersListed() | ContainersSignalled():
            return state, []
        case TimerFired():
            # It is set no more, also where a clock that was put back made it fire too early.
            return replace(state, timer=None), []


def forget(state: State, app: str) -> State:
    """The state without a registered application; what it still uses is no longer anybody's share."""
    return replace(
        state,
        registered={known: kept for known, kept in state.registered.items() if known != app},
        yarn_apps={known: kept for known, kept in state.yarn_apps.items() if known != app},
    )


def _nodes(state: State, event: NodesChanged) -> tuple[State, list[str]]:
    before = state.cluster.nodes
    nodes = {node: kept for node, kept in before.items() if node not in event.gone}
    nodes |= {node.id: node for node in event.present}
    causes = [f"node {before[node].host} lost" for node in event.gone if node in before]
    causes += [f"node {node.host} {'changed' if node.id in before else 'joined'}" for node in event.present]
    return replace(state, cluster=replace(state.cluster, nodes=nodes)), causes


def _apps(state: State, event: AppsChanged, at: float) -> tuple[State, list[str]]:
    before = state.cluster.apps
    apps = {app: kept for app, kept in before.items() if app not in event.gone}
    apps |= {app.id: app for app in event.present}
    quiet = {app: since for app, since in state.quiet_since.items() if app not in event.gone}
    for app in event.present:
        quiet = _note_quiet(quiet, app, at)
    names = {known: app for app, known in state.yarn_apps.items()}
    causes = [f"{names.get(app, app)} ended" for app in event.gone]
    state = replace(state, cluster=replace(state.cluster, apps=apps), quiet_since=quiet)
    for arrived in event.present:
        state = _match(state, arrived)
    matched = set(state.yarn_apps.values())
    causes += [f"{app} runs as {known}" for app, known in state.yarn_apps.items() if known not in names]
    causes += [f"{app.id} arrived" for app in event.present if app.id not in before and app.id not in matched]
    for ended in event.gone:
        if ended in names:
            state = forget(state, names[ended])
    return state, causes


def _note_quiet(quiet: dict[str, float], app: YarnApp, at: float) -> dict[str, float]:
    if not is_quiet(app):
        return {known: since for known, since in quiet.items() if known != app.id}
    return quiet if app.id in quiet else {**quiet, app.id: at}


def _match(state: State, app: YarnApp) -> State:
    """A YARN application in the queue that a registered one was given is that one."""
    for known, registration in state.registered.items():
        if registration.queue == app.queue and known not in state.yarn_apps:
            return replace(state, yarn_apps={**state.yarn_apps, known: app.id})
    return state


def _register(state: State, event: Registered, seq: int, at: float) -> tuple[State, list[str]]:
    pool = next((pool for pool in state.pools if pool.name == event.pool), None)
    if pool is None or any(known.request_id == event.request_id for known in state.registered.values()):
        return state, []
    app = f"app_{seq}"
    running = state.cluster.apps.get(event.yarn_app or "")
    registration = Registration(
        id=app,
        name=event.name,
        user=event.user,
        pool=pool.name,
        queue=running.queue if running else f"{pool.queue}.{_leaf(event.name, seq, at)}",
        weight=event.weight,
        demand=event.demand,
        grace=pool.grace if event.grace is None else event.grace,
        request_id=event.request_id,
        registered_at=at,
    )
    state = replace(state, registered={**state.registered, app: registration})
    if running:
        state = replace(state, yarn_apps={**state.yarn_apps, app: running.id})
    return state, [f"{app} arrived"]


def _leaf(name: str, seq: int, at: float) -> str:
    """A queue name never used before: a weight written for a leaf outlives it and a namesake would inherit it."""
    slug = "".join(letter if letter.isalnum() else "-" for letter in name.lower())[:24].strip("-") or "app"
    return f"{slug}_{seq}_{int(at):x}"


def _vacate(state: State, app: str, told: int, at: float) -> State:
    member = state.members.get(app)
    if member is None or member.share.seq != told:
        return state
    settled = replace(member, schedule=(Step(at, member.schedule[-1].fraction),))
    return replace(state, members={**state.members, app: settled})
