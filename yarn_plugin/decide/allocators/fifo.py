"""First in, first out: claims start in the order in which they arrived, and run until they end.

A claim that does not fit blocks those behind it, unless it could never fit. Each pod's GPUs are on one node, the
fullest that has room for it; a gang is placed as a whole. Priorities do not count.

Leases that YARN does not place in time, or that their application gives back whole, come again after `retry_s`, or when
the claim is revised. A pod that gave its cells back does not return while others of its gang run; one that lost its
node gets another.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from yarn_plugin.decide.allocators import AllocatorKind
from yarn_plugin.decide.allocators.happenings import (
    Changed,
    ClaimKey,
    Due,
    Freed,
    Recorded,
    Unplaced,
    Vacated,
    What,
    name_of,
)
from yarn_plugin.decide.allocators.plan import ADOPTED, Holding, Idle, Place, Plan, Wake
from yarn_plugin.decide.allocators.pods import fit, match, pods_of, recorded
from yarn_plugin.decide.allocators.seen import Seen
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.resources import GPU


@dataclass(frozen=True, slots=True)
class FifoSettings:
    """`retry_s`: see the module."""

    retry_s: float = 60.0

    def __post_init__(self) -> None:
        """Check the value.

        Raises:
            BadInputError: it is out of range.
        """
        if not 0 < self.retry_s < math.inf:
            raise BadInputError("retry_s", self.retry_s, "must be a number of seconds above 0")


@dataclass(frozen=True, slots=True)
class FifoState:
    """`counter`: of keys. `given_back`: pods that ended by themselves, by claim. `resting`: claims that are not tried
    yet."""

    counter: int = 0
    given_back: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    resting: tuple[str, ...] = ()


class Fifo:
    """See the module."""

    def __init__(self, settings: FifoSettings) -> None:
        self._settings = settings

    def initial_state(self) -> FifoState:
        """Nothing has been placed."""
        return FifoState()

    def report(self, state: FifoState) -> None:
        """None: the state itself is immutable."""

    def propose(self, state: FifoState, seen: Seen, what: What) -> tuple[FifoState, Plan]:
        """Learn what happened, then place what fits, in order of arrival."""
        wake: list[Wake] = []
        match what:
            case Changed(claims):
                for name in {name_of(claim) for claim in claims}.intersection(state.resting):
                    wake.append(Wake(name, None))
                    state = _rested(state, name)
            case Due(name):
                state = _rested(state, name)
            case Recorded():
                return _adopted(state, seen, what)
            case Vacated(freed) | Unplaced(freed):
                state, wake = self._learn(state, seen, freed, is_unplaced=isinstance(what, Unplaced))
        running = {name_of(lease.claim) for lease in seen.leases.values()}
        given_back = {name: pods for name, pods in state.given_back.items() if name in running}
        state, places, idle = _serve(replace(state, given_back=given_back), seen)
        return state, Plan(place=tuple(places), wake=tuple(wake), idle=seen.everywhere(idle))

    def _learn(
        self, state: FifoState, seen: Seen, freed: Sequence[Freed], is_unplaced: bool
    ) -> tuple[FifoState, list[Wake]]:
        """Pods are over. A claim rests if none is left, or if YARN has no room for it."""
        wake = []
        running = {lease.claim for lease in seen.leases.values()}
        for one in freed:
            name = name_of(one.claim)
            if not one.is_over or one.claim not in seen.claims:
                continue
            if not is_unplaced:
                member = int(one.key.rpartition(".")[2])
                given_back = (*state.given_back.get(name, ()), member)
                state = replace(state, given_back={**state.given_back, name: given_back})
            if (is_unplaced or one.claim not in running) and name not in state.resting:
                state = replace(state, resting=(*state.resting, name))
                wake.append(Wake(name, seen.at + self._settings.retry_s))
        return state, wake


def _rested(state: FifoState, name: str) -> FifoState:
    return replace(state, resting=tuple(other for other in state.resting if other != name))


def _adopted(state: FifoState, seen: Seen, what: Recorded) -> tuple[FifoState, Plan]:
    """The pods that run already: the others of their gangs are placed as if they had lost their nodes."""
    largest = max((node.capacity[GPU] for node in seen.cells.at("node")), default=1)
    places: list[Place] = []
    for key, leases in recorded(what, seen.claims).items():
        pods = match(dict(enumerate(pods_of(seen.claims[key], largest))), leases, seen.cells)
        state = replace(state, counter=state.counter + 1)
        for member, gpus in pods.items():
            places.append(Place(f"{state.counter}.{member}", key, tuple(map(Holding, gpus)), member, note=ADOPTED))
    return state, Plan(place=tuple(places))


def _serve(state: FifoState, seen: Seen) -> tuple[FifoState, list[Place], Idle]:
    """The claims, or the pods of theirs that lost their nodes, which can start now."""
    held: dict[ClaimKey, set[int]] = {}
    for lease in seen.leases.values():
        held.setdefault(lease.claim, set()).add(lease.member)
    rooms = [
        _Node(list(seen.room.free_in(node.id)), node.capacity[GPU], node.gpu_model) for node in seen.cells.at("node")
    ]
    places: list[Place] = []
    idle = Idle.NOT_WANTED
    for key, claim in seen.claims.items():
        name = name_of(key)
        over = held.get(key, set()).union(state.given_back.get(name, ()))
        kind = [room for room in rooms if claim.leaf_type in ("", room.model)]
        sizes = pods_of(claim, max((room.size for room in kind), default=1))
        pods = {member: size for member, size in enumerate(sizes) if member not in over}
        if not pods or name in state.resting:
            continue
        found = _fit(pods, kind)
        if found is None:
            idle = Idle.TOO_FEW
            if fit(reversed(sizes), {number: room.size for number, room in enumerate(kind)}) is None:
                continue
            break
        state = replace(state, counter=state.counter + 1)
        for member, (room, size) in found.items():
            holdings = tuple(Holding(gpu) for gpu in room.take(size))
            label = str(state.counter)
            places.append(Place(f"{label}.{member}", key, holdings, member, gang=label if len(found) > 1 else None))
    return state, places, idle


@dataclass(slots=True)
class _Node:
    """A node of `size` GPUs and its free ones, while a plan is made."""

    free: list[str]
    size: int
    model: str

    def take(self, number: int) -> list[str]:
        taken, self.free = self.free[:number], self.free[number:]
        return taken


def _fit(pods: Mapping[int, int], rooms: Sequence[_Node]) -> dict[int, tuple[_Node, int]] | None:
    """A node for each pod, chosen for the large ones first; None: they do not all fit."""
    order = sorted(pods.items(), key=lambda pod: (-pod[1], pod[0]))
    nodes = fit((size for _, size in order), {number: len(room.free) for number, room in enumerate(rooms)})
    if nodes is None:
        return None
    return {member: (rooms[node], size) for (member, size), node in sorted(zip(order, nodes, strict=True))}


KIND = AllocatorKind(
    "fifo",
    lambda settings, kinds: Fifo(settings or FifoSettings()),
    {"fifo/1": FifoState, "fifo.settings/1": FifoSettings},
    parameters=FifoSettings,
)
