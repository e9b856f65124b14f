"""The share controller: divides a pool by a share policy, notifies applications and sets queue weights.

Applications are notified of a changed share at once. A smaller share is enforced after the application's grace period;
an application that is then over its share while others wait has its newest containers preempted. The arbiter writes the
weights to YARN.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from yarn_plugin.decide.commands import ListContainers, SignalContainers, TellShare
from yarn_plugin.decide.events import ContainersListed, Vacated
from yarn_plugin.decide.jobs import by_application
from yarn_plugin.decide.policies import Decision, SharePolicy, Snapshot
from yarn_plugin.decide.pools.commands import Command, SetTimer, WantWeights
from yarn_plugin.decide.pools.controller import Kind, Registry
from yarn_plugin.decide.pools.inputs import FromApp, Input, Outcome
from yarn_plugin.decide.pools.view import View
from yarn_plugin.model.causes import Explanation, OverShare, Preempted, ShareCause
from yarn_plugin.model.cluster import Container, is_defined
from yarn_plugin.model.journaled import Tagged
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim, CompletionEstimate, Grant, Pool, Share

MIN_WEIGHT = 0.01
"""YARN treats weight 0 as "no queue"; the minimum keeps an application alive that is entitled to nothing now."""

DEADLINE = "deadline"
"""The key of the only timer: the next deadline of enforcement."""


@dataclass(frozen=True, slots=True)
class ScheduledShare:
    """An entry of an application's schedule: this dominant fraction of the pool is enforced from `at` on."""

    at: float
    fraction: float


@dataclass(frozen=True, slots=True)
class Member:
    """An application that counts in a pool.

    `schedule`: the enforced shares over time; the last is the current share, earlier ones apply during the grace
    period. `over_since`: since when it has been over its enforced share while others wait. `estimate`: when it expects
    to finish, if it says so, and when it said so.
    """

    app: str
    share: Share
    schedule: tuple[ScheduledShare, ...]
    over_since: float | None = None
    estimate: CompletionEstimate | None = None
    estimated_at: float = 0.0

    def rho(self, now: float) -> float | None:
        """Its finish-time fairness, if it says when it expects to finish."""
        return None if self.estimate is None else self.estimate.rho(now - self.estimated_at)


@dataclass(frozen=True, slots=True)
class ShareState:
    """The members of a pool by id (the arbiter's, or YARN's if unregistered), and the state of its policy."""

    members: dict[str, Member] = field(default_factory=dict)
    policy_state: Annotated[object, Tagged()] = None


def binding_fraction(member: Member, now: float) -> float:
    """The dominant fraction that is enforced now: the latest started entry of the schedule."""
    bound = member.schedule[0].fraction
    for step in member.schedule:
        if step.at <= now:
            bound = step.fraction
    return bound


class ShareController:
    """Divides a pool by a share policy (see `yarn_plugin.decide.policies`)."""

    reads = frozenset({"capacity", "claims", "waiting", "weights", "static", "steering"})

    def __init__(self, pool: Pool, policy: SharePolicy) -> None:
        self._pool, self._policy = pool, policy
        self._names = frozenset(pool.resources)

    def initial_state(self) -> ShareState:
        """A pool without members."""
        return ShareState()

    def report(self, state: ShareState) -> None:
        """None: the state itself is immutable."""

    def advance(self, state: ShareState, view: View, at: float, what: Input) -> tuple[ShareState, tuple[Command, ...]]:
        """Divide again, notify of changed shares, preempt what stays over its share, and set the weights."""
        view = replace(view, claims=by_application(view.claims, self._pool.resources))
        if isinstance(what, FromApp) and isinstance(what.message, Vacated):
            state = _confirm(state, what.message, at)
        if isinstance(what, FromApp) and isinstance(what.message, CompletionEstimate):
            state = _note_estimate(state, what.app, what.message, at)
        state, notified = self._divide(state, view, at)
        claims = {claim.app: claim for claim in view.claims}
        state, listed = self._find_over_share(state, view, claims, at)
        ended: list[Command] = []
        if isinstance(what, Outcome) and isinstance(what.result, ContainersListed):
            ended = self._choose_victims(state, view, what.result, at)
        wanted = WantWeights(tuple(weights(state, view, at).items()))
        due = min((time for time in self._deadlines(state, claims) if time > at), default=None)
        return state, (*notified, *listed, *ended, wanted, SetTimer(DEADLINE, due))

    # Dividing and notifying.

    def _divide(self, state: ShareState, view: View, now: float) -> tuple[ShareState, list[Command]]:
        decision = self._policy.decide(Snapshot(view.capacity, view.claims), state.policy_state)
        granted = dict(_granted(decision, view.claims))
        members = {app: member for app, member in state.members.items() if app in granted}
        commands: list[Command] = []
        count = len(view.claims)
        for app, (grace, grant, explanation) in granted.items():
            member = members.get(app)
            if member is not None and member.share.grant.same_share(grant) and member.share.capacity == view.capacity:
                if member.share.grant != grant or member.share.apps != count:
                    members[app] = replace(member, share=replace(member.share, grant=grant, apps=count))
                continue
            schedule = _schedule(member, grant, grace, now)
            cause = ShareCause(view.causes, count, explanation)
            share = Share(view.seq, now, schedule[-1].at, grant, count, view.capacity, cause)
            members[app] = replace(member or Member(app, share, ()), share=share, schedule=schedule)
            commands.append(TellShare(app, share))
        return replace(state, members=members, policy_state=decision.policy_state), commands

    # Preemption.

    def _find_over_share(
        self, state: ShareState, view: View, claims: Mapping[str, Claim], now: float
    ) -> tuple[ShareState, list[Command]]:
        """Record which applications are over their enforced share while others wait; list their containers when
        `preempt_after` has passed.

        Applications in queues that the configuration defines are exempt: their weights are not the arbiter's.
        """
        if not view.steering:
            return state, []
        commands: list[Command] = []
        members, preempt_after = dict(state.members), self._pool.preempt_after
        for app, member in state.members.items():
            claim = claims.get(app)
            if claim is None or claim.queue is None or claim.yarn_app is None or is_defined(claim.queue, view.static):
                continue
            others_wait = any(waiting != claim.yarn_app for waiting in view.waiting)
            if not others_wait or _fits(claim.used, view.capacity, binding_fraction(member, now)):
                if member.over_since is not None:
                    members[app] = replace(member, over_since=None)
                continue
            if member.over_since is None:
                members[app] = replace(member, over_since=now)
            elif now >= member.over_since + preempt_after:
                members[app] = replace(member, over_since=now)
                allowed = view.capacity.scaled(binding_fraction(member, now))
                commands.append(ListContainers(app, claim.yarn_app, OverShare(app, claim.held, allowed, preempt_after)))
        return replace(state, members=members), commands

    def _choose_victims(self, state: ShareState, view: View, found: ContainersListed, now: float) -> list[Command]:
        """Choose the newest containers beyond the share, never a master's; none if the application complied."""
        member = state.members.get(found.app)
        if member is None or not view.steering:
            return []
        allowed = view.capacity.scaled(binding_fraction(member, now))
        held = sum((container.resources for container in found.containers), Resources()).only(self._names)
        chosen: list[str] = []
        for container in sorted(found.containers, key=_age_key, reverse=True):
            if held.fits(allowed):
                break
            if not container.master:
                chosen.append(container.id)
                held = held - container.resources.only(self._names)
        return [SignalContainers(found.app, tuple(chosen), Preempted(found.app, allowed))] if chosen else []

    def _deadlines(self, state: ShareState, claims: Mapping[str, Claim]) -> Iterator[float]:
        for app, member in state.members.items():
            yield from (step.at for step in member.schedule)
            if member.over_since is not None and app in claims and claims[app].queue is not None:
                yield member.over_since + self._pool.preempt_after


def weights(state: ShareState, view: View, now: float) -> dict[str, float]:
    """The weight of each queue of the pool, out of 100.

    Each application first retains its current fraction in YARN, up to its enforced share; the rest goes to those with
    larger shares. So no fraction shrinks before its grace period ends, although YARN's weights are relative: an
    application that arrives or grows waits for those that vacate.
    """
    queues = {claim.app: claim.queue for claim in view.claims}
    promised: dict[str, float] = defaultdict(float)
    for app, member in state.members.items():
        queue = queues.get(app)
        if queue:
            promised[queue] += binding_fraction(member, now)
    has = _current_fractions(view.weights, promised)
    kept = {queue: min(fraction, has[queue]) for queue, fraction in promised.items()}
    left = max(1.0 - sum(kept.values()), 0.0)
    more = sum(promised.values()) - sum(kept.values())
    part = min(1.0, left / more) if more > 0 else 0.0
    fractions = {queue: kept[queue] + part * (promised[queue] - kept[queue]) for queue in sorted(promised)}
    return {queue: max(round(100 * fraction, 2), MIN_WEIGHT) for queue, fraction in fractions.items()}


def _current_fractions(known: Mapping[str, float], queues: Collection[str]) -> dict[str, float]:
    """The fractions of the pool that these queues have in YARN now."""
    written = {queue: known.get(queue, 0.0) for queue in queues}
    # A queue without a weight has nearly nothing, unless all queues are without.
    if not any(written.values()):
        return dict.fromkeys(queues, 1.0 / len(queues)) if queues else {}
    # Minimum weights beyond a total of 100 are no reason to rewrite the others.
    total = min(sum(written.values()), 100.0)
    return {queue: weight / total for queue, weight in written.items()}


def _granted(decision: Decision, claims: tuple[Claim, ...]) -> Iterator[tuple[str, tuple[float, Grant, Explanation]]]:
    """The grace period and the grant of each application; applications that count together have the same grant."""
    by_app = {claim.app: claim for claim in claims}
    for app, grant in decision.grants.items():
        claim = by_app[app]
        for one, grace in claim.together or ((app, claim.grace),):
            yield one, (grace, grant, decision.explanations[app])


def _schedule(member: Member | None, grant: Grant, grace: float, now: float) -> tuple[ScheduledShare, ...]:
    """The schedule from now on: a larger share at once, a smaller one after the grace period; a new member's at
    once."""
    target = grant.entitlement_fraction
    if member is None:
        return (ScheduledShare(now, target),)
    held = binding_fraction(member, now)
    if target >= held:
        return (ScheduledShare(now, target),)
    to_come = [step for step in member.schedule if step.at > now]
    # If an earlier notification required the same or less by then, this one does not extend the grace period.
    by = min([now + grace, *(step.at for step in to_come if step.fraction <= target)])
    # Entries that would start later never apply. Without this, a burst of arrivals would leave one entry each.
    above = [step for step in to_come if step.fraction > target and step.at < by]
    return (ScheduledShare(now, held), *above, ScheduledShare(by, target))


def _confirm(state: ShareState, vacated: Vacated, at: float) -> ShareState:
    """Enforce share `seq` at once, since the application is within it; ignored unless it is the latest share."""
    member = state.members.get(vacated.app)
    if member is None or member.share.seq != vacated.seq:
        return state
    confirmed = replace(member, schedule=(ScheduledShare(at, member.schedule[-1].fraction),))
    return replace(state, members={**state.members, vacated.app: confirmed})


def _note_estimate(state: ShareState, app: str, estimate: CompletionEstimate, at: float) -> ShareState:
    if app not in state.members:
        return state
    noted = replace(state.members[app], estimate=estimate, estimated_at=at)
    return replace(state, members={**state.members, app: noted})


def _fits(used: Resources, capacity: Resources, fraction: float) -> bool:
    """Whether the use of every resource is within a fraction of the capacity."""
    return all(amount <= int(capacity[name] * fraction + 1e-6) for name, amount in used.amounts)


def _age_key(container: Container) -> str:
    """Sorts by age: container ids end in a number that increases within an application."""
    return container.id


def _make(pool: Pool, registry: Registry) -> ShareController:
    policy: Any = registry.policy(pool.policy)
    return ShareController(pool, policy)


KIND = Kind(
    "share",
    _make,
    {"share/1": ShareState, "share.estimate": CompletionEstimate},
    messages=frozenset({"share.estimate"}),
)
