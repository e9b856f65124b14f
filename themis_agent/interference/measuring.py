"""Runs training commands side by side on one device, and counts their steps."""

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from themis_agent.errors import TrialError
from themis_agent.interference.kinds import Kind
from themis_agent.trial import script
from themis_agent.trial.descendants import dying_with_us
from themis_agent.trial.gang import free_port
from themis_agent.trial.logs import Lines
from themis_agent.trial.reading.numbering import is_step
from themis_agent.trial.reading.reader import LogReader

MIN_STEPS = 3
"""With fewer, their speed is not known."""

_END_S = 5.0
_READ = 65536
_PINNED = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); os.execvp(sys.argv[2], sys.argv[2:])"


@dataclass(frozen=True, slots=True)
class Device:
    """What is shared: a GPU by its number or, in place of one, a core that processes are pinned to."""

    gpu: int = 0
    core: int | None = None

    def words(self, words: Sequence[str]) -> list[str]:
        """A command that runs on it."""
        return [*words] if self.core is None else [sys.executable, "-c", _PINNED, str(self.core), *words]


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds: `start_s`, within which all have made a step; `warm_s`, from then to the measurement; `measure_s`, of
    it."""

    start_s: float = 120.0
    warm_s: float = 5.0
    measure_s: float = 15.0


class EndedError(TrialError):
    """A command ended, or made too few steps, while it was measured."""


def steps_per_s(kinds: Sequence[Kind], device: Device, times: Times, directory: Path) -> list[float]:
    """The steps per second of each, all running at once. `directory`: where commands run.

    Raises:
        EndedError: one ended, or made too few steps.
    """
    with ExitStack() as running:
        trainings = [running.enter_context(_started(kind, device, directory)) for kind in kinds]
        until = time.monotonic() + times.start_s
        while not all(one.steps for one in trainings):
            _read_all(trainings, 0.2)
            if time.monotonic() >= until:
                late = next(one.kind.name for one in trainings if not one.steps)
                raise EndedError(f"{late}: no step within {times.start_s:g} s; a command reports or prints its steps")
        for seconds in (times.warm_s, times.measure_s):
            # What was counted before is forgotten.
            for one in trainings:
                del one.steps[:]
            until = time.monotonic() + seconds
            while (left := until - time.monotonic()) > 0:
                _read_all(trainings, left)
        return [one.per_s(times.measure_s) for one in trainings]


class _Training:
    """A command that runs. `steps`: those that were executed, each with its time."""

    def __init__(self, kind: Kind, process: subprocess.Popen[bytes], reports: int) -> None:
        self.kind, self.process, self.reports = kind, process, reports
        self.steps: list[tuple[int, float]] = []
        self._reader, self._lines, self._reported = LogReader(kind.metric), Lines(), Lines()
        self._is_reporting = False

    def read(self, file: int) -> bool:
        """Read what is there; whether there may be more."""
        try:
            data = os.read(file, _READ)
        except BlockingIOError:
            return True
        if file == self.reports:
            for line in self._reported.cut(data):
                self._note_report(line)
            return True
        for line in self._lines.cut(data):
            for reading in self._reader.read(line):
                if reading.step is not None and not self._is_reporting:
                    self.steps.append((reading.step, time.time()))
        return bool(data)

    @property
    def last_line(self) -> str:
        """Of its output; "": none."""
        return next(reversed(self._lines.last), "")

    def per_s(self, seconds: float) -> float:
        """Steps per second between the first and the last."""
        if len(self.steps) < MIN_STEPS:
            expected = f"at least {MIN_STEPS}; measure for longer, or have it report more often"
            raise EndedError(f"{self.kind.name}: {len(self.steps)} steps in {seconds:g} s; must be {expected}")
        (first, began), (last, ended) = self.steps[0], self.steps[-1]
        if last <= first or ended <= began:
            raise EndedError(f"{self.kind.name}: its steps do not rise: {first} ... {last}")
        return (last - first) / (ended - began)

    def _note_report(self, line: str) -> None:
        try:
            told = json.loads(line)
            rank, step, at = int(told["rank"]), int(told["step"]), float(told["at"])
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return
        if rank == 0 and is_step(step):
            if not self._is_reporting:
                self._is_reporting = True
                del self.steps[:]
            self.steps.append((step, at))


@contextmanager
def _started(kind: Kind, device: Device, directory: Path) -> Iterator[_Training]:
    """A command that runs until the block ends."""
    with ExitStack() as undo:
        prefix = "themis-interference-"
        own = undo.enter_context(tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True))
        os.mkfifo(Path(own) / script.REPORTS, 0o600)
        reports = os.open(Path(own) / script.REPORTS, os.O_RDWR | os.O_NONBLOCK)
        undo.callback(os.close, reports)
        words = [sys.executable if kind.words[0] in ("python", "python3") else kind.words[0], *kind.words[1:]]
        try:
            process = subprocess.Popen(
                dying_with_us(device.words(words)),
                cwd=directory,
                env={**os.environ, **_environment(device, own)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as problem:
            raise EndedError(f"{kind.name}: {words[0]} cannot be started: {problem.strerror}") from problem
        undo.callback(_end, process)
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        yield _Training(kind, process, reports)


def _environment(device: Device, own: str) -> dict[str, str]:
    return {
        "PYTHONUNBUFFERED": "1",
        "CUDA_VISIBLE_DEVICES": str(device.gpu) if device.core is None else "",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_WORLD_SIZE": "1",
        "THEMIS_TRIAL_DIR": own,
        "THEMIS_CHECKPOINT_DIR": str(Path(own) / "checkpoints"),
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with all that it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def _read_all(trainings: Sequence[_Training], wait_s: float) -> None:
    """Read what comes first within so long.

    Raises:
        EndedError: one has ended.
    """
    with selectors.DefaultSelector() as selector:
        for one in trainings:
            assert one.process.stdout is not None
            for file in (one.process.stdout.fileno(), one.reports):
                selector.register(file, selectors.EVENT_READ, one)
        for key, _ in selector.select(wait_s):
            training: _Training = key.data
            if not training.read(key.fd):
                code = training.process.wait()
                said = f": {training.last_line}" if training.last_line else ""
                raise EndedError(f"{training.kind.name}: ended with code {code} before it was measured{said}")
