"""The nodes on which pods are placed, kept in order of preference between calls.

Nodes are sorted stably: healthy ones first, then those not excluded, then the fullest; so of equal nodes the one that
came first at the last call comes first again. The order lasts from call to call, but only nodes that have changed are
moved: nodes with equal keys share a bucket; a node whose key grew enters its new bucket at the front (it came from
before all of it), one whose key shrank at the end.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Generic, TypeVar

from yarn_plugin.decide.mechanisms.buddy_cells.cells import PhysicalCell, VirtualCell
from yarn_plugin.decide.mechanisms.buddy_cells.undo import UndoLog

NodeT = TypeVar("NodeT", bound=PhysicalCell | VirtualCell)
Key = tuple[bool, bool, int, int]
"""Bad, excluded, and two numbers by which the rest is sorted."""

Profile = tuple[int, tuple[tuple[int, int], ...]]
"""The leaves of a node that nobody could take away, and how many are held at each priority."""


class NoFit(Enum):
    """Why pods fit on no nodes."""

    TOO_FEW = auto()
    BAD = auto()
    EXCLUDED = auto()


class Place:
    """Where a node is filed."""

    __slots__ = ("key", "profile", "rank", "view")

    def __init__(self, view: "NodeView[Any]", key: Key, profile: Profile, rank: int) -> None:
        self.view, self.key, self.profile, self.rank = view, key, profile, rank


class _Bucket(Generic[NodeT]):
    """Nodes with equal keys, by rank; also the ranks of each profile."""

    __slots__ = ("at", "first", "last", "ranks")

    def __init__(self) -> None:
        self.at: dict[int, NodeT] = {}
        self.ranks: dict[Profile, list[int]] = {}
        self.first, self.last = 0, -1
        """The lowest and highest ranks that have been used."""


@dataclass(frozen=True, slots=True)
class Fit(Generic[NodeT]):
    """The node of each pod, in the order of the pods' sizes."""

    nodes: tuple[NodeT, ...]


class NodeView(ABC, Generic[NodeT]):
    """Nodes in order of preference."""

    nodes: tuple[NodeT, ...]
    _undo: UndoLog
    _buckets: dict[Key, _Bucket[NodeT]]

    def __init__(self, nodes: Iterable[NodeT], undo: UndoLog) -> None:
        self.nodes = tuple(nodes)
        self._undo = undo
        self._buckets = {}
        self._keys: list[Key] = []
        self._flagged: tuple[frozenset[NodeT], frozenset[NodeT]] = (frozenset(), frozenset())
        self._changed: set[NodeT] = set()
        for rank, node in enumerate(self.nodes):
            key = (False, False, *self._preference(node))
            node.place = Place(self, key, self._profile(node), rank)
            self._file(node, node.place)

    @abstractmethod
    def _preference(self, node: NodeT) -> tuple[int, int]:
        """The numbers by which nodes are sorted, smallest first."""

    @abstractmethod
    def _profile(self, node: NodeT) -> Profile:
        """What decides how many leaves are free at a priority."""

    def touch(self, node: NodeT) -> None:
        """Note that leaves of a node were taken or given back."""
        self._changed.add(node)

    def refresh(self, bad: Collection[NodeT], excluded: Collection[NodeT]) -> None:
        """Sort the nodes. `bad`, `excluded`: those of this call; all others are healthy and not excluded."""
        flagged = (frozenset(bad), frozenset(excluded))
        changed = self._changed
        for now, before in zip(flagged, self._flagged, strict=True):
            if now or before:
                changed |= now ^ before
        if not changed:
            return
        if flagged != self._flagged:
            self._undo.set(self, "_flagged", flagged)
        now_bad, now_excluded = flagged
        moves: list[tuple[Key, int, Key, NodeT]] = []
        for node in changed:
            place = node.place
            assert place is not None
            key = (node in now_bad, node in now_excluded, *self._preference(node))
            if key != place.key:
                moves.append((place.key, place.rank, key, node))
            elif (profile := self._profile(node)) != place.profile:
                self._move(node, key, profile, place.rank)
        changed.clear()
        # No two nodes have the same key and rank, so this sorts by position.
        moves.sort()
        for old_key, _, key, node in reversed(moves):
            if key > old_key:
                self._move(node, key, self._profile(node), self._bucket(key).first - 1)
        for old_key, _, key, node in moves:
            if key < old_key:
                self._move(node, key, self._profile(node), self._bucket(key).last + 1)

    def next_fit(self, sizes: Sequence[int], priority: int) -> Fit[NodeT] | NoFit:
        """Place pods of ascending sizes on nodes in order, never going back to an earlier node.

        Leaves that are held below the priority count as free. If the next node with room is bad or excluded, there is
        no fit.
        """
        walk = _Walk(self._buckets, self._keys, priority)
        chosen: list[NodeT] = []
        node, room = None, 0
        for size in sizes:
            if node is None or room < size:
                node, room = walk.next(size)
                if node is None:
                    return NoFit.TOO_FEW
                if (reason := self._flag(node)) is not None:
                    return reason
            chosen.append(node)
            room -= size
        return Fit(tuple(chosen))

    def rooms(self, priority: int) -> dict[int, int]:
        """How many healthy nodes that are not excluded have each number of leaves free at the priority."""
        rooms: dict[int, int] = {}
        for key, bucket in self._buckets.items():
            if not (key[0] or key[1]):
                for profile, ranks in bucket.ranks.items():
                    room = _free(profile, priority)
                    rooms[room] = rooms.get(room, 0) + len(ranks)
        return rooms

    def in_order(self, priority: int) -> Iterator[tuple[NodeT, int]]:
        """The healthy nodes that are not excluded, in order, with the leaves that are free at the priority."""
        for key in self._keys:
            if not (key[0] or key[1]):
                bucket = self._buckets[key]
                for rank in sorted(bucket.at):
                    node = bucket.at[rank]
                    assert node.place is not None
                    yield node, _free(node.place.profile, priority)

    def order(self) -> list[list[Any]]:
        """The filed nodes in JSON types: for each key its nodes' positions in `nodes`, in order."""
        position = {node: index for index, node in enumerate(self.nodes)}
        return [
            [list(key), [position[self._buckets[key].at[rank]] for rank in sorted(self._buckets[key].at)]]
            for key in self._keys
            if self._buckets[key].at
        ]

    def restore(self, order: Iterable[Sequence[Any]]) -> None:
        """File the nodes as they were when `order` was read; the state of their leaves must be as then, or later."""
        self._buckets, self._keys = {}, []
        flagged: tuple[set[NodeT], set[NodeT]] = (set(), set())
        for key, positions in order:
            filed: Key = (bool(key[0]), bool(key[1]), key[2], key[3])
            for rank, position in enumerate(positions):
                node = self.nodes[position]
                for is_flagged, nodes in zip(filed, flagged, strict=False):
                    if is_flagged:
                        nodes.add(node)
                node.place = Place(self, filed, self._profile(node), rank)
                self._file(node, node.place)
        self._flagged = (frozenset(flagged[0]), frozenset(flagged[1]))
        self._changed = set(self.nodes)

    def _flag(self, node: NodeT) -> NoFit | None:
        assert node.place is not None
        bad, excluded = node.place.key[:2]
        return NoFit.BAD if bad else NoFit.EXCLUDED if excluded else None

    def _move(self, node: NodeT, key: Key, profile: Profile, rank: int) -> None:
        place = node.place
        assert place is not None
        self._undo.record(self._move_back, node, place.key, place.profile, place.rank)
        bucket = self._buckets[place.key]
        old_rank = place.rank
        ranks = bucket.ranks[place.profile]
        if ranks[-1] == old_rank:
            ranks.pop()
            if not ranks:
                del bucket.ranks[place.profile]
        else:
            del ranks[bisect_left(ranks, old_rank)]
        del bucket.at[old_rank]
        place.key, place.profile, place.rank = key, profile, rank
        self._file(node, place)

    def _move_back(self, node: NodeT, key: Key, profile: Profile, rank: int) -> None:
        inverse = self._undo.savepoint()
        self._move(node, key, profile, rank)
        self._undo.forget(inverse)
        self._changed.add(node)

    def _file(self, node: NodeT, place: Place) -> None:
        rank = place.rank
        bucket = self._buckets.get(place.key) or self._bucket(place.key)
        bucket.at[rank] = node
        ranks = bucket.ranks.get(place.profile)
        if ranks is None:
            bucket.ranks[place.profile] = [rank]
        elif rank > ranks[-1]:
            ranks.append(rank)
        else:
            insort(ranks, rank)
        if rank < bucket.first:
            bucket.first = rank
        if rank > bucket.last:
            bucket.last = rank

    def _bucket(self, key: Key) -> _Bucket[NodeT]:
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket()
            insort(self._keys, key)
        return bucket


class _Walk(Generic[NodeT]):
    """One pass over the nodes in order."""

    def __init__(self, buckets: dict[Key, _Bucket[NodeT]], keys: Sequence[Key], priority: int) -> None:
        self._buckets: list[_Bucket[NodeT]] = [buckets[key] for key in keys]
        self._priority = priority
        self._index, self._rank = 0, 0
        self._starts = True

    def next(self, size: int) -> tuple[NodeT, int] | tuple[None, int]:
        """The next node with room for a pod, and how much room it has."""
        while self._index < len(self._buckets):
            bucket = self._buckets[self._index]
            best: tuple[int, int] | None = None
            for profile, ranks in bucket.ranks.items():
                room = _free(profile, self._priority)
                if room < size:
                    continue
                at = 0 if self._starts else bisect_right(ranks, self._rank)
                if at < len(ranks) and (best is None or ranks[at] < best[0]):
                    best = (ranks[at], room)
            if best is not None:
                self._rank, self._starts = best[0], False
                return bucket.at[best[0]], best[1]
            self._index += 1
            self._starts = True
        return None, 0


def _free(profile: Profile, priority: int) -> int:
    """How many leaves are free at a priority: not held, or held at a lower one."""
    leaves, held = profile
    for held_at, number in held:
        if held_at >= priority:
            leaves -= number
    return leaves


class VirtualNodes(NodeView[VirtualCell]):
    """The nodes of a virtual cluster in one chain, or of a pinned cell: those with the most held leaves first."""

    def _preference(self, node: VirtualCell) -> tuple[int, int]:
        return -node.used, 0

    def _profile(self, node: VirtualCell) -> Profile:
        if node.level == 1:
            return 1, ((node.priority, 1),) if node.used else ()
        profile = node.profile
        return len(node.leaves), tuple(profile.items()) if len(profile) < 2 else tuple(sorted(profile.items()))


class PhysicalNodes(NodeView[PhysicalCell]):
    """The nodes of a chain for opportunistic work: the most opportunistic ones first, then the least guaranteed."""

    def _preference(self, node: PhysicalCell) -> tuple[int, int]:
        return -node.low, node.used - node.low

    def _profile(self, node: PhysicalCell) -> Profile:
        return len(node.leaves) - node.used, ()
