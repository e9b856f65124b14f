"""The parameters of a pool whose cells are leased by an allocator."""

import math
from dataclasses import dataclass, fields
from typing import Annotated, Literal

from yarn_plugin.decide.leases.pool_nodes import PoolNodes
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.journaled import Tagged
from yarn_plugin.model.topology import Cell

MAX_SECONDS = 1e9

RECORDS_S = 60.0
"""How long after a pool begins applications are expected to register again, if the journal was lost."""

Rules = Literal[2, 3, 4, 5, 6]

RULES: Literal[6] = 6
"""By which pools of leases decide that are configured now."""


@dataclass(frozen=True, slots=True)
class LedgerSettings(PoolNodes):
    """`allocator`: its name; `settings`: its own parameters, None if it has none. `seed`: of random choices.

    Seconds: `grace_s`, to vacate revoked cells; `notice_s`, from when an allocator is told of the end of a lease until
    then; `overtime_s`, for which a lease goes on after its end while its allocator decides; `place_within_s`, a lease
    that is not in use so long after it started comes back (0: never); `records_s`, once the pool has begun and YARN
    answers: nothing is leased then on nodes where containers without a lease use GPUs, as their applications may have
    records of which ones (0, as in earlier versions: never).

    `gpus_per_task`, `task_memory_mb`, `task_vcores`: of one task; GPUs that a node cannot use for whole tasks are not
    leased. Nor are, if the memory or vcores of a task are given, those for whose tasks the node has no room now.
    `gpu_memory_mb`: of each GPU, where GPUs may be shared; None: they may not.

    `rules`: by which it decides, so that journals of earlier versions replay as they were written. 2, of earlier
    versions: all that YARN lists no containers for comes back at once; any message of an application answers all that
    it is asked. 3: where some run on the node, it is revoked; a question waits for its own answer; an auction counts as
    service what an application held until the call in which it lost it. 4: also, GPUs of a node that containers beyond
    leases use are not leased; neither a list of containers that was asked for before a revocation nor an idle new lease
    makes revoked cells look vacated (see `handover`); the grants of an auction say how its leases were won. 5: also, an
    allocator is told of the end of each lease in time, whatever was placed with less than `notice_s` to its end; where
    an application has to vacate GPUs of one node, containers on others are not signalled for it; an auction counts
    with `grace_s`, not with 30 s, and gives no GPUs that got in use since they were offered; a lease whose revocation
    is cancelled after `place_within_s` is taken back if it is not in use; what is due at the moment of a timer is due
    then, whatever is rounded (see `ends`). 6: also, GPUs that applications of other pools use are not leased, where the
    size of a task is given (see `room.strangers`); while applications are awaited with their records, nothing is leased
    before YARN is polled; where only some free GPUs of a node have room, those that are being vacated are leased first;
    a revocation is cancelled also where others have no room; what is left of a lease that lost cells counts where a
    node's capacity shrinks; AlloX counts the vcores of all jobs on GPUs of a node, and leases free GPUs of nodes on
    which others lack room.

    `adopts_leases`: it takes over the leases of a pool from the lease controller of earlier versions. False in their
    journals.

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
    records_s: float = 0.0
    gpus_per_task: int = 1
    task_memory_mb: int = 0
    task_vcores: int = 0
    gpu_memory_mb: int | None = None
    partition: str = ""
    nodes: tuple[str, ...] = ()
    rules: Rules = 2
    adopts_leases: bool = False

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            BadInputError: one is out of range.
        """
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name in ("seed", "adopts_leases") or not isinstance(value, int | float):
                continue
            if not math.isfinite(value) or not 0 <= value <= MAX_SECONDS:
                raise BadInputError(one.name, value, f"must be a number from 0 to {MAX_SECONDS:g}")
            if value == 0 and one.name in ("gpus_per_task", "gpu_memory_mb"):
                raise BadInputError(one.name, value, "must be above 0")

    def usable_gpus(self, node: Cell) -> int | None:
        """How many GPUs of a node whole tasks can use, within its memory and vcores; None: it is not the pool's."""
        return self.gpus_for_tasks(node.capacity) if self.has_node(node.host or node.id, node.partition) else None
