"""Runs the processes of a trial in one container: `python -m themis_agent.trial.launcher SPEC.json`.

Starts them from the newest checkpoint, reads their reports and logs, uploads their checkpoints, tells the agent, and
ends them all together: when one fails, when the agent says so, on SIGTERM, or when the agent is away for too long. Exit
code: 0 if they ended well or were stopped; theirs if one failed (128 + a signal's number); 1 if they could not be
started.
"""

import json
import math
import os
import re
import selectors
import shutil
import signal
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from types import FrameType
from typing import Any

from themis_agent.errors import SHORTAGE_S, StoreError, SupersededError, is_shortage
from themis_agent.trial import script, stopping, uploads
from themis_agent.trial.agent_link import AgentLink
from themis_agent.trial.checkpoints import Checkpoint, Checkpoints, DamagedError
from themis_agent.trial.descendants import guarded, kill_descendants
from themis_agent.trial.gang import Exit, Gang, free_port, script_path, visible_devices
from themis_agent.trial.gpu_locks import GpuLocks
from themis_agent.trial.launch_file import read_when_there
from themis_agent.trial.log_copies import LogCopies
from themis_agent.trial.logs import BoundedLog
from themis_agent.trial.reading.numbering import Steps, is_step
from themis_agent.trial.reading.reader import LogReader, Reading, Source
from themis_agent.trial.reading.times import IterationTimes
from themis_agent.trial.run import TICK_S, Run
from themis_agent.trial.store import hdfs_at, store_at
from themis_agent.trial.wire import (
    MAX_METRICS,
    AnyEvent,
    Checkpointed,
    CheckpointFailed,
    EndCause,
    Ended,
    LaunchSpec,
    LogRead,
    Master,
    Profiled,
    Reported,
    Started,
)
from yarn_plugin.errors import ReportedError

_PROFILE_S = 1.0
"""How often the time of an iteration is told at most."""

_INTERRUPTED = 128 + signal.SIGTERM
"""The exit code of a launcher that ends by no fault of its trial, before it can tell."""

_COPY_S = 15.0
"""How long the end of a launcher waits until its logs are in the store."""

_LAST_WORDS_S = 5.0
"""How long the last event may wait for the agent."""


class _StoppedError(Exception):
    """The trial is to end before it was started."""

    def __init__(self, stop: stopping.Stop) -> None:
        self.stop = stop


class Launcher:
    """One epoch of a trial in one container. For one thread: others only wake it."""

    def __init__(self, spec: LaunchSpec, alive: int) -> None:
        self._spec, self._alive = spec, alive
        attempt = f"{spec.trial}/epoch-{spec.epoch:06}"
        self._logs = Path(spec.log_directory) / attempt
        self._copies = LogCopies(self._logs, hdfs_at(spec.log_url), attempt) if spec.log_url is not None else None
        self._journal = BoundedLog(self._logs / f"launcher-{spec.ranks[0]}.jsonl", spec.log_bytes)
        self._woken, self._waking = os.pipe()
        for end in (self._woken, self._waking):
            os.set_blocking(end, False)
        self._signalled = False
        self._link = AgentLink(spec, self._wake)
        self._sequence = 0
        self._checkpoints: Checkpoints | None = None
        self._outcomes: deque[uploads.Outcome] = deque()
        self._uploads: uploads.Uploads | None = None
        self._seen_step = self._committed = self._last_step = None  # type: int | None
        self._restore_s = 0.0
        self._superseded = False
        self._reader = self._new_reader(None)
        self._other_readers = {name: LogReader(name, None, None, {}) for name in spec.metrics}
        self._others: dict[str, float] = {}
        self._times, self._told_iteration_s, self._profiled_at = IterationTimes(), 0.0, -math.inf
        self._script_reports = False
        self._source: Source | None = None
        self._held_since = self._reported_at = math.inf
        self._gpus = GpuLocks(spec.gpu_locks)

    def run(self) -> int:
        """Run until the trial has ended; return the exit code."""
        signal.set_wakeup_fd(self._waking, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note_signal)
        # The end of a process wakes the loop.
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        try:
            with tempfile.TemporaryDirectory(prefix="themis-trial-", ignore_cleanup_errors=True) as directory:
                try:
                    return self._run_in(Path(directory))
                finally:
                    kill_descendants()
        except _StoppedError as stopped:
            return self.end(stopped.stop.cause, None, [])
        except SupersededError:
            return self.end("superseded", None, [])
        except (ReportedError, OSError) as problem:
            if isinstance(problem, OSError) and is_shortage(problem):
                # Started again, but not at once.
                time.sleep(SHORTAGE_S)
                return self.end("no_room", None, [str(problem)])
            return self.end("refused", None, [str(problem)])

    def _run_in(self, directory: Path) -> int:
        spec = self._spec
        os.mkfifo(directory / script.REPORTS, 0o600)
        # Open for writing too: it never comes to an end, and scripts never wait for a reader.
        reports = os.open(directory / script.REPORTS, os.O_RDWR | os.O_NONBLOCK)
        for _ in self._gpus.until_held():
            self._wait_before_start()
        resumed = self._restore()
        self._reader = self._new_reader(resumed)
        devices = visible_devices(spec)
        master, port = self._master()
        environment = {
            **os.environ,
            "PYTHONUNBUFFERED": "1",
            **spec.env,
            **script_path(os.environ, spec.env),
            "THEMIS_TRIAL_DIR": str(directory),
        }
        gang = Gang(spec, master, devices, environment, self._gpus.descriptors)
        if self._checkpoints is not None and 0 in spec.ranks:
            self._uploads = uploads.Uploads(self._checkpoints, self._note_outcome, self._copy_logs)
        header = self._header()
        devices = devices or []
        self._tell(
            Started(**header, host=spec.host, port=port, devices=devices, resumed=resumed, restore_s=self._restore_s)
        )
        self._reported_at = time.monotonic()
        return Run(self, gang, reports, directory).until_ended()

    def _new_reader(self, resumed: int | None) -> LogReader:
        spec, log = self._spec, self._checkpoints.log if self._checkpoints is not None else {}
        return LogReader(spec.metric, re.compile(spec.loss_pattern) if spec.loss_pattern else None, resumed, log)

    # Before the start

    def _restore(self) -> int | None:
        """Fill the checkpoint directory; the step of the checkpoint in it."""
        spec, local = self._spec.checkpoint, Path(self._spec.checkpoint.directory)
        local.mkdir(parents=True, exist_ok=True)
        if spec.url is None:
            self._seen_step = max(script.complete_checkpoints(local), default=None)
            return self._seen_step
        for leftover in script.complete_checkpoints(local).values():
            shutil.rmtree(leftover)
        self._checkpoints = Checkpoints(store_at(spec.url), self._spec.trial, self._spec.epoch, spec.keep, spec.parent)
        told = ""
        while True:
            began = time.monotonic()
            try:
                begun, resumed = self._begin(self._checkpoints, local)
                self._restore_s = time.monotonic() - began
            except DamagedError:
                # Of this epoch, which the launcher of rank 0 has begun: waiting does not help, a new epoch does.
                raise
            except StoreError as away:
                begun, resumed = False, None
                if str(away) != told:
                    told = str(away)
                    self._tell(CheckpointFailed(**self._header(), step=0, problem=told))
            if begun:
                self._committed = self._seen_step = resumed.step if resumed else None
                for lost, problem in self._checkpoints.damaged.items():
                    header = self._header()
                    self._tell(CheckpointFailed(**header, step=lost.step, committed=self._committed, problem=problem))
                for problem in self._checkpoints.damaged_records.values():
                    header = self._header()
                    self._tell(CheckpointFailed(**header, step=0, committed=self._committed, problem=problem))
                return self._seen_step
            self._wait_before_start()

    def _begin(self, checkpoints: Checkpoints, local: Path) -> tuple[bool, Checkpoint | None]:
        return (True, checkpoints.begin(local)) if 0 in self._spec.ranks else checkpoints.join(local)

    def _master(self) -> tuple[Master, int | None]:
        """Where the gang meets, and the port if this launcher publishes it."""
        if self._spec.master is not None:
            return self._spec.master, self._spec.master.port if 0 in self._spec.ranks else None
        if 0 in self._spec.ranks:
            port = free_port()
            return Master(host=self._spec.host, port=port), port
        while True:
            if self._link.answer is not None and self._link.answer.master is not None:
                return self._link.answer.master, None
            self._wait_before_start()

    def _wait_before_start(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._alive, selectors.EVENT_READ)
            if selector.select(TICK_S):
                os._exit(1)
        if stop := self.stop_wanted():
            raise _StoppedError(stop)

    # What the run uses

    @property
    def spec(self) -> LaunchSpec:
        """The launch file."""
        return self._spec

    @property
    def alive(self) -> int:
        """Readable when the outer process has ended."""
        return self._alive

    @property
    def woken(self) -> int:
        """Readable when there is news from a thread or a signal."""
        return self._woken

    @property
    def logs(self) -> Path:
        """Where this epoch's logs are."""
        return self._logs

    def stop_wanted(self) -> stopping.Stop | None:
        """Whether the gang is to be stopped now."""
        spec = self._spec
        if self._superseded:
            return stopping.Stop("superseded", time.monotonic(), time.monotonic(), upload=False)
        now = time.monotonic()
        return stopping.wanted(
            now,
            self._link.answer,
            self._link.silent_s,
            self._signalled,
            spec.grace_s,
            spec.orphan_s,
            now - self._reported_at,
            spec.report_timeout_s if 0 in spec.ranks else 0.0,
        )

    def note_report(self, line: str) -> None:
        """A report of the script; those of rank 0 count."""
        try:
            told = json.loads(line)
            rank, step, loss, at = int(told["rank"]), int(told["step"]), float(told["loss"]), float(told["at"])
            metrics = {str(name): float(value) for name, value in dict(told.get("metrics", {})).items()}
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return
        if rank == 0 and is_step(step) and math.isfinite(at):
            if not self._script_reports and self._source is not None:
                self._tell(LogRead(**self._header(), name=self._spec.metric, steps=Steps.REPORTED))
            self._script_reports = True
            self._others = {name: value for name, value in metrics.items() if math.isfinite(value)}
            self._note_step(step, loss, at)

    def note_line(self, line: str) -> None:
        """A line of rank 0's log, which counts as long as the script does not report itself."""
        if not self._script_reports:
            for name, reader in self._other_readers.items():
                for one in reader.read(line):
                    if one.value is not None and math.isfinite(one.value):
                        self._others[name] = one.value
            before = self._reader.held
            self._note_readings(self._reader.read(line))
            if self._reader.held is not before:
                self._held_since = time.monotonic()

    def note_held(self, after_s: float = 0.0, has_ended: bool = False) -> None:
        """The value of a progress bar that has not been drawn again for so long, or will not be."""
        if not self._script_reports and time.monotonic() >= self._held_since + after_s:
            self._note_readings(self._reader.release(has_ended))
            self._held_since = math.inf if self._reader.held is None else self._held_since

    def _note_readings(self, readings: tuple[Reading, ...]) -> None:
        for one in readings:
            if one.iteration_s is not None:
                self._times.measured(one.iteration_s)
            if one.step is not None and one.value is not None:
                self._note_source()
                self._note_step(one.step, one.value, time.time())
            elif one.step is not None:
                self._times.step(one.step, time.time())

    def _note_source(self) -> None:
        source = self._reader.source
        if source is not None and source != self._source:
            self._source = source
            self._tell(LogRead(**self._header(), name=source.name, steps=source.steps))

    def _note_step(self, step: int, loss: float, at: float) -> None:
        self._last_step, self._reported_at = step, time.monotonic()
        self._times.step(step, at)
        others = dict(list(self._others.items())[:MAX_METRICS])
        self._tell(Reported(sequence=self._next(), at=at, step=step, loss=loss, metrics=others))
        seconds = self._times.iteration_s
        changed = seconds is not None and abs(seconds - self._told_iteration_s) > 0.05 * self._told_iteration_s
        now = time.monotonic()
        if seconds is not None and changed and now - self._profiled_at >= _PROFILE_S:
            self._told_iteration_s, self._profiled_at = seconds, now
            self._tell(Profiled(**self._header(), iteration_s=seconds))

    def look_for_checkpoint(self) -> int | None:
        """The step of a complete local checkpoint that is newer than those uploaded; None: there is none."""
        found = script.complete_checkpoints(Path(self._spec.checkpoint.directory))
        newest = max(found, default=None)
        return newest if newest is not None and newest > (self._seen_step or 0) else None

    def upload(self, step: int) -> None:
        """Upload this local checkpoint. Reports of the steps before it must have been read."""
        self._seen_step = step
        self.note_held()
        if self._uploads is not None:
            directory = Path(self._spec.checkpoint.directory)
            log = {} if self._script_reports else self._reader.save()
            self._uploads.upload(step, directory / script.checkpoint_name(step), log)

    def finish_uploads(self, wait_s: float) -> bool:
        """Wait so long for uploads; whether none is left."""
        done = self._uploads is None or self._superseded or self._uploads.finish(wait_s)
        self.take_outcomes()
        return done

    def take_outcomes(self) -> None:
        """Tell what has become of uploads."""
        while self._outcomes:
            match self._outcomes.popleft():
                case uploads.Committed(step, seconds):
                    self._committed = step
                    epoch = self._spec.epoch
                    self._tell(Checkpointed(**self._header(), step=step, epoch=epoch, seconds=round(seconds, 3)))
                    local = script.complete_checkpoints(Path(self._spec.checkpoint.directory))
                    uploads.remove_local(local, step)
                case uploads.Refused(step, problem):
                    self._tell(
                        CheckpointFailed(**self._header(), step=step, committed=self._committed, problem=problem)
                    )
                case uploads.Superseded():
                    self._superseded = True

    def end(self, cause: EndCause, exit_: Exit | None, last_lines: list[str]) -> int:
        """Tell the end; return the exit code."""
        self._tell(
            Ended(
                **self._header(),
                cause=cause,
                code=exit_.code if exit_ else None,
                signal=exit_.signal if exit_ else None,
                rank=exit_.rank if exit_ else None,
                last_step=self._last_step,
                committed=self._committed if self._checkpoints is not None else self._seen_step,
                last_lines=last_lines,
                no_report=self._no_report(cause),
            )
        )
        self._link.close(0.0 if cause == "agent_away" else _LAST_WORDS_S)
        self._journal.close()
        if self._copies is not None:
            self._copies.close(_COPY_S)
        if cause in ("refused", "no_room"):
            sys.stderr.write("\n".join([*last_lines, ""]))
            return 1
        if cause == "killed":
            return 128 + signal.SIGKILL
        if cause != "exited" or exit_ is None:
            return 0
        return 128 + exit_.signal if exit_.signal is not None else exit_.code or 0

    # Telling

    def _no_report(self, cause: EndCause) -> str:
        if 0 not in self._spec.ranks:
            return ""
        why = self._reader.nothing_read() if self._last_step is None else ""
        if cause != "silent":
            return why
        since = f": {why}" if why else f" after step {self._last_step}"
        return f"reported nothing for {self._spec.report_timeout_s:g} s{since}; see report_timeout_s"

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence

    def _header(self) -> dict[str, Any]:
        return {"sequence": self._next(), "at": time.time()}

    def _tell(self, event: AnyEvent) -> None:
        self._journal.write(event.model_dump_json().encode() + b"\n")
        self._link.send(event)

    def _note_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signalled = True

    def _copy_logs(self) -> None:
        """A step is in the journal before it is in the store, there too."""
        if self._copies is not None:
            self._copies.flush()

    def _note_outcome(self, outcome: uploads.Outcome) -> None:
        self._outcomes.append(outcome)
        self._wake()

    def _wake(self) -> None:
        try:
            os.write(self._waking, b"\0")
        except BlockingIOError:
            return


def _launch(spec: LaunchSpec, alive: int) -> int:
    try:
        return Launcher(spec, alive).run()
    except ReportedError as problem:
        return _not_launched(problem)


def _not_launched(problem: ReportedError) -> int:
    sys.stderr.write(f"{problem}\n")
    return _INTERRUPTED if isinstance(problem, StoreError) else problem.exit_code


def main() -> int:
    """Run the launch file that the command line names."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m themis_agent.trial.launcher SPEC.json\n")
        return 2
    try:
        spec = read_when_there(sys.argv[1])
    except ReportedError as problem:
        return _not_launched(problem)
    return guarded(lambda alive: _launch(spec, alive))


if __name__ == "__main__":
    sys.exit(main())
