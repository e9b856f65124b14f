"""What the allocator answers to a request."""

from dataclasses import dataclass
from enum import StrEnum

from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Placement


class Reason(StrEnum):
    """Why a gang waits."""

    NO_ROOM = "insufficient_capacity"
    NEVER_FITS = "never_fits"
    BAD_NODE = "bad_node"
    EXCLUDED_NODE = "non_suggested_node"
    UNUSABLE_CELLS = "mapping_failed"
    """It fits in the virtual cluster, but only on physical cells that are bad or excluded."""


@dataclass(frozen=True, slots=True)
class Bind:
    """Start the pod in this slot of the placement. `cancelled`: gangs whose preemption must be cancelled first."""

    placement: Placement
    slot: int
    cancelled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Preempt:
    """Evict the victims (whole gangs, of which every pod must leave), then ask again."""

    placement: Placement
    victims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be done now. `virtual_fit`: there is room in the virtual cluster."""

    reason: Reason
    virtual_fit: bool = False


Answer = Bind | Preempt | Wait
