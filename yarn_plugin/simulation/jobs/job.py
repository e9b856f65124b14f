"""Jobs of a workload. Plain values without files or time."""

from dataclasses import dataclass

from yarn_plugin.model.share import Demand, Gang, Pods


@dataclass(frozen=True, slots=True)
class Job:
    """A job of a tenant. `number`: its place in the workload. `arrives_at`: seconds from its beginning.

    It runs for `seconds[i]` with the alternative `i` of its demand; None: never with that one. The schedulers believe
    that it takes `estimated_s`. `gang`: its pods; None: it is one container. `gpus`: how many it holds, for reports
    (of the first alternative).
    """

    number: int
    tenant: str
    arrives_at: float
    demand: Demand
    seconds: tuple[float | None, ...]
    estimated_s: tuple[float | None, ...]
    gang: Gang | None = None
    gpus: int = 1

    @property
    def name(self) -> str:
        """Unique in the workload."""
        return f"job{self.number}"

    @property
    def pods(self) -> int:
        """How many leases it needs to run."""
        return 1 if self.gang is None else sum(pods.number for pods in self.gang.pods)


@dataclass(frozen=True, slots=True)
class JobWorkload:
    """Jobs in order of arrival. `notes`: for a person, what was taken or left out when they were read."""

    jobs: tuple[Job, ...]
    notes: tuple[str, ...] = ()


def gang_of(gpus: int, gpus_per_node: int) -> Gang:
    """Up to a node's GPUs on one node, above that whole nodes."""
    if gpus <= gpus_per_node:
        return Gang((Pods(1, gpus),))
    return Gang((Pods(-(-gpus // gpus_per_node), gpus_per_node),))
