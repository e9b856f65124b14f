"""`themis-agent run --local`: a search with launchers as processes of this machine; killed, it goes on where it was."""

import dataclasses
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from rich.live import Live

from themis_agent import warm_start
from themis_agent.agent import commands, events
from themis_agent.agent.cell_names import part_of
from themis_agent.agent.searching import is_trial_id
from themis_agent.agent.state import State
from themis_agent.app_file import AppFile
from themis_agent.live import LiveAgent
from themis_agent.local import progress, replacing
from themis_agent.local.folder import Folder
from themis_agent.local.launchers import Launchers, nvidia_gpus
from themis_agent.optuna_study import StudyMirror
from themis_agent.parameter_draws import draw
from themis_agent.service import Launched, listening, service, serving
from themis_agent.trial.store import store_at
from themis_agent.view.routes import View, add_view
from yarn_plugin import console
from yarn_plugin.errors import BadInputError
from yarn_plugin.journal.records import RecordFile

if TYPE_CHECKING:
    from themis_agent.functions import Packed

log = logging.getLogger("themis_agent")

MACHINE = "localhost"
OWNER = "search"
"""In a store of checkpoints: the folder of its search."""

MIRROR_S = 10.0
"""How long the end of a search waits for the mirror in an Optuna storage."""


@dataclass(frozen=True)
class Result:
    """How a search ended. `metric`, `parameters`, `step`: of the best trial."""

    succeeded: bool
    reason: str
    best: str | None = None
    metric: float | None = None
    step: float | None = None
    parameters: dict[str, object] = field(default_factory=dict)
    failed: int = 0


def local_gpus() -> int:
    """The NVIDIA GPUs of this machine, or where it has none, its cores."""
    return nvidia_gpus() or os.cpu_count() or 1


def gpus_here(count: int, app: AppFile) -> tuple[events.Gpu, ...]:
    """The GPUs of this machine, or the parts of each that trials share."""
    names = [""] if app.sharing is None else list(map(str, range(app.trials_on_gpu)))
    return tuple(
        events.Gpu(part_of(cell, name) if name else cell, MACHINE, MACHINE, "", MACHINE, ordinal)
        for ordinal, cell in ((one, f"{MACHINE}/{one}") for one in range(count))
        for name in names
    )


def check_fits(app: AppFile, gpus: int) -> None:
    """Check that a trial can run on this machine.

    Raises:
        BadInputError: it cannot.
    """
    smallest = app.gpus_per_trial.min
    if smallest > gpus:
        raise BadInputError("gpus_per_trial.min", smallest, f"a trial runs on one machine here, which has {gpus} GPUs")


def run(
    app: AppFile,
    directory: Path,
    folder: Folder,
    gpus: int,
    *,
    retry_failed: bool = False,
    replace: bool = False,
    function: "Packed | None" = None,
    show: Callable[[State], object] | None = None,
) -> Result | None:
    """Run a search until it ends, or go on with it; None if it was suspended by SIGINT or SIGTERM.

    `directory`: where commands run. `retry_failed`: trials that have failed are tried again. `replace`: an
    earlier search in the folder is removed, with its checkpoints. `function`: that the command calls. `show`: called
    with how the search stands, twice a second at most.

    Raises:
        BadInputError: a trial does not fit on this machine, or the folder or the store hold another search.
        StoreError: the store of checkpoints cannot be used.
        JournalError: the journal cannot be used, for example because this search runs already.
    """
    check_fits(app, gpus)
    if replace and folder.exists:
        earlier, _ = folder.load()
        if app.checkpoint is not None:
            _check_store(app.checkpoint, folder, replaces=True)
        replacing.end(folder)
        for url in filter(None, (earlier.checkpoint, app.checkpoint)):
            _leave_store(url, folder)
        replacing.remove(folder)
    if folder.exists:
        replacing.check_same(folder, app, directory)
    else:
        if app.checkpoint is not None:
            _claim_store(app.checkpoint, folder)
        if function is not None:
            function.write(folder.function)
        warm_start.keep(folder, warm_start.read(app, directory))
        folder.begin(app, directory)
    records = RecordFile(folder.journal)
    try:
        return _Run(app, directory, folder, gpus, records, show).result(retry_failed)
    finally:
        records.close()


def _claim_store(url: str, folder: Folder) -> None:
    """Have a store for the checkpoints of one search alone: trials of all searches have the same names.

    Raises:
        BadInputError: it is another search's.
        StoreError: it cannot be used.
    """
    _check_store(url, folder)
    store_at(url).write(OWNER, str(folder.root).encode())


def _check_store(url: str, folder: Folder, replaces: bool = False) -> None:
    """Check that a store has no checkpoints. `replaces`: those of an earlier search in the same folder may be there.

    Raises:
        BadInputError: it has some.
        StoreError: it cannot be used.
    """
    store, mine = store_at(url), str(folder.root).encode()
    found = store.names("")
    owner = store.read(OWNER) if OWNER in found else mine
    if owner != mine or (any(map(is_trial_id, found)) and not (replaces and OWNER in found)):
        of = "another search" if owner == mine else f"the search in {owner.decode(errors='replace')}"
        raise BadInputError("checkpoint", url, f"has checkpoints of {of}; give each search a folder of its own")


def _leave_store(url: str, folder: Folder) -> None:
    """Remove the checkpoints of a search from its store.

    Raises:
        StoreError: it cannot be used.
    """
    store = store_at(url)
    names = store.names("")
    if OWNER in names and store.read(OWNER) == str(folder.root).encode():
        for name in (*filter(is_trial_id, names), OWNER):
            store.remove(name)


class _Run:
    def __init__(
        self,
        app: AppFile,
        directory: Path,
        folder: Folder,
        gpus: int,
        records: RecordFile,
        show: Callable[[State], object] | None,
    ) -> None:
        self._app, self._folder, self._gpus, self._show_state = app, folder, gpus, show
        self._agent = LiveAgent(records, self._carry_out, self._observe)
        self._listener = listening("127.0.0.1")
        port = self._listener.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        token = folder.token()
        self._launchers = Launchers(app, directory, folder, url, self._agent.put)
        attempt = folder.last_attempt() + 1
        folder.publish(url, attempt)
        self._service = service(Launched(self._agent, attempt), token)
        view = View(app, folder, self._agent.now)
        add_view(self._service, view)
        self._page = f"{url}/{view.key}/"
        self._mirror = StudyMirror(app.storage, app, folder.search_id()) if app.storage else None
        self._earlier = warm_start.kept(folder)
        self._changes = progress.Changes(self._agent.state)
        self._live: Live | None = None

    def result(self, retry_failed: bool) -> Result | None:
        """Run until the search ends."""
        if self._mirror is not None:
            self._mirror.catch_up(self._folder.journal, self._agent.state)
        with self._suspended_by_signals(), self._showing(), serving(self._service, self._listener):
            console.err.print(f"page: {self._page}")
            if self._agent.state is None:
                # Nobody else divides this machine: its GPUs are leased at once, for all trials.
                self._agent.put(events.Begun(dataclasses.replace(self._app.settings(), by_trial=False)))
                begun = self._agent.put(events.Granted("local", gpus_here(self._gpus, self._app)))
            else:
                restarted = events.Restarted(self._launchers.adopt(), reopens=True, retry_failed=retry_failed)
                begun = self._agent.put(restarted)
            self._agent.run(lambda state: begun.done() and state is not None and state.is_at_rest, self._show)
        if self._mirror is not None and not self._mirror.close(MIRROR_S):
            log.warning(
                "storage: not all of the search could be written there; `themis-agent resume %s` tries it again",
                self._folder,
            )
        state = self._agent.state
        return result(state) if state is not None and state.finished else None

    def _carry_out(self, command: commands.Command) -> None:
        match command:
            case commands.SampleTrial():
                state = self._agent.state
                if state is not None:
                    self._agent.put(draw(self._app, command, state, self._earlier))
            case commands.StartTrial():
                self._launchers.start(command)
            case commands.KillTrial():
                self._launchers.kill(command.trial, command.epoch)
            case _:
                # The answers to launchers say when to stop; nobody else leases GPUs of this machine.
                pass

    def _observe(self, event: events.Event, state: State) -> None:
        if self._mirror is not None:
            self._mirror.take(event, state)
        for line in self._changes.lines(state):
            console.err.print(line)

    def _show(self) -> None:
        if self._show_state is not None and self._agent.state is not None:
            self._show_state(self._agent.state)
        if self._live is not None and self._agent.state is not None:
            self._live.update(progress.progress(self._app, self._agent.state))

    @contextmanager
    def _showing(self) -> Iterator[None]:
        if not sys.stderr.isatty():
            yield
            self._show()
            return
        with Live(console=console.err, refresh_per_second=2) as self._live:
            yield
            self._show()

    @contextmanager
    def _suspended_by_signals(self) -> Iterator[None]:
        """The first signal has trials save checkpoints and end; a second one ends the agent at once."""

        def suspend(number: int, frame: FrameType | None) -> None:
            self._agent.put(events.Suspended())
            for one, handler in before.items():
                signal.signal(one, handler)

        # Signals reach the main thread alone.
        caught = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        before: dict[int, Callable[..., object] | int | None] = {
            number: signal.signal(number, suspend) for number in caught
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def result(state: State) -> Result:
    """How a search ended, or how it stands."""
    outcome, best = state.outcome, state.best
    failed = sum(one.fate == "failed" for one in state.trials.values())
    reason = outcome.reason if outcome is not None else "not ended yet"
    if best is None:
        return Result(False, reason, failed=failed)
    parameters = json.loads(best.parameters or "{}")
    succeeded = outcome is None or outcome.succeeded
    return Result(succeeded, reason, best.id, state.metric(best), best.step, parameters, failed)
