"""The queues that a ResourceManager has now."""

from dataclasses import dataclass

from yarn_plugin.observe import scheduler_configuration
from yarn_plugin.observe.queue_tree import QueueReport, queue_tree
from yarn_plugin.observe.resource_manager import ManagerError, ManagerRefusedError, ResourceManager
from yarn_plugin.observe.scheduler_configuration import SchedulerConfiguration
from yarn_plugin.queues.specification import ReadOnlyStoreError


@dataclass(frozen=True, slots=True)
class LiveQueues:
    """Queues as configured and as the scheduler runs them (by path)."""

    configuration: SchedulerConfiguration
    tree: dict[str, QueueReport]

    @property
    def is_legacy(self) -> bool:
        """Whether siblings must all be given in the same way, and percents must add up to 100."""
        return (self.configuration.of_scheduler("legacy-queue-mode.enabled") or "true").lower() == "true"

    def get(self, path: str, name: str) -> str | None:
        """A property of a queue as configured; None where it is not."""
        return self.configuration.get(path, name)

    def children(self, path: str) -> tuple[str, ...]:
        """The paths of the configured (not the dynamic) queues directly below a queue."""
        return self.configuration.children(path)

    def has(self, path: str) -> bool:
        """Whether a queue is there, configured or dynamic."""
        return path in self.tree

    def is_configured(self, path: str) -> bool:
        """Whether a queue is there because the configuration says so."""
        return path in self.tree and not self.tree[path].dynamic


def read_tree(manager: ResourceManager) -> dict[str, QueueReport]:
    """The queues as the scheduler runs them.

    Raises:
        ManagerError: there is no ResourceManager, or it has no CapacityScheduler.
    """
    tree = queue_tree(manager.get("/scheduler"))
    if not tree:
        raise ManagerError(f"--rm {manager.url}: its scheduler is not the CapacityScheduler, whose queues these are")
    return tree


def read(manager: ResourceManager) -> LiveQueues:
    """The queues as configured and as run.

    Raises:
        ReadOnlyStoreError: the configuration is in a file that only the ResourceManager's own administrator can change.
        ManagerError: there is no ResourceManager, or it has no CapacityScheduler.
    """
    tree = read_tree(manager)
    try:
        configuration = scheduler_configuration.read(manager)
    except ManagerRefusedError as refused:
        if refused.status != 400:
            raise
        raise ReadOnlyStoreError(manager.url) from None
    return LiveQueues(configuration, tree)
