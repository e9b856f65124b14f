"""How an application divides the GPUs that it holds among its jobs: as its bids assume, and moving as few as it can."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from themis_agent.bids.known_jobs import KnownJobs
from themis_agent.bids.models import Models, Speeds
from themis_agent.bids.phase_time import slowdown_factor
from themis_agent.bids.spread import ANYWHERE, Place, Spread
from yarn_plugin.model.gpus import Gpus, Job, Machine, total


@dataclass(frozen=True, slots=True)
class _Slot:
    """A slot with its place; `free` GPUs of it are left."""

    id: str
    machine: str
    rack: str


CELLS: tuple[Callable[[_Slot], str], ...] = (lambda slot: slot.id, lambda slot: slot.machine, lambda slot: slot.rack)
"""The cells around a slot, from the smallest on."""


def divide(
    held: Sequence[Machine], jobs: Sequence[Job], running: KnownJobs | None = None
) -> tuple[tuple[str, Gpus], ...]:
    """Which GPUs each job runs on; jobs left out wait, and GPUs that would speed up no job are left over.

    The jobs of a phase end as early as bids assume, by the same rules (see `bids.phase_time`): all at once if possible,
    otherwise the longest first; none spans more than it must. A job stays where it runs if it keeps its number of GPUs.
    GPUs that are left over then go to the jobs that would end last, as far as that makes them faster. GPUs of slow
    models stay idle where the jobs end sooner without them.

    `held`: machines with the GPUs that are held. `jobs`: with what they run on now. `running`: made from the unfinished
    ones of these, with the times that it has computed before.
    """
    speeds = Speeds(jobs)
    if not speeds.matter:
        return _divide(held, jobs, running)
    unfinished = [job for job in jobs if job.iterations_left > 0]
    ranks = {machine.id: speeds.rank(machine.model) for machine in held if machine.gpus}

    def usable(used: Models) -> list[Machine]:
        return [machine for machine in held if ranks.get(machine.id) in used]

    def seconds(used: Models) -> float:
        return KnownJobs(speeds.scaled(unfinished, used)).seconds(_spread(usable(used))) if unfinished else 0.0

    # The fewest kinds of models of those that are as fast.
    best = min(speeds.limits(ranks.values()), key=lambda used: (seconds(used), len(used)))
    return _divide(usable(best), speeds.scaled(jobs, best))


def _divide(
    held: Sequence[Machine], jobs: Sequence[Job], running: KnownJobs | None = None
) -> tuple[tuple[str, Gpus], ...]:
    """The same for GPUs that are as fast as each other."""
    slots = {slot.id: _Slot(slot.id, machine.id, machine.rack) for machine in held for slot in machine.slots}
    free = {slot.id: slot.gpus for machine in held for slot in machine.slots}
    unfinished = [job for job in jobs if job.iterations_left > 0]
    found = _as_bids_assume(unfinished, slots, free, running)
    if found is None:
        return _greedy(jobs, slots, free)
    for gpus in found.values():
        _take(free, gpus)
    _grow(unfinished, found, slots, free)
    return tuple((job.id, found[job.id]) for job in jobs if job.id in found)


def _spread(machines: Sequence[Machine]) -> Spread:
    return Spread.of(Place(one.rack, one.id, slot.id, slot.gpus) for one in machines for slot in one.slots)


def _as_bids_assume(
    jobs: Sequence[Job], slots: Mapping[str, _Slot], free: Mapping[str, int], running: KnownJobs | None
) -> dict[str, Gpus] | None:
    """The division that ends the phase when bids say; None if some job cannot run with these GPUs at all."""
    if not jobs:
        return {}
    spread = Spread.of(Place(slot.rack, slot.machine, slot.id, free[slot.id]) for slot in slots.values())
    planned = (running or KnownJobs(jobs)).gangs(spread)
    if planned is None:
        return None
    level, sizes = planned
    first = [job for job in jobs if job.id in sizes]
    staying = {
        job.id: job.held
        for job in first
        if total(job.held) == sizes[job.id]
        and all(slot in slots for slot, _ in job.held)
        and (level == ANYWHERE or len({CELLS[level](slots[slot]) for slot, _ in job.held}) == 1)
    }
    return _packed(first, sizes, level, slots, free, staying) or _packed(first, sizes, level, slots, free, {})


def _packed(
    jobs: Sequence[Job],
    sizes: Mapping[str, int],
    level: int,
    slots: Mapping[str, _Slot],
    free: Mapping[str, int],
    staying: Mapping[str, Gpus],
) -> dict[str, Gpus] | None:
    """Each gang in one cell of the level, by best fit decreasing; None if that fails around those that stay."""
    left, found = dict(free), dict(staying)
    for gpus in staying.values():
        _take(left, gpus)
    if min(left.values(), default=0) < 0:
        return None
    for job in sorted(jobs, key=lambda job: (-sizes[job.id], -_work(job), job.id)):
        if job.id not in found:
            chosen = _closest(sizes[job.id], slots, left, level)
            if chosen is None:
                return None
            _take(left, chosen)
            found[job.id] = chosen
    return found


def _closest(count: int, slots: Mapping[str, _Slot], free: Mapping[str, int], level: int) -> Gpus | None:
    """So many free GPUs of the cell of this level with the fewest free ones, as close together as they can be in it."""
    inside = _tightest(count, list(slots), slots, free, level)
    if inside is None:
        return None
    for smaller in range(level):
        closer = _tightest(count, inside, slots, free, smaller)
        if closer is not None:
            inside = closer
            break
    return _fill(count, inside, free)


def _tightest(
    count: int, among: Sequence[str], slots: Mapping[str, _Slot], free: Mapping[str, int], level: int
) -> list[str] | None:
    """The slots with free GPUs of the fullest cell that has room."""
    rooms: dict[str, list[str]] = {}
    for slot in among:
        if free[slot]:
            rooms.setdefault("" if level == ANYWHERE else CELLS[level](slots[slot]), []).append(slot)
    fitting = [(total, cell) for cell, one in rooms.items() if (total := sum(free[slot] for slot in one)) >= count]
    return rooms[min(fitting)[1]] if fitting else None


def _grow(jobs: Sequence[Job], gpus_of: dict[str, Gpus], slots: Mapping[str, _Slot], free: dict[str, int]) -> None:
    """Give GPUs that are left over to jobs that wait, the longest first, then to those that would end last."""
    for job in sorted(jobs, key=lambda job: (-_work(job), job.id)):
        if job.id not in gpus_of and sum(free.values()) >= job.min_gpus:
            gpus_of[job.id] = _place(job, job.min_gpus, slots, free)
            _take(free, gpus_of[job.id])
    if not any(free.values()):
        return
    growing = {job.id: job for job in jobs if job.id in gpus_of}
    ends = {name: _work(job) / _speed(job, gpus_of[name], slots) for name, job in growing.items()}
    while ends and any(free.values()):
        _, name = max(zip(ends.values(), ends, strict=True))
        job = growing[name]
        size = total(gpus_of[name]) + job.step_gpus
        wider = _added(gpus_of[name], job.step_gpus, slots, free) if size <= job.max_gpus else None
        if wider is None or _speed(job, wider, slots) <= _speed(job, gpus_of[name], slots):
            del ends[name]
            continue
        ends[name] = _work(job) / _speed(job, wider, slots)
        for slot, count in gpus_of[name]:
            free[slot] += count
        _take(free, wider)
        gpus_of[name] = wider


def _added(gpus: Gpus, more: int, slots: Mapping[str, _Slot], free: Mapping[str, int]) -> Gpus | None:
    """These GPUs and so many free ones, from the smallest cells around them that have enough."""
    for level in (*range(len(CELLS)), ANYWHERE):
        here = {"" if level == ANYWHERE else CELLS[level](slots[slot]) for slot, _ in gpus}
        near = [slot for slot in free if level == ANYWHERE or CELLS[level](slots[slot]) in here]
        if sum(free[slot] for slot in near) >= more:
            total = dict(gpus)
            for slot, count in _fill(more, near, free):
                total[slot] = total.get(slot, 0) + count
            return tuple(sorted(total.items()))
    return None


def _speed(job: Job, gpus: Gpus, slots: Mapping[str, _Slot]) -> float:
    """Iterations in the time of one on one GPU."""
    spanned = [slots[slot] for slot, _ in gpus]
    level = next((level for level, cell in enumerate(CELLS) if len({cell(slot) for slot in spanned}) == 1), ANYWHERE)
    return total(gpus) / slowdown_factor(job, level)


def _greedy(jobs: Sequence[Job], slots: Mapping[str, _Slot], free: dict[str, int]) -> tuple[tuple[str, Gpus], ...]:
    """The division if some jobs cannot run: the jobs with the most work left come first.

    Each gets its smallest gang, then every further step goes to the job that would end last.
    """
    sizes = _sizes(sum(free.values()), jobs)
    found: dict[str, Gpus] = {}
    for job in jobs:
        if sizes.get(job.id) == total(job.held) and all(free.get(slot, 0) >= count for slot, count in job.held):
            _take(free, job.held)
            found[job.id] = job.held
    for job in sorted(jobs, key=lambda job: (-sizes.get(job.id, 0), -_work(job), job.id)):
        if job.id in sizes and job.id not in found:
            gpus = _place(job, sizes[job.id], slots, free)
            if gpus:
                _take(free, gpus)
                found[job.id] = gpus
    return tuple((job.id, found[job.id]) for job in jobs if job.id in found)


def _sizes(gpus: int, jobs: Sequence[Job]) -> dict[str, int]:
    """How many GPUs each job is to get, wherever they are."""
    sizes: dict[str, int] = {}
    for job in sorted(jobs, key=lambda job: (-_work(job), job.id)):
        if job.min_gpus <= gpus:
            sizes[job.id] = job.min_gpus
            gpus -= job.min_gpus
    growing = [job for job in jobs if job.id in sizes]
    while growing := [
        job for job in growing if sizes[job.id] + job.step_gpus <= job.max_gpus and job.step_gpus <= gpus
    ]:
        slowest = max(growing, key=lambda job: (_work(job) / sizes[job.id], job.id))
        sizes[slowest.id] += slowest.step_gpus
        gpus -= slowest.step_gpus
    return sizes


def _place(job: Job, size: int, slots: Mapping[str, _Slot], free: Mapping[str, int]) -> Gpus:
    """Up to `size` of the free GPUs for a job: the choice that is fastest, of equal ones that with fewest GPUs."""
    best: Gpus = ()
    best_speed = 0.0
    for count in range(min(size, sum(free.values())), job.min_gpus - 1, -1):
        if (count - job.min_gpus) % job.step_gpus:
            continue
        if count <= best_speed:
            break
        gpus, factor = _together(job, count, slots, free)
        if count / factor >= best_speed:
            best, best_speed = gpus, count / factor
    return best


def _together(job: Job, count: int, slots: Mapping[str, _Slot], free: Mapping[str, int]) -> tuple[Gpus, float]:
    """So many free GPUs as close together as they can be, with the factor by which they slow the job down."""
    for cell_of, factor in zip(CELLS, (1.0, job.slowdown.slot, job.slowdown.machine), strict=True):
        rooms: dict[str, list[str]] = {}
        for slot, left in free.items():
            if left:
                rooms.setdefault(cell_of(slots[slot]), []).append(slot)
        fitting = [
            (sum(free[slot] for slot in inside), cell)
            for cell, inside in rooms.items()
            if sum(free[slot] for slot in inside) >= count
        ]
        if fitting:
            # The tightest cell that has room, so that larger ones stay whole.
            return _fill(count, rooms[min(fitting)[1]], free), factor
    return _fill(count, [slot for slot, left in free.items() if left], free), job.slowdown.rack


def _fill(count: int, slots: Iterable[str], free: Mapping[str, int]) -> Gpus:
    """So many GPUs of these slots, from as few of them as possible."""
    taken: dict[str, int] = {}
    for slot in sorted(slots, key=lambda slot: (-free[slot], slot)):
        if count:
            taken[slot] = min(free[slot], count)
            count -= taken[slot]
    return tuple(sorted(taken.items()))


def _take(free: dict[str, int], gpus: Gpus) -> None:
    for slot, count in gpus:
        free[slot] -= count


def _work(job: Job) -> float:
    return job.iterations_left * job.iteration_s
