"""A search by its journal, followed while it grows. Reads only, also beside the agent that writes."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from themis_agent.agent.commands import Command
from themis_agent.agent.events import Event
from themis_agent.agent.state import State
from themis_agent.agent.tags import TAGS
from themis_agent.live import MACHINE
from themis_agent.view.history import History
from yarn_plugin.journal.execution import Decided
from yarn_plugin.journal.records import Record, decode
from yarn_plugin.journal.replay import Replay


class _Replay(Replay[State | None, Event, Command]):
    """A replay that tells a history of each decision."""

    def __init__(self, history: History) -> None:
        super().__init__(MACHINE, TAGS)
        self._of_search = history
        self._told: object = None
        self._seen: State | None = None

    def decide(self, seq: int, at: float, wall: float, event: Event) -> Decided[Event, Command]:
        self.reconcile()
        before = self.state
        decided = super().decide(seq, at, wall, event)
        self._told = decided
        self._of_search.take(decided, before, self.state)
        self._seen = self.state
        return decided

    def add_to_history(self, decided: Decided[Event, Command], size: int) -> None:
        # A decision from before the journal was compacted: the states around it are gone. None is kept here.
        if decided is not self._told:
            self._of_search.take(decided, None, None)

    def reconcile(self) -> None:
        """Tell of a state that follows from no decision: a snapshot."""
        if self.state is not None and self.state is not self._seen:
            self._of_search.reconcile(self.state, self.at)
            self._seen = self.state


class JournalReader:
    """See the module. `metric`: the name of what trials report. `refresh`: called before each look, for a copy.

    `state`: None before the search has begun. `at`, `wall`: of the last event, in the journal's time and since the
    epoch. For any thread that holds `lock`.
    """

    def __init__(self, journal: Path, metric: str, refresh: Callable[[], object] = lambda: None) -> None:
        self.lock = threading.Lock()
        self._journal, self._metric, self._refresh = journal, metric, refresh
        self._begin()

    def _begin(self) -> None:
        self.history = History(self._metric)
        self._replay = _Replay(self.history)
        self._file, self._read = 0, 0

    @property
    def state(self) -> State | None:
        """How the search stands."""
        return self._replay.state

    @property
    def at(self) -> float:
        """When the last event happened, in the journal's time."""
        return self._replay.at

    @property
    def wall(self) -> float:
        """When the last event happened, in seconds since the epoch."""
        return self._replay.wall

    def advance(self) -> bool:
        """Read what is new; whether anything is.

        Raises:
            JournalError: the journal cannot be read.
        """
        self._refresh()
        if not self._journal.exists():
            return False
        before = self._replay.seq
        found = self._journal.stat()
        # The journal is replaced when it is compacted.
        if found.st_ino != self._file or found.st_size < self._read:
            self._begin()
            self._file = found.st_ino
        self._replay.take_all(self._new_records())
        self._replay.decide_waiting()
        self._replay.reconcile()
        return self._replay.seq != before

    def _new_records(self) -> Iterator[Record]:
        with self._journal.open("rb") as file:
            file.seek(self._read)
            for line in file:
                record = decode(line)
                if record is None:
                    # Incomplete as yet; or an append that failed, and was replaced: then all is read again.
                    if line.endswith(b"\n"):
                        self._file = 0
                    return
                self._read += len(line)
                yield record
