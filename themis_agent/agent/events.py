"""What happens to an agent. Times are seconds of the journal's clock."""

from dataclasses import dataclass

from themis_agent.agent.settings import Settings
from themis_agent.trial.reading.numbering import Steps
from yarn_plugin.model.auction import EstimateRequest, GpuOffer


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU by name: `cell` as in its lease, and where it is.

    `host`: of its node in YARN, and `ordinal`: its number there; `model`: as `yarn_plugin.model.gpus.GpuPlace`.
    A slot of cores, which is leased to a trial in place of a GPU, is one too, and so is a part of a GPU
    (see `cell_names`).
    """

    cell: str
    slot: str
    machine: str
    rack: str
    host: str = ""
    ordinal: int = 0
    model: str = ""


@dataclass(frozen=True, slots=True)
class Begun:
    """The search begins. `registered_as`: its id at the arbiter; "": without one. `waited_s`: since its
    submission."""

    settings: Settings
    registered_as: str = ""
    waited_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Running:
    """A launcher whose process runs."""

    trial: str
    epoch: int
    launcher: int = 0


@dataclass(frozen=True, slots=True)
class Restarted:
    """The agent has been restarted.

    `running`: the launchers that still run; all others are gone. `registered_as`: its id at the arbiter; another one
    than before has no lease yet. `registered_anew`: that, as earlier versions said it. `reopens`: a search that too
    many failures have stopped goes on with what is left. `retry_failed`: the failed trials are tried again too, also if
    all others have ended.
    """

    running: tuple[Running, ...] = ()
    registered_anew: bool = False
    registered_as: str = ""
    reopens: bool = False
    retry_failed: bool = False


@dataclass(frozen=True, slots=True)
class Sampled:
    """The parameters of a trial, as JSON."""

    trial: str
    parameters: str


@dataclass(frozen=True, slots=True)
class LauncherStarted:
    """A launcher runs its processes. `port`: where those of the whole trial meet, from launcher 0."""

    trial: str
    epoch: int
    host: str
    port: int | None = None
    launcher: int = 0


@dataclass(frozen=True, slots=True)
class Reported:
    """A trial has reached a step. `metric`: None if it is not a finite number. `others`: further metrics, by name."""

    trial: str
    epoch: int
    step: float
    metric: float | None
    others: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class LogRead:
    """What is read from a trial's log: the metric under this name, with steps from there. `reported`: no more, since
    the script reports itself."""

    trial: str
    epoch: int
    name: str
    steps: Steps


@dataclass(frozen=True, slots=True)
class Profiled:
    """Seconds of a step as it runs now, measured."""

    trial: str
    epoch: int
    step_s: float


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """A checkpoint of this step can be read by everyone."""

    trial: str
    epoch: int
    step: float


@dataclass(frozen=True, slots=True)
class CheckpointFailed:
    """The store refuses a checkpoint; training goes on. At risk: the steps after the last one that is there."""

    trial: str
    epoch: int
    problem: str


@dataclass(frozen=True, slots=True)
class LauncherEnded:
    """A launcher and its processes are gone.

    `code`: the exit code of the command, negative for a signal; None: the machine, the container or the launcher
    failed, and not the command. `last_lines`: of its log. `killed`: its processes ignored SIGTERM until SIGKILL.
    `no_report`: why nothing was reported, in words. `silent`: it was ended because of that.
    """

    trial: str
    epoch: int
    code: int | None
    last_lines: tuple[str, ...] = ()
    launcher: int = 0
    killed: bool = False
    no_report: str = ""
    silent: bool = False


@dataclass(frozen=True, slots=True)
class Granted:
    """A lease begins. `until`: None without an end. `trial`: that it is for; "": for any. `is_sample`: only to measure
    how fast the trial is there."""

    lease: str
    gpus: tuple[Gpu, ...]
    until: float | None = None
    trial: str = ""
    is_sample: bool = False


@dataclass(frozen=True, slots=True)
class Renewed:
    """A lease goes on."""

    lease: str
    until: float | None


@dataclass(frozen=True, slots=True)
class Revoked:
    """Vacate these GPUs of a lease (empty: all) by then."""

    lease: str
    by: float
    cells: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeaseEnded:
    """A lease of these GPUs (empty: all) has ended."""

    lease: str
    cells: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease as it is now; `revoked`: its GPUs that are to be vacated until `vacate_by`. `trial`, `is_sample`: as of
    `Granted`."""

    lease: str
    gpus: tuple[Gpu, ...]
    until: float | None = None
    revoked: tuple[str, ...] = ()
    vacate_by: float | None = None
    trial: str = ""
    is_sample: bool = False


@dataclass(frozen=True, slots=True)
class LeasesRead:
    """All that is leased now, as the arbiter says to those that may have missed messages."""

    leases: tuple[HeldLease, ...]


@dataclass(frozen=True, slots=True)
class Recovered:
    """The search has registered again, as `registered_as`, with an arbiter that had lost its journal. These of its
    leases go on."""

    registered_as: str
    leases: tuple[HeldLease, ...] = ()


@dataclass(frozen=True, slots=True)
class ArbiterRefused:
    """The arbiter does not listen to this search, and will not: it does not know it any more, say."""

    problem: str


@dataclass(frozen=True, slots=True)
class ArbiterListens:
    """The arbiter that refused listens to this search again."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is your finish-time fairness?"""

    id: str
    question: EstimateRequest


@dataclass(frozen=True, slots=True)
class Offered:
    """What would it be with these GPUs?"""

    id: str
    offer: GpuOffer


@dataclass(frozen=True, slots=True)
class StopRequested:
    """A user stops the search."""

    reason: str = "stopped by the user"


@dataclass(frozen=True, slots=True)
class Suspended:
    """The agent is about to end, and to be restarted later: trials save checkpoints and end."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The time that the state asked for has come."""


Event = (
    Begun
    | Restarted
    | Sampled
    | LauncherStarted
    | Reported
    | LogRead
    | Profiled
    | Checkpointed
    | CheckpointFailed
    | LauncherEnded
    | Granted
    | Renewed
    | Revoked
    | LeaseEnded
    | LeasesRead
    | Recovered
    | ArbiterRefused
    | ArbiterListens
    | Asked
    | Offered
    | StopRequested
    | Suspended
    | TimerFired
)
