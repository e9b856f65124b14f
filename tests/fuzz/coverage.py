"""What a set of runs has covered: shares of how queries were run, and constructs by settings."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.fuzz.run import Run
from tests.fuzz.settings import SETTINGS

GOALS = {"two stages or more": 0.70, "switched to another tree": 0.50, "returned rows": 0.85}
"""Least shares of the runs."""

MAX_AS_WRITTEN = 0.15

MIN_CELL = 30
"""How often each construct must be run under each setting."""


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
        return Counter(
            (construct, setting) for run in self.runs for construct in run.constructs for setting in _settings(run)
        )

    def sparse(self, possible: Sequence[tuple[str, str]] = ()) -> dict[tuple[str, str], int]:
        """The cells below `MIN_CELL`, and how often they were run."""
        cells = self.cells()
        constructs = {construct for construct, _ in cells}
        every = possible or [(construct, setting) for construct in constructs for setting in ("none", *SETTINGS)]
        return {cell: cells[cell] for cell in sorted(every) if cells[cell] < MIN_CELL}

    def lines(self) -> list[str]:
        """The coverage, for a person."""
        shares = ", ".join(f"{name} {share:.0%}" for name, share in self.shares().items())
        reasons = Counter(run.reason for run in self.runs if run.as_written)
        constructs = Counter(construct for run in self.runs for construct in run.constructs)
        by_setting = Counter(setting for run in self.runs for setting in _settings(run))
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


def _settings(run: Run) -> tuple[str, ...]:
    return run.settings or ("none",)
