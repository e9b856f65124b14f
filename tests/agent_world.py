"""An agent in tests: its step with events in and commands out, without processes, clocks or files."""

import json

from themis_agent.agent import events
from themis_agent.agent.commands import SampleTrial
from themis_agent.agent.settings import Settings
from themis_agent.agent.step import next_due, step
from themis_agent.agent.tags import TAGS
from yarn_plugin.journal.codec import Codec

CODEC = Codec(TAGS)
PLAIN = Settings("plain", trials=2, max_steps=3, retries=1, grace_s=10.0)
FIRST, SECOND = "trial-00000", "trial-00001"


def gpus(machine, count, rack="r1"):
    return tuple(events.Gpu(f"{machine}/{number}", machine, machine, rack) for number in range(count))


class Search:
    """An agent with GPUs of a machine; parameters are drawn at once. `said`: all commands."""

    def __init__(self, settings=PLAIN, held=2, machine="m1", waited_s=0.0):
        self.state, self.at, self.said, self._seq = None, 0.0, [], 0
        self.take(events.Begun(settings, waited_s=waited_s))
        if held:
            self.take(events.Granted("lease-1", gpus(machine, held), None))

    def take(self, event, at=None):
        """What an event leads to, draws of parameters included."""
        self._seq, self.at = self._seq + 1, self.at if at is None else at
        self.state, commands = step(self.state, self._seq, self.at, event)
        assert CODEC.read(json.loads(CODEC.dump(self.state))) == self.state
        due = next_due(self.state)
        assert due is None or due > self.at
        self.said += commands
        for command in commands:
            if isinstance(command, SampleTrial):
                commands += self.take(events.Sampled(command.trial, "{}"))
        return commands

    def epoch(self, trial):
        return self.state.trials[trial].epoch

    def report(self, trial, at_step, loss):
        return self.take(events.Reported(trial, self.epoch(trial), at_step, loss))

    def end(self, trial, code=0, lines=()):
        return self.take(events.LauncherEnded(trial, self.epoch(trial), code, lines))

    def fates(self):
        return [trial.fate for trial in self.state.trials.values()]

    def of(self, kind):
        return [command for command in self.said if isinstance(command, kind)]
