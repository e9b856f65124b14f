"""A training job in virtual time: its progress follows from its GPUs, without an event per iteration."""

from dataclasses import dataclass, field

from yarn_plugin.model.gpus import Gpus, Slowdown, Speeds, total
from yarn_plugin.simulation.leasing.layout import Layout


@dataclass(frozen=True, slots=True)
class Profile:
    """How fast a job truly is: seconds of an iteration on one GPU, and the factors when its GPUs are spread.

    It uses `min_gpus`, `min_gpus + step_gpus`, ... up to `max_gpus`, with linear speedup (Themis, equation 3.1), as
    fast as on the slowest of them by `speeds`.
    """

    iteration_s: float
    min_gpus: int = 1
    max_gpus: int = 1
    step_gpus: int = 1
    slowdown: Slowdown = field(default_factory=Slowdown)
    speeds: Speeds = ()

    def usable(self, gpus: int) -> int:
        """The number of GPUs that it uses when it holds `gpus`; 0 if it cannot run."""
        if gpus < self.min_gpus:
            return 0
        return self.min_gpus + (min(gpus, self.max_gpus) - self.min_gpus) // self.step_gpus * self.step_gpus


@dataclass(slots=True, eq=False)
class RunningJob:
    """A job as it runs: iterations done at time `since`, and from then on `rate` more in each second.

    `goal`: iterations after which it stops and waits for a decision. `starts_at`: until then it restores its checkpoint
    and makes no progress. `attained_gpu_s`: GPU seconds held until `since`. `busy_gpu_s`: of these, those in which GPUs
    computed; `ideal_gpu_s`: what the same iterations take on GPUs that are not spread. `moves`: how often it was moved.
    `first_max_gpus`: the most GPUs that it could use at first. `gpus`: how many it holds.
    """

    id: str
    profile: Profile
    goal: float
    done: float = 0.0
    held: Gpus = ()
    since: float = 0.0
    starts_at: float = 0.0
    rate: float = 0.0
    used: int = 0
    attained_gpu_s: float = 0.0
    busy_gpu_s: float = 0.0
    ideal_gpu_s: float = 0.0
    moves: int = 0
    first_max_gpus: int = field(init=False)
    gpus: int = field(init=False)

    def __post_init__(self) -> None:
        self.first_max_gpus = self.profile.max_gpus
        self.gpus = total(self.held)

    def advance(self, at: float) -> None:
        """Account for the time until `at`."""
        elapsed = at - self.since
        if elapsed > 0 and self.held:
            self.attained_gpu_s += self.gpus * elapsed
            running = max(at - max(self.since, self.starts_at), 0.0)
            self.done = min(self.done + self.rate * running, self.goal)
            self.busy_gpu_s += self.used * running
            self.ideal_gpu_s += self.rate * running * self.profile.iteration_s
        self.since = at

    def place(self, at: float, gpus: Gpus, layout: Layout, checkpoint_s: float) -> None:
        """Give it these GPUs instead of those that it holds; a job that had begun first restores its checkpoint."""
        self.advance(at)
        if gpus == self.held:
            return
        begun = self.attained_gpu_s > 0
        self.held, self.gpus = gpus, total(gpus)
        self._set_rate(layout)
        if self.used and begun:
            self.moves += 1
            self.starts_at = at + checkpoint_s

    def pursue(self, at: float, goal: float, profile: Profile, layout: Layout) -> None:
        """Go on until another number of iterations, or with another speed."""
        self.advance(at)
        self.goal, self.profile = goal, profile
        self._set_rate(layout)

    def ends_at(self) -> float | None:
        """When it reaches its goal with what it holds; None if it makes no progress."""
        if not self.rate:
            return None
        return max(self.since, self.starts_at) + max(self.goal - self.done, 0.0) / self.rate

    def reach(self, at: float) -> None:
        """It has reached its goal, exactly: rounding of times must not leave a rest."""
        self.advance(at)
        self.done = self.goal

    def _set_rate(self, layout: Layout) -> None:
        self.used = self.profile.usable(self.gpus)
        factor = layout.slowdown(self.held, self.profile.slowdown) / layout.speed(self.held, self.profile.speeds)
        self.rate = self.used / (self.profile.iteration_s * factor)
