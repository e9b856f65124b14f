"""Applies events to the state, and names what happened as the cause of changed shares."""

from collections.abc import Mapping
from dataclasses import replace

from yarn_plugin.decide.enforcement import learn_weights
from yarn_plugin.decide.events import (
    AppSaid,
    AppsChanged,
    Configured,
    ContainersListed,
    ContainersSignalled,
    Deregistered,
    EpochBegan,
    Event,
    JobsDeclared,
    LeavesSeen,
    LeavesUnread,
    Looked,
    ManagerLost,
    ManagerReached,
    NodesChanged,
    NodeUseChanged,
    PartitionsChanged,
    PoolReconfigured,
    QueuesChanged,
    Registered,
    Revised,
    Solved,
    Superseded,
    TimerFired,
    Vacated,
    WeightsRefused,
    WeightsWritten,
)
from yarn_plugin.decide.membership import is_quiet
from yarn_plugin.decide.state import Dismissed, State
from yarn_plugin.model import causes as cause
from yarn_plugin.model.causes import Ending, Happening
from yarn_plugin.model.cluster import YarnApp, leaf_name
from yarn_plugin.model.share import Job, Pool, Registration

DISMISSED_FOR = 3600.0
"""Retention of unregistered applications: seconds, and maximum number."""
MAX_DISMISSED = 1000


def learn(state: State, seq: int, at: float, event: Event) -> tuple[State, list[Happening]]:
    """The state after this event, and what happened, such as `NodeLost`."""
    match event:
        case Configured(pools, reconcile, described):
            now_known = state.enforcement
            parents = {pool.queue for pool in pools}
            # Queues outside the present pools are no longer this arbiter's.
            written = {queue: one for queue, one in now_known.written.items() if queue.rpartition(".")[0] in parents}
            kept = replace(now_known, written=written, asked=False, reading=False, retry_at=None, read_at=None,
                           superseded=None)  # fmt: skip
            # The cells are built again: an earlier version's lack what this one reads.
            state = replace(state, pools=pools, enforcement=kept, timer=None, looked=False, reconcile=reconcile,
                            topology=described, cells=None)  # fmt: skip
            return state, [cause.ArbiterStarted()]
        case PoolReconfigured(changed):
            pools = tuple(changed if pool.name == changed.name else pool for pool in state.pools)
            return replace(state, pools=pools), []
        case ManagerReached(url, capabilities, looked):
            # It may have restarted without the weights: read them before writing.
            kept = replace(state.enforcement, unsure=bool(state.enforcement.written), retry_at=None, read_at=at)
            reached = replace(state, manager_url=url, manager_error=None, capabilities=capabilities, looked=looked)
            return replace(reached, enforcement=kept), []
        case Looked():
            return replace(state, looked=state.manager_error is None), []
        case ManagerLost(error):
            return replace(state, manager_error=error, looked=False), []
        case NodesChanged():
            return _nodes(state, event)
        case PartitionsChanged(found):
            before, partitions = state.cluster.partitions, dict(found)
            moved = [node for node in state.cluster.nodes.values() if before.get(node.id) != partitions.get(node.id)]
            cluster = replace(state.cluster, partitions=partitions, total=None)
            cluster = replace(cluster, total=cluster.capacity())
            return replace(state, cluster=cluster), [cause.NodeChanged(node.host) for node in moved]
        case NodeUseChanged(used):
            here = {node: amounts for node, amounts in used if node in state.cluster.nodes}
            known = {**state.cluster.node_used, **here}
            return replace(state, cluster=replace(state.cluster, node_used=known)), []
        case AppsChanged():
            return _apps(state, event, at)
        case QueuesChanged(present, gone):
            queues = {path: queue for path, queue in state.cluster.queues.items() if path not in set(gone)}
            queues |= {queue.path: queue for queue in present}
            return replace(state, cluster=replace(state.cluster, queues=queues)), [cause.QueueTreeChanged()]
        case Registered():
            return _register(state, event, seq, at)
        case Revised(app, weight, demand):
            if app not in state.registered:
                return state, []
            revised = replace(state.registered[app], weight=weight, demand=demand)
            return replace(state, registered={**state.registered, app: revised}), [cause.AppRevised(app)]
        case JobsDeclared(app, jobs):
            if app not in state.registered:
                return state, []
            since = {job.name: job.declared_at for job in state.jobs.get(app, ())}
            declared = tuple(replace(job, declared_at=since.get(job.name, at)) for job in jobs)
            return replace(state, jobs=_with_jobs(state, {app: declared})), [cause.JobsChanged(app)]
        case Vacated(app, _):
            return state, [cause.AppVacated(app)]
        case Deregistered(app):
            if app not in state.registered:
                return state, []
            ended = cause.AppEnded(app)
            return forget(state, {app: ended}, at, final=True), [ended]
        case WeightsWritten() | WeightsRefused() | LeavesSeen() | LeavesUnread() | Superseded():
            return learn_weights(state, event, at)
        case EpochBegan(epoch):
            # Nothing expires before YARN has been polled again.
            return replace(state, epoch=epoch, looked=False), []
        case ContainersListed() | ContainersSignalled() | AppSaid() | Solved():
            return state, []
        case TimerFired():
            # It is no longer set, even if a clock that was set back made it fire too early.
            return replace(state, timer=None), []


def forget(state: State, causes: Mapping[str, Ending], at: float, final: bool) -> State:
    """The state without these registered applications.

    `causes`: the reason for each. `final`: they stay unregistered even if YARN lists them again.
    """
    gone = {
        app: Dismissed(state.registered[app], state.yarn_apps.get(app), why, at, final, state.jobs.get(app, ()))
        for app, why in causes.items()
        if app in state.registered
    }
    return replace(
        state,
        registered={app: kept for app, kept in state.registered.items() if app not in gone},
        yarn_apps={app: kept for app, kept in state.yarn_apps.items() if app not in gone},
        dismissed=_recent({**state.dismissed, **gone}, at),
        jobs=_with_jobs(state, dict.fromkeys(gone, ())),
    )


def _with_jobs(state: State, changed: Mapping[str, tuple[Job, ...]]) -> dict[str, tuple[Job, ...]]:
    return {app: jobs for app, jobs in {**state.jobs, **changed}.items() if jobs}


def _recent(dismissed: dict[str, Dismissed], at: float) -> dict[str, Dismissed]:
    kept = [(app, one) for app, one in dismissed.items() if one.at > at - DISMISSED_FOR]
    return dict(kept[-MAX_DISMISSED:])


def _nodes(state: State, event: NodesChanged) -> tuple[State, list[Happening]]:
    before, gone = state.cluster.nodes, set(event.gone)
    nodes = {node: kept for node, kept in before.items() if node not in gone}
    nodes |= {node.id: node for node in event.present}
    happened: list[Happening] = [cause.NodeLost(before[node].host) for node in event.gone if node in before]
    happened += [
        cause.NodeChanged(node.host) if node.id in before else cause.NodeJoined(node.host) for node in event.present
    ]
    well = gone | {node.id for node in event.present}
    broken = {node: kept for node, kept in state.cluster.broken.items() if node not in well}
    broken |= {node.id: node for node in event.broken}
    total = replace(state.cluster, nodes=nodes, total=None).capacity()
    used = {node: amounts for node, amounts in state.cluster.node_used.items() if node in nodes}
    cluster = replace(state.cluster, nodes=nodes, total=total, broken=broken, node_used=used)
    return replace(state, cluster=cluster), happened


def _apps(state: State, event: AppsChanged, at: float) -> tuple[State, list[Happening]]:
    before, gone = state.cluster.apps, set(event.gone)
    apps = {app: kept for app, kept in before.items() if app not in gone}
    apps |= {app.id: app for app in event.present}
    quiet = _quiet_since(state, event, gone, at)
    names = {known: app for app, known in state.yarn_apps.items()}
    happened: list[Happening] = [cause.AppEnded(names.get(app, app)) for app in event.gone]
    state = replace(state, cluster=replace(state.cluster, apps=apps), quiet_since=quiet)
    state, refused = _match(_return(state, event.present), event.present)
    matched = set(state.yarn_apps.values())
    happened += [cause.AppMatched(app, known) for app, known in state.yarn_apps.items() if known not in names]
    happened += [cause.AppArrived(app.id) for app in event.present if app.id not in before and app.id not in matched]
    happened += refused
    ended = {names[app]: cause.AppEnded(names[app]) for app in event.gone if app in names}
    return forget(state, ended, at, final=False) if ended else state, happened


def _quiet_since(state: State, event: AppsChanged, gone: set[str], at: float) -> dict[str, float]:
    quiet = {app: since for app, since in state.quiet_since.items() if app not in gone}
    for app in event.present:
        if is_quiet(app):
            quiet.setdefault(app.id, at)
        else:
            quiet.pop(app.id, None)
    return quiet


def _return(state: State, present: tuple[YarnApp, ...]) -> State:
    """Restore registrations that ended because YARN did not list the application, which it lists now."""
    waiting = {(one.registration.queue, one.yarn_app): app for app, one in state.dismissed.items() if not one.final}
    taken = set(state.yarn_apps.values())
    registered, ran = dict(state.registered), dict[str, str]()
    for running in present if waiting else ():
        # Prefer the registration that ran under this id to one that was never submitted.
        app = waiting.get((running.queue, running.id)) or waiting.get((running.queue, None))
        if app is None or app in ran or running.id in taken:
            continue
        registration = state.dismissed[app].registration
        if _is_owners(registration, running) and _may_register(state.pools, registered, registration):
            registered[app], ran[app] = registration, running.id
    if not ran:
        return state
    dismissed = {app: kept for app, kept in state.dismissed.items() if app not in ran}
    jobs = _with_jobs(state, {app: state.dismissed[app].jobs for app in ran})
    return replace(state, registered=registered, yarn_apps={**state.yarn_apps, **ran}, dismissed=dismissed, jobs=jobs)


def _may_register(pools: tuple[Pool, ...], registered: dict[str, Registration], new: Registration | Registered) -> bool:
    """Whether a user may register: the request is new, and the pool's limit is not reached."""
    owned = [known for known in registered.values() if known.user == new.user]
    if any(known.request_id == new.request_id for known in owned):
        return False
    pool = next((pool for pool in pools if pool.name == new.pool), None)
    most = None if pool is None or new.yarn_users is None else pool.max_apps_per_user
    return most is None or sum(known.pool == new.pool for known in owned) < most


def _match(state: State, present: tuple[YarnApp, ...]) -> tuple[State, list[Happening]]:
    """Match YARN applications to registered ones by their assigned queues, if they run as the owner's users."""
    waiting = {one.queue: app for app, one in state.registered.items() if app not in state.yarn_apps}
    taken = set(state.yarn_apps.values())
    matched = dict(state.yarn_apps)
    refused: list[Happening] = []
    for running in present:
        app = waiting.get(running.queue)
        if app is None or running.id in taken:
            continue
        if not _is_owners(state.registered[app], running):
            # Without user names: every application of the pool is notified.
            refused.append(cause.OtherUser(app, running.id))
            continue
        matched[app] = running.id
        del waiting[running.queue]
    return (replace(state, yarn_apps=matched) if len(matched) > len(state.yarn_apps) else state), refused


def _is_owners(registration: Registration, running: YarnApp) -> bool:
    return registration.yarn_users is None or running.user in registration.yarn_users


def _register(state: State, event: Registered, seq: int, at: float) -> tuple[State, list[Happening]]:
    pool = next((pool for pool in state.pools if pool.name == event.pool), None)
    if pool is None or not _may_register(state.pools, state.registered, event):
        return state, []
    running = state.cluster.apps.get(event.yarn_app or "")
    has_ended = event.yarn_users is not None and event.yarn_app and running is None
    if has_ended or (running is not None and running.id in state.yarn_apps.values()):
        # It ended after the request was checked, or another request registered it.
        return state, []
    app = f"app_{seq}" if not state.epoch else f"app_e{state.epoch}_{seq}"
    registration = Registration(
        id=app,
        name=event.name,
        user=event.user,
        pool=pool.name,
        queue=running.queue if running else f"{pool.queue}.{leaf_name(event.name, seq, at)}",
        weight=event.weight,
        demand=event.demand,
        grace=pool.grace if event.grace is None else event.grace,
        request_id=event.request_id,
        registered_at=at,
        yarn_users=event.yarn_users,
    )
    declared = tuple(replace(job, declared_at=at) for job in event.jobs)
    state = replace(state, registered={**state.registered, app: registration}, jobs=_with_jobs(state, {app: declared}))
    if running:
        state = replace(state, yarn_apps={**state.yarn_apps, app: running.id})
    return state, [cause.AppArrived(app)]
