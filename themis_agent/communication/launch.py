"""Starts the processes of a job on this machine, as `torchrun` does, to trace or to measure it."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

from themis_agent.communication.errors import CommunicationError
from themis_agent.trial.gang import free_port

_GRACE_S = 5.0


def run(command: Sequence[str], processes: int, environment: Mapping[str, str], timeout_s: float | None = None) -> None:
    """Run a command in several processes until all have ended; when one fails, the others are ended.

    Raises:
        CommunicationError: one has failed.
    """
    words = [
        sys.executable if word in ("python", "python3") and not place else word for place, word in enumerate(command)
    ]
    port = free_port()
    shared = {**os.environ, **environment, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    shared |= {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes)}
    started: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(processes):
            started.append(subprocess.Popen(words, env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}))
        _wait(started, timeout_s)
    finally:
        for one in started:
            if one.poll() is None:
                one.send_signal(signal.SIGTERM)
        for one in started:
            try:
                one.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()


def _wait(started: Sequence["subprocess.Popen[bytes]"], timeout_s: float | None) -> None:
    passed_s = 0.0
    while any(one.poll() is None for one in started):
        for rank, one in enumerate(started):
            if one.poll() not in (None, 0):
                raise CommunicationError(f"process {rank} ended with code {one.returncode}")
        running = next((one for one in started if one.poll() is None), None)
        if running is not None:
            try:
                running.wait(0.2)
            except subprocess.TimeoutExpired:
                passed_s += 0.2
        if timeout_s is not None and passed_s > timeout_s:
            raise CommunicationError(f"the processes did not end within {timeout_s:g} s")
    for rank, one in enumerate(started):
        if one.returncode:
            raise CommunicationError(f"process {rank} ended with code {one.returncode}")
