"""What is known of a job's iteration time: crude at first, replaced by what is measured (Themis, section 3.4.3.1)."""

from dataclasses import dataclass, field, replace
from statistics import fmean

from themis_agent.bids.spread import ANYWHERE, MACHINE, RACK, SLOT, Spread
from yarn_plugin.model.gpus import Slowdown

_LEVELS = (SLOT, MACHINE, RACK, ANYWHERE)


@dataclass(frozen=True, slots=True)
class Profile:
    """A job's iteration time by the spread of its GPUs.

    `assumed_s`: of one iteration on one GPU, before anything is measured; `crude`: slowdowns assumed likewise.
    `measurements`: seconds of one iteration by level and number of GPUs, the latest of each.
    """

    assumed_s: float
    crude: Slowdown = field(default_factory=Slowdown)
    measurements: tuple[tuple[tuple[int, int], float], ...] = ()

    def measured(self, spread: Spread, iteration_s: float) -> "Profile":
        """With another measurement: an iteration on GPUs with this spread takes `iteration_s` seconds."""
        latest = dict(self.measurements)
        latest[level_of(spread), spread.gpus] = iteration_s
        return replace(self, measurements=tuple(sorted(latest.items())))

    @property
    def iteration_s(self) -> float:
        """Seconds of one iteration on one GPU. Where only wider spreads were measured, with their crude slowdowns."""
        work = self._work()
        if SLOT in work:
            return work[SLOT]
        return min((seconds / _factors(self.crude)[level] for level, seconds in work.items()), default=self.assumed_s)

    @property
    def slowdown(self) -> Slowdown:
        """At least 1, and no less than within a narrower level. A crude one lies between the measured ones around
        it.
        """
        base, work, crude = self.iteration_s, self._work(), _factors(self.crude)
        factors, narrower = [1.0], 1.0
        for level in _LEVELS[1:]:
            wider = [max(1.0, work[other] / base) for other in _LEVELS[level:] if other in work]
            measured = level in work
            factor = wider[0] if measured else min([crude[level], *wider])
            narrower = max(narrower, factor)
            factors.append(narrower)
        return Slowdown(*factors[1:])

    def _work(self) -> dict[int, float]:
        """GPU seconds of an iteration by level: the mean over numbers of GPUs."""
        found: dict[int, list[float]] = {}
        for (level, gpus), seconds in self.measurements:
            found.setdefault(level, []).append(seconds * gpus)
        return {level: fmean(values) for level, values in found.items()}


def level_of(spread: Spread) -> int:
    """The smallest level of which one cell holds all these GPUs."""
    whole = ((spread.gpus, 1),)
    return next(level for level in _LEVELS if spread.bins[level] == whole)


def _factors(slowdown: Slowdown) -> tuple[float, float, float, float]:
    return 1.0, slowdown.slot, slowdown.machine, slowdown.rack
