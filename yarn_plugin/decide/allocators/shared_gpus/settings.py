"""The settings of pools that share GPUs."""

from dataclasses import dataclass, field

from yarn_plugin.decide.mechanisms.interference import Interference
from yarn_plugin.decide.mechanisms.packing import Limits
from yarn_plugin.errors import BadInputError


@dataclass(frozen=True, slots=True)
class SharedGpusSettings:
    """`interference`: what is known of kinds of training; a file in a configuration (docs/sharing.md).

    Limits, as the paper has them: `max_collision`, the probability that two workers of a GPU need their peak memory at
    once; `max_slowdown`, of any worker; `max_imbalance`, between the slowdowns of the workers of a job.

    `old_weight`: of what was believed, in the average with each measurement. `move_s`: what a move costs, beside the
    grace period of its application; moves within `adjust_every_s` cost at most `move_budget_s` together.
    `pack_jobs`: so many waiting jobs, or more, are packed in the worker process. `retry_s`: a worker that YARN did not
    place is tried again after so many seconds. `across_applications`: see the module.
    """

    interference: Interference = field(default_factory=Interference)
    max_collision: float = 0.1
    max_slowdown: float = 0.2
    max_imbalance: float = 0.1
    old_weight: float = 0.7
    move_s: float = 30.0
    move_budget_s: float = 120.0
    adjust_every_s: float = 60.0
    pack_jobs: int = 10
    retry_s: float = 60.0
    across_applications: bool = False

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            BadInputError: one is out of range.
        """
        for name, most in (("max_collision", 1), ("max_slowdown", 100), ("max_imbalance", 100), ("old_weight", 1)):
            if not 0 <= getattr(self, name) <= most:
                raise BadInputError(name, getattr(self, name), f"must be a number from 0 to {most}")
        for name in ("move_s", "move_budget_s"):
            if not 0 <= getattr(self, name) <= 1e9:
                raise BadInputError(name, getattr(self, name), "must be a number of seconds from 0 to 1e9")
        for name in ("adjust_every_s", "retry_s"):
            if not 0 < getattr(self, name) <= 1e9:
                raise BadInputError(name, getattr(self, name), "must be a number of seconds above 0, up to 1e9")
        if self.pack_jobs < 1:
            raise BadInputError("pack_jobs", self.pack_jobs, "must be at least 1")

    @property
    def limits(self) -> Limits:
        """The limits of a packing."""
        return Limits(self.max_collision, self.max_slowdown, self.max_imbalance)
