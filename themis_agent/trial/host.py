"""Hosts the launchers of trials that share the GPU of a container: `python -m themis_agent.trial.host SPEC.json`.

Asks the agent which launchers are to run, starts them, tells which ended, and kills those that are not to run any more.
Without the agent they go on, each as long as it may; the host ends when none is left.
"""

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

import requests
from pydantic import ValidationError

from themis_agent.trial.agent_link import later_address, post, session_with
from themis_agent.trial.descendants import dying_with_us, guarded, kill_descendants
from themis_agent.trial.gpu_locks import GpuLocks
from themis_agent.trial.store import read_at
from themis_agent.trial.wire import LAUNCHER, HostAnswer, HostReport, HostSpec
from yarn_plugin.errors import ReportedError, os_reason


class Host:
    """See the module. `alive`: readable when the outer process has ended."""

    def __init__(self, spec: HostSpec, alive: int) -> None:
        self._spec, self._alive = spec, alive
        self._url, self._attempt = spec.agent_url, 1
        self._session = session_with(spec.token_file)
        self._launchers: dict[str, subprocess.Popen[bytes]] = {}
        self._is_ending, self._gpu = False, GpuLocks([spec.gpu_lock])
        self._answered_at = time.monotonic()

    def run(self) -> int:
        """Run until the agent says that it is enough, or on SIGTERM; return the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note_signal)
        try:
            for _ in self._gpu.until_held():
                self._wait()
                if self._is_ending:
                    break
            while not self._is_ending:
                answer = self._ask()
                if answer is not None and answer.run is not None:
                    self._answered_at = time.monotonic()
                    self._follow(answer.run)
                    self._is_ending = answer.end and not self._running
                silent_s = time.monotonic() - self._answered_at
                self._is_ending = self._is_ending or (silent_s > self._spec.orphan_s and not self._running)
                self._wait()
            for one in self._running:
                one.send_signal(signal.SIGTERM)
            while self._running:
                self._wait()
        finally:
            kill_descendants()
            self._gpu.close()
            self._session.close()
        return 0

    @property
    def _running(self) -> list[subprocess.Popen[bytes]]:
        return [one for one in self._launchers.values() if one.poll() is None]

    def _follow(self, places: list[str]) -> None:
        for place in places:
            if place not in self._launchers:
                command = [sys.executable, "-P", "-m", LAUNCHER, place]
                self._launchers[place] = subprocess.Popen(dying_with_us(command), stdin=subprocess.DEVNULL)
        for place, launcher in self._launchers.items():
            if place not in places and launcher.poll() is None:
                launcher.kill()

    def _ask(self) -> HostAnswer | None:
        """What the agent wants; None: it is away."""
        codes = {place: one.poll() for place, one in self._launchers.items()}
        report = HostReport(ended={place: code for place, code in codes.items() if code is not None})
        try:
            response = post(self._session, f"{self._url}/v1/hosts/{self._spec.name}", report)
            response.raise_for_status()
            return HostAnswer.model_validate_json(response.content)
        except (requests.RequestException, ValidationError):
            if later := later_address(self._spec.agent_address, self._attempt):
                self._url, self._attempt = later.url, later.attempt
            return None

    def _wait(self) -> None:
        if select.select([self._alive], [], [], self._spec.heartbeat_s)[0]:
            os._exit(1)

    def _note_signal(self, number: int, frame: FrameType | None) -> None:
        self._is_ending = True


def _host(place: str, alive: int) -> int:
    try:
        return Host(HostSpec.model_validate_json(read_at(place)), alive).run()
    except ReportedError as problem:
        sys.stderr.write(f"{problem}\n")
    except OSError as problem:
        sys.stderr.write(f"{place}: {os_reason(problem)}\n")
    except ValidationError as problem:
        sys.stderr.write(f"{place}: {' '.join(str(problem).split())}\n")
    return 1


def main() -> int:
    """Run the host whose file the command line names."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m themis_agent.trial.host SPEC.json\n")
        return 2
    place = sys.argv[1]
    return guarded(lambda alive: _host(place if "://" in place else str(Path(place).absolute()), alive))


if __name__ == "__main__":
    sys.exit(main())
