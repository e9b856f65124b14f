"""Calibration: how fast the machine is compared with nominal speed, learned from finished stages."""

from dataclasses import dataclass, replace
from math import sqrt

from qoop.estimate.cost import Work

TRUST_CORE = 5.0
"""Estimated core seconds after which measurements weigh more than the nominal speed.

A cold executor spends some seconds on its own start-up, so small first stages measure little else.
"""

TRUST_FIXED = 1.0
"""The same for the fixed time of stages, in seconds."""

INITIAL_UNCERTAINTY = 1.2
"""Standard deviation of the logarithm of a machine's speed before any stage has run: about a factor of 3.

A cold JVM on a node with half a core is ten times slower than the machine that the costs were fitted to.
"""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Sums over finished stages: estimated seconds on a machine of nominal speed, and measured seconds.

    `stages`: how many stages were measured. `slowdown`: a further factor by which late stages suggest that the machine
    is slower.
    """

    stages: int = 0
    core_estimated: float = 0.0
    core_measured: float = 0.0
    fixed_estimated: float = 0.0
    fixed_measured: float = 0.0
    slowdown: float = 1.0

    @property
    def core_factor(self) -> float:
        """Measured over estimated core seconds."""
        return self.slowdown * (TRUST_CORE + self.core_measured) / (TRUST_CORE + self.core_estimated)

    @property
    def fixed_factor(self) -> float:
        """Measured over estimated fixed time (the driver's), which no number of cores shortens."""
        return (TRUST_FIXED + self.fixed_measured) / (TRUST_FIXED + self.fixed_estimated)

    @property
    def uncertainty(self) -> float:
        """Standard deviation of the logarithm of the machine's speed."""
        return INITIAL_UNCERTAINTY / sqrt(1.0 + 2.0 * self.stages)

    def apply(self, work: Work) -> Work:
        """Scale work estimated at nominal speed to this machine."""
        return Work(work.core_seconds * self.core_factor, work.fixed_seconds * self.fixed_factor, work.tasks)

    def updated(
        self, work: Work, slots: float, seconds: float, core_seconds: float, computing: float | None = None
    ) -> "Calibration":
        """Add the measurement of a finished stage.

        Args:
            work: the stage's work at nominal speed, estimated from its true row counts.
            slots: the slots that it had.
            seconds: its wall-clock time.
            core_seconds: the run time of its tasks, summed up.
            computing: the part of its time in which tasks ran; None: as `slots` suggest.
        """
        if computing is None:
            computing = core_seconds / max(min(slots, work.tasks), 1e-9)
        return replace(
            self,
            stages=self.stages + 1,
            core_estimated=self.core_estimated + work.core_seconds,
            core_measured=self.core_measured + core_seconds,
            fixed_estimated=self.fixed_estimated + work.fixed_seconds,
            fixed_measured=self.fixed_measured + max(seconds - computing, 0.0),
        )

    def slowed_by(self, factor: float) -> "Calibration":
        """The calibration of a machine that is slower by this factor."""
        return replace(self, slowdown=self.slowdown * factor)
