"""Exact placement of pods of several sizes on nodes, where going through the nodes once misses one."""

from collections import Counter
from collections.abc import Mapping, Sequence


def pack(rooms: Mapping[int, int], sizes: Sequence[int], work_limit: int) -> list[int] | None:
    """For each pod, largest first, the room that its node has before it; None if there is no placement.

    `rooms`: how many nodes have each number of free leaves. Nodes with equal room are interchangeable, so the search is
    over numbers of nodes: for each pod, the tightest room first. After `work_limit` steps the search gives up.
    """
    left = Counter({room: number for room, number in rooms.items() if number})
    pods = sorted(sizes, reverse=True)
    if sum(room * number for room, number in left.items()) < sum(pods):
        return None
    chosen: list[int] = []
    untried: list[list[int]] = [_fitting(left, pods[0])]
    for _ in range(work_limit):
        if not untried[-1]:
            untried.pop()
            if not chosen:
                return None
            _give_back(left, chosen.pop(), pods[len(chosen)])
            continue
        room, size = untried[-1].pop(), pods[len(chosen)]
        left[room] -= 1
        left[room - size] += 1
        chosen.append(room)
        if len(chosen) == len(pods):
            return chosen
        untried.append(_fitting(left, pods[len(chosen)]))
    return None


def _fitting(left: Mapping[int, int], size: int) -> list[int]:
    """The rooms that a pod fits in, the tightest last."""
    return sorted((room for room, number in left.items() if number and room >= size), reverse=True)


def _give_back(left: Counter[int], room: int, size: int) -> None:
    left[room - size] -= 1
    left[room] += 1
