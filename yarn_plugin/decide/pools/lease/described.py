"""What follows from what an application has said: from the jobs in its estimate, and from its bid table.

In the simulator an application that nothing has changed for describes its jobs by the same object, and need not be
looked at again: most applications of a large pool wait.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from yarn_plugin.decide.mechanisms.cached_table import CachedTable
from yarn_plugin.decide.mechanisms.partial_allocation import Gang
from yarn_plugin.decide.pools.lease.inventory import Inventory
from yarn_plugin.decide.pools.lease.validity import checked_jobs
from yarn_plugin.model.auction import Bid
from yarn_plugin.model.gpus import Gpus, Job


@dataclass(frozen=True, slots=True)
class Described:
    """`work_s`: of all these jobs, done and left, on one GPU. `max_gpus`, `gangs`: what they can use.

    As their application says: `attained_gpu_s`, GPU seconds that they have had; `holds`, some job holds GPUs.
    """

    jobs: tuple[Job, ...]
    work_s: float
    max_gpus: int
    gangs: tuple[Gang, ...]
    attained_gpu_s: float
    holds: bool


class Descriptions:
    """The last description of each application, and what its table last said."""

    def __init__(self) -> None:
        self._known: dict[str, Described] = {}
        self._usable: dict[str, tuple[tuple[Gang, ...], int]] = {}
        self._rhos: dict[str, tuple[Bid, Gpus, Inventory, float | None]] = {}

    def of(self, app: str, jobs: tuple[Job, ...]) -> Described:
        """What follows from these jobs.

        Raises:
            BadInputError: the auction or a policy could not work with them.
        """
        known = self._known.get(app)
        if known is None or known.jobs is not jobs:
            known = self._known[app] = _described(checked_jobs(jobs))
        return known

    def usable(self, app: str, gangs: tuple[Gang, ...]) -> int:
        """How many GPUs these gangs of an application can use."""
        known = self._usable.get(app)
        if known is None or known[0] is not gangs:
            known = self._usable[app] = gangs, sum([gang.max_gpus * gang.trials for gang in gangs])
        return known[1]

    def rho_with(self, app: str, table: CachedTable, holds: Gpus, inventory: Inventory) -> float | None:
        """What the table of an application says of these GPUs."""
        known = self._rhos.get(app)
        if known is not None and known[0] is table.bid and known[1] == holds and known[2] is inventory:
            return known[3]
        rho = table.rho_with(holds, inventory.machines_of([slot for slot, _ in holds]))
        self._rhos[app] = table.bid, holds, inventory, rho
        return rho

    def forget(self, apps: Iterable[str]) -> None:
        """Applications that have left."""
        for app in apps:
            self._known.pop(app, None)
            self._usable.pop(app, None)
            self._rhos.pop(app, None)


def _described(jobs: tuple[Job, ...]) -> Described:
    trials = Counter([(job.min_gpus, job.max_gpus, job.step_gpus) for job in jobs])
    return Described(
        jobs,
        sum([(job.iterations_done + job.iterations_left) * job.iteration_s for job in jobs]),
        sum([job.max_gpus for job in jobs]),
        tuple(Gang(*gang, trials=count) for gang, count in sorted(trials.items())),
        sum([job.attained_gpu_s for job in jobs]),
        any(job.held for job in jobs),
    )
