"""The parameters of a pool whose cells are leased by an allocator."""

import math
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Annotated

from yarn_plugin.errors import BadInputError
from yarn_plugin.model.journaled import Tagged
from yarn_plugin.model.resources import GPU, MEMORY, VCORES
from yarn_plugin.model.topology import Cell

MAX_SECONDS = 1e9


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """`allocator`: its name; `settings`: its own parameters, None if it has none. `seed`: of random choices.

    Seconds: `grace_s`, to vacate revoked cells; `notice_s`, from when an allocator is told of the end of a lease until
    then; `overtime_s`, for which a lease goes on after its end while its allocator decides; `place_within_s`, a lease
    that is not in use so long after it started comes back (0: never).

    `gpus_per_task`, `task_memory_mb`, `task_vcores`: of one task; GPUs that a node cannot use for whole tasks are not
    leased. Nor are, if the memory or vcores of a task are given, those for whose tasks the node has no room now.
    `gpu_memory_mb`: of each GPU, where GPUs may be shared; None: they may not.

    Which cells: those of nodes with the label `partition` (empty: with any, or none), and of `nodes`, their hosts or
    shell patterns (empty: all).
    """

    allocator: str
    settings: Annotated[object, Tagged()] = None
    seed: int = 1
    grace_s: float = 30.0
    notice_s: float = 0.0
    overtime_s: float = 0.0
    place_within_s: float = 30.0
    gpus_per_task: int = 1
    task_memory_mb: int = 0
    task_vcores: int = 0
    gpu_memory_mb: int | None = None
    partition: str = ""
    nodes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            BadInputError: one is out of range.
        """
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name == "seed" or not isinstance(value, int | float):
                continue
            if not math.isfinite(value) or not 0 <= value <= MAX_SECONDS:
                raise BadInputError(one.name, value, f"must be a number from 0 to {MAX_SECONDS:g}")
            if value == 0 and one.name in ("gpus_per_task", "gpu_memory_mb"):
                raise BadInputError(one.name, value, "must be above 0")

    @property
    def has_task_size(self) -> bool:
        """Whether a task's memory or vcores are given."""
        return bool(self.task_memory_mb or self.task_vcores)

    def has_node(self, host: str, partition: str) -> bool:
        """Whether the cells of a node are the pool's."""
        if self.partition not in ("", partition):
            return False
        return not self.nodes or any(fnmatchcase(host, pattern) for pattern in self.nodes)

    def usable_gpus(self, node: Cell) -> int | None:
        """How many GPUs of a node whole tasks can use, within its memory and vcores; None: it is not the pool's."""
        if not self.has_node(node.host or node.id, node.partition):
            return None
        tasks = node.capacity[GPU] // self.gpus_per_task
        for name, each in ((MEMORY, self.task_memory_mb), (VCORES, self.task_vcores)):
            if each:
                tasks = min(tasks, node.capacity[name] // each)
        return tasks * self.gpus_per_task
