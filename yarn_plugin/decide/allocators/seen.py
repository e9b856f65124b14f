"""What an allocator sees: a plain value, which a test or a host can make too."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from yarn_plugin.decide.allocators.cells import Cells
from yarn_plugin.decide.allocators.happenings import ClaimKey
from yarn_plugin.decide.allocators.plan import Holding, Idle
from yarn_plugin.decide.leases.settings import RULES, Rules
from yarn_plugin.model.causes import LeaseWon
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim, LeaseClass

Phase = Literal["waiting", "held", "leaving"]


@dataclass(frozen=True, slots=True)
class Leased:
    """A lease. `phase`: it waits until its cells are vacated; it is held; or all of it is being vacated.

    `key` to `job`, `won`: as it was placed, with the changes since. `placed_at`, `started_at` (None: it waits):
    seconds. `leaving`: those of its cells that are revoked, to be vacated `by` then.
    """

    key: str
    claim: ClaimKey
    holdings: tuple[Holding, ...]
    member: int = 0
    alternative: int = 0
    kind: LeaseClass = "guaranteed"
    until: float | None = None
    gang: str | None = None
    replaces: str | None = None
    note: str = ""
    job: str = ""
    placed_at: float = 0.0
    started_at: float | None = None
    leaving: tuple[str, ...] = ()
    by: float | None = None
    won: LeaseWon | None = None

    @property
    def phase(self) -> Phase:
        """Its phase; a lease of which some cells are revoked is held."""
        if self.started_at is None:
            return "waiting"
        return "leaving" if len(self.leaving) == len(self.holdings) else "held"

    @property
    def cells(self) -> tuple[str, ...]:
        """Its cells."""
        return tuple([one.cell for one in self.holdings])

    @property
    def staying(self) -> tuple[Holding, ...]:
        """What is not revoked."""
        return tuple([one for one in self.holdings if one.cell not in self.leaving]) if self.leaving else self.holdings

    @property
    def revoked(self) -> tuple[Holding, ...]:
        """What is to be vacated."""
        return tuple([one for one in self.holdings if one.cell in self.leaving]) if self.leaving else ()


class Room(Protocol):
    """What a plan can place leases on now: leases that wait count as if they held their cells, and what is being
    vacated as if it had been. It changes with the leases."""

    def is_free(self, gpu: str) -> bool:
        """Whether nothing is leased of a usable GPU, nor a cell that contains it."""
        ...

    def lacks_room(self, gpu: str) -> bool:
        """Whether nothing can be leased of a GPU that nobody leases, as other containers use its node."""
        ...

    def free_in(self, cell: str | None = None) -> Iterator[str]:
        """The free GPUs in a cell (None: in the pool), in the order of `Cells.gpus`."""
        ...

    def left(self, cell: str) -> Resources:
        """What can still be leased of a cell: nothing of one that is broken, or in one that is leased as a whole."""
        ...

    def fits(self, *holdings: Holding) -> bool:
        """Whether these can be leased now, together and with nothing else."""
        ...


@dataclass(frozen=True, slots=True)
class Seen:
    """A pool at one moment, `at` seconds (the arbiter's time).

    `seed`: for random choices. `cells`: of the pool, broken ones included, down to single GPUs. `claims`: those that
    can hold leases, in order of arrival. `leases`: by key; those that have ended are not in it. `steering`: YARN
    answers, and this arbiter may act on it now. No event says when that changes. `rules`: by which the pool decides;
    `grace_s`: to vacate revoked cells (see `LedgerSettings`).
    """

    at: float
    seed: int
    cells: Cells
    claims: Mapping[ClaimKey, Claim]
    leases: Mapping[str, Leased]
    room: Room = field(compare=False)
    steering: bool = True
    rules: Rules = RULES
    grace_s: float = 30.0

    def everywhere(self, reason: Idle) -> dict[str, Idle]:
        """One reason why all free cells stay idle, as `Plan.idle`."""
        return dict.fromkeys(self.cells.inside.get(None, ()), reason)
