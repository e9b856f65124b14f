"""What the demo recorded of its searches: `searches.json`, from which their page is made.

The rounds are what `yarn-plugin replay --rounds --json` writes of the arbiter's journal; each search is read from its
own journal. Times are seconds since the epoch, on one clock.
"""

import json
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ValidationError

from tpcds.demo.record import DemoReportError, RecordModel, Run, describe
from yarn_plugin.errors import os_reason

AppGpus = tuple[str, int]
"""An application and a number of GPUs."""


class LeasedApp(RecordModel):
    """An application of the pool. `app`: the arbiter's id."""

    app: str
    name: str
    registered_at: float
    ended_at: float | None


class Bid(RecordModel):
    """A bid: rho with nothing of the offer (None: unbounded), and with the best of `rows` subsets of it."""

    app: str
    rho: float | None
    rows: int
    best_rho: float | None
    best_gpus: int


class Award(RecordModel):
    """What a bidder won and kept. `share_min`, `share_max`: bounds of the part c that it keeps."""

    app: str
    won: int
    kept: int
    share_min: float
    share_max: float


class MissedBid(RecordModel):
    """Why an application that was offered GPUs made no bid that counts; `late_s` after the deadline."""

    app: str
    reason: Literal["none", "late", "malformed"]
    late_s: float


class Round(RecordModel):
    """A round of the arbiter; see `yarn_plugin.drive.recorded_rounds`."""

    round: int
    at: float
    opened_by: tuple[str, ...]
    gpus: int
    rhos: tuple[tuple[str, float | None], ...]
    offered_to: tuple[str, ...]
    bids: tuple[Bid, ...]
    awards: tuple[Award, ...]
    leftovers: tuple[AppGpus, ...]
    kept_unwanted: tuple[AppGpus, ...]
    idle: tuple[tuple[str, int], ...]
    error: str | None
    missed_bids: tuple[MissedBid, ...] = ()


class Win(RecordModel):
    """When a lease was won, or won again, and how; None: the round had no result."""

    round: int | None
    how: Literal["bid", "leftover", "policy", "kept"] | None
    at: float


class Lease(RecordModel):
    """A GPU in a lease, from its grant to its end. `ended_by`: the kind of its cause."""

    app: str
    lease: str
    cell: str
    start: float
    wins: tuple[Win, ...]
    revoked_at: float | None
    lost_in: int | None
    end: float | None
    ended_by: str | None


class Rounds(RecordModel):
    """The pool's rounds and leases. `complete`: from the arbiter's start."""

    pool: str
    f: float
    lease_s: float
    payments: bool
    complete: bool
    apps: tuple[LeasedApp, ...]
    rounds: tuple[Round, ...]
    leases: tuple[Lease, ...]


class TrialRun(RecordModel):
    """A start of a trial on GPUs. `reason`: why it was told to stop, empty if it ended by itself.

    `first_step`, `last_step`: of those that it reported; None: none.
    """

    trial: str
    start: int
    cells: tuple[str, ...]
    began: float
    ended: float | None
    reason: str
    first_step: float | None
    last_step: float | None


class BestTrial(RecordModel):
    """The best trial. `accuracy`: of its exported checkpoint, of step `checkpoint`, on the held-out images."""

    trial: str
    step: float
    loss: float
    parameters: dict[str, Any]
    checkpoint: int | None = None
    accuracy: float | None = None


class Search(RecordModel):
    """A search. `final`: as YARN lists it. `outcome`: why it ended. `trials`: how many ended how. `file`: its text.

    `steps`: of all trials. `lost_steps`: executed after the newest checkpoint when a run ended. `rhos`: (time, rho)
    that it answered to the arbiter; None: unbounded.
    """

    name: str
    yarn_app: str
    final: str
    outcome: str
    file: str
    submitted_at: float
    ended_at: float
    trials: dict[str, int]
    steps: float
    lost_steps: float
    rhos: tuple[tuple[float, float | None], ...]
    runs: tuple[TrialRun, ...]
    best: BestTrial | None


class SearchesRecord(RecordModel):
    """The second part of the demo. `query`: the run beside the searches. `quotas`: as in `record.Environment`."""

    version: Literal[1] = 1
    began_at: float
    ended_at: float
    gpu_nodes: int
    gpus_per_node: int
    cpu_per_node: float
    quotas: str
    config: str
    rounds: Rounds
    searches: tuple[Search, ...]
    query: Run | None = None

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read `searches.json`.

        Raises:
            DemoReportError: it cannot be read, or is invalid; names the field.
        """
        try:
            return cls.model_validate(json.loads(path.read_bytes()))
        except OSError as problem:
            raise DemoReportError(f"searches {str(path)!r}: {os_reason(problem)}") from None
        except ValueError as wrong:
            said = describe(wrong) if isinstance(wrong, ValidationError) else "must be JSON"
            raise DemoReportError(f"searches {str(path)!r}: {said}") from None
