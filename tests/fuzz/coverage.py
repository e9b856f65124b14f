"""What a set of runs has covered: shares of how queries were run, and constructs by settings."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.fuzz.case import make
from tests.fuzz.run import Run
from tests.fuzz.settings import QUOTED, SETTINGS

GOALS = {"two stages or more": 0.70, "switched to another tree": 0.50, "returned rows": 0.85}
"""Least shares of the runs."""

MAX_AS_WRITTEN = 0.15

MIN_CELL = 30
"""How often each construct must be run under each setting."""

IMPOSSIBLE: Mapping[str, set[str]] = {
    '"name"': {"none", "ansi off", "size of null"},
    '"text"': {QUOTED},
    "ordinal": {"no ordinals"},
}
"""The settings under which a construct means something else, or nothing."""


@dataclass(frozen=True)
class Coverage:
    """The coverage of runs, without those in which Spark alone fails."""

    runs: tuple[Run, ...]

    @classmethod
    def of(cls, runs: Sequence[Run]) -> "Coverage":
        return cls(tuple(run for run in runs if not run.failed))

    def shares(self) -> dict[str, float]:
        """The shares of the goals."""
        total = max(len(self.runs), 1)
        return {
            "two stages or more": sum(run.stages > 1 for run in self.runs) / total,
            "switched to another tree": sum(run.switches > 0 for run in self.runs) / total,
            "returned rows": sum(run.rows > 0 for run in self.runs) / total,
            "as written": sum(run.as_written for run in self.runs) / total,
        }

    def missed(self) -> list[str]:
        """The goals that are not met."""
        shares = self.shares()
        found = [
            f"{name}: {shares[name]:.0%} instead of {goal:.0%}" for name, goal in GOALS.items() if shares[name] < goal
        ]
        if shares["as written"] > MAX_AS_WRITTEN:
            found.append(f"as written: {shares['as written']:.0%}, more than {MAX_AS_WRITTEN:.0%}")
        return found

    def cells(self) -> Counter[tuple[str, str]]:
        """How often each construct was run under each setting."""
        return Counter(cell for run in self.runs for cell in _cells(run.constructs, run.settings))

    def sparse(self) -> dict[tuple[str, str], int]:
        """The cells below `MIN_CELL`, and how often they were run."""
        cells = self.cells()
        every = [
            (construct, setting)
            for construct in {construct for construct, _ in cells}
            for setting in {"none", *SETTINGS} - IMPOSSIBLE.get(construct, set())
        ]
        return {cell: cells[cell] for cell in sorted(every) if cells[cell] < MIN_CELL}

    def filling(self, seeds: Iterable[int]) -> list[int]:
        """The first of these seeds whose queries, with those that have run, run each cell often enough."""
        missing = Counter({cell: MIN_CELL - times for cell, times in self.sparse().items()})
        found = []
        for seed in seeds:
            if not missing:
                break
            case = make(seed)
            if own := {*_cells(case.constructs, case.settings)} & missing.keys():
                found.append(seed)
                missing = +(missing - Counter(own))
        return found

    def lines(self) -> list[str]:
        """The coverage, for a person."""
        shares = ", ".join(f"{name} {share:.0%}" for name, share in self.shares().items())
        reasons = Counter(run.reason for run in self.runs if run.as_written)
        constructs = Counter(construct for run in self.runs for construct in run.constructs)
        by_setting = Counter(setting for run in self.runs for setting in run.settings or ("none",))
        cells = self.cells()
        return [
            f"{len(self.runs)} run: {shares}",
            *(f"as written {times}: {reason}" for reason, times in reasons.most_common(12)),
            "settings: " + ", ".join(f"{name} {times}" for name, times in by_setting.most_common()),
            "constructs (all, least under one setting):",
            *(
                f"  {construct}: {times}, {min(cells[construct, setting] for setting in ('none', *SETTINGS))}"
                for construct, times in constructs.most_common()
            ),
        ]


def _cells(constructs: Iterable[str], settings: Sequence[str]) -> list[tuple[str, str]]:
    return [(construct, setting) for construct in constructs for setting in settings or ("none",)]
