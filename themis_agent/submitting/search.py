"""A submitted search: how it stands, its best trial, waiting for its end, stopping it."""

import html
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from themis_agent.agent.state import State
from themis_agent.local.driver import Result, result
from themis_agent.local.folder import Folder
from themis_agent.local.progress import parameters_of, status
from themis_agent.submitting import stopping
from themis_agent.submitting.applications import Listed
from themis_agent.view.changes import metric_text
from yarn_plugin.errors import BadInputError
from yarn_plugin.observe.resource_manager import ManagerAwayError, ResourceManager

POLL_S = 2.0

SHOWN = 20
"""The most trials in a notebook's table."""


@dataclass(frozen=True, slots=True)
class Status:
    """`state` and `final`: YARN's, such as RUNNING and SUCCEEDED. `trials`: how many do what, such as running: 3."""

    state: str
    final: str
    trials: dict[str, int]
    gpus: int
    tracking_url: str


class Search:
    """See the module. `application`: YARN's id. `folder`: on the shared file system, or a local copy of one in HDFS.

    Methods that ask YARN raise `ManagerError` if it refuses, or is away.
    """

    def __init__(self, manager: ResourceManager, application: str, folder: Path) -> None:
        self._manager, self.application, self.folder = manager, application, folder

    @property
    def place(self) -> str:
        """Where the search is, as its folder's path or URL."""
        return str(Folder(self.folder))

    def status(self) -> Status:
        """How the search stands."""
        known = self._known()
        return Status(known.state, known.final, trials_of(self._state()), known.gpus, known.tracking_url)

    def best(self) -> Result:
        """The best trial so far; `best` is None if no trial has reported."""
        state = self._state()
        return Result(False, "not begun yet") if state is None else result(state)

    def wait(self, timeout: float | None = None) -> Result:
        """Wait until the application has ended; an absent ResourceManager is waited for.

        Raises:
            TimeoutError: it has not, after so many seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while (ended := self._ended()) is None:
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"{self.application} has not ended within {timeout:g} s")
            time.sleep(POLL_S)
        found, state = self.best(), self._state()
        if state is not None and state.finished:
            return found
        said = f": {ended.diagnostics}" if ended.diagnostics else ""
        return replace(found, succeeded=False, reason=f"YARN ended {self.application} as {ended.state}{said}")

    def stop(self, kill: bool = False, for_good: bool = False) -> None:
        """Stop the search; its trials save checkpoints, and `themis-agent resume` continues it.

        `for_good`: it has ended then. `kill`: have YARN end the application at once.

        Raises:
            StopError: the agent was not reached, or refused.
        """
        if kill:
            stopping.kill(self._manager, self.application)
        else:
            stopping.stop(self.folder, self.application, self._manager, for_good)

    def _known(self) -> Listed:
        return stopping.known(self._manager, self.application)

    def _ended(self) -> Listed | None:
        try:
            known = self._known()
        except ManagerAwayError:
            return None
        return known if known.has_ended else None

    def _state(self) -> State | None:
        return state_of(self.folder)

    def __repr__(self) -> str:
        return f"Search({self.application}, {self.place!r})"

    def _repr_html_(self) -> str:
        """For a notebook: a line, and a table of the trials, the best first."""
        shown, state = self.status(), self._state()
        title = (
            f"{self.application}: {shown.state}, {', '.join(f'{many} {name}' for name, many in shown.trials.items())}"
        )
        trials = (
            sorted(state.trials.values(), key=lambda one: (one.loss is None, one.loss or 0.0, one.number))
            if state
            else []
        )
        columns = ("trial", "status", "step", "metric", "parameters")
        rows = [
            (one.id, status(one), f"{one.step:g}", metric_text(state.metric(one)) if state else "", parameters_of(one))
            for one in trials[:SHOWN]
        ]
        cells = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        head = "".join(f"<th>{name}</th>" for name in columns)
        return f"<p>{html.escape(title)}</p><table><tr>{head}</tr>{cells}</table>"


def state_of(folder: Path) -> State | None:
    """How a search stands by its journal; None: it has not begun."""
    try:
        return Folder(folder).state()
    except BadInputError:
        return None


def trials_of(state: State | None) -> dict[str, int]:
    """How many trials do what."""
    return dict(sorted(Counter(status(one) for one in state.trials.values()).items())) if state is not None else {}
