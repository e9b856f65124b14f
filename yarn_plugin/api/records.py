"""What an application that runs registers with again, where the arbiter has lost its journal: jobs, and leases."""

from typing import Annotated

from pydantic import Field, field_validator

from yarn_plugin.api import wire
from yarn_plugin.api.jobs import JobList

MAX_RECORDS = 1000
"""The most leases, and the most GPUs of one."""


class Record(wire.Request):
    """A lease as its application knows it: as in `Lease`, but that `gpus` are the cells that are in use. Of which class
    it is, its job and its quota tell."""

    id: wire.Name
    gpus: Annotated[list[wire.Name], Field(min_length=1, max_length=MAX_RECORDS)]
    job: wire.LeasedFor = ""
    until: float | None = Field(default=None, ge=0, le=1e12)


class Recover(wire.Register):
    """Registers an application that runs, with the jobs that it had declared and the leases that it has records of."""

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
    """GPUs of a lease that are not the application's any more: it is to leave them. `why`: as in the cause
    `record-refused`."""

    id: str
    gpus: list[str]
    why: str


class Recovered(wire.Registered):
    """The answer to `Recover`. The leases that go on have new ids: the stream of the application begins with them."""

    refused: list[RefusedRecord]
