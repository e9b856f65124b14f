"""The wire types of registering again with an arbiter that has lost its journal."""

from typing import Annotated

from pydantic import Field, field_validator

from yarn_plugin.api import wire
from yarn_plugin.api.jobs import JobList

MAX_RECORDS = 1000
"""The most leases, and the most GPUs of one."""


class Record(wire.Request):
    """A lease as its application knows it. As in `Lease`, but `gpus` are those that are in use. It has no class: that
    follows from its job and its quota."""

    id: wire.Name
    gpus: Annotated[list[wire.Name], Field(min_length=1, max_length=MAX_RECORDS)]
    job: wire.LeasedFor = ""
    until: float | None = Field(default=None, ge=0, le=1e12)


class Recover(wire.Register):
    """Registers a running application again, with the jobs that it had declared and its records of leases."""

    yarn_app: str = Field(pattern=wire.YARN_APP)
    jobs: JobList = Field(default=[])
    leases: list[Record] = Field(default=[], max_length=MAX_RECORDS)

    @field_validator("leases")
    @classmethod
    def _named_once(cls, leases: list[Record]) -> list[Record]:
        known = set[str]()
        for name in [name for one in leases for name in one.gpus]:
            if name in known:
                raise ValueError(f"must name each GPU once, not {name!r} twice")
            known.add(name)
        return leases


class RefusedRecord(wire.Wire):
    """GPUs of a lease that the application no longer has, and must leave. `why`: as in the cause `record-refused`."""

    id: str
    gpus: list[str]
    why: str


class Recovered(wire.Registered):
    """The answer to `Recover`. Leases that go on have new ids; the application's stream begins with them."""

    refused: list[RefusedRecord]
