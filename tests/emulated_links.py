"""A job whose links are sleeping threads: each channel executes its motifs one after the other, by sleeping."""

import queue
import threading
import time

from themis_agent.communication.enforcer import Enforcer
from themis_agent.communication.plan import Plan


class SleepingChannel:
    def __init__(self):
        self._motifs = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def put(self, seconds, done):
        self._motifs.put((seconds, done))

    def close(self):
        self._motifs.put(None)
        self._thread.join()

    def _run(self):
        while (motif := self._motifs.get()) is not None:
            seconds, done = motif
            time.sleep(seconds)
            done(None)


class SleepingJob:
    """An operation. `seconds`: of each motif. `log`: is told which motif begins, on which channel."""

    def __init__(self, channels, seconds, log=None, name=""):
        self.channels, self.seconds, self.log, self.name = channels, seconds, log, name
        self.finished = False

    def check(self, fingerprint, done):
        done(None)

    def begin(self, number, motif, done):
        if self.log is not None:
            self.log.append((self.name, number, motif.channel))
        self.channels[motif.channel].put(self.seconds[number], done)

    def finish(self):
        self.finished = True


class FixedPlans:
    """The same plan from an iteration on."""

    def __init__(self, plan: Plan | None, since=1):
        self.plan, self.since, self.drops = plan, since, []

    def at(self, iteration):
        if self.plan is None or iteration < self.since or self.drops:
            return 0, None
        return 1, self.plan

    def dropped(self, iteration):
        self.drops.append(iteration)


class SleepingProgram:
    """Executes the tasks of an iteration: computes by sleeping, calls operations, and waits for those that the
    next computation needs. `seconds_of`: of the motifs of a task that communicates.
    """

    def __init__(self, iteration, seconds_of, enforcer: Enforcer, channels, scale):
        self.iteration, self.seconds_of, self.scale = iteration, seconds_of, scale
        self.enforcer, self.channels = enforcer, channels
        self.completions = {}

    def run(self, number):
        """One iteration of the program."""
        for place, task in enumerate(self.iteration.tasks):
            if task.operation is not None:
                job = SleepingJob(self.channels, [self.scale * s for s in self.seconds_of(place)])
                self.completions[number, place], *_ = self.enforcer.call(task.operation, job)
                continue
            for need in task.needs:
                earlier = self.completions.get((number - need.lag, need.task))
                if earlier is not None:
                    earlier.wait()
            time.sleep(task.seconds * self.scale)
        self.enforcer.next_iteration()
