"""From the model to wire types.

The arbiter has its own time; `offset` is added to it for wall-clock times, in seconds.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Literal, get_args

from yarn_plugin.api import causes, wire
from yarn_plugin.api import missed_bids as missed
from yarn_plugin.api.leases import leased_gpus
from yarn_plugin.api.standing import standing
from yarn_plugin.decide.commands import (
    Admit,
    Command,
    Dismiss,
    ListContainers,
    PoolResumed,
    PoolStopped,
    RecordRound,
    SendToApp,
    SignalContainers,
    TellShare,
    WriteWeights,
)
from yarn_plugin.decide.events import Event
from yarn_plugin.decide.membership import home_of, outside, snapshot
from yarn_plugin.decide.pools.commands import TO_APP
from yarn_plugin.decide.state import State
from yarn_plugin.journal.codec import Codec
from yarn_plugin.journal.intake import Decided
from yarn_plugin.model.causes import Cause, ControllerFailed, ControllerNotified, ControllerResumed, RegisteredBy
from yarn_plugin.model.cluster import YarnApp
from yarn_plugin.model.resources import GPU, Resources, total_of
from yarn_plugin.model.share import Pool, Registration, Share

Mode = Literal["full", "weights_only", "feedback_only", "superseded", "unknown"]
MODES: tuple[Mode, ...] = get_args(Mode)

ENFORCEMENT: dict[Mode, str] = {
    "full": "queue weights, YARN preemption, container kills",
    "weights_only": "queue weights, without preemption: the ResourceManager's preemption monitor is off",
    "feedback_only": "not enforced: the ResourceManager's configuration store is read-only",
    "unknown": "unknown: no ResourceManager has answered yet",
}


def share(app: str, share: Share, offset: float = 0.0) -> wire.Share:
    """A share as it is sent."""
    grant = share.grant
    return wire.Share(
        app=app,
        seq=share.seq,
        told_at=share.told_at + offset,
        effective_at=share.effective_at + offset,
        current=grant.current,
        guarantee=wire.Portion(fraction=grant.guarantee_fraction, resources=grant.guarantee.as_dict()),
        entitlement=wire.Portion(fraction=grant.entitlement_fraction, resources=grant.entitlement.as_dict()),
        capacity=share.capacity.as_dict(),
        apps=share.apps,
        reason=causes.text(share.cause),
        cause=causes.as_json(share.cause),
    )


_TO_APP = {kind: tag for tag, kind in TO_APP.items()}
_TIMES = frozenset({"answer_by", "bid_by", "by", "effective_at", "until"})


def message(command: SendToApp, offset: float, codec: Codec) -> tuple[str, str]:
    """A controller's message to an application: the name of its event, and its data. Times are wall-clock times, also
    those of the leases in it."""
    written = codec.write(command.message)
    name = written.pop("type")
    leases = [{**lease, **_wall_times(lease, offset)} for lease in written.get("leases", ())]
    written |= _wall_times(written, offset) | ({"leases": leases} if leases else {})
    return name, json.dumps({**written, "pool": command.pool}, ensure_ascii=False)


def _wall_times(written: dict[str, Any], offset: float) -> dict[str, float]:
    return {name: written[name] + offset for name in _TIMES & written.keys() if written[name] is not None}


def known_apps(state: State) -> Iterator[Registration | YarnApp]:
    """Every application of every pool: the registered ones, then the unregistered ones."""
    yield from state.registered.values()
    taken = set(state.yarn_apps.values())
    for running in state.cluster.apps.values():
        if running.id not in taken and home_of(state, running.id):
            yield running


def find_known(state: State, name: str) -> Registration | YarnApp | None:
    """The application with this id, the arbiter's or YARN's."""
    if name in state.registered:
        return state.registered[name]
    registered = next((app for app, known in state.yarn_apps.items() if known == name), None)
    if registered is not None:
        return state.registered.get(registered)
    running = state.cluster.apps.get(name)
    return running if home_of(state, name) else None


def app(state: State, known: Registration | YarnApp, now: float, offset: float = 0.0) -> wire.App:
    """An application at `now`, in the arbiter's time."""
    if isinstance(known, Registration):
        running, pool = state.cluster.apps.get(state.yarn_apps.get(known.id, "")), known.pool
    else:
        home = home_of(state, known.id)
        running, pool = known, home.name if home else ""
    is_registered, member = isinstance(known, Registration), state.members.get(known.id)
    return wire.App(
        app=known.id,
        yarn_app=state.yarn_apps.get(known.id) if is_registered else known.id,
        name=known.name,
        user=known.user,
        pool=pool,
        queue=known.queue,
        registered=is_registered,
        weight=known.weight if isinstance(known, Registration) else 1.0,
        share=share(known.id, member.share, offset) if member else None,
        standing=standing(state, known.id, running, now),
        **_running(running),
    )


def cluster(state: State, now: float) -> wire.Cluster:
    """The cluster at `now`, in the arbiter's time."""
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
        mode=mode(state),
    )


def mode(state: State) -> Mode:
    """How shares are enforced, in one word."""
    if state.enforcement.superseded is not None:
        return "superseded"
    allowed = state.capabilities
    if allowed is None:
        return "unknown"
    if not allowed.writable:
        return "feedback_only"
    return "full" if allowed.preempts else "weights_only"


def enforcement(state: State) -> str:
    """How shares are enforced, in words."""
    by = state.enforcement.superseded
    if by is not None:
        return f"off: another arbiter ({by}) controls the pools' queues now"
    return ENFORCEMENT[mode(state)]


def decisions(history: Sequence[Decided[Event, Command]], app: str | None = None) -> list[wire.Decision]:
    """Past decisions, oldest first; of one application (its arbiter id) if given."""
    return last_decisions(history, lambda about: app in (None, about), sys.maxsize)


def last_decisions(
    history: Sequence[Decided[Event, Command]],
    is_shown: Callable[[str | None], bool],
    limit: int,
    rounds_with: str | None = None,
) -> list[wire.Decision]:
    """The last `limit` decisions about applications (by arbiter id; None: about none) that `is_shown` accepts.

    `rounds_with`: also the records of rounds that this application took part in, which name all others.
    Oldest first. Reads from the newest back, no further than needed: a decision about thousands of applications counts
    as thousands.
    """
    newest: list[wire.Decision] = []
    missed_bids: missed.Missed | None = None
    for decided in reversed(history):
        for command in reversed(decided.commands):
            if not isinstance(command, _SHOWN):
                continue
            if not is_shown(_about(command)) and not (
                isinstance(command, RecordRound) and rounds_with in dict(command.cause.rhos)
            ):
                continue
            decision = _decision(decided, command)
            if isinstance(command, RecordRound):
                missed_bids = missed.missed_bids(history) if missed_bids is None else missed_bids
                decision = _with_missed(decision, missed_bids.get((command.pool, command.cause.round), ()))
            newest.append(decision)
            if len(newest) == limit:
                return newest[::-1]
    return newest[::-1]


_Shown = (
    TellShare
    | Admit
    | Dismiss
    | WriteWeights
    | ListContainers
    | SignalContainers
    | SendToApp
    | PoolStopped
    | PoolResumed
    | RecordRound
)
_SHOWN = get_args(_Shown)


def _about(command: _Shown) -> str | None:
    match command:
        case Admit(registration):
            return registration.id
        case WriteWeights() | PoolStopped() | PoolResumed() | RecordRound():
            return None
        case _:
            return command.app


def _decision(decided: Decided[Event, Command], command: _Shown) -> wire.Decision:
    why: Cause
    detail: dict[str, Any] = {}
    told: list[str] = []
    match command:
        case TellShare(app, notified):
            sent = share(app, notified, decided.wall - decided.at)
            why, detail = notified.cause, sent.model_dump(exclude={"reason", "cause", "app"})
        case Admit(registration):
            why = RegisteredBy(registration.user, registration.queue)
        case WriteWeights(weights, forget, why):
            detail = {"weights": dict(weights), "forget": list(forget)}
        case SignalContainers(_, containers, why):
            detail = {"containers": list(containers)}
        case Dismiss(_, why) | ListContainers(_, _, why):
            pass
        case SendToApp(pool, _, sent_message):
            name, own = _TO_APP[type(sent_message)], getattr(sent_message, "cause", None)
            why = ControllerNotified(pool, name)
            if own is not None:
                told, why, detail = [causes.text(why)], own, {"message": name}
        case PoolStopped(pool, error, _):
            why = ControllerFailed(pool, error)
        case PoolResumed(pool):
            why = ControllerResumed(pool)
        case RecordRound(_, why):
            pass
    return wire.Decision(
        seq=decided.seq,
        at=decided.wall,
        cause=type(decided.event).__name__,
        kind=type(command).__name__,
        app=_about(command),
        reason=": ".join([*told, causes.text(why)]),
        because=causes.as_json(why),
        detail=detail,
    )


def _with_missed(decision: wire.Decision, bids: Sequence[missed.MissedBid]) -> wire.Decision:
    """The record of a round with who made no bid that counts, and why."""
    if not bids:
        return decision
    reason = "; ".join([decision.reason, *(missed.text(one, one.app) for one in bids)])
    return decision.model_copy(update={"reason": reason, "detail": {"missed_bids": [asdict(one) for one in bids]}})


def _pool(state: State, name: str, now: float) -> wire.Pool:
    pool = next(pool for pool in state.pools if pool.name == name)
    seen = snapshot(state, pool, now)
    kept = state.pool_states.get(name)
    gpus = None if kept is None else leased_gpus(kept.state)
    leased = {} if gpus is None else {GPU: gpus}
    return wire.Pool(
        name=name,
        queue=pool.queue,
        policy=pool.policy,
        resources=list(pool.resources),
        capacity=seen.capacity.as_dict() | leased,
        outside=_outside(state, pool, {claim.app for claim in seen.claims}),
        apps=len(seen.claims),
        grace_s=pool.grace,
        controller=pool.controller,
    )


def _outside(state: State, pool: Pool, active: set[str]) -> list[wire.Outside]:
    """By queue: names of other users' applications are not for everybody."""
    names = frozenset(pool.resources)
    used: dict[str, list[Resources]] = defaultdict(list)
    for app in outside(state, pool, active):
        if amounts := app.used.only(names):
            used[app.queue].append(amounts)
    found = [wire.Outside(queue=queue, apps=len(each), used=total_of(each).as_dict()) for queue, each in used.items()]
    # By their sums: of memory, as its numbers are the largest, where there is any.
    return sorted(found, key=lambda one: (-sum(one.used.values()), one.queue))[: wire.MAX_OUTSIDE]


def _running(running: YarnApp | None) -> dict[str, Any]:
    if running is None:
        return {"state": "expected", "used": {}, "pending": {}, "containers": 0}
    return {
        "state": "waiting" if running.waiting else "running",
        "used": running.used.as_dict(),
        "pending": running.pending.as_dict(),
        "containers": running.containers,
    }
