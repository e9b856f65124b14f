"""The guard against regressions: a query whose plans were slower than the query as written runs as written."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import inf, isfinite
from statistics import median

from qoop.as_written.causes import Measured, SlowerBefore, WrittenBefore
from qoop.plans.plan import AS_WRITTEN

REPEATED = 2
"""How many planned runs in a row must have been slower."""

COMPARED = 3
"""How many of the latest runs as written are compared with, by their median."""

MAX_ERROR = 1000.0
"""By what factor an estimate is taken to be wrong at most."""

SIMILAR = 2.0
"""Up to how many times smaller or larger a share may be for a decision to hold: it compares plans at those too."""

HOPELESS = 2.0
"""As many times the time of planned runs, and the query as written is not measured anew."""


def are_similar(slots: float, others: float) -> bool:
    """Whether a decision for a share holds for another one."""
    return others / SIMILAR <= slots <= others * SIMILAR


@dataclass(frozen=True, slots=True)
class PastRun:
    """One run of a query.

    `planned`: its plans were made, and one of them was run. `seconds`: from the start of planning until the result; as
    written from the start of the only stage. `slots`: the average share. `core_seconds`: the run time of its tasks.
    `cold`: it was the first query of its application, in which executors and the JVM start up. `kept`: it was planned
    for this share, and then ran as written. `plan`: the signature of the plan that it began with.
    `switched`: it was left for another one. `expected`: the seconds that it was expected to take; 0 if that is not
    known. `early`: it was taken for short and not planned, as are often the first runs of an application, which are
    slow.
    """

    planned: bool
    seconds: float
    slots: float
    core_seconds: float
    cold: bool
    kept: bool = False
    plan: str = ""
    switched: bool = False
    expected: float = 0.0
    early: bool = False

    def is_similar(self, slots: float) -> bool:
        """Whether its share was similar to this one."""
        return are_similar(self.slots, slots)

    def seconds_at(self, slots: float) -> float:
        """What it would have taken at another share: the time of its tasks changes in proportion, the rest does not."""
        computing = min(self.core_seconds / self.slots, self.seconds)
        return self.seconds - computing + computing * self.slots / slots


@dataclass(frozen=True, slots=True)
class PlanTime:
    """What a query usually takes that begins with a plan, in seconds.

    `error`: by what factor it took longer than was expected when the plan was first run. `switched`: the plan was left
    in its latest run. `computing`: the part of the time that more slots would shorten.
    """

    seconds: float
    error: float = 1.0
    switched: bool = False
    computing: float = 0.0

    def at(self, slots: float, others: float) -> "PlanTime":
        """What it takes with so many slots, if this is what it takes with the others."""
        computing = self.computing * others / slots
        return replace(self, seconds=self.seconds - self.computing + computing, computing=computing)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A query is to run as written, for a cause.

    `trial_s`: it is only tried: after so many seconds another plan may replace it.
    """

    cause: SlowerBefore | WrittenBefore | Measured
    trial_s: float | None = None


@dataclass(frozen=True, slots=True)
class Guard:
    """When a query that is worth planning runs as written because of its earlier runs.

    `tolerance`: by what fraction planned runs may be slower. `interval`: one run in so many measures anew what the
    others do not use: a plan, or the query as written.
    """

    tolerance: float = 0.1
    interval: int = 20

    def verdict(
        self, runs: Sequence[PastRun], slots: float, cold: bool, given_up: Set[str] = frozenset()
    ) -> Verdict | None:
        """What becomes of a query at this share, given its earlier runs, oldest first; None: it is planned.

        `given_up`: the plans that it is not run with again.
        """
        times = self.measured(runs, slots, cold, given_up)
        kept = self._kept(runs, slots)
        if kept is not None and not self._has_faster_plan(times):
            return kept
        alike = [run for run in runs if run.cold == cold]
        planned = tuple(run.seconds_at(slots) for run in alike if run.planned and not run.kept)[-REPEATED:]
        written = [run.seconds_at(slots) for run in alike if not run.planned][-COMPARED:]
        if len(planned) < REPEATED:
            return None
        # If it takes longer than this as written, some plan is faster.
        limit = (1.0 + self.tolerance) * min([*planned, *(times[plan].seconds for plan in times.keys() - {AS_WRITTEN})])
        if not written:
            return Verdict(Measured(planned), limit)
        usual = median(written)
        if min(planned) > (1.0 + self.tolerance) * usual and not self._has_faster_plan(times):
            left = self.interval - 1 - _runs_since(alike, planned=True)
            return Verdict(SlowerBefore(planned, usual, left)) if left > 0 else None
        if usual > HOPELESS * max(planned):
            return None
        if all(run.early for run in alike if not run.planned):
            return Verdict(Measured(planned, usual, "before-planned"), limit)
        if _runs_since(alike, planned=False) < self.interval - 1:
            return None
        return Verdict(Measured(planned, usual, "long-ago"), limit)

    def measured(
        self, runs: Sequence[PastRun], slots: float, cold: bool, given_up: Set[str] = frozenset()
    ) -> dict[str, PlanTime]:
        """What each plan took at a similar share, by its signature, unless given up; as written, by `AS_WRITTEN`.

        A plan that only ever ran as the first query of an application counts with the shortest of those runs; in others
        it would take less.
        """
        found: dict[str, list[PastRun]] = {}
        for run in runs:
            plan = run.plan if run.planned else AS_WRITTEN
            counts = plan and plan not in given_up and not run.kept and (plan == AS_WRITTEN) != run.planned
            if counts and run.is_similar(slots) and (run.cold or not cold):
                found.setdefault(plan, []).append(run)
        times = {}
        for plan, known in found.items():
            alike = [run for run in known if run.cold == cold][-COMPARED:]
            compared = alike or [min(known, key=lambda run: run.seconds_at(slots))]
            seconds = median(run.seconds_at(slots) for run in compared)
            computing = min(median(run.core_seconds for run in compared) / slots, seconds)
            first = next((run for run in known if run.cold == cold), known[0])
            error = first.seconds / first.expected if first.expected > 0.0 else 1.0
            error = min(max(error, 1.0 / MAX_ERROR), MAX_ERROR)
            times[plan] = PlanTime(seconds, error, known[-1].switched, computing)
        return times

    def _has_faster_plan(self, times: Mapping[str, PlanTime]) -> bool:
        """Whether some plan took clearly less time than the query as written."""
        written = times.get(AS_WRITTEN, PlanTime(0.0)).seconds
        return any(
            (1.0 + self.tolerance) * time.seconds < written for plan, time in times.items() if plan != AS_WRITTEN
        )

    def _kept(self, runs: Sequence[PastRun], slots: float) -> Verdict | None:
        """The verdict on a query that, planned the last time, ran as written: the same inputs give the same plan."""
        last = next((run for run in reversed(runs) if run.planned), None)
        if last is None or not last.kept or not last.is_similar(slots):
            return None
        # The first run since is its own, recorded once with planning and once without.
        left = self.interval - _runs_since(runs, planned=True)
        return Verdict(WrittenBefore(left)) if left > 0 else None


def busy_part(runs: Sequence[PastRun], cold: bool) -> float | None:
    """The part of its slots' time that the query as written, when it last ran, computed; None if that is not known.

    With it the next such run need not be measured, which takes longer the more jobs it has.
    """
    written = [run for run in runs if not run.planned and run.cold == cold]
    available = written[-1].seconds * written[-1].slots if written else 0.0
    part = written[-1].core_seconds / available if available > 0.0 else inf
    return part if isfinite(part) else None


def _runs_since(runs: Sequence[PastRun], planned: bool) -> int:
    """How many runs followed the last one of a kind."""
    return next(place for place, run in enumerate(reversed(runs)) if run.planned == planned)
