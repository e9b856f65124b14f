"""What stories of pools of leased cells have in common: time, containers, and the trace of what is told."""

import shlex

from yarn_plugin.decide.commands import SendToApp

START = 1000.0


class LeasingStory:
    """Plays scenes, one after the other; maps the names that a story gives to applications to their ids."""

    def __init__(self):
        self.world, self.shown, self.ids, self.nodes = None, 0, {}, {}

    def play(self, scene):
        """The trace of a scene."""
        for line in scene.lines:
            words = shlex.split(line, comments=True)
            if words[:1] == ["at"]:
                self.world.wait(START + float(words[1]) - self.world.stage.clock.time)
                words = words[2:]
            if words:
                getattr(self, "_" + words[0])(*words[1:])
        decided = self.world.stage.decided
        trace = [line for one in decided[self.shown :] for line in self._lines(one)]
        self.shown = len(decided)
        return self.compared(trace or ["nothing"])

    def compared(self, trace):
        """What of a trace is compared."""
        return trace

    def _containers(self, name, *words):
        on = {host: tuple(map(int, gpus.split(","))) for host, gpus in (word.split("=") for word in words)}
        self.world.run(self.ids[name], **on)

    def _lines(self, decided):
        for command in decided.commands:
            line = self._line(command.message if isinstance(command, SendToApp) else command)
            if line is not None:
                for name, app in sorted(self.ids.items(), key=lambda one: -len(one[1])):
                    line = line.replace(app, name)
                yield f"{decided.at - START:.2f} {line}"


def number_of(lease):
    return f"#{lease.partition('#')[2]}"


def cells_in_words(cells):
    return f" {','.join(cells)}" if cells else ""
