"""From the arbiter's nouns to wire types."""

from collections.abc import Iterable, Iterator
from typing import Any

from yarn_plugin.api import wire
from yarn_plugin.decide.commands import (
    Admit,
    Command,
    Dismiss,
    ListContainers,
    SetTimer,
    SignalContainers,
    TellShare,
    WriteWeights,
)
from yarn_plugin.decide.events import Event
from yarn_plugin.decide.membership import pool_of, snapshot
from yarn_plugin.decide.state import State
from yarn_plugin.journal.intake import Decided
from yarn_plugin.model.cluster import YarnApp
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Registration, Share


def share(app: str, told: Share) -> wire.Share:
    """A share as it is told."""
    grant = told.grant
    return wire.Share(
        app=app,
        seq=told.seq,
        told_at=told.told_at,
        effective_at=told.effective_at,
        current=grant.current,
        guarantee=wire.Portion(fraction=grant.guarantee_fraction, resources=grant.guarantee.as_dict()),
        entitlement=wire.Portion(fraction=grant.entitlement_fraction, resources=grant.entitlement.as_dict()),
        capacity=told.capacity.as_dict(),
        apps=told.apps,
        reason=told.reason,
    )


def apps(state: State) -> Iterator[wire.App]:
    """Every application of every pool: the registered ones, then those that YARN alone knows."""
    for registration in state.registered.values():
        yield _registered(state, registration)
    taken = set(state.yarn_apps.values())
    for running in state.cluster.apps.values():
        pool = pool_of(state, running.queue)
        if running.id not in taken and pool:
            yield _unregistered(state, running, pool.name)


def find_app(state: State, name: str) -> wire.App | None:
    """The application with this id: the arbiter's or YARN's."""
    return next((app for app in apps(state) if name in (app.app, app.yarn_app)), None)


def cluster(state: State, now: float) -> wire.Cluster:
    """The cluster as the arbiter knows it."""
    nodes = sorted(state.cluster.nodes.values(), key=lambda node: node.id)
    total = sum((node.capacity for node in nodes), Resources())
    return wire.Cluster(
        manager=state.manager_url,
        manager_error=state.manager_error,
        manager_version=state.capabilities.version if state.capabilities else None,
        enforcement=enforcement(state),
        enforcement_error=state.enforcement.error,
        capacity=total.as_dict(),
        least_allocation=state.capabilities.least.as_dict() if state.capabilities else {},
        nodes=[wire.Node(id=node.id, rack=node.rack, capacity=node.capacity.as_dict()) for node in nodes],
        pools=[_pool(state, pool.name, now) for pool in state.pools],
        apps=len(state.cluster.apps),
    )


def enforcement(state: State) -> str:
    """How shares are made to hold, in words."""
    allowed = state.capabilities
    if allowed is None:
        return "unknown: no ResourceManager has answered yet"
    if not allowed.writable:
        return "feedback only: the ResourceManager's configuration store is read-only"
    if not allowed.preempts:
        return "queue weights, without preemption: the ResourceManager's preemption monitor is off"
    return "queue weights, YARN preemption, container signals"


def decisions(history: Iterable[Decided[Event, Command]], app: str | None = None) -> list[wire.Decision]:
    """Past decisions, oldest first; of one application (its arbiter id) if given."""
    found: list[wire.Decision] = []
    for decided in history:
        for command in decided.commands:
            written = _decision(decided, command)
            if written and app in (None, written.app):
                found.append(written)
    return found


def _decision(decided: Decided[Event, Command], command: Command) -> wire.Decision | None:
    app: str | None
    detail: dict[str, Any] = {}
    match command:
        case TellShare(app, told):
            reason, detail = told.reason, share(app, told).model_dump(exclude={"reason", "app"})
        case Admit(registration):
            app, reason = registration.id, f"registered by {registration.user} in queue {registration.queue}"
        case Dismiss(app, reason):
            pass
        case WriteWeights(weights, forget, reason):
            app, detail = None, {"weights": dict(weights), "forget": list(forget)}
        case ListContainers(app, _, reason):
            pass
        case SignalContainers(app, containers, reason):
            detail = {"containers": list(containers)}
        case SetTimer():
            return None
    return wire.Decision(
        seq=decided.seq,
        at=decided.at,
        cause=type(decided.event).__name__,
        kind=type(command).__name__,
        app=app,
        reason=reason,
        detail=detail,
    )


def _pool(state: State, name: str, now: float) -> wire.Pool:
    pool = next(pool for pool in state.pools if pool.name == name)
    seen = snapshot(state, pool, now)
    return wire.Pool(
        name=name,
        queue=pool.queue,
        policy=pool.policy,
        resources=list(pool.resources),
        capacity=seen.capacity.as_dict(),
        apps=len(seen.claims),
        grace_s=pool.grace,
    )


def _registered(state: State, registration: Registration) -> wire.App:
    running = state.cluster.apps.get(state.yarn_apps.get(registration.id, ""))
    member = state.members.get(registration.id)
    return wire.App(
        app=registration.id,
        yarn_app=state.yarn_apps.get(registration.id),
        name=registration.name,
        user=registration.user,
        pool=registration.pool,
        queue=registration.queue,
        registered=True,
        weight=registration.weight,
        share=share(registration.id, member.share) if member else None,
        **_running(running),
    )


def _unregistered(state: State, running: YarnApp, pool: str) -> wire.App:
    member = state.members.get(running.id)
    return wire.App(
        app=running.id,
        yarn_app=running.id,
        name=running.name,
        user=running.user,
        pool=pool,
        queue=running.queue,
        registered=False,
        weight=1.0,
        share=share(running.id, member.share) if member else None,
        **_running(running),
    )


def _running(running: YarnApp | None) -> dict[str, Any]:
    if running is None:
        return {"state": "expected", "used": {}, "pending": {}, "containers": 0}
    return {
        "state": "waiting" if running.waiting else "running",
        "used": running.used.as_dict(),
        "pending": running.pending.as_dict(),
        "containers": running.containers,
    }
