"""What virtual clusters keep from one event to the next."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from yarn_plugin.decide.allocators.hosting import GuestState
from yarn_plugin.decide.allocators.placed_gangs import Placed
from yarn_plugin.decide.mechanisms.buddy_cells.state import CellsState
from yarn_plugin.model.journaled import Mutable, Tagged


@dataclass(frozen=True, slots=True)
class BuddyCellsState:
    """`cluster`: who holds which leaf (a `CellsState`). `placed`: by the gang's name. `waits`: why each claim without
    leases waits. `resting`: until when claims are not tried, by gang. `announced`: the gangs that a new configuration
    will downgrade, as their applications know. `guests`: the allocators inside virtual clusters."""

    cluster: Annotated[object, Tagged()]
    counter: int = 0
    placed: Mapping[str, Placed] = field(default_factory=dict)
    waits: Mapping[str, str] = field(default_factory=dict)
    resting: Mapping[str, float] = field(default_factory=dict)
    announced: tuple[str, ...] = ()
    guests: Mapping[str, GuestState] = field(default_factory=dict)

    def parts(self) -> tuple[Mutable, ...]:
        """The mutable parts."""
        return (self.cells, *(part for guest in self.guests.values() for part in guest.parts()))

    @property
    def cells(self) -> CellsState:
        """Who holds which leaf."""
        assert isinstance(self.cluster, CellsState)
        return self.cluster


def number_of(placed: Placed | None) -> int:
    """The number of a gang's placement: older ones have smaller numbers, those of guests (None) the smallest."""
    return min(int(key.partition(".")[0]) for key in placed.keys if key) if placed is not None else 0
