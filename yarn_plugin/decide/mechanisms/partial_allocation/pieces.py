"""Pieces as kinds, and the ways to place one of them on machines that are alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from yarn_plugin.decide.mechanisms.partial_allocation.alike import Alike
from yarn_plugin.decide.mechanisms.partial_allocation.offer import Place


@dataclass(frozen=True, slots=True)
class Kind:
    """Pieces that can lie in the same places. `in_slot`: each in one slot, not only in one machine."""

    place: Place
    in_slot: bool
    gpus: int


@dataclass(frozen=True, slots=True)
class Step:
    """`pieces` pieces of a kind go to each of `machines` machines like this; `slot`: the index in `free`."""

    kind: Kind
    alike: Alike
    slot: int
    pieces: int
    machines: int


@dataclass(frozen=True, slots=True)
class Fit:
    """How pieces fit. `steps`: None if no way was found; `impossible`: there is none. `work`: steps tried."""

    steps: tuple[Step, ...] | None
    impossible: bool
    work: int


class Way(NamedTuple):
    """Where a piece may go; the lowest of several is the best: it splits the smallest block, in the fullest bin.

    `splits`: how many larger sizes have blocks that are not large enough or are left whole. `gpus`: free there.
    `slot`: the index in `free`.
    """

    splits: int
    gpus: int
    machine_gpus: int
    rack: str
    number: int
    free: tuple[int, ...]
    slot: int
    machine: Alike


def ways(kind: Kind, machines: Mapping[Alike, int], larger: Sequence[int]) -> list[Way]:
    """All ways to place one piece of a kind. `larger`: the sizes of larger pieces, ascending."""
    found: list[Way] = []
    for one, count in machines.items():
        if count and kind.place.contains(one.rack, one.number):
            free = one.free
            for slot, gpus in enumerate(free):
                is_there = gpus not in free[:slot] if kind.place.slot < 0 else slot == kind.place.slot
                if is_there and gpus >= kind.gpus:
                    splits, _ = unsplit(kind.gpus, gpus, larger)
                    found.append(Way(splits, gpus, sum(free), one.rack, one.number, free, slot, one))
    return found


def unsplit(size: int, gpus: int, larger: Sequence[int]) -> tuple[int, int]:
    """The block that a piece splits in a bin with so many free GPUs.

    Returns the index of the smallest larger size whose blocks stay whole (`len(larger)` if there is none), and how many
    GPUs pieces may take until one of its blocks is split.
    """
    for index, block in enumerate(larger):
        if gpus % block >= size:
            return index, gpus % block
    return len(larger), gpus
