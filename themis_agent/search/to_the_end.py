"""Searches that stop nothing early: every trial runs to its end; also an application with a single job."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from themis_agent.search.trials import Decision, Failed, Progress, Report, Trial
from themis_agent.search.work import Work, plain
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.gpus import Gpus


@dataclass(frozen=True, slots=True)
class ToTheEnd:
    """Trials that run side by side, each to its last iteration."""

    trials: tuple[Progress, ...]

    @property
    def ended(self) -> bool:
        """Whether no trial runs any more."""
        return all(one.failed or one.iteration >= one.trial.iterations for one in self.trials)

    def work(self) -> Work:
        """One phase with all unfinished trials."""
        return plain(tuple(one.job(one.trial.iterations) for one in self.trials))

    def take(self, report: Report | Failed) -> tuple["ToTheEnd", tuple[Decision, ...]]:
        """The search after a report: a trial at its last iteration is complete."""
        found = [index for index, one in enumerate(self.trials) if one.trial.id == report.trial]
        if not found or self.trials[found[0]].failed:
            return self, ()
        before = self.trials[found[0]]
        if before.iteration >= before.trial.iterations:
            return self, ()
        after = before.reported(report) if isinstance(report, Report) else replace(before, failed=True)
        trials = (*self.trials[: found[0]], after, *self.trials[found[0] + 1 :])
        complete = not after.failed and after.iteration >= after.trial.iterations
        return replace(self, trials=trials), (Decision(report.trial, "complete"),) if complete else ()

    def retry(self, failed: Sequence[Trial]) -> "ToTheEnd":
        """The search in which trials that have failed run again."""
        again = {trial.id: Progress(trial) for trial in failed}
        return replace(self, trials=tuple(again.get(one.trial.id, one) for one in self.trials))

    def allocate(self, allocation: Mapping[str, Gpus]) -> "ToTheEnd":
        """The search whose trials run on these GPUs."""
        return replace(self, trials=tuple(replace(one, held=allocation.get(one.trial.id, ())) for one in self.trials))


def to_the_end(trials: Sequence[Trial]) -> ToTheEnd:
    """A search that trains all trials to their ends.

    Raises:
        BadInputError: no trials, two with the same id, or one without an end.
    """
    if endless := [trial.id for trial in trials if not 0 < trial.iterations < math.inf]:
        raise BadInputError("iterations", endless[0], "the trial needs a number of iterations above 0")
    if not trials or len({trial.id for trial in trials}) < len(trials):
        raise BadInputError("trials", sorted(trial.id for trial in trials), "at least one, each with an id of its own")
    return ToTheEnd(tuple(Progress(trial) for trial in trials))
