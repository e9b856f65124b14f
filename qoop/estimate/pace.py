"""How fast the machine is, learned from stages as they finish."""

from dataclasses import dataclass

from qoop.estimate.cost import Work

LEAST_WORK = 0.05
"""Seconds below which a stage says nothing about speed."""

MOST_AT_ONCE = 10.0
"""A single stage changes the pace by no more than this factor."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Real over estimated time: `core` of the cores' work, `fixed` of what no core shortens (the driver's time)."""

    core: float = 1.0
    fixed: float = 1.0

    def of(self, work: Work) -> Work:
        """An estimated work at this pace."""
        return Work(work.core_seconds * self.core, work.fixed_seconds * self.fixed, work.tasks)

    def after(self, work: Work, slots: float, seconds: float, core_seconds: float) -> "Pace":
        """The pace once a stage was timed whose work was estimated (at this pace) and that had so many slots.

        Moves half of the way that the stage suggests (in logarithms): one stage's constants are not all stages'.
        """
        computing = core_seconds / max(min(slots, work.tasks), 1e-9)
        waiting = max(seconds - computing, 0.0)
        core = self.core * _step(core_seconds, work.core_seconds) if work.core_seconds > LEAST_WORK else self.core
        return Pace(core, self.fixed * _step(waiting, work.fixed_seconds))

    def slowed(self, factor: float) -> "Pace":
        """The pace of a machine that is slower by this factor."""
        return Pace(self.core * factor, self.fixed)


def _step(seen: float, estimated: float) -> float:
    ratio = max(seen, 1e-3) / max(estimated, 1e-3)
    factor: float = min(max(ratio, 1.0 / MOST_AT_ONCE), MOST_AT_ONCE) ** 0.5
    return factor
