"""From a share of a cluster to executors and slots. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from qoop.errors import QoopError

MEMORY, VCORES = "memory-mb", "vcores"


class ShareTooSmallError(QoopError):
    """The share does not hold one executor."""


@dataclass(frozen=True, slots=True)
class ExecutorSize:
    """An executor's container (`memory` with overhead, MiB; `vcores`), the tasks it runs at once, and the master's."""

    memory: int
    vcores: int
    slots: int
    master_memory: int
    master_vcores: int

    def count(self, resources: Mapping[str, int]) -> int:
        """How many executors fit into an amount, beside the application master."""
        memory = resources.get(MEMORY, 0) - self.master_memory
        vcores = resources.get(VCORES, 0) - self.master_vcores
        return max(min(memory // self.memory, vcores // self.vcores), 0)

    def total(self, executors: int) -> dict[str, int]:
        """The resources of so many executors and the master."""
        return {
            MEMORY: self.master_memory + executors * self.memory,
            VCORES: self.master_vcores + executors * self.vcores,
        }

    def need_one(self, resources: Mapping[str, int], whose: str) -> None:
        """Check that an amount holds an executor.

        Raises:
            ShareTooSmallError: it does not.
        """
        if self.count(resources) < 1:
            have = f"{resources.get(MEMORY, 0)} MB, {resources.get(VCORES, 0)} vcores"
            want = f"{self.memory + self.master_memory} MB, {self.vcores + self.master_vcores} vcores"
            raise ShareTooSmallError(
                f"{whose}: {have} do not hold the application master and one executor ({want}); "
                "ask for smaller executors (--executor-memory, --executor-cores) or a larger share"
            )
