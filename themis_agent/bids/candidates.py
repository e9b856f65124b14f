"""Rows worth considering: sets of free GPUs, named by classes of machines instead of one by one.

A class is "anywhere", a rack, or a single machine or slot; its GPUs come in pieces of equal size and a remainder, or in
the largest pieces that there are. Offers with few different subsets are enumerated in full. GPUs of fast models are
no class: rows with them alone name machines one by one.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from themis_agent.bids.free_gpus import ANYWHERE, Level
from themis_agent.bids.offered import ANY_RACK, Candidate, Kind, OfferedGpus
from themis_agent.bids.packing import fits
from themis_agent.bids.spread import Bins
from themis_agent.bids.subsets import enumerated
from yarn_plugin.model.gpus import Piece

MAX_TOTALS, MAX_TOTALS_OF_MANY, MANY = 16, 12, 64
"""How many different numbers of GPUs are considered if the offer is not enumerated; the second for more than `MANY`."""
MIN_GAIN = 1e-6
"""A time that is shorter by a smaller part is the same."""
MAX_HOMES = 2
"""Of the machines where GPUs are held, so many are considered one by one."""


@dataclass(frozen=True, slots=True)
class Wants:
    """What matters to an application about the GPUs of an offer.

    `usable`: more GPUs than so many are useless. `gangs`: the smallest and largest ones of jobs. `largest_gang`: a job
    can use no more GPUs. `slots`, `machines`, `racks`: whether it matters that gangs lie in one.
    """

    usable: int
    gangs: tuple[int, ...]
    largest_gang: int
    slots: bool
    machines: bool
    racks: bool


MayHelp = Callable[[Sequence[int]], bool]
"""Whether GPUs of which no cell of a level has more than so many, held ones included, may be better than those held."""


def candidates(
    offered: OfferedGpus, wants: Wants, seconds_with: Callable[[int], float], may_help: MayHelp
) -> list[Candidate]:
    """Rows to consider, without duplicates.

    `seconds_with`: from arrival to end with so many GPUs of the offer, wherever they would be best.
    """
    everything = enumerated(offered)
    found = {one.kinds: one for one in _of_any_model(offered, wants, seconds_with, may_help, everything)}
    # An enumerated offer has all sets of fast GPUs.
    for count in range(1, 1 if everything else len(offered.ranks)):
        used = tuple(offered.ranks[:count])
        fast = offered.only(used)
        for pattern in _of_any_model(fast, wants, seconds_with, may_help, enumerated(fast)):
            rows = [fast.in_only_rack(row) for row in fast.expanded(pattern)]
            classes = [row for row in rows if offered.is_of(row, used)]
            # Of racks with other models too, one is enough: more rows would only take more time.
            for one in classes or [fast.named(row) for row in rows[:1]]:
                if one.kinds:
                    row = Candidate(tuple(sorted(one.kinds, key=_order)))
                    found.setdefault(row.kinds, row)
    return list(found.values())


def _of_any_model(
    offered: OfferedGpus,
    wants: Wants,
    seconds_with: Callable[[int], float],
    may_help: MayHelp,
    everything: Sequence[tuple[Kind, ...]],
) -> list[Candidate]:
    most = min(wants.usable, sum(offered.free.values()))
    if most <= 0:
        return []
    found: dict[tuple[Kind, ...], Candidate] = {}
    totals = list(range(1, most + 1)) if everything or most <= MAX_TOTALS else _totals(most, seconds_with)
    at_home = [total for total in totals if may_help(offered.largest_at_home(total))]
    for kinds in (*everything, *_classes(offered, totals, wants, may_help), *_at_home(offered, at_home)):
        candidate = Candidate(tuple(sorted(kinds, key=_order)))
        if candidate.gpus <= most:
            found.setdefault(candidate.kinds, candidate)
    return list(found.values())


def _order(kind: Kind) -> tuple[int, str, str]:
    return -kind[0].gpus, kind[0].within, kind[0].level


def _totals(most: int, seconds_with: Callable[[int], float]) -> list[int]:
    """Some numbers of GPUs, each with a shorter time than all smaller ones.

    If there are more, they are chosen such that the steps between two times are about equal, as ratios.
    """
    useful: list[tuple[int, float]] = []
    for total in _grid(most):
        seconds = seconds_with(total)
        if seconds < (useful[-1][1] * (1 - MIN_GAIN) if useful else math.inf):
            useful.append((total, seconds))
    limit = MAX_TOTALS_OF_MANY if most > MANY else MAX_TOTALS
    if len(useful) <= limit:
        return [total for total, _ in useful]
    longest, shortest = math.log(useful[0][1]), math.log(useful[-1][1])
    steps = [math.exp(longest + (shortest - longest) * step / (limit - 1)) for step in range(limit)]
    chosen = {next(total for total, seconds in useful if seconds <= step * (1 + MIN_GAIN)) for step in steps}
    return sorted(chosen)


def _grid(most: int) -> Iterator[int]:
    """All numbers up to 32, then eight from each power of two to the next, and the last one."""
    total, step = 1, 1
    while total < most:
        yield total
        step = max(1 << max(total.bit_length() - 4, 0), 1) if total >= 32 else 1
        total += step
    yield most


def _classes(
    offered: OfferedGpus, totals: Sequence[int], wants: Wants, may_help: MayHelp
) -> Iterator[tuple[Kind, ...]]:
    levels: list[Level] = ["machine", "slot"] if wants.slots else ["machine"]
    regions = offered.regions() if wants.racks else [ANYWHERE]
    useful = {region: [one for one in totals if may_help(offered.largest_with(one, region))] for region in regions}
    for within, level in product(regions, levels):
        totals = useful[within]
        all_bins = offered.all_bins(within, level)
        for bins in all_bins:
            sizes, room = _sizes(bins[-1][0], wants), _gpus(bins)
            if within not in (ANYWHERE, ANY_RACK):
                # Few racks hold something; there the choice is between scattered and together with what is held.
                sizes = sorted({sizes[0], sizes[-1]})
            for total in totals:
                if total <= room:
                    yield from _equal_pieces(total, sizes, bins, within, level)
        if wants.machines:
            richest = max(all_bins, key=lambda bins: (_gpus(bins), bins))
            yield from (_largest_pieces(total, richest, within, level) for total in totals if total <= _gpus(richest))


def _gpus(bins: Bins) -> int:
    return sum([size * count for size, count in bins])


def _sizes(largest: int, wants: Wants) -> list[int]:
    """Sizes of pieces: powers of two, gangs, and the largest that is of use."""
    if not wants.machines:
        return [1]
    largest = min(largest, wants.largest_gang)
    powers = {2**power for power in range(largest.bit_length())} | {largest}
    return sorted(powers | {size for size in wants.gangs if size <= largest})


def _equal_pieces(
    total: int, sizes: Sequence[int], bins: Bins, within: str, level: Level
) -> Iterator[tuple[Kind, ...]]:
    for size in sizes:
        count, rest = divmod(total, size)
        gangs = [(size, count)] if rest == 0 else [(size, count), (rest, 1)]
        if count and fits(bins, gangs):
            yield tuple((Piece(gpus, within, level), often) for gpus, often in gangs)


def _largest_pieces(total: int, bins: Bins, within: str, level: Level) -> tuple[Kind, ...]:
    """In as few cells as possible: the largest ones whole, the last one in part."""
    kinds: Counter[Piece] = Counter()
    for size, count in reversed(bins):
        whole = min(count, total // size)
        if whole:
            kinds[Piece(size, within, level)] += whole
        total -= whole * size
        if whole < count and total:
            kinds[Piece(total, within, level)] += 1
            break
        if not total:
            break
    return tuple(kinds.items())


def _at_home(offered: OfferedGpus, totals: Sequence[int]) -> Iterator[tuple[Kind, ...]]:
    """In machines where GPUs are held: in one of them; in all of them, then in the rack of the first, then anywhere."""
    homes = offered.homes()
    for name in homes[:MAX_HOMES]:
        free = offered.free[name]
        yield from (((Piece(total, name), 1),) for total in totals if total <= free)
        yield ((Piece(free, name), 1),)
        for slot in offered.machines[name].slots:
            held_here = any(place.slot == slot.id for place in offered.held)
            yield from (((Piece(total, slot.id, "slot"), 1),) for total in totals if held_here and total <= slot.gpus)
    if not homes:
        return
    rack = offered.machines[homes[0]].rack
    others = [name for name in offered.racks[rack] if name not in homes]
    order = homes + sorted(others, key=lambda name: (-offered.free[name], name))
    for total in totals:
        kinds: list[Kind] = []
        left = total
        for name in order:
            part = min(left, offered.free[name])
            if part:
                kinds.append((Piece(part, name), 1))
            left -= part
        if left == 0:
            yield tuple(kinds)
