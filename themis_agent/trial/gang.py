"""The processes of a gang in one container: started together, ended together."""

import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from themis_agent.errors import TrialError
from themis_agent.trial.descendants import dying_with_us, kill_descendants
from themis_agent.trial.wire import LaunchSpec, Master

SCRIPT_PATH = "THEMIS_PYTHONPATH"
"""The environment variable of a launcher with the PYTHONPATH of training scripts."""

_NVIDIA = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended: by its exit code, or by a signal."""

    rank: int
    code: int | None
    signal: int | None

    @property
    def failed(self) -> bool:
        """Whether it is not code 0."""
        return self.code != 0


class Member:
    """A process of the gang. `ended`: a descriptor that is readable when it has ended; `output`: of both its
    streams.
    """

    def __init__(self, rank: int, command: list[str], environment: Mapping[str, str], inherited: Sequence[int]) -> None:
        self.rank = rank
        self._process = subprocess.Popen(
            dying_with_us(command),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=inherited,
            bufsize=0,
        )
        assert self._process.stdout is not None
        self.output: IO[bytes] = self._process.stdout
        os.set_blocking(self.output.fileno(), False)

    @property
    def exit(self) -> Exit | None:
        """How it ended; None: it runs."""
        code = self._process.poll()
        if code is None:
            return None
        return Exit(self.rank, code if code >= 0 else None, -code if code < 0 else None)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def wait(self) -> None:
        """Wait until it has ended."""
        self._process.wait()

    def signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        self._process.send_signal(number)


class Gang:
    """Its members run from the start of this object on. `inherited`: descriptors."""

    def __init__(
        self,
        spec: LaunchSpec,
        master: Master,
        devices: list[str] | None,
        environment: Mapping[str, str],
        inherited: Sequence[int] = (),
    ) -> None:
        self.members = [
            Member(rank, spec.command, {**environment, **_contract(spec, local, master, devices)}, inherited)
            for local, rank in enumerate(spec.ranks)
        ]

    @property
    def running(self) -> list[Member]:
        """The members that have not ended."""
        return [member for member in self.members if member.exit is None]

    @property
    def exits(self) -> list[Exit]:
        """How those that ended did."""
        return [member.exit for member in self.members if member.exit is not None]

    def reap(self) -> None:
        """Take the exit codes of all that have ended, also of what lost its parent and came to this process."""
        members = {member.pid: member for member in self.members}
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            if ended.si_pid not in members:
                os.waitpid(ended.si_pid, 0)
            elif members[ended.si_pid].exit is None:
                return

    def terminate(self) -> None:
        """SIGTERM to each process that was started: to the processes that these have started, it is theirs to pass
        on.
        """
        for member in self.running:
            member.signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill all, with all that they have started."""
        for member in self.running:
            member.signal(signal.SIGKILL)
            # Its exit code is read here: kill_descendants takes it from whoever it finds.
            member.wait()
        kill_descendants()


def free_port() -> int:
    """A port that is free now. Another process may take it before the trial listens there: then the trial fails."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def visible_devices(spec: LaunchSpec) -> list[str] | None:
    """The GPUs of this container: those given, or, where YARN isolates them, those that the driver shows. None: no
    driver.
    """
    if spec.devices is not None:
        return spec.devices
    try:
        listed = subprocess.run(_NVIDIA, capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = listed.split()
    if 0 < len(found) < len(spec.ranks):
        raise TrialError(f"{len(spec.ranks)} processes, but GPUs for {len(found)}: {', '.join(found)}")
    return found


def script_path(ours: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The PYTHONPATH of training scripts, if it differs from the launcher's: on nodes, the agent's staged packages must
    not take the place of the script's own. `given`: the variables of the search, whose PYTHONPATH comes first.
    """
    if SCRIPT_PATH not in ours:
        return {}
    return {"PYTHONPATH": os.pathsep.join(filter(None, (given.get("PYTHONPATH"), ours[SCRIPT_PATH])))}


def _contract(spec: LaunchSpec, local: int, master: Master, devices: list[str] | None) -> dict[str, str]:
    """What each process finds in its environment (docs/trials.md)."""
    found = {
        "MASTER_ADDR": master.host,
        "MASTER_PORT": str(master.port),
        "RANK": str(spec.ranks[local]),
        "LOCAL_RANK": str(local),
        "WORLD_SIZE": str(spec.world_size),
        "LOCAL_WORLD_SIZE": str(len(spec.ranks)),
        "THEMIS_CHECKPOINT_DIR": spec.checkpoint.directory,
        "THEMIS_TRIAL": spec.trial,
        "THEMIS_EPOCH": str(spec.epoch),
    }
    if devices is not None:
        each = len(devices) // len(spec.ranks)
        found["CUDA_VISIBLE_DEVICES"] = ",".join(devices[local * each : (local + 1) * each])
    return found
