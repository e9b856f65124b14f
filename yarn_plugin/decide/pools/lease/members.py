"""Who takes part in the rounds of a pool, and how contended the pool was meanwhile."""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from yarn_plugin.decide.pools.commands import Accept, Hold
from yarn_plugin.decide.pools.lease.state import Member
from yarn_plugin.decide.pools.lease.turn import Turn
from yarn_plugin.model.causes import TooManyApps
from yarn_plugin.model.resources import GPU
from yarn_plugin.model.share import Claim

ARRIVAL, ENDED, REVISED = "arrival", "app-ended", "revised"


def update_members(turn: Turn) -> list[str]:
    """Learn who arrived, who left and who revised its demand. Returns those who left.

    An application takes part from when YARN runs its master, which can request containers: what is offered to one that
    YARN does not know, or that waits for its master, would stay idle. It stays while YARN starts the master again.
    """
    known = turn.state.members
    present = {app: claim for app, claim in turn.claims.items() if claim.is_registered and claim.yarn_app is not None}
    new = [app for app, claim in present.items() if app not in known and not claim.is_submitted]
    gone = [app for app in known if app not in present]
    revised = [app for app in known if app in present and known[app].demand != demand_of(present[app])]
    if not (new or gone or revised):
        return []
    count_until_now(turn)
    if turn.settings.rules > 1:
        # Rules 1 forgot what was counted for each application alone.
        known = turn.state.members
    members = {app: member for app, member in known.items() if app in present}
    for app in revised:
        members[app] = replace(members[app], demand=demand_of(present[app]))
    for app in new:
        user = present[app].tenant
        demand, parts = demand_of(present[app]), turn.state.parts_gpu_s
        members[app] = Member(turn.at, turn.state.area, demand, waits=True, user=user, parts_gpu_s=parts)
    turn.change(members=members)
    admitted = admit(turn, new)
    for why, apps in ((ARRIVAL, admitted), (REVISED, revised)):
        if apps:
            turn.trigger(why, turn.settings.round_window_s)
    return gone


def admit_waiting(turn: Turn) -> None:
    """Admit applications that waited, after others left."""
    if admit(turn, ()):
        turn.trigger(ARRIVAL, turn.settings.round_window_s)


def demand_of(claim: Claim) -> int | None:
    """The GPUs that an application registered at most; None: unlimited."""
    return None if claim.demand is None else claim.demand.alternatives[0][GPU]


def admit(turn: Turn, new: Iterable[str]) -> list[str]:
    """Admit waiting applications in order of arrival, while the limits allow. Returns those that were admitted.

    The next one waits even if a later one would fit: otherwise large applications would wait forever.
    """
    fresh, admitted = set(new), list[str]()
    for app, member in turn.state.members.items():
        if not member.waits:
            continue
        limit = _limit(turn, member)
        if limit is not None:
            waiting = [other for other, one in turn.state.members.items() if one.waits and other in fresh]
            turn.commands += [Hold(turn.new_id(), other, TooManyApps(other, *limit)) for other in waiting]
            break
        turn.set_member(app, replace(member, waits=False))
        admitted.append(app)
        if app not in fresh:
            turn.commands.append(Accept(turn.new_id(), app))
    return admitted


def _limit(turn: Turn, member: Member) -> tuple[Literal["max_apps", "max_demand"], float] | None:
    settings, active = turn.settings, [one for one in turn.state.members.values() if not one.waits]
    if settings.max_apps is not None and len(active) >= settings.max_apps:
        return "max_apps", float(settings.max_apps)
    total = len(turn.inventory.places)
    if settings.max_demand is None or not active:
        # An application that asks for more than the limit alone would wait forever.
        return None
    wanted = sum(min(total, math.inf if one.demand is None else one.demand) for one in (*active, member))
    return ("max_demand", settings.max_demand) if wanted > settings.max_demand * total else None


def count_until_now(turn: Turn) -> None:
    """Add the time since the last change to the integrals of contention and of equal parts, or, where they differ
    between users, to those of each application."""
    state = turn.state
    if state.counted_at is not None:
        passed = turn.at - state.counted_at
        if turn.settings.entitlement == "user":
            for app, member in list(state.members.items()):
                parts = member.parts_gpu_s
                parts = None if parts is None else parts - _part(turn, app) * passed
                area = member.area - _rivals(turn, app) * passed
                turn.set_member(app, replace(member, area=area, parts_gpu_s=parts))
        else:
            parts = state.parts_gpu_s + _gpus(turn) / max(len(turn.active()), 1) * passed
            turn.change(area=state.area + len(turn.active()) * passed, parts_gpu_s=parts)
    turn.change(counted_at=turn.at)


def _gpus(turn: Turn) -> int:
    """The GPUs of the pool as last seen."""
    return sum(gpus for _, gpus in turn.state.machines)


def _part(turn: Turn, app: str) -> float:
    """The GPUs of an equal part of the pool."""
    return _gpus(turn) / max(_rivals(turn, app), 1)


def part_gpu_s(turn: Turn, app: str) -> float | None:
    """The GPU seconds of an equal part of the pool since an application arrived; None: not known."""
    state, since = turn.state, turn.state.members[app].parts_gpu_s
    if since is None:
        return None
    open_s = 0.0 if state.counted_at is None else turn.at - state.counted_at
    return state.parts_gpu_s - since + _part(turn, app) * open_s


def _rivals(turn: Turn, app: str) -> int:
    """Of how many equal parts of the pool an application is entitled to one: the active applications; or the users
    times the applications of its own."""
    if turn.settings.entitlement == "application":
        return len(turn.active())
    return len(turn.users()) * max(turn.users()[turn.user_of(app)], 1)


def contention(turn: Turn, app: str) -> float:
    """`N_avg`: the time-weighted average number of applications since this one arrived (thesis, section 3.4.3.1); or of
    users, times the applications of its own."""
    state, member, count = turn.state, turn.state.members[app], _rivals(turn, app)
    life = turn.at - member.arrived_at
    if life <= 0 or state.counted_at is None:
        return float(max(count, 1))
    return max((state.area + count * (turn.at - state.counted_at) - member.area) / life, 1.0)
