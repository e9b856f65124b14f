"""The queues that a queue file specifies, in YARN's own properties, and the errors of queue files."""

from collections.abc import Sequence
from dataclasses import dataclass

from yarn_plugin.observe.resource_manager import ManagerError
from yarn_plugin.toml_files import FileError

ROOT = "root"

MAXIMUM_CAPACITY = "maximum-capacity"
STATE = "state"
DYNAMIC_LEAVES = "auto-queue-creation-v2.enabled"
LEAF_TEMPLATE = "auto-queue-creation-v2.leaf-template"
PARTITIONS = "accessible-node-labels"
DEFAULT_PARTITION = "default-node-label-expression"


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """A queue of the file. `properties`: names (relative to the queue's path) and values; others are unchanged."""

    path: str
    properties: tuple[tuple[str, str], ...]
    remove: bool = False

    @property
    def parent(self) -> str:
        """The path of the parent queue; empty for the root."""
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        """The last component of the path."""
        return self.path.rpartition(".")[2]

    def get(self, name: str) -> str | None:
        """The value of a property in the file; None if it is not set there."""
        return next((value for known, value in self.properties if known == name), None)

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions (node labels) that the file gives it access to."""
        return partitions_in(self.get(PARTITIONS))


def partitions_in(value: str | None) -> tuple[str, ...]:
    """The partitions in a value of the property: "gpu, big" names two."""
    return tuple(name.strip() for name in (value or "").split(",") if name.strip())


def number(value: float) -> str:
    """A number in its shortest form: 8, 0.01, 33.333333."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a queue file: queue and field, value, and what is expected."""

    field: str
    value: object
    expected: str

    def __str__(self) -> str:
        return f"{self.field}{'' if self.value is None else f' {self.value!r}'}: {self.expected}"


class QueueFileError(FileError):
    """A queue file is invalid; nothing was written. `problems`: all problems found."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class ReadOnlyStoreError(ManagerError):
    """The ResourceManager reads its queues from a file, so they cannot be changed over REST."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"--rm {url}: its queues cannot be read or changed over REST; set "
            "yarn.scheduler.configuration.store.class=fs (or zk, leveldb) in the ResourceManager's yarn-site.xml "
            "and restart it"
        )


class QueuesIgnoredError(ManagerError):
    """The ResourceManager reported success without applying the change."""

    def __init__(self, what: Sequence[str]) -> None:
        super().__init__(
            f"the ResourceManager reported success but did not apply the change: {'; '.join(what)}. See its log, and "
            "`yarn-plugin queues plan` for the present state"
        )
