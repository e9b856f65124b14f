"""Leases: parts of a cluster, named one by one, that are an application's until a time."""

from dataclasses import dataclass
from typing import Literal

LeaseClass = Literal["guaranteed", "opportunistic", "sample"]
"""`guaranteed` is ended only for what was agreed; `opportunistic` whenever somebody who is guaranteed it wants it;
`sample` is for measuring, and short."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A part of a cell: `fraction` (0 to 1) of one of its resources.

    `container`: of a cell that several share, the container that hosts them; None where it is nobody else's.
    """

    cell: str
    resource: str
    fraction: float = 1.0
    container: str | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """What a member of a claim's gang may hold. `id` is unique in its pool.

    `job`: of the application, where it has several. `member`: which of the gang's pods it is for, from 0.
    `alternative`: which of the claim's alternatives it is, from 0. `until`: seconds in the arbiter's time; None: until
    it is revoked.
    """

    id: str
    app: str
    job: str
    member: int
    holdings: tuple[Holding, ...]
    alternative: int = 0
    until: float | None = None
    kind: LeaseClass = "guaranteed"
