"""Processes that are killed, stopped and continued, each on a machine with a clock of its own."""

from collections import deque

from yarn_plugin.journal.clock import JournalClock
from yarn_plugin.journal.records import JournalUnavailableError

EPOCH_S = 1e6
"""Wall time when a world begins."""

PROBE_S = 0.5


class Killed(BaseException):
    """The process was killed at this line."""


class Process:
    """`offset`: of its machine's wall clock. Actions of a dead process are dropped; those of a stopped one wait."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.alive = self.paused = False
        self.incarnation, self.offset = 0, 0.0
        self._held = []

    def wall(self):
        return EPOCH_S + self.world.now + self.offset

    def clock(self):
        return JournalClock(self.wall, lambda: self.world.now)

    def begin(self):
        self.alive, self.paused = True, False
        self.incarnation += 1

    def later(self, delay, action):
        """Call it in so many seconds, in this life of the process."""
        incarnation = self.incarnation

        def run(at):
            if self.alive and self.incarnation == incarnation:
                self.deliver(action)

        self.world.at(self.world.now + delay, run)

    def deliver(self, action):
        if not self.alive:
            return
        if self.paused:
            self._held.append(action)
            return
        try:
            action()
        except Killed:
            self.kill()

    def pause(self):
        self.paused = True

    def resume(self):
        self.paused = False
        held, self._held = self._held, []
        for action in held:
            self.later(0.0, action)

    def kill(self):
        self.alive = self.paused = False
        self.incarnation += 1
        self._held = []
        self.ended()

    def ended(self):
        """The process has just ended."""


class Loop(Process):
    """A process with an intake: its inputs are stamped as they arrive, and taken one by one.

    `armed`: faults that wait for a line and a state. `loses_power`: its machine does with its next death.
    """

    def __init__(self, world, name, disk):
        super().__init__(world, name)
        self.disk, self.intake = disk, None
        self.armed, self.loses_power = [], False
        disk.before, disk.after = self._before_append, self._after_append

    def ended(self):
        """The process has just ended; its machine too, if it loses power."""
        if self.loses_power:
            self.loses_power = False
            if self.disk.lose_power(self.world.draws("power")):
                self.world.note(self, "journal cut back", "")
                self.world.sometimes(True, "journal cut back")

    def open_inbox(self):
        self.inbox, self.deferred = deque(), deque()
        self.is_unwritable = self._is_waking = False
        self._alarm = None

    def post(self, event, reply=None, is_outcome=False):
        """Take an event; `reply` is called with the decision, or with None if it is refused."""
        self.inbox.append((self.intake.stamp(), event, reply, is_outcome))
        self._wake(self.world.draws("loop").uniform(0.001, 0.02))

    def _wake(self, delay):
        if not self._is_waking:
            self._is_waking = True
            self.later(delay, self._work)

    def _work(self):
        self._is_waking = False
        if self.is_unwritable and not self._probe():
            self.refuse_all()
            self._wake(PROBE_S)
            return
        try:
            if self.deferred or self.inbox:
                self._take((self.deferred or self.inbox).popleft())
            else:
                for decided in self.intake.fire_due(self.intake.stamp(), self.skipped):
                    self.pass_on(decided)
        except JournalUnavailableError:
            self.is_unwritable = True
        if self.deferred or self.inbox or self.is_unwritable:
            self._wake(PROBE_S if self.is_unwritable else 0.001)
        else:
            self._set_alarm()

    def _take(self, item):
        at, event, reply, _ = item
        try:
            for decided in self.intake.take_in_order(event, at, self.skipped):
                self.pass_on(decided)
        except JournalUnavailableError:
            self.unwritable(item)
            raise
        if reply is not None:
            reply(decided)

    def _probe(self):
        try:
            self.intake.probe()
        except JournalUnavailableError:
            return False
        self.is_unwritable = False
        return True

    def _set_alarm(self):
        due = self.intake.next_due()
        if due is not None and due != self._alarm:
            self._alarm = due
            self.later(max(due - self.intake.now(), 0.0) + 1e-4, lambda: self._ring(due))

    def _ring(self, due):
        if self._alarm == due:
            self._alarm = None
        self._wake(0.0)

    def skipped(self, problem):
        raise AssertionError(f"{self.name}: {problem}")

    # Crashes between the journal and the commands.

    def _before_append(self, kind):
        self.crash_if_due("before journal", kind)

    def _after_append(self, kind):
        self.crash_if_due("after journal", kind)

    def crash_if_due(self, where, what):
        """Do what is armed for this line. `what`: the decision, or the kind of record."""
        for one in list(self.armed):
            if one.is_due(self, where, what):
                self.armed.remove(one)
                one.does(self)
