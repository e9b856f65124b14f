"""How fast the machine is, learned from stages as they finish."""

from dataclasses import dataclass, replace
from math import sqrt

from qoop.estimate.cost import Work

TRUST_CORE = 5.0
"""Estimated core seconds that must have been measured before the estimates weigh less than what was measured.

A cold executor spends some seconds on itself, whatever its first stages are: small stages tell of nothing else.
"""

TRUST_FIXED = 1.0
"""The same for seconds that no core shortens."""

UNKNOWN_SPEED = 1.2
"""Standard deviation of the logarithm of a machine's speed before any stage has run: about a factor of 3.

A cold JVM on a node with half a core is ten times slower than what the costs were fitted to.
"""


@dataclass(frozen=True, slots=True)
class Pace:
    """What stages were estimated to take on a machine of ordinary speed, and what they took, in seconds, summed up.

    `stages`: how many. `slower`: a factor by which the machine is suspected to be slower than all that.
    """

    stages: int = 0

    core_estimated: float = 0.0
    core_measured: float = 0.0
    fixed_estimated: float = 0.0
    fixed_measured: float = 0.0
    slower: float = 1.0

    @property
    def core(self) -> float:
        """Real over estimated core seconds."""
        return self.slower * (TRUST_CORE + self.core_measured) / (TRUST_CORE + self.core_estimated)

    @property
    def fixed(self) -> float:
        """Real over estimated time of what no core shortens (the driver's)."""
        return (TRUST_FIXED + self.fixed_measured) / (TRUST_FIXED + self.fixed_estimated)

    @property
    def doubt(self) -> float:
        """How wrong the speed may still be, as the standard deviation of its logarithm."""
        return UNKNOWN_SPEED / sqrt(1.0 + 2.0 * self.stages)

    def of(self, work: Work) -> Work:
        """An estimated work at this pace."""
        return Work(work.core_seconds * self.core, work.fixed_seconds * self.fixed, work.tasks)

    def after(self, work: Work, slots: float, seconds: float, core_seconds: float) -> "Pace":
        """The pace once a stage was timed that had so many slots; `work`: estimated for a machine of ordinary speed,
        with the rows that it really had."""
        computing = core_seconds / max(min(slots, work.tasks), 1e-9)
        return replace(
            self,
            stages=self.stages + 1,
            core_estimated=self.core_estimated + work.core_seconds,
            core_measured=self.core_measured + core_seconds,
            fixed_estimated=self.fixed_estimated + work.fixed_seconds,
            fixed_measured=self.fixed_measured + max(seconds - computing, 0.0),
        )

    def slowed(self, factor: float) -> "Pace":
        """The pace of a machine that is slower by this factor."""
        return replace(self, slower=self.slower * factor)
