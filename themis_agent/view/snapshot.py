"""A search at a moment, as it is shown."""

import math
import time
from dataclasses import dataclass
from datetime import datetime

from themis_agent.agent.state import State, TrialState
from themis_agent.app_file import AppFile
from themis_agent.view.history import History


@dataclass(frozen=True)
class Snapshot:
    """`at`, `wall`: now, in the journal's time and in seconds since the epoch; of a search that has ended or does not
    run, the time of its last event."""

    app: AppFile
    state: State
    history: History
    at: float
    wall: float

    @property
    def began(self) -> float:
        """When the search began, in the journal's time."""
        return self.state.begun_at

    def gpu_s(self) -> float:
        """The GPU seconds that all trials have had."""
        return sum(one.attained_gpu_s(self.at) for one in self.state.trials.values())

    @property
    def rho(self) -> float | None:
        """Its finish-time fairness with what it holds, as last answered; infinite without progress. None: not known."""
        last = self.history.rhos[-1][1] if self.history.rhos else None
        # A search without GPUs makes no progress; what was answered then says nothing of one that has some since.
        return math.inf if last is None and self.history.rhos and not self.state.gpus else last

    def ranked(self) -> list[TrialState]:
        """The trials, the best metric first, those without one last."""
        return sorted(
            self.state.trials.values(),
            key=lambda one: (one.loss is None, 0.0 if one.loss is None else one.loss, one.number),
        )


def clock(wall: float, now: float | None = None) -> str:
    """Seconds since the epoch as a local time of day; with the date if that is not the date of `now`."""
    when, today = datetime.fromtimestamp(wall), datetime.fromtimestamp(time.time() if now is None else now).date()
    return when.strftime("%H:%M:%S" if when.date() == today else "%Y-%m-%d %H:%M:%S")


def duration(seconds: float) -> str:
    """A duration as a person says it, such as `3 h 20 min`."""
    whole = round(max(seconds, 0.0))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest and minutes < 10 else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
