"""What an allocator is told, one at a time, in the order in which it happens."""

from dataclasses import dataclass
from typing import Annotated, Literal

from yarn_plugin.model.journaled import Tagged
from yarn_plugin.model.share import LeaseRecord

ClaimKey = tuple[str, str]
"""An application and its job ("" if it assigns its cells to jobs itself)."""


def name_of(claim: ClaimKey) -> str:
    """A claim's key as text, such as `app_7/train`."""
    return f"{claim[0]}/{claim[1]}"


@dataclass(frozen=True, slots=True)
class Freed:
    """Cells that a lease no longer holds, or no longer waits for. `is_over`: it has ended, with all of its cells."""

    key: str
    claim: ClaimKey
    cells: tuple[str, ...]
    is_over: bool = True


@dataclass(frozen=True, slots=True)
class Began:
    """The pool is new, or this arbiter controls it again after another one did: there is no lease."""


@dataclass(frozen=True, slots=True)
class Restarted:
    """The arbiter was away. Leases went on meanwhile."""


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """The allocator has other parameters than at its last call."""


@dataclass(frozen=True, slots=True)
class Changed:
    """These claims are new, gone or revised; these cells are new, gone, broken, repaired, or have room again.

    Use of cells by leases is not meant: `Started`, `Vacated` and others tell of it.
    """

    claims: tuple[ClaimKey, ...] = ()
    cells: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recorded:
    """An application has registered again with an arbiter that had lost its journal, and has records of its leases.
    Their GPUs are in no lease, and its containers use as many on each node. GPUs that the plan leases to it stay in
    use; it must leave the others, and until it has left them they are leased to nobody."""

    app: str
    leases: tuple[LeaseRecord, ...]


@dataclass(frozen=True, slots=True)
class Due:
    """The time of a `Wake` with this key has come."""

    key: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A message of an application, of a type that the allocator accepts, asked for or not."""

    app: str
    message: Annotated[object, Tagged()]


@dataclass(frozen=True, slots=True)
class Solved:
    """What became of a `Solve` with this key. `lost`: it may be given again. `error`: one line, if it failed."""

    key: str
    outcome: Literal["done", "failed", "lost"]
    result: Annotated[object, Tagged()] = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Expiring:
    """These leases reach their end in `notice_s`, and are revoked then unless they are kept."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Started:
    """These leases hold their cells now, and their applications have been told."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Vacated:
    """Cells were vacated: dropped or expired ones, those given back, those of claims that are gone."""

    freed: tuple[Freed, ...]


@dataclass(frozen=True, slots=True)
class Unplaced:
    """YARN did not place containers on these cells in time: the leases lost them."""

    freed: tuple[Freed, ...]


@dataclass(frozen=True, slots=True)
class Broken:
    """These cells are broken or gone: the leases lost them."""

    freed: tuple[Freed, ...]


What = (
    Began
    | Restarted
    | Reconfigured
    | Changed
    | Recorded
    | Due
    | Answer
    | Solved
    | Expiring
    | Started
    | Vacated
    | Unplaced
    | Broken
)
