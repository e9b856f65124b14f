"""Rounds in which a lease policy gives GPUs to jobs: the baselines of Themis (thesis, section 3.6.1) as an allocator.

A round opens when leases end, and when claims or cells change or GPUs are given back. Everyone is asked for its jobs;
the policy solves in the worker process; who loses GPUs of an ending lease has the grace period. Leases must outlast
their round: the pool's `overtime_s` is to be longer than a round.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Literal

from yarn_plugin.decide.allocators import AllocatorKind
from yarn_plugin.decide.allocators.attained import Attained
from yarn_plugin.decide.allocators.happenings import (
    Answer,
    Began,
    Broken,
    Changed,
    ClaimKey,
    Due,
    Expiring,
    Recorded,
    Restarted,
    Solved,
    Unplaced,
    Vacated,
    What,
)
from yarn_plugin.decide.allocators.plan import (
    ADOPTED,
    NOTHING,
    Ask,
    Drop,
    Holding,
    Idle,
    Keep,
    Place,
    Plan,
    Solve,
    Wake,
)
from yarn_plugin.decide.allocators.seen import Leased, Seen
from yarn_plugin.decide.policies.lease import LEASE_POLICIES
from yarn_plugin.decide.policies.leasing import AppStatus, LeaseProblem
from yarn_plugin.decide.pools.lease.baselines import Assignments, PolicyProblem
from yarn_plugin.decide.pools.lease.binding import Winner, bind
from yarn_plugin.decide.pools.lease.settings import on_grid
from yarn_plugin.decide.pools.lease.validity import checked_estimate
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.auction import Estimate, EstimateRequest
from yarn_plugin.model.causes import LeaseLost
from yarn_plugin.model.gpus import GpuPlace, Gpus, Machine, Slot
from yarn_plugin.model.share import Claim, LeaseRecord
from yarn_plugin.validation import one_of

OPEN, ANSWERS = "open", "answers"
"""The keys of the wakes: a round is to open; answers are no longer waited for."""

MAX_TRIES = 3
"""How often a problem is given to the worker whose process is lost."""


@dataclass(frozen=True, slots=True)
class JobRoundsSettings:
    """`policy`: its name. Seconds: `lease_s`, the length of a lease; `grid_s`, leases end at multiples of it (0: they
    end exactly `lease_s` after they were won); `round_window_s`, arrivals within it share a round; `estimate_s`, to
    answer.
    """

    policy: str = "tiresias"
    lease_s: float = 600.0
    grid_s: float = 0.0
    round_window_s: float = 2.0
    estimate_s: float = 5.0

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            BadInputError: one is out of range.
        """
        if self.policy not in LEASE_POLICIES:
            raise BadInputError("policy", self.policy, one_of(LEASE_POLICIES, self.policy))
        for one in fields(self)[1:]:
            value = getattr(self, one.name)
            if not (math.isfinite(value) and value >= 0) or (one.name == "lease_s" and value == 0):
                raise BadInputError(one.name, value, "must be a number of seconds, not negative; a lease above 0")

    def end_of_lease(self, now: float) -> float:
        """When a lease ends that is won now, rounded up to the grid."""
        return on_grid(now + self.lease_s, self.grid_s)


@dataclass(frozen=True, slots=True)
class JobRoundsState:
    """`counter`: of keys. `round`: the number of the last one; `phase`: where it is. `asked`: who has not answered yet.
    `ending`: the leases that it allocates again; `expiring`: those of the next one. `is_due`: a round is to open.
    `tries`: of its problem. `attained`: how much everyone has been served. `usable`: how many GPUs the jobs of an
    application can use, as it last said."""

    counter: int = 0
    round: int = 0
    phase: Literal["idle", "estimating", "solving"] = "idle"
    asked: tuple[str, ...] = ()
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    ending: tuple[str, ...] = ()
    expiring: tuple[str, ...] = ()
    is_due: bool = False
    tries: int = 0
    attained: Attained = field(default_factory=Attained)
    usable: Mapping[str, int] = field(default_factory=dict)


class JobRounds:
    """See the module."""

    def __init__(self, settings: JobRoundsSettings) -> None:
        self._settings = settings

    def initial_state(self) -> JobRoundsState:
        """No round yet."""
        return JobRoundsState()

    def report(self, state: JobRoundsState) -> None:
        """None: the state itself is immutable."""

    def propose(self, state: JobRoundsState, seen: Seen, what: What) -> tuple[JobRoundsState, Plan]:
        """Open a round, take an answer, or execute what the policy assigned."""
        if not isinstance(what, Answer):
            state = replace(state, attained=state.attained.until(seen))
        match what:
            case Changed(claims):
                changed = {app for app, _ in claims}
                usable = {app: gpus for app, gpus in state.usable.items() if app not in changed}
                return self._soon(replace(state, usable=usable), seen)
            case Recorded(app, leases):
                return self._adopt(state, seen, app, leases)
            case Began() | Vacated() | Unplaced() | Broken():
                return self._soon(state, seen)
            case Expiring(keys):
                state = replace(state, expiring=(*state.expiring, *keys))
                return self._open(state, seen) if state.phase == "idle" else (state, NOTHING)
            case Due("open") if state.phase == "idle":
                return self._open(state, seen)
            case Answer(app, Estimate() as estimate) if app in state.asked and estimate.round == state.round:
                return self._answered(state, seen, app, estimate)
            case Due("answers") if state.phase == "estimating":
                return self._solve(state, seen)
            case Restarted() if state.phase == "estimating":
                return state, Plan(wake=(Wake(ANSWERS, seen.at + self._settings.estimate_s),))
            case Solved(key) if state.phase == "solving" and key == f"round {state.round}":
                return self._solved(state, seen, what)
        return state, NOTHING

    def _adopt(
        self, state: JobRoundsState, seen: Seen, app: str, leases: Sequence[LeaseRecord]
    ) -> tuple[JobRoundsState, Plan]:
        """Lease an application what it has records of, for as long as they say, but for no longer than a lease."""
        claim, latest = next((key for key in seen.claims if key[0] == app), None), self._settings.end_of_lease(seen.at)
        if claim is None:
            return state, NOTHING
        places = []
        for number, one in enumerate(leases, state.counter + 1):
            until = latest if one.until is None else min(one.until, latest)
            holdings = tuple(map(Holding, one.gpus))
            places.append(Place(f"k{number}", claim, holdings, until=until, note=ADOPTED, job=one.job))
        return replace(state, counter=state.counter + len(places)), Plan(place=tuple(places))

    def _soon(self, state: JobRoundsState, seen: Seen) -> tuple[JobRoundsState, Plan]:
        if state.is_due or not seen.claims:
            return state, Plan(idle=seen.everywhere(Idle.NOT_WANTED)) if not seen.claims else NOTHING
        return replace(state, is_due=True), Plan(
            wake=(Wake(OPEN, seen.at + self._settings.round_window_s),), idle=seen.everywhere(Idle.DECIDING)
        )

    def _open(self, state: JobRoundsState, seen: Seen) -> tuple[JobRoundsState, Plan]:
        ending = tuple(key for key in state.expiring if key in seen.leases and seen.leases[key].phase == "held")
        state = replace(state, is_due=False, ending=ending, expiring=())
        held, everyone = _by_app(seen), tuple(dict.fromkeys(app for app, _ in seen.claims))
        disturbed = {lease.claim[0] for lease in seen.leases.values() if lease.leaving or lease.key in ending}
        # Whose leases give all that its jobs can use, and go on, need not be asked.
        apps = [
            app
            for app in everyone
            if app in disturbed
            or not 0 < state.usable.get(app, 0) <= sum(len(lease.staying) for lease in held.get(app, ()))
        ]
        if not apps or not (ending or any(True for _ in seen.room.free_in())):
            return state, Plan(idle={})
        state = replace(state, round=state.round + 1, phase="estimating", asked=tuple(apps), estimates={}, tries=0)
        by, gpus, contention = seen.at + self._settings.estimate_s, len(seen.cells.gpus), float(len(everyone))
        machines = _machines(seen, ())
        at = {slot.id: place for place, machine in enumerate(machines) for slot in machine.slots}
        asks = []
        for app in apps:
            mine = _count(seen, [gpu for lease in held.get(app, ()) for gpu in _gpus(seen, lease)])
            where = tuple(machines[place] for place in sorted({at[slot] for slot, _ in mine}))
            asks.append(Ask(app, EstimateRequest(state.round, contention, mine, where, gpus, needs_rho=False), by))
        return state, Plan(ask=tuple(asks), wake=(Wake(ANSWERS, by),), idle=seen.everywhere(Idle.DECIDING))

    def _answered(self, state: JobRoundsState, seen: Seen, app: str, estimate: Estimate) -> tuple[JobRoundsState, Plan]:
        checked_estimate(estimate)
        asked = tuple(other for other in state.asked if other != app)
        state = replace(state, asked=asked, estimates={**state.estimates, app: estimate})
        return (state, NOTHING) if asked else self._solve(state, seen)

    def _solve(self, state: JobRoundsState, seen: Seen) -> tuple[JobRoundsState, Plan]:
        told = {app: sum(job.max_gpus for job in one.jobs) for app, one in state.estimates.items()}
        state = replace(state, phase="solving", asked=(), tries=state.tries + 1, usable={**state.usable, **told})
        claims: dict[str, Claim] = {}
        for (app, _), claim in seen.claims.items():
            claims.setdefault(app, claim)
        ending = {key for key in state.ending if key in seen.leases}
        held, served, apps = _by_app(seen), state.attained.totals(seen.at), []
        for app, estimate in state.estimates.items():
            if app not in claims:
                continue
            kept: dict[str, list[str]] = {}
            for lease in held.get(app, ()):
                if lease.key not in ending:
                    kept.setdefault(lease.job, []).extend(_gpus(seen, lease))
            jobs = estimate.jobs
            if kept or any(job.held for job in jobs):
                jobs = tuple([job.holding(_count(seen, kept.get(job.id, ()))) for job in jobs])
            # Its jobs may have run elsewhere; of jobs that have ended only the leases tell.
            attained = max(sum(job.attained_gpu_s for job in jobs), served.get(app, 0.0))
            apps.append(AppStatus(app, claims[app].arrived_at, jobs, claims[app].weight, attained))
        offered = [gpu for key in sorted(ending) for gpu in _gpus(seen, seen.leases[key])]
        machines, seed = _machines(seen, offered), seen.seed * 1_000_003 + state.round
        problem = LeaseProblem(state.round, seen.at, self._settings.lease_s, machines, tuple(apps), seed)
        return state, Plan(solve=(Solve(f"round {state.round}", PolicyProblem(self._settings.policy, problem)),))

    def _solved(self, state: JobRoundsState, seen: Seen, what: Solved) -> tuple[JobRoundsState, Plan]:
        if what.outcome == "lost" and state.tries < MAX_TRIES:
            return self._solve(state, seen)
        ending = [seen.leases[key] for key in state.ending if key in seen.leases and seen.leases[key].phase == "held"]
        until = self._settings.end_of_lease(seen.at)
        # What happened since the round opened opens the next one.
        again = (Wake(OPEN, seen.at),) if state.is_due or state.expiring else ()
        state = replace(state, phase="idle", ending=(), estimates={})
        if what.outcome != "done" or not isinstance(what.result, Assignments):
            # Holders keep what they hold for another lease.
            return state, Plan(keep=tuple(Keep(lease.key, until) for lease in ending), wake=again)
        state, plan = self._allocate(state, seen, what.result, ending, until)
        return state, replace(plan, wake=again)

    def _allocate(
        self, state: JobRoundsState, seen: Seen, result: Assignments, ending: Sequence[Leased], until: float
    ) -> tuple[JobRoundsState, Plan]:
        own: dict[Winner, set[str]] = {}
        for lease in ending:
            own.setdefault((lease.claim[0], lease.job), set()).update(_gpus(seen, lease))
        free = list(seen.room.free_in())
        offer: dict[str, tuple[str, ...]] = {}
        for gpu in [*free, *(gpu for gpus in own.values() for gpu in sorted(gpus))]:
            slot = seen.cells.gpus[gpu].slot
            offer[slot] = (*offer.get(slot, ()), gpu)
        claims: dict[str, ClaimKey] = {}
        for key in seen.claims:
            claims.setdefault(key[0], key)
        won = [((one.app, one.job), one.gpus) for one in result.assignments if one.app in claims]
        keep, drop, places = [], [], []
        left = {
            winner: {gpu for gpus in by_slot.values() for gpu in gpus}
            for winner, by_slot in bind(won, offer, set(free), own).items()
        }
        for lease in ending:
            gpus = _gpus(seen, lease)
            mine = left.get((lease.claim[0], lease.job), set())
            lost = tuple(gpu for gpu in gpus if gpu not in mine)
            mine.difference_update(gpus)
            if len(lost) < len(gpus):
                keep.append(Keep(lease.key, until))
            if lost:
                state = replace(state, attained=state.attained.without(lease.key, len(lost), seen.at))
                drop.append(Drop(lease.key, LeaseLost(state.round, len(lost)), lost))
        counter = state.counter
        for (app, job), gpus_won in left.items():
            by_machine: dict[str, list[str]] = {}
            for gpu in [gpu for gpu in seen.cells.gpus if gpu in gpus_won]:
                by_machine.setdefault(seen.cells.gpus[gpu].machine, []).append(gpu)
            for gpus in by_machine.values():
                counter += 1
                holdings, note = tuple(Holding(gpu) for gpu in gpus), f"round {state.round}"
                places.append(Place(f"k{counter}", claims[app], holdings, until=until, note=note, job=job))
        idle = seen.everywhere(Idle.NOT_WANTED)
        return replace(state, counter=counter), Plan(drop=tuple(drop), keep=tuple(keep), place=tuple(places), idle=idle)


def _by_app(seen: Seen) -> dict[str, list[Leased]]:
    """The leases of each application, but those that are being vacated."""
    held: dict[str, list[Leased]] = {}
    for lease in seen.leases.values():
        if lease.phase != "leaving":
            held.setdefault(lease.claim[0], []).append(lease)
    return held


def _gpus(seen: Seen, lease: Leased) -> list[str]:
    return [holding.cell for holding in lease.staying]


def _count(seen: Seen, gpus: Sequence[str]) -> Gpus:
    counts: dict[str, int] = {}
    for gpu in gpus:
        slot = seen.cells.gpus[gpu].slot
        counts[slot] = counts.get(slot, 0) + 1
    return tuple(sorted(counts.items()))


def _machines(seen: Seen, others: Sequence[str]) -> tuple[Machine, ...]:
    """All machines with their free GPUs, and with others as if they were free."""
    free = {*seen.room.free_in(), *others}
    slots: dict[str, dict[str, int]] = {}
    first: dict[str, GpuPlace] = {}
    for gpu, place in seen.cells.gpus.items():
        first.setdefault(place.machine, place)
        mine = slots.setdefault(place.machine, {})
        mine[place.slot] = mine.get(place.slot, 0) + (gpu in free)
    return tuple(
        Machine(name, one.rack, tuple(Slot(slot, gpus) for slot, gpus in slots[name].items()), one.model, one.host)
        for name, one in first.items()
    )


def _make(settings: JobRoundsSettings | None, kinds: Mapping[str, AllocatorKind]) -> JobRounds:
    return JobRounds(settings or JobRoundsSettings())


KIND = AllocatorKind(
    "job_rounds",
    _make,
    {"job-rounds/1": JobRoundsState, "job-rounds.settings/1": JobRoundsSettings},
    parameters=JobRoundsSettings,
    messages=frozenset({"lease.estimate"}),
)
