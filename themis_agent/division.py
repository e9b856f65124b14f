"""How an application divides the GPUs that it holds among its jobs: as its bids assume, and moving as few as it can."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from yarn_plugin.model.gpus import Gpus, Job, Machine


@dataclass(frozen=True, slots=True)
class _Slot:
    """A slot with its place; `free` GPUs of it are left."""

    id: str
    machine: str
    rack: str


CELLS: tuple[Callable[[_Slot], str], ...] = (lambda slot: slot.id, lambda slot: slot.machine, lambda slot: slot.rack)
"""The cells around a slot, from the smallest on."""


def divide(held: Sequence[Machine], jobs: Sequence[Job]) -> tuple[tuple[str, Gpus], ...]:
    """Which GPUs each job runs on; jobs left out wait, and GPUs that would speed up no job are left over.

    The application ends with its last job (equation 3.2 of Themis, thesis section 3.4.3.2), so the jobs with the most
    work left come first: each gets its smallest gang, then every further step goes to the job that would end last.
    A job stays where it runs if it keeps its number of GPUs; the others are placed together as far as possible, and on
    fewer GPUs where spreading more of them would be slower.

    `held`: machines with the GPUs that are held. `jobs`: with what they run on now.
    """
    slots = {slot.id: _Slot(slot.id, machine.id, machine.rack) for machine in held for slot in machine.slots}
    free = {slot.id: slot.gpus for machine in held for slot in machine.slots}
    sizes = _sizes(sum(free.values()), jobs)
    found: dict[str, Gpus] = {}
    for job in jobs:
        if sizes.get(job.id) == _count(job.held) and all(free.get(slot, 0) >= count for slot, count in job.held):
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


def _count(gpus: Gpus) -> int:
    return sum(count for _, count in gpus)


def _work(job: Job) -> float:
    return job.iterations_left * job.iteration_s
