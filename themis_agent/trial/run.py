"""The processes of a trial while they run in one container: their output, checkpoints and end."""

import os
import select
import selectors
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from themis_agent.trial import script, stopping
from themis_agent.trial.gang import Exit, Gang, Member
from themis_agent.trial.logs import BoundedLog, Lines
from themis_agent.trial.wire import EndCause

if TYPE_CHECKING:
    from themis_agent.trial.launcher import Launcher

TICK_S = 0.1
"""How often local checkpoints are looked for."""

_REDRAWN_S = 0.5
"""For how long a progress bar may draw a step again, with another value."""

_READS = 32
"""Of 64 KiB each, more than a pipe holds: a process that writes fast does not keep the launcher from all else."""


class Run:
    """The loop from the start of the gang until its end."""

    def __init__(self, launcher: "Launcher", gang: Gang, reports: int, directory: Path) -> None:
        self._launcher, self._gang, self._reports, self._directory = launcher, gang, reports, directory
        spec = launcher.spec
        self._reported = Lines()
        self._lines = {member.rank: Lines() for member in gang.members}
        self._files = {
            member.rank: BoundedLog(launcher.logs / f"rank-{member.rank}.log", spec.log_bytes)
            for member in gang.members
        }
        self._stop: stopping.Stop | None = None
        self._killed = False
        self._first_end: float | None = None
        self._selector = selectors.DefaultSelector()
        for file in (launcher.alive, launcher.woken, reports):
            self._selector.register(file, selectors.EVENT_READ)
        for member in gang.members:
            self._selector.register(member.output, selectors.EVENT_READ, member)

    def until_ended(self) -> int:
        """Run until the gang has ended; return the exit code of the launcher."""
        next_look = 0.0
        while self._gang.running:
            self._wait()
            if time.monotonic() >= next_look:
                self._gang.reap()
                self._look_for_checkpoint()
                next_look = time.monotonic() + TICK_S
            self._launcher.note_held(_REDRAWN_S)
            self._launcher.take_outcomes()
            self._stop_if_wanted()
            if self._gang.exits:
                self._end_together()
        exits = self._gang.exits
        self._gang.kill()
        for member in self._gang.members:
            self._read_output(member)
            self._note_lines(member, self._lines[member.rank].end())
            self._files[member.rank].close()
        self._launcher.note_held(has_ended=True)
        self._read_reports()
        self._look_for_checkpoint()
        self._finish_uploads()
        cause: EndCause = "killed" if self._killed else self._stop.cause if self._stop else "exited"
        first = self._first_failed or next((one for one in exits if one.failed), exits[0])
        return self._launcher.end(cause, first, list(self._lines[first.rank].last))

    def _finish_uploads(self) -> None:
        """Wait for the last upload: if the gang has ended by itself, as long as for an agent that is away."""
        end = time.monotonic() + self._launcher.spec.orphan_s
        stop = self._stop
        while stop is None or stop.upload:
            left = (stop.over_at if stop else end) - time.monotonic()
            if left <= 0 or self._launcher.finish_uploads(min(left, TICK_S)):
                return
            self._check_alive()
            stop = stop or self._launcher.stop_wanted()

    def _check_alive(self) -> None:
        if select.select([self._launcher.alive], [], [], 0)[0]:
            self._gang.kill()
            shutil.rmtree(self._directory, ignore_errors=True)
            os._exit(1)

    def _wait(self) -> None:
        # Also when checkpoints are to be looked for, or the time of a stop comes.
        for key, _ in self._selector.select(TICK_S):
            if key.fd == self._launcher.alive:
                self._check_alive()
            elif isinstance(key.data, Member):
                if not self._read_output(key.data):
                    self._selector.unregister(key.fileobj)
            elif key.fd == self._reports:
                self._read_reports()
            else:
                _read(self._launcher.woken)

    _first_failed: Exit | None = None

    def _end_together(self) -> None:
        """One has ended: if it failed, the others are killed; otherwise they have the grace period to end too."""
        now = time.monotonic()
        self._first_end = self._first_end or now
        failed = [one for one in self._gang.exits if one.failed]
        if failed and self._first_failed is None:
            self._first_failed = failed[0]
        if not self._gang.running:
            return
        if failed and self._stop is None:
            self._gang.kill()
        elif now >= self._first_end + self._launcher.spec.grace_s:
            self._killed = True
            self._gang.kill()

    def _stop_if_wanted(self) -> None:
        if self._stop is None:
            self._stop = self._launcher.stop_wanted()
            if self._stop is not None:
                # The signal first: one that comes while a script that has seen the file exits would end it.
                self._gang.terminate()
                (self._directory / script.STOP).touch()
        if self._stop is not None and time.monotonic() >= self._stop.kill_at and self._gang.running:
            self._killed = self._stop.cause in ("stopped", "agent_away")
            self._gang.kill()

    def _look_for_checkpoint(self) -> None:
        step = self._launcher.look_for_checkpoint()
        if step is not None:
            # A step is reported before its checkpoint is complete: so it is in the journal before it is in the store.
            for member in self._gang.members:
                self._read_output(member)
            self._read_reports()
            self._launcher.upload(step)

    def _read_reports(self) -> None:
        for _ in range(_READS):
            data = _read(self._reports)
            if not data:
                return
            for line in self._reported.cut(data):
                self._launcher.note_report(line)

    def _read_output(self, member: Member) -> bool:
        """Whether there may be more."""
        for _ in range(_READS):
            data = _read(member.output.fileno())
            if not data:
                return data is None
            self._files[member.rank].write(data)
            self._note_lines(member, self._lines[member.rank].cut(data))
        return True

    def _note_lines(self, member: Member, lines: list[str]) -> None:
        if member.rank == 0:
            for line in lines:
                self._launcher.note_line(line)


def _read(file: int) -> bytes | None:
    """What can be read now; None: nothing."""
    try:
        return os.read(file, 65536)
    except BlockingIOError:
        return None
