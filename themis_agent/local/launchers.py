"""Launchers as processes of this machine: started, found again after a restart of the agent, watched, and killed."""

import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from themis_agent.agent.cell_names import gpu_of
from themis_agent.agent.commands import StartTrial
from themis_agent.agent.events import LauncherEnded, Running
from themis_agent.app_file import AppFile
from themis_agent.errors import SHORTAGE_S, is_shortage
from themis_agent.launching import Site, last_lines, launch_spec
from themis_agent.local.folder import Folder
from themis_agent.trial.wire import LAST_LINES, LAUNCHER, LaunchSpec
from yarn_plugin import files
from yarn_plugin.errors import os_reason

log = logging.getLogger("themis_agent")

HEARTBEAT_S = 0.2


class Launchers:
    """`ended` is called, in threads of its own, when a launcher is gone. `directory`: where commands run."""

    def __init__(
        self, app: AppFile, directory: Path, folder: Folder, url: str, ended: Callable[[LauncherEnded], object]
    ) -> None:
        self._app, self._directory, self._folder, self._url, self._ended = app, directory, folder, url, ended
        self._processes: dict[tuple[str, int], psutil.Process] = {}

    def adopt(self) -> tuple[Running, ...]:
        """The launchers of this search that run already; from now on they are watched."""
        found = list(running_in(self._folder))
        for attempt, process in found:
            self._watch(attempt, process)
        return tuple(Running(*attempt) for attempt, _ in found)

    def start(self, command: StartTrial) -> None:
        """Start the launcher of a trial; if that fails, it has ended."""
        attempt = command.trial, command.epoch
        folder = self._folder.epoch(*attempt)
        spec = self._folder.spec(*attempt)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            files.write(spec, self._spec(command).model_dump_json(indent=2), files.PRIVATE_MODE)
            with (folder / "launcher.log").open("ab") as output:
                # -P: files beside that of the search must not take the place of modules that ours import.
                process = psutil.Popen(
                    [sys.executable, "-P", "-m", LAUNCHER, str(spec)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=self._directory,
                    start_new_session=True,
                )
        except OSError as problem:
            self._not_started(attempt, problem)
            return
        self._watch(attempt, process)

    def _not_started(self, attempt: tuple[str, int], problem: OSError) -> None:
        lines = (f"the launcher could not be started: {os_reason(problem)}",)
        if not is_shortage(problem):
            self._ended(LauncherEnded(*attempt, 1, lines))
            return
        # The command has no part in it. It is started again, but not at once.
        log.warning("%s epoch %d: %s", *attempt, lines[0])
        ended = LauncherEnded(*attempt, None, lines)
        timer = threading.Timer(SHORTAGE_S, self._ended, (ended,))
        timer.daemon = True
        timer.start()

    def kill(self, trial: str, epoch: int) -> None:
        """Kill a launcher with all its processes."""
        process = self._processes.get((trial, epoch))
        if process is not None:
            kill(process)

    def _watch(self, attempt: tuple[str, int], process: psutil.Process) -> None:
        self._processes[attempt] = process
        threading.Thread(target=self._wait, args=(attempt, process), name="launcher", daemon=True).start()

    def _wait(self, attempt: tuple[str, int], process: psutil.Process) -> None:
        code = process.wait()
        log = self._folder.epoch(*attempt) / "launcher.log"
        # It has said itself how the command ended; this counts only if it could not.
        self._ended(LauncherEnded(*attempt, code if code and code > 0 else None, last_lines(log, LAST_LINES)))

    def _spec(self, command: StartTrial) -> LaunchSpec:
        (place,) = command.places
        site = Site(
            host="127.0.0.1",
            directory=str(self._folder.epoch(command.trial, command.epoch) / "checkpoint"),
            python=sys.executable,
            devices=[gpu_of(cell).rpartition("/")[2] for cell in place.cells],
            heartbeat_s=HEARTBEAT_S,
            has_gpus=nvidia_gpus() > 0,
        )
        return launch_spec(self._app, self._folder, self._url, command, place, site)


def nvidia_gpus() -> int:
    """The NVIDIA GPUs of this machine."""
    return sum(1 for path in Path("/dev").glob("nvidia[0-9]*") if path.name.removeprefix("nvidia").isdigit())


def running_in(folder: Folder) -> Iterator[tuple[tuple[str, int], psutil.Process]]:
    """The launchers of the search in a folder that run: the trial and the epoch of each, and its process."""
    for process in psutil.process_iter():
        attempt = _attempt_of(folder, process)
        # A launcher is two processes with the same command line: the outer one counts.
        if attempt is not None and _attempt_of(folder, _parent(process)) != attempt:
            yield attempt, process


def kill(process: psutil.Process) -> None:
    """Kill a process and all that it has started."""
    with contextlib.suppress(psutil.Error):
        for one in [*process.children(recursive=True), process]:
            with contextlib.suppress(psutil.Error):
                one.kill()


def _attempt_of(folder: Folder, process: psutil.Process | None) -> tuple[str, int] | None:
    """What a process launches, if it is ours."""
    with contextlib.suppress(psutil.Error):
        words = process.cmdline() if process is not None and process.uids().real == os.getuid() else []
        return folder.attempt_of(words[-1]) if LAUNCHER in words else None
    return None


def _parent(process: psutil.Process) -> psutil.Process | None:
    with contextlib.suppress(psutil.Error):
        return process.parent()
    return None
