"""What an agent and the launchers of its trials say to each other: the launch file, and JSON over HTTP.

The agent writes a `LaunchSpec` for each container of a trial. The launcher there posts a `Batch` of events to
`{agent}/v1/trials/{trial}/events`, at least every `heartbeat_s` and at once when something happens, and gets an
`Answer`. Events that were not acknowledged are sent again: the pair (launcher, sequence) identifies an event. Times are
seconds since the epoch. Losses may be NaN or infinite: JSON strings "NaN", "Infinity", "-Infinity".
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from themis_agent.trial.reading.numbering import MAX_STEPS, Steps

LAUNCHER, HOST = "themis_agent.trial.launcher", "themis_agent.trial.host"
"""The modules that run a `LaunchSpec`, and a `HostSpec`."""

Epoch = Annotated[int, Field(ge=1)]
"""Counts the starts of a trial: each start has a larger epoch than all before."""

Step = Annotated[int, Field(ge=0, lt=MAX_STEPS)]
"""Of a trial, from its first start on."""

MAX_METRICS = 16
"""How many metrics a trial reports beside the one that decides."""

LAST_LINES = 20
"""How many lines of a trial's log its last event holds."""


class Wire(BaseModel):
    """A wire type: immutable; unknown fields, of a later version, are ignored. Numbers are finite, except losses."""

    model_config = ConfigDict(extra="ignore", frozen=True, ser_json_inf_nan="strings", allow_inf_nan=False)


Port = Annotated[int, Field(ge=1, le=65535)]


class Master(Wire):
    """Where the processes of a gang meet: MASTER_ADDR and MASTER_PORT."""

    host: str
    port: Port


class CheckpointSpec(Wire):
    """`directory`: local, THEMIS_CHECKPOINT_DIR; a relative one is in the launcher's working directory. `url`: where
    the launcher of rank 0 stores complete checkpoints; None: nowhere. `keep`: how many stay there. `parent`: the trial
    from whose newest one there the trial begins, while it has none of its own."""

    directory: str
    url: str | None = None
    keep: Annotated[int, Field(ge=1)] = 2
    parent: str = ""


class LaunchSpec(Wire):
    """What one launcher runs: the processes of a gang in one container.

    `ranks`: of its processes, in the order of their local ranks. `devices`: GPU ordinals of this container, divided
    evenly among the processes, in order; None: YARN isolates the GPUs, and the launcher uses and reports those it sees.
    `gpu_locks`: names of these GPUs; on one host, a launcher waits until no other one holds any of them.
    `master`: None if the launcher of rank 0 is to pick a free port on its host and publish it in `Started`; the others
    wait until an answer has it. `host`: the name of this host for others. `grace_s`: between SIGTERM and SIGKILL.
    `orphan_s`: without an answer of the agent for so long, the trial is checkpointed and ends. `token_file`: readable
    by its owner alone (0600), or its URL in a store. `agent_address`: the URL at which a new attempt of the agent
    publishes an `AgentAddress`. `log_url`: a folder in a store, to which logs are copied. `metric`: its name in
    logs. `metrics`: those of others that are read there. `loss_pattern`: a regular expression for log lines, with the
    named groups `step`, `loss`, `iteration_s`. `report_timeout_s`: a command that reports nothing for so long is ended;
    0: it is not. `log_bytes`: of each rank's log at most.
    """

    trial: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$")]
    epoch: Epoch
    command: Annotated[list[str], Field(min_length=1)]
    ranks: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    world_size: Annotated[int, Field(ge=1)]
    devices: list[str] | None = None
    gpu_locks: list[str] = []
    host: str = "localhost"
    master: Master | None = None
    checkpoint: CheckpointSpec
    grace_s: Annotated[float, Field(ge=0)] = 30.0
    orphan_s: Annotated[float, Field(ge=0)] = 600.0
    heartbeat_s: Annotated[float, Field(gt=0)] = 1.0
    log_directory: str
    log_url: str | None = None
    log_bytes: Annotated[int, Field(ge=4096)] = 64 << 20
    agent_url: str | None = None
    agent_address: str | None = None
    token_file: str | None = None
    env: dict[str, str] = {}
    metric: str = "loss"
    metrics: list[str] = []
    loss_pattern: str | None = None
    report_timeout_s: Annotated[float, Field(ge=0)] = 0.0

    @model_validator(mode="after")
    def _check_ranks(self) -> "LaunchSpec":
        if len(set(self.ranks)) < len(self.ranks) or max(self.ranks) >= self.world_size:
            raise ValueError(f"ranks {self.ranks}: give different ranks below world_size {self.world_size}")
        if self.devices and len(self.devices) % len(self.ranks):
            raise ValueError(f"devices {self.devices}: give a multiple of {len(self.ranks)}, the number of ranks")
        return self


class HostSpec(Wire):
    """What the host in a container runs with: launchers of trials that share its GPU. `name`: of the container. Others
    as in `LaunchSpec`."""

    name: str
    gpu_lock: str
    agent_url: str
    agent_address: str
    token_file: str
    heartbeat_s: Annotated[float, Field(gt=0)] = 0.5
    orphan_s: Annotated[float, Field(ge=0)] = 600.0


class HostReport(Wire):
    """A host's launchers that have ended, by their launch files, with their exit codes. It is sent at least every
    `heartbeat_s`, always with all of them."""

    ended: dict[str, int] = {}


class HostAnswer(Wire):
    """The launch files of the launchers that a host is to run; None: leave them alone. `end`: it is to end when none is
    left."""

    run: list[str] | None = None
    end: bool = False


class AgentAddress(Wire):
    """Where the agent is now. A launcher that has seen attempt n ignores addresses and answers of earlier ones."""

    url: str
    attempt: Annotated[int, Field(ge=1)]


class Event(Wire):
    """`sequence` increases within one launcher. Gaps are steps not kept, of more than 10,000 that waited for the
    agent.
    """

    sequence: Annotated[int, Field(ge=1)]
    at: float


class Started(Event):
    """The processes run. `port`: MASTER_PORT, from the launcher of rank 0. `devices`: used by this container.
    `resumed`: the step of the checkpoint that they start from; None: from scratch. `restore_s`: for reading it from the
    store.
    """

    type: Literal["started"] = "started"
    host: str
    port: Port | None = None
    devices: list[str] = []
    resumed: Step | None = None
    restore_s: float = 0.0


class Reported(Event):
    """A step was executed. `at`: when the script reported it, or the log line was read. `metrics`: the others that are
    known then, by name; only finite ones."""

    type: Literal["reported"] = "reported"
    step: Step
    loss: Annotated[float, Field(allow_inf_nan=True)]
    metrics: Annotated[dict[str, float], Field(max_length=MAX_METRICS)] = {}


class LogRead(Event):
    """The log is read: `name` is the one under which the metric stands there, `steps` where steps come from.

    Sent when it has changed. `reported`: from now on the script reports itself, and what was read before counts no
    more.
    """

    type: Literal["log_read"] = "log_read"
    name: str
    steps: Steps


class Profiled(Event):
    """Seconds of one iteration with this gang: the median of the latest ones. Sent when it has changed by 5%, at most
    once a second.
    """

    type: Literal["profiled"] = "profiled"
    iteration_s: Annotated[float, Field(gt=0)]


class Checkpointed(Event):
    """A checkpoint is committed to the store: what a new epoch would start from. `seconds`: for upload and commit."""

    type: Literal["checkpointed"] = "checkpointed"
    step: Step
    epoch: Epoch
    seconds: float = 0.0


class CheckpointFailed(Event):
    """The checkpoint is not stored; training goes on. The upload is tried again, unless that cannot help. At risk: the
    steps from `committed` (None: from the start) to the last one. `problem`: in words.
    """

    type: Literal["checkpoint_failed"] = "checkpoint_failed"
    step: Step
    committed: Step | None = None
    problem: str


EndCause = Literal["exited", "stopped", "killed", "agent_away", "superseded", "refused", "no_room", "silent"]
"""Why a launcher ended: its processes ended by themselves; after SIGTERM; they ignored SIGTERM until SIGKILL; the agent
was away for `orphan_s`; a later epoch has begun; it could not start them (see `last_lines`); not for now,
because disk or memory is full; they reported nothing for `report_timeout_s`."""


class Ended(Event):
    """The last event: no process of this launcher runs. `code`, `signal`: of the first process that failed, else code
    0; `rank`: which. `last_step`, `committed`: what was executed, and what is stored: the steps between are lost.
    `no_report`: why nothing was reported, in words; "": something was.
    """

    type: Literal["ended"] = "ended"
    cause: EndCause
    code: int | None = None
    signal: int | None = None
    rank: int | None = None
    last_step: Step | None = None
    committed: Step | None = None
    last_lines: list[str] = []
    no_report: str = ""


AnyEvent = Annotated[
    Started | Reported | LogRead | Profiled | Checkpointed | CheckpointFailed | Ended, Field(discriminator="type")
]


class Batch(Wire):
    """New events, oldest first; without any, a heartbeat. `launcher`: a random id, one for each process start.
    `first_rank`: the first of its ranks.
    """

    launcher: str
    first_rank: Annotated[int, Field(ge=0)] = 0
    epoch: Epoch
    events: list[AnyEvent] = []


class Answer(Wire):
    """`acknowledged`: the highest sequence that the agent has of this launcher: earlier events are not sent again.

    `stop_in_s`: end all processes within so many seconds from this answer, since clocks of machines differ and may be
    set; repeated in each answer, a later one may move or (None) cancel it as long
    as SIGTERM was not sent. `final`: the trial will not run again, so its last checkpoint is not uploaded. To a
    launcher of an earlier epoch the agent answers with `superseded`. When one launcher of a gang has ended, the agent
    stops the others. `master`: as soon as it is known. `attempt`: of the agent.
    """

    acknowledged: Annotated[int, Field(ge=0)]
    stop_in_s: Annotated[float, Field(ge=0)] | None = None
    final: bool = False
    superseded: bool = False
    master: Master | None = None
    attempt: Annotated[int, Field(ge=1)] = 1
