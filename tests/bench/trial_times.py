"""When the trials of a search were told to start and stop, ran, and saved checkpoints, by its journals."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from themis_agent.agent.commands import StartTrial, StopTrial
from themis_agent.agent.events import Revoked
from themis_agent.agent.state import State
from themis_agent.agent.tags import TAGS
from themis_agent.live import MACHINE
from yarn_plugin.journal.records import read_records
from yarn_plugin.journal.replay import Replay

IDLE_AFTER_S = 10.0
"""A GPU that was free for so long was not handed over from one to the next: nobody wanted it, or it was paid."""


@dataclass
class Run:
    """A start of a trial. Times: seconds since the epoch. `events`: of rank 0's launcher.

    `start_told`, `stop_told`: when the agent decided so. `reason`: for its stop, "" without one. `revoked`: the lease
    whose revocation that was, if it was one.
    """

    trial: str
    epoch: int
    cells: tuple[str, ...]
    start_told: float
    stop_told: float | None = None
    reason: str = ""
    revoked: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def started(self) -> dict[str, Any] | None:
        """The event of its start, if it came to that."""
        return next(iter(self.of("started")), None)

    @property
    def ended(self) -> float | None:
        """When no process of rank 0's launcher ran any more."""
        return next((one["at"] for one in self.of("ended")), None)

    @property
    def step_s(self) -> float:
        """The typical time of a step."""
        times = sorted(after["at"] - before["at"] for before, after in pairwise(self.of("reported")))
        return times[len(times) // 2] if times else 0.0

    @property
    def trains_from(self) -> float | None:
        """When its first step began."""
        return next((one["at"] - self.step_s for one in self.of("reported")), None)

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The events of a type."""
        return [one for one in self.events if one["type"] == kind]


@dataclass(frozen=True)
class Recorded:
    """`states`: of the agent, and when each began."""

    states: list[tuple[float, State]]
    runs: list[Run]


def recorded(folder: Path) -> Recorded:
    """What the folder of a search says."""
    states: list[tuple[float, State]] = []
    runs: dict[tuple[str, int], Run] = {}

    class Reading(Replay):
        def decide(self, seq, at, wall, event):
            decided = super().decide(seq, at, wall, event)
            if self.state is not None:
                states.append((wall, self.state))
            for command in decided.commands:
                match command:
                    case StartTrial():
                        cells = tuple(cell for place in command.places for cell in place.cells)
                        runs[command.trial, command.epoch] = Run(command.trial, command.epoch, cells, wall)
                    case StopTrial() if (command.trial, command.epoch) in runs:
                        run = runs[command.trial, command.epoch]
                        if run.stop_told is None:
                            run.stop_told, run.reason = wall, command.reason
                            run.revoked = event.lease if isinstance(event, Revoked) else ""
            return decided

    Reading(MACHINE, TAGS).take_all(read_records(folder / "journal"))
    for run in runs.values():
        journal = folder / "logs" / run.trial / f"epoch-{run.epoch:06}" / "launcher-0.jsonl"
        if journal.exists():
            run.events = list(_events(journal))
    return Recorded(states, list(runs.values()))


def _events(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            # The last line of a launcher that was killed.
            return


def holder_before(run: Run, runs: Sequence[Run]) -> Run | None:
    """The last run that a GPU of this one had before, if it has not been idle since then."""
    left = [
        one
        for one in runs
        if one.ended is not None and one.start_told < run.start_told and set(one.cells) & set(run.cells)
    ]
    last = max(left, key=lambda one: one.ended, default=None)
    return last if last is not None and run.start_told - last.ended < IDLE_AFTER_S else None
