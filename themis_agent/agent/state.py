"""The state of an agent. Immutable; written to its journal."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from themis_agent.agent.commands import Place
from themis_agent.agent.events import Gpu
from themis_agent.agent.settings import Settings
from themis_agent.bids.profile import Profile
from themis_agent.search import Ranking, Search
from themis_agent.trial.reading.numbering import Steps
from yarn_plugin.model.gpus import Gpus, Machine, Slot
from yarn_plugin.model.journaled import Tagged

Fate = Literal["training", "paused", "complete", "pruned", "failed", "stopped"]
"""What becomes of a trial. paused: at the end of its rung, until the others are there. stopped: with the search."""

Reason = Literal["paused", "complete", "pruned", "failed", "stopped", "moved", "revoked", "suspended"]
"""Why an attempt is stopped. moved: to other GPUs. suspended: with the agent."""


TELL_S = 5.0
"""How often the arbiter is told how fast a trial is at most: averages do not need more."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A run of so many steps that is measured, on a lease of class sample."""

    lease: str
    steps: float


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of a sample: its lease, and on which side it was."""

    lease: str
    is_slot: bool
    steps: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Attempt:
    """A run of a trial: its launchers, from their start to the end of the last one.

    `places`: one a launcher. `master`: the host and port where its processes meet. `ended`: the launchers that are
    gone. `stop_by`: None while it is to go on. `stop_told_at`: when it was told to stop. `killed`: it has not stopped
    by `stop_by`. `exit_code`: of the first launcher that ended before it was told to; None: that one was lost.
    `last_step`: that it reported; None: none yet. `no_report`: see `LauncherEnded`. `silent`: ended because of it.
    `first_step`: from which it goes on; None: an earlier version started it. `sample`: that it runs for. `told_at`:
    when the arbiter was told last how fast it is. Of a part of a GPU: `was_alone`, nobody has run beside it; `step_s`,
    seconds of a step as it runs now.
    """

    epoch: int
    places: tuple[Place, ...]
    started_at: float
    master: tuple[str, int] | None = None
    ended: tuple[int, ...] = ()
    stop_by: float | None = None
    stop_told_at: float | None = None
    reason: Reason | None = None
    killed: bool = False
    ended_itself: bool = False
    exit_code: int | None = None
    last_lines: tuple[str, ...] = ()
    last_step: float | None = None
    no_report: str = ""
    silent: bool = False
    was_alone: bool = True
    step_s: float | None = None
    told_at: float | None = None
    first_step: float | None = None
    sample: Sample | None = None

    def may_tell(self, at: float) -> bool:
        """Whether it is time to tell the arbiter how fast it is."""
        return self.told_at is None or at >= self.told_at + TELL_S

    @property
    def cells(self) -> tuple[str, ...]:
        """Its GPUs."""
        return tuple(cell for place in self.places for cell in place.cells)

    @property
    def gpus(self) -> int:
        """How many GPUs it has: none on a slot of cores."""
        return sum(len(place.cells) for place in self.places if not place.is_slot)


@dataclass(frozen=True, slots=True)
class Interruption:
    """A trial was stopped, to go on later. `stop_s`: from the decision until nothing ran on its GPUs. `step`: that it
    had reached."""

    stop_s: float
    step: float


@dataclass(frozen=True, slots=True)
class Read:
    """What is read from a log: the metric under this name, and where its steps come from."""

    name: str
    steps: Steps


@dataclass(frozen=True, slots=True)
class TrialState:
    """A trial. `until`: the step at which its rung ends. `parameters`: as JSON; None until they are drawn, while
    `sampling`.

    `loss`: the metric, negated if it is maximised, at `step`. `profile`: seconds of a step, as measured; None: not
    yet. `checkpoint`: the step of its newest one. `crashes`: of its command, since the start. `ran_out`: its command
    ended before its last step, with success: it will not get further. `ahead`: (step, loss) that it reported when it
    had reached `until` and not stopped yet; they count when it is promoted. `store_problem`: why no checkpoint can be
    stored now. `lost_steps`: executed after the newest checkpoint when a run of it ended, since the start.
    `interrupted`: the end of its last run, until the next one shows what that has cost. `read`: what its launcher
    reads from its log. `error`, `last_lines` (of its log): why it failed. `ranking`: at the end of the latest rung that
    it was compared in. `others`: its further metrics at `step`, by name. `violated`: the constraint that it violates
    there; "": none. `trained_s`: how long its earlier runs took. `alone_step_s`: seconds of a step alone on a GPU
    that it may share. `measured`: its finished samples. `parent`: the trial from whose checkpoint it begins; "": it
    begins at step 0. `has_begun`: it has been started from there.
    """

    id: str
    number: int
    until: float
    bracket: int = 0
    rung: int = 0
    fate: Fate = "training"
    parameters: str | None = None
    sampling: bool = False
    epoch: int = 0
    attempt: Attempt | None = None
    step: float = 0.0
    loss: float | None = None
    profile: Profile | None = None
    checkpoint: float | None = None
    gpu_s: float = 0.0
    crashes: int = 0
    ran_out: bool = False
    ahead: tuple[tuple[float, float], ...] = ()
    store_problem: str = ""
    lost_steps: float = 0.0
    interrupted: Interruption | None = None
    read: Read | None = None
    error: str = ""
    last_lines: tuple[str, ...] = ()
    ranking: Ranking | None = None
    others: tuple[tuple[str, float], ...] = ()
    violated: str = ""
    trained_s: float = 0.0
    alone_step_s: float | None = None
    measured: tuple[Measured, ...] = ()
    parent: str = ""
    has_begun: bool = False

    def deadline(self, timeout_s: float | None) -> float | None:
        """When it has trained for so long, if it runs on; None: never."""
        if timeout_s is None or self.attempt is None or self.attempt.stop_by is not None:
            return None
        return self.attempt.started_at + max(timeout_s - self.trained_s, 0.0)

    @property
    def is_stopping(self) -> bool:
        """Whether its launchers have been told to end."""
        return self.attempt is not None and self.attempt.stop_by is not None

    def attained_gpu_s(self, at: float) -> float:
        """The GPU seconds that it has had."""
        attempt = self.attempt
        return self.gpu_s + (attempt.gpus * max(at - attempt.started_at, 0.0) if attempt else 0.0)


@dataclass(frozen=True, slots=True)
class Lease:
    """GPUs that are held. `revoked`: those to be vacated, until `vacate_by`. `trial`, `is_sample`: as of `Granted`."""

    gpus: tuple[Gpu, ...]
    until: float | None = None
    revoked: tuple[str, ...] = ()
    vacate_by: float = 0.0
    trial: str = ""
    is_sample: bool = False


Cause = Literal["ended", "failures", "stopped", "target", "time"]
"""Why a search is over. ended: all its trials have. failures: too many of the first ones failed. stopped: by the
user."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the search ended. `succeeded`: it has a best trial. `cause`: None if an earlier version wrote it."""

    succeeded: bool
    reason: str
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class State:
    """Everything that an agent knows.

    `search`: one of `themis_agent.search`. `granted`: the latest leases that were granted, ended or not. `outcome`:
    None while it goes on. `finished`: there is an outcome, and nothing runs any more. `suspended`: nothing starts
    before the next restart. `first_ended`: of the first trials to end, whether each failed; None: not looked at, as
    the user goes on with the search. `registered_as`: its id at the arbiter; "": without one. `arbiter_problem`: why
    the arbiter does not listen to it; "": it does. `moves_s`: what the latest moves of trials have cost, in seconds.
    `waited_s`: from its submission until it began.
    """

    settings: Settings
    search: Annotated[object, Tagged()]
    trials: Mapping[str, TrialState] = field(default_factory=dict)
    leases: Mapping[str, Lease] = field(default_factory=dict)
    granted: tuple[str, ...] = ()
    begun_at: float = 0.0
    outcome: Outcome | None = None
    finished: bool = False
    suspended: bool = False
    first_ended: tuple[bool, ...] | None = ()
    registered_as: str = ""
    arbiter_problem: str = ""
    moves_s: tuple[float, ...] = ()
    waited_s: float = 0.0

    @property
    def is_at_rest(self) -> bool:
        """Whether its agent has nothing left to do: the search has ended, or is suspended."""
        return self.finished or (self.suspended and not any(self.attempts))

    def with_trial(self, trial: TrialState) -> "State":
        """The state with a trial changed."""
        return replace(self, trials={**self.trials, trial.id: trial})

    @property
    def attempts(self) -> Iterator[tuple[TrialState, Attempt]]:
        """The trials with launchers."""
        return ((trial, trial.attempt) for trial in self.trials.values() if trial.attempt is not None)

    @property
    def best(self) -> TrialState | None:
        """The trial with the lowest loss at its last report, ties by number; None if no trial has one."""
        found = [
            one for one in self.trials.values() if one.loss is not None and one.fate != "failed" and not one.violated
        ]
        return min(found, key=lambda one: (math.inf if one.loss is None else one.loss, one.number), default=None)

    def metric(self, trial: TrialState) -> float | None:
        """The last metric of a trial as it reported it."""
        return None if trial.loss is None else -trial.loss if self.settings.maximize else trial.loss

    @property
    def gpus(self) -> dict[str, Gpu]:
        """All GPUs that are held and not revoked, by their cells."""
        return {gpu.cell: gpu for lease in self.leases.values() for gpu in lease.gpus if gpu.cell not in lease.revoked}

    @property
    def busy(self) -> set[str]:
        """The cells of GPUs on which launchers may run."""
        return {cell for _, attempt in self.attempts for cell in attempt.cells}

    def running_search(self) -> Search:
        """The search, told on which GPUs its trials run."""
        search: Search = self.search  # type: ignore[assignment]
        places = {gpu.cell: gpu for lease in self.leases.values() for gpu in lease.gpus}
        return search.allocate({trial.id: by_slot(attempt.cells, places) for trial, attempt in self.attempts})


def by_slot(cells: tuple[str, ...], gpus: Mapping[str, Gpu]) -> Gpus:
    """How many of these GPUs each slot has."""
    slots = [gpus[cell].slot for cell in cells if cell in gpus]
    return tuple((slot, slots.count(slot)) for slot in sorted(set(slots)))


def machines_of(gpus: Mapping[str, Gpu]) -> tuple[Machine, ...]:
    """The machines of GPUs, with these GPUs as free ones."""
    one_of = {gpu.machine: gpu for gpu in gpus.values()}
    slots: dict[str, dict[str, int]] = {}
    for gpu in gpus.values():
        counts = slots.setdefault(gpu.machine, {})
        counts[gpu.slot] = counts.get(gpu.slot, 0) + 1
    return tuple(
        Machine(
            machine,
            one_of[machine].rack,
            tuple(Slot(slot, count) for slot, count in sorted(slots[machine].items())),
            one_of[machine].model,
        )
        for machine in sorted(slots)
    )
