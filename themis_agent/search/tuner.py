"""The protocol between an agent and whatever tunes hyperparameters (Themis, thesis section 3.4.3.2 and figure 3.7).

It is narrow, so that any tuner can speak it: which jobs run and how much work is left, how many phases are to come, and
"apply this allocation". The searches of this package are values with the first half (`Search`); `SearchTuner` makes a
tuner of one.
"""

from collections.abc import Mapping
from typing import Protocol, Self

from themis_agent.search.trials import Decision, Failed, Report
from themis_agent.search.work import Work
from yarn_plugin.model.gpus import Gpus


class Tuner(Protocol):
    """Anything that decides which trials live. 1. `work` changes only with reports and allocations. 2. Trials that an
    allocation does not name run on no GPUs."""

    def work(self) -> Work:
        """The jobs of the present phase with their work left, and the phases to come."""
        ...

    def apply(self, allocation: Mapping[str, Gpus]) -> None:
        """The GPUs that each trial runs on from now on, by the id of the trial."""
        ...


class Search(Protocol):
    """A search as an immutable value. The same reports in the same order give the same decisions; ties go by id."""

    @property
    def ended(self) -> bool:
        """Whether no trial runs any more."""
        ...

    def work(self) -> Work:
        """The jobs of the present phase with their work left, and the phases to come."""
        ...

    def take(self, report: Report | Failed) -> tuple[Self, tuple[Decision, ...]]:
        """The search after a report, and what follows from it. Reports of trials that do not run are ignored."""
        ...

    def allocate(self, allocation: Mapping[str, Gpus]) -> Self:
        """The search whose trials run on these GPUs; trials not named run on none."""
        ...


class SearchTuner:
    """A tuner that follows one of this package's searches."""

    def __init__(self, search: Search) -> None:
        self.search = search

    def work(self) -> Work:
        """The jobs of the present phase with their work left, and the phases to come."""
        return self.search.work()

    def apply(self, allocation: Mapping[str, Gpus]) -> None:
        """The GPUs that each trial runs on from now on."""
        self.search = self.search.allocate(allocation)

    def take(self, report: Report | Failed) -> tuple[Decision, ...]:
        """What follows from a report."""
        self.search, decisions = self.search.take(report)
        return decisions
