"""What can be wrong with a queue file, or with writing it."""

from collections.abc import Sequence
from dataclasses import dataclass

from yarn_plugin.errors import ReportedError
from yarn_plugin.observe.resource_manager import ManagerError


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a queue file: the queue and field, the value, and what would be right."""

    field: str
    value: object
    expected: str

    def __str__(self) -> str:
        return f"{self.field}{'' if self.value is None else f' {self.value!r}'}: {self.expected}"


class QueueFileError(ReportedError):
    """A queue file cannot be used; nothing was written. `problems` holds everything that is wrong with it."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class ReadOnlyStoreError(ManagerError):
    """The ResourceManager reads its queues from a file: nobody can change them over REST."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"--rm {url}: its queues cannot be read or changed over REST; set "
            "yarn.scheduler.configuration.store.class=fs (or zk, leveldb) in the ResourceManager's yarn-site.xml "
            "and start it again"
        )


class QueuesIgnoredError(ManagerError):
    """The ResourceManager said yes and did not do it."""

    def __init__(self, what: Sequence[str]) -> None:
        super().__init__(f"the ResourceManager answered that it applied the change, and did not: {'; '.join(what)}")
