"""Which nodes a pool leases, and how many of their GPUs its tasks can use."""

from fnmatch import fnmatchcase

from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources


class PoolNodes:
    """What the parameters of pools that lease have in common: `partition`, `nodes`, and the size of a task."""

    __slots__ = ()

    gpus_per_task: int
    task_memory_mb: int
    task_vcores: int
    partition: str
    nodes: tuple[str, ...]

    @property
    def has_task_size(self) -> bool:
        """Whether a task's memory or vcores are given."""
        return bool(self.task_memory_mb or self.task_vcores)

    def has_node(self, host: str, partition: str) -> bool:
        """Whether a node is the pool's; `partition`: its label."""
        if self.partition not in ("", partition):
            return False
        return not self.nodes or any(fnmatchcase(host, pattern) for pattern in self.nodes)

    def gpus_for_tasks(self, amounts: Resources) -> int:
        """How many GPUs of these amounts whole tasks can use."""
        tasks = amounts[GPU] // self.gpus_per_task
        for name, each in ((MEMORY, self.task_memory_mb), (VCORES, self.task_vcores)):
            if each:
                tasks = min(tasks, amounts[name] // each)
        return tasks * self.gpus_per_task

    def gpus_with_room(self, capacity: Resources, used: Resources) -> int:
        """How many GPUs of a node are used by tasks, or could be by further ones."""
        return used[GPU] + self.gpus_for_tasks(capacity - used)
