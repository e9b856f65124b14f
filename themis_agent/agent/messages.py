"""The messages between the arbiter and an application about leases (docs/leases.md), as typed values."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

from yarn_plugin.model.auction import Bid, Estimate, EstimateRequest, GpuOffer, Release
from yarn_plugin.model.gpus import GpuPlace


class Message(BaseModel):
    """A message of the arbiter. `id`: the same if it is sent again. Times are seconds since the epoch."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str


class Ask(Message):
    """What is your finish-time fairness?"""

    answer_by: float
    question: EstimateRequest


class Offer(Message):
    """What would it be with these GPUs?"""

    bid_by: float
    offer: GpuOffer


class Holding(BaseModel):
    """A GPU of a lease; `cell`: its id. `place`: None from an arbiter that does not say it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    cell: str
    place: GpuPlace | None = None


class Lease(BaseModel):
    """A lease, until then unless it is renewed. `revoked`: its GPUs that are to be vacated until `vacate_by`.
    `kind`: its class."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    holdings: tuple[Holding, ...]
    until: float | None = None
    job: str = ""
    revoked: tuple[str, ...] = ()
    vacate_by: float | None = None
    kind: str = "guaranteed"

    @property
    def cells(self) -> tuple[str, ...]:
        """Its GPUs."""
        return tuple(one.cell for one in self.holdings)


class Grant(Message):
    """These leases begin."""

    leases: tuple[Lease, ...]


class Renew(Message):
    """A lease goes on until then; None: until it is revoked."""

    lease: str
    until: float | None


class Revoke(Message):
    """Vacate these GPUs of a lease (empty: all) by then."""

    lease: str
    by: float
    cells: tuple[str, ...] = ()


class LeaseEnded(Message):
    """A lease of these GPUs (empty: all) has ended."""

    lease: str
    cells: tuple[str, ...] = ()


class Leases(Message):
    """All leases that have begun: any other one has ended."""

    leases: tuple[Lease, ...]


FromArbiter = Ask | Offer | Grant | Renew | Revoke | LeaseEnded | Leases

_KINDS: Mapping[str, type[FromArbiter]] = {
    "ask": Ask,
    "offer": Offer,
    "grant": Grant,
    "renew": Renew,
    "revoke": Revoke,
    "lease_ended": LeaseEnded,
    "leases": Leases,
}

_ANSWERS: Mapping[type, str] = {Estimate: "lease.estimate", Bid: "lease.bid", Release: "lease.release"}


def read(name: str, fields: Mapping[str, Any]) -> FromArbiter | None:
    """A message, as `ArbiterClient.follow` hands it over; None for one of another kind.

    Raises:
        pydantic.ValidationError: its fields are not as documented.
    """
    kind = _KINDS.get(name)
    return kind.model_validate(fields) if kind is not None else None


def write(answer: Estimate | Bid | Release) -> tuple[str, dict[str, Any]]:
    """An answer, as `ArbiterClient.send` takes it: its type and its fields."""
    return _ANSWERS[type(answer)], TypeAdapter(type(answer)).dump_python(answer, mode="json")
