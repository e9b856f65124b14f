"""What a queue file asks for, in YARN's own properties, and what can be wrong with it."""

from collections.abc import Sequence
from dataclasses import dataclass

from yarn_plugin.errors import ReportedError
from yarn_plugin.observe.resource_manager import ManagerError

ROOT = "root"

MAXIMUM_CAPACITY = "maximum-capacity"
STATE = "state"
DYNAMIC_LEAVES = "auto-queue-creation-v2.enabled"
LEAF_TEMPLATE = "auto-queue-creation-v2.leaf-template"


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """One queue of the file. `properties`: YARN's name (below the queue's path) and value; others are left alone."""

    path: str
    properties: tuple[tuple[str, str], ...]
    remove: bool = False

    @property
    def parent(self) -> str:
        """The path of the queue that this one lies in; empty for the root."""
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        """Its last part."""
        return self.path.rpartition(".")[2]

    def get(self, name: str) -> str | None:
        """The value that the file gives a property; None where it says nothing of it."""
        return next((value for known, value in self.properties if known == name), None)


def number(value: float) -> str:
    """A number as short as it can be written: 8, 0.01, 33.333333."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


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
