"""The processes of a trial in a container: they train, report, save checkpoints, and stop when they are told to."""

from tests.chaos.process import Process
from themis_agent.agent import events

BEAT_S, SAVE_S = 1.0, 0.3
ORPHAN_S = 60.0


class LauncherProcess(Process):
    """A launcher. The first of a gang speaks for all; `is_stubborn`: it goes on until its time is over."""

    def __init__(self, search, application, container, launcher):
        super().__init__(search.world, f"{search.name}/{launcher.trial}.{launcher.epoch}.{launcher.number}")
        self.search, self.application, self.container, self.launcher = search, application, container, launcher
        self.unheard, self.number, self.heard_at = [], 0, 0.0
        self.stop_at, self.is_profiled = None, False
        self.is_stubborn = self.world.draws("launcher").random() < 0.15
        search.said[launcher] = []

    def start(self):
        self.begin()
        self.heard_at = self.world.now
        self.later(self.world.draws("launcher").uniform(0.2, 1.5), self._run)

    def _run(self):
        one = self.launcher
        self._say(events.LauncherStarted(one.trial, one.epoch, "host", 1, one.number))
        if one.number == 0:
            self.step = self.search.steps.get(one.trial, 0)
            self._begin_step()
        self._beat()

    def _begin_step(self):
        gpus = len(self.search.notes[self.launcher, "cells"])
        step_s = self.search.settings.step_s / gpus
        self.later(step_s, lambda: self._end_step(step_s))

    def _end_step(self, step_s):
        one, draws = self.launcher, self.world.draws("launcher")
        if draws.random() < self.world.crashes:
            self._end(1 if draws.random() < 0.5 else -9)
            return
        self.step += 1
        self._say(events.Reported(one.trial, one.epoch, float(self.step), 1.0 / (self.step + int(one.trial[-2:]) + 1)))
        if not self.is_profiled:
            self.is_profiled = True
            self._say(events.Profiled(one.trial, one.epoch, step_s))
        if self.step % 3 == 0:
            self._save()
        if self.step >= self.search.settings.max_steps:
            self._save()
            self._end(0)
        else:
            self._begin_step()

    def _save(self):
        self.search.steps[self.launcher.trial] = self.step
        self._say(events.Checkpointed(self.launcher.trial, self.launcher.epoch, float(self.step)))

    def _say(self, event):
        self.number += 1
        self.unheard.append((self.number, event))
        self.search.said[self.launcher].append(event)

    def _beat(self):
        batch, one, search = list(self.unheard), self.launcher, self.search
        self.later(BEAT_S, self._beat)
        if self.world.now > self.heard_at + ORPHAN_S:
            self._end(None)
            return
        if search.application == self.application:
            self.world.network.call(
                self, search, lambda reply: search.take(one, batch, reply), self._answered, lambda: None
            )

    def _answered(self, answer):
        acknowledged, stop_in_s = answer
        self.heard_at = self.world.now
        self.unheard = [(number, event) for number, event in self.unheard if number > acknowledged]
        if stop_in_s == -1.0:
            self._end(None)
        elif stop_in_s is not None and (self.stop_at is None or self.world.now + stop_in_s < self.stop_at):
            self.stop_at = self.world.now + stop_in_s
            self.later(stop_in_s if self.is_stubborn else min(SAVE_S, stop_in_s), self._stop)

    def _stop(self):
        if self.launcher.number == 0 and not self.is_stubborn and hasattr(self, "step"):
            self._save()
        self._end(None)

    def _end(self, code):
        one = self.launcher
        self._say(events.LauncherEnded(one.trial, one.epoch, code, (), one.number))
        self.world.yarn.end(self.application, self.container, 0 if code == 0 else 1)
        if self.alive:
            self.kill()
