"""The loop of every simulation: what comes first at one moment, when it has settled, and when a world is stuck."""

import math

from yarn_plugin.drive.virtual_time import Agenda, World


class Told(World):
    """Writes down what happens. `timers`: the times of its timers; `done_at`: the action that is its last."""

    def __init__(self, agenda, timers=(), done_at=math.inf):
        self.agenda, self.timers, self.done_at, self.told = agenda, list(timers), done_at, []

    def act(self, at):
        self.told.append(("action", at))

    def is_done(self):
        return ("action", self.done_at) in self.told

    def next_due(self):
        return self.timers[0] if self.timers else math.inf

    def fire(self, at):
        self.told.append(("timer", self.timers.pop(0)))

    def settle(self):
        self.told.append(("settled", self.agenda.now))


def test_timers_precede_actions_of_the_same_time_and_a_moment_settles_after_both():
    agenda = Agenda()
    world = Told(agenda, timers=(2.0, 3.0))
    for at in (2.0, 1.0, 2.0):
        agenda.put(at, world.act)
    agenda.run(world)
    assert world.told == [("action", 1.0), ("settled", 1.0), ("timer", 2.0), ("action", 2.0), ("action", 2.0),
                          ("settled", 2.0), ("timer", 3.0), ("settled", 3.0)]  # fmt: skip


def test_a_world_that_is_done_settles_and_does_no_more():
    agenda = Agenda()
    world = Told(agenda, done_at=1.0)
    for at in (1.0, 1.0, 5.0):
        agenda.put(at, world.act)
    agenda.run(world)
    assert world.told == [("action", 1.0), ("settled", 1.0)]


def test_timers_and_inessential_actions_alone_are_no_progress():
    agenda = Agenda()
    world = Told(agenda, timers=(30.0, 50.0, 70.0))
    agenda.put(10.0, world.act)
    agenda.put(60.0, world.act, essential=False)
    agenda.run(world, stuck_after=45.0)
    assert agenda.now == 60.0 and world.timers == [70.0]
