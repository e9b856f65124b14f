"""What an agent wants done. Each may fail or be lost; what came of it is an event."""

from dataclasses import dataclass

from themis_agent.agent.cell_names import is_slot
from yarn_plugin.model.auction import Bid, Estimate


@dataclass(frozen=True, slots=True)
class SampleTrial:
    """Draw the parameters of a trial. `number`: of the trial, from 0. `parent`: they are a variant of those of this
    trial; "": of none."""

    trial: str
    number: int
    parent: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """The GPUs of one launcher, all on one machine; `first_rank`: the rank of the first process there. `host`: of the
    machine in YARN; `ordinals`: of the GPUs there."""

    machine: str
    cells: tuple[str, ...]
    first_rank: int
    host: str = ""
    ordinals: tuple[int, ...] = ()

    @property
    def is_slot(self) -> bool:
        """Whether it is a slot of cores in place of a GPU."""
        return all(map(is_slot, self.cells))


@dataclass(frozen=True, slots=True)
class StartTrial:
    """Start the launchers of a trial, one a place, with a process for each GPU.

    `epoch`: of this attempt; checkpoints and events of earlier ones count no more. `parameters`: as JSON. `parent`: the
    trial from whose checkpoint it goes on, while it has none of its own.
    """

    trial: str
    epoch: int
    places: tuple[Place, ...]
    parameters: str
    parent: str = ""

    @property
    def world_size(self) -> int:
        """The processes of all launchers."""
        return sum(len(place.cells) for place in self.places)


@dataclass(frozen=True, slots=True)
class StopTrial:
    """Have all launchers of a trial save a checkpoint and end until then. `reason`: see `state.Reason`."""

    trial: str
    epoch: int
    by: float
    reason: str


@dataclass(frozen=True, slots=True)
class KillTrial:
    """End all launchers of a trial now: it has not stopped in time."""

    trial: str
    epoch: int


@dataclass(frozen=True, slots=True)
class SendEstimate:
    """Answer a question of the arbiter."""

    id: str
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class SendBid:
    """Answer an offer of the arbiter."""

    id: str
    bid: Bid


@dataclass(frozen=True, slots=True)
class SendSlowdown:
    """Tell the arbiter by how much the trial on a job's part of a GPU is slowed down: 0.2 if its steps take 1.2 times
    their time alone."""

    job: str
    slowdown: float


@dataclass(frozen=True, slots=True)
class SendSpeed:
    """Tell the arbiter that a trial took so many `seconds` for so many `steps`, its start included, on a GPU or on a
    slot of cores. `lease`: of class sample, for which that is the answer; "": the trial runs on."""

    trial: str
    is_slot: bool
    steps: float
    seconds: float
    lease: str = ""


@dataclass(frozen=True, slots=True)
class ReleaseGpus:
    """Give these GPUs of a lease back: nothing runs on them any more."""

    lease: str
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrialJob:
    """A trial as a job at the arbiter. `work`: the steps that are left until the end of its rung."""

    trial: str
    work: float


@dataclass(frozen=True, slots=True)
class DeclareTrials:
    """Declare these trials, and no others, as the jobs of the search at the arbiter."""

    jobs: tuple[TrialJob, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """The search is over and nothing runs any more. `best`: the best trial; None if none has reported."""

    succeeded: bool
    reason: str
    best: str | None


Command = (
    SampleTrial
    | StartTrial
    | StopTrial
    | KillTrial
    | SendEstimate
    | SendBid
    | SendSlowdown
    | SendSpeed
    | ReleaseGpus
    | DeclareTrials
    | Finish
)
