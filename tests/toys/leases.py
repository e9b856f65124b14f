"""A toy lease controller and a toy training application, for tests of the simulator alone.

The controller gives each application in order of arrival up to `each` GPUs, with leases of `lease_s` that are never
renewed: what is free at a moment, and what is left when the last application has been served, stays idle.
"""

from dataclasses import dataclass, field

from yarn_plugin.decide.pools.commands import Ask, Grant, LeaseEnded, Revoke, SetTimer
from yarn_plugin.decide.pools.controller import Kind
from yarn_plugin.decide.pools.inputs import FromApp, TimerDue
from yarn_plugin.model.auction import Estimate, EstimateRequest
from yarn_plugin.model.causes import LegacyText
from yarn_plugin.model.gpus import total
from yarn_plugin.model.share import Holding, Lease
from yarn_plugin.simulation.leasing.application import Goal


@dataclass(frozen=True, slots=True)
class Settings:
    """`each`: GPUs of a lease. `grace_s`: from the revocation of a lease to its end. `twice`: lease all GPUs to all."""

    each: int = 2
    lease_s: float = 100.0
    grace_s: float = 0.0
    twice: bool = False
    asks: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """The leases by id, and the number of the next."""

    counter: int = 0
    leases: dict = field(default_factory=dict)
    heard: tuple = ()


class Leasing:
    """See the module."""

    reads = frozenset({"claims", "topology"})

    def __init__(self, pool):
        self._settings = pool.parameters or Settings()

    def initial_state(self):
        return State()

    def report(self, state):
        return None

    def advance(self, state, view, at, what):
        settings, leases, commands = self._settings, dict(state.leases), []
        counter, heard = state.counter, state.heard
        match what:
            case FromApp(app, Estimate(round=number)):
                return State(counter, leases, (*heard, (app, number))), ()
            case TimerDue(key) if key.startswith("end:"):
                id = key.removeprefix("end:")
                if settings.grace_s and id in leases:
                    by = at + settings.grace_s
                    cause = LegacyText("its lease is over")
                    return state, (Revoke(f"{id}/r", leases[id].app, id, by, cause), SetTimer(f"gone:{id}", by))
                if id in leases:
                    commands.append(LeaseEnded(f"{id}/e", leases.pop(id).app, id))
            case TimerDue(key) if key.startswith("gone:"):
                id = key.removeprefix("gone:")
                commands.append(LeaseEnded(f"{id}/e", leases.pop(id).app, id))
        here = {claim.app for claim in view.claims}
        for id, lease in list(leases.items()):
            if lease.app not in here:
                del leases[id]
        taken = {holding.cell for lease in leases.values() for holding in lease.holdings}
        free = [cell.id for cell in view.topology.at("gpu") if settings.twice or cell.id not in taken]
        for claim in view.claims:
            if settings.asks:
                commands.append(Ask(f"ask#{counter}", claim.app, EstimateRequest(counter, 1.0), at + 1))
            if any(lease.app == claim.app for lease in leases.values()) or len(free) < settings.each:
                continue
            counter += 1
            won, until = free[: settings.each], at + settings.lease_s
            free = free if settings.twice else free[settings.each :]
            lease = Lease(f"l{counter}", claim.app, "", 0, tuple(Holding(g, "yarn.io/gpu") for g in won), until=until)
            leases[lease.id] = lease
            commands += [Grant(f"g{counter}", claim.app, (lease,)), SetTimer(f"end:{lease.id}", until)]
        return State(counter, leases, heard), tuple(commands)


KIND = Kind(
    "toy-leases",
    lambda pool, registry: Leasing(pool),
    {"toy-leases/1": State, "toy-leases.settings/1": Settings, "toy-leases.estimate": Estimate},
    parameters=Settings,
    messages=frozenset({"toy-leases.estimate"}),
)


class ToyTraining:
    """Runs jobs one after the other if `in_turn`, else all at once; each on as many GPUs as it can use, in order."""

    def __init__(self, *goals, in_turn=False):
        self._goals, self._in_turn = list(goals), in_turn
        self.seen = []

    def goals(self) -> list[Goal]:
        return self._goals[:1] if self._in_turn else list(self._goals)

    def reached(self, at, job):
        self._goals = [goal for goal in self._goals if goal.job != job]

    def answer(self, at, question, jobs):
        self.seen.append((at, jobs))
        return Estimate(question.round, 1.0)

    def divide(self, at, held, jobs):
        slots = {slot.id: slot.gpus for machine in held for slot in machine.slots}
        found = []
        for goal in self.goals():
            wanted, got = goal.profile.max_gpus, {}
            for slot, free in slots.items():
                taken = min(free, wanted - sum(got.values()))
                if taken:
                    got[slot], slots[slot] = taken, free - taken
            if total(tuple(got.items())):
                found.append((goal.job, tuple(sorted(got.items()))))
        return found


@dataclass(frozen=True, slots=True)
class Script:
    """What the scripted controller does: (time, commands). Its state is what it was sent."""

    steps: tuple = ()


class Scripted:
    """Gives the commands of a script at their times."""

    reads = frozenset({"claims", "use"})

    def __init__(self, pool):
        self._steps = dict(pool.parameters.steps)

    def initial_state(self):
        return ()

    def report(self, state):
        return None

    def advance(self, state, view, at, what):
        used = tuple((use.node, use.held["yarn.io/gpu"]) for use in view.use)
        match what:
            case TimerDue(key):
                return state, self._steps[float(key)]
            case FromApp(app, message):
                return (*state, (at, app, message, used)), ()
            case _:
                due = tuple(SetTimer(str(time), time) for time in self._steps if time > at)
                return state, due


SCRIPTED = Kind(
    "toy-script",
    lambda pool, registry: Scripted(pool),
    {"toy-script/1": tuple, "toy-script.settings/1": Script},
    parameters=Script,
)
