"""The launchers of a search in its folder: what they are started with, in which container, and what they have said.

trials/TRIAL/epoch-N/launcher-K.json   the launch file           .../container-K   the container, before it is started
hosts/CONTAINER.json                   the file of the host of trials that share a GPU
logs/TRIAL/epoch-N/launcher-R.jsonl    all events of a launcher
"""

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from themis_agent.agent.cell_names import gpu_of, job_of
from themis_agent.agent.commands import Place, StartTrial
from themis_agent.agent.events import Checkpointed, Event, LauncherEnded, Reported
from themis_agent.agent.state import State
from themis_agent.app_file import AppFile
from themis_agent.launching import Site, launch_spec
from themis_agent.local.folder import Folder
from themis_agent.service import translated
from themis_agent.trial import wire
from themis_agent.yarn.application_master import Size
from themis_agent.yarn.containers import Gone, Launcher
from themis_agent.yarn.submission import LOCAL_CHECKPOINTS, LOCAL_LOGS, Submission

HEARTBEAT_S = 0.5

_EVENT: TypeAdapter[wire.AnyEvent] = TypeAdapter(wire.AnyEvent)
_RETRY_S = 1.0
_KILLED = (137, 143)
_TOO_LARGE = (-103, -104)
_NOT_LOCALISED = -1000
"""Exit statuses of containers, as in Hadoop's ContainerExitStatus."""


class Launches:
    """See the module. `url`: of the agent."""

    def __init__(self, app: AppFile, folder: Folder, submission: Submission, url: str) -> None:
        self._app, self._folder, self._submission, self._url = app, folder, submission, url

    def spec(self, launcher: Launcher) -> Path:
        """The launch file of a launcher."""
        return self._folder.epoch(launcher.trial, launcher.epoch) / f"launcher-{launcher.number}.json"

    def place_of_spec(self, launcher: Launcher) -> str:
        """Where the launch file of a launcher is, as its path or URL."""
        return self._folder.place_of(self.spec(launcher))

    def prepare_host(self, container: str, gpu: str) -> str:
        """Write the file of the host in a container; returns its path or URL.

        Raises:
            OSError: it cannot be written.
        """
        file = self._folder.root / "hosts" / f"{container}.json"
        spec = wire.HostSpec(
            name=container,
            gpu_lock=gpu,
            agent_url=self._url,
            agent_address=self._folder.url_of(self._folder.address),
            token_file=self._folder.place_of(self._folder.token_file),
            heartbeat_s=HEARTBEAT_S,
            orphan_s=self._app.orphan_s,
        )
        self._folder.write(file, spec.model_dump_json(indent=2))
        return self._folder.place_of(file)

    def shared_gpus(self, state: State) -> dict[Launcher, str]:
        """The GPUs of the launchers that run on parts of them."""
        return {
            Launcher(trial.id, attempt.epoch, number): gpu_of(cell)
            for trial, attempt in state.attempts
            for number, place in enumerate(attempt.places)
            for cell in place.cells
            if job_of(cell)
        }

    def prepare(self, command: StartTrial) -> list[tuple[Launcher, str, int]]:
        """Write the launch files of a trial; returns its launchers, with their hosts and numbers of GPUs; 0: on a
        slot of cores.

        Raises:
            OSError: they cannot be written.
        """
        found = []
        for number, place in enumerate(command.places):
            launcher = Launcher(command.trial, command.epoch, number)
            site = self._site(place, command.trial)
            spec = launch_spec(self._app, self._folder, self._url, command, place, site)
            self._folder.write(self.spec(launcher), spec.model_dump_json(indent=2))
            found.append((launcher, site.host, 0 if place.is_slot else len(place.cells)))
        return found

    def size(self, gpus: int) -> Size:
        """The size of a container with so many GPUs; 0: of one on a slot of cores."""
        each, side = self._submission.container, self._app.side(is_slot=not gpus)
        if side is None:
            return Size(each.memory_mb * gpus, each.vcores * gpus, gpus)
        return Size(side.memory_mb or each.memory_mb, side.vcores or each.vcores, gpus)

    def note(self, launcher: Launcher, container: str) -> None:
        """Note in which container a launcher is about to be started.

        Raises:
            OSError: it cannot be written.
        """
        self._folder.write(self._container(launcher), container)

    def unfinished(self, state: State) -> dict[Launcher, str | None]:
        """The launchers that are not known to be gone, with the containers in which they were started."""
        launchers = (
            Launcher(trial.id, attempt.epoch, number)
            for trial, attempt in state.attempts
            for number in range(len(attempt.places))
            if number not in attempt.ended
        )
        return {one: self._noted(one) for one in launchers}

    def last_words(self, gone: Gone, state: State | None) -> list[Event]:
        """What the agent has not heard yet of a launcher that is gone: its last reports, and how it ended."""
        launcher = gone.launcher
        trial = state.trials.get(launcher.trial) if state is not None else None
        attempt = trial.attempt if trial is not None else None
        known = attempt.last_step if attempt is not None and attempt.epoch == launcher.epoch else None
        return last_words(gone, self._said(launcher), known)

    def _said(self, launcher: Launcher) -> Iterator[wire.AnyEvent]:
        """All that a launcher has said, newest first."""
        try:
            spec = wire.LaunchSpec.model_validate_json(self._folder.read(self.spec(launcher)))
            logs = self._folder.logs / spec.trial / f"epoch-{spec.epoch:06}"
            lines = self._folder.read(logs / f"launcher-{spec.ranks[0]}.jsonl").splitlines()
        except (OSError, ValidationError):
            return
        for line in reversed(lines):
            try:
                yield _EVENT.validate_json(line)
            except ValidationError:
                # It was killed while it wrote its last line.
                continue

    def _site(self, place: Place, trial: str) -> Site:
        return Site(
            host=place.host or place.machine,
            # Trials that share a GPU share a container.
            directory=f"{LOCAL_CHECKPOINTS}-{trial}" if any(map(job_of, place.cells)) else LOCAL_CHECKPOINTS,
            python=self._submission.python or sys.executable,
            devices=self._devices(place),
            heartbeat_s=HEARTBEAT_S,
            gpu_locks=() if place.is_slot else place.cells,
            logs=LOCAL_LOGS,
            has_gpus=not place.is_slot,
        )

    def _devices(self, place: Place) -> list[str] | None:
        if place.is_slot:
            return []
        return None if self._submission.isolates_gpus else list(map(str, place.ordinals))

    def _container(self, launcher: Launcher) -> Path:
        return self._folder.epoch(launcher.trial, launcher.epoch) / f"container-{launcher.number}"

    def _noted(self, launcher: Launcher) -> str | None:
        while True:
            try:
                return self._folder.read(self._container(launcher)).decode()
            except FileNotFoundError:
                return None
            except OSError:
                if self._folder.store is None:
                    return None
            # A container that runs is not to be taken for one that was never started.
            time.sleep(_RETRY_S)


def last_words(gone: Gone, said: Iterable[wire.AnyEvent], known_step: float | None) -> list[Event]:
    """See `Launches.last_words`. `said`: newest first. `known_step`: of the last report that the agent has."""
    launcher, diagnostics = gone.launcher, tuple(gone.diagnostics.splitlines()[-wire.LAST_LINES :])
    attempt = launcher.trial, launcher.epoch
    events: list[Event] = []
    end: Event | None = None
    has_run = has_checkpoint = False
    for one in said:
        has_run = True
        event = translated(*attempt, launcher.number, one)
        if isinstance(event, LauncherEnded):
            end = event
        elif isinstance(event, Reported):
            if known_step is not None and event.step <= known_step:
                break
            events.append(event)
        elif isinstance(event, Checkpointed) and not has_checkpoint:
            has_checkpoint = True
            events.append(event)
    if end is None:
        end = LauncherEnded(*attempt, _code(gone.exit_status, has_run), diagnostics, launcher.number)
    return [*reversed(events), end]


def _code(exit_status: int | None, has_run: bool) -> int | None:
    """How the command ended if its launcher could not say it; None: not by its own fault."""
    if exit_status in _TOO_LARGE:
        return -9
    if exit_status == _NOT_LOCALISED:
        return 1
    if has_run or exit_status is None or exit_status <= 0 or exit_status in _KILLED:
        return None
    return exit_status
