"""What a queue file asks for, in YARN's own properties. Pure."""

from dataclasses import dataclass

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
