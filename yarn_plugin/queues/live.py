"""The current queues of a ResourceManager."""

from dataclasses import dataclass

from yarn_plugin.observe import partitions, scheduler_configuration
from yarn_plugin.observe.queue_tree import QueueReport, queue_tree
from yarn_plugin.observe.resource_manager import ManagerError, ManagerRefusedError, ResourceManager
from yarn_plugin.observe.scheduler_configuration import SchedulerConfiguration
from yarn_plugin.queues.specification import ReadOnlyStoreError


@dataclass(frozen=True, slots=True)
class LiveQueues:
    """The queues as configured, and as the scheduler runs them, by path. `partitions`: the node labels, if they were
    read."""

    configuration: SchedulerConfiguration
    tree: dict[str, QueueReport]
    partitions: frozenset[str] | None = None

    @property
    def is_legacy(self) -> bool:
        """Whether legacy queue mode is on: siblings all have weights, or percentages that add up to 100."""
        return (self.configuration.global_property("legacy-queue-mode.enabled") or "true").lower() == "true"

    def get(self, path: str, name: str) -> str | None:
        """A configured property of a queue; None if it is not set."""
        return self.configuration.get(path, name)

    def children(self, path: str) -> tuple[str, ...]:
        """The paths of the configured (not dynamic) children of a queue."""
        return self.configuration.children(path)

    def has(self, path: str) -> bool:
        """Whether a queue exists, configured or dynamic."""
        return path in self.tree

    def is_configured(self, path: str) -> bool:
        """Whether a queue exists and is not dynamic."""
        return path in self.tree and not self.tree[path].dynamic


def read_tree(manager: ResourceManager) -> dict[str, QueueReport]:
    """The queues as the scheduler runs them.

    Raises:
        ManagerError: the ResourceManager does not answer, or does not use the CapacityScheduler.
    """
    tree = queue_tree(manager.get("/scheduler"))
    if not tree:
        raise ManagerError(f"--rm {manager.url}: its scheduler is not the CapacityScheduler")
    return tree


def read(manager: ResourceManager, with_partitions: bool = False) -> LiveQueues:
    """The queues as configured and as the scheduler runs them; with the node labels, if wanted.

    Raises:
        ReadOnlyStoreError: the configuration is in a file and cannot be changed over REST.
        ManagerError: the ResourceManager does not answer, or does not use the CapacityScheduler.
    """
    tree = read_tree(manager)
    try:
        configuration = scheduler_configuration.read(manager)
    except ManagerRefusedError as refused:
        if refused.status != 400:
            raise
        raise ReadOnlyStoreError(manager.url) from None
    return LiveQueues(configuration, tree, frozenset(partitions.read(manager)) if with_partitions else None)
