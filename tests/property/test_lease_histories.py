"""Random histories of a pool of leased GPUs: what holds after every input, whatever happens."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lease_world import World, node, row
from tests.toys.registry import TOYS
from tests.toys.stage import Simulated, sent
from yarn_plugin.decide.commands import RecordRound
from yarn_plugin.decide.events import Configured, Deregistered, NodesChanged
from yarn_plugin.decide.policies.lease import LEASE_POLICIES
from yarn_plugin.decide.pools.commands import Grant, LeaseEnded, Renew
from yarn_plugin.decide.pools.lease.room import NO_ROOM
from yarn_plugin.decide.step_cache import StepCache
from yarn_plugin.drive import journaling
from yarn_plugin.drive.replay import rerun_records
from yarn_plugin.model.gpus import Job

NODES = (node("n1", 2), node("n2", 4, "/r2"))
GPUS = {f"n1/{n}" for n in range(2)} | {f"n2/{n}" for n in range(4)}

mostly = st.sampled_from((True, True, True, False))
rows = st.lists(
    st.builds(lambda rho, pieces: row(rho, *pieces), st.sampled_from((0.3, 0.6, 0.9, 1.5)),
              st.lists(st.integers(1, 4), min_size=1, max_size=2)), min_size=1, max_size=3)  # fmt: skip
tables = st.one_of(rows.map(tuple), rows.map(tuple), st.sampled_from(((), (row(1.0, 9),), (row(-1.0, 1),))))
JOBS = (Job("t1", 50.0, 1.0), Job("t2", 9.0, 1.0, min_gpus=2, max_gpus=4, step_gpus=2))
agents = st.fixed_dictionaries({
    "rho": st.sampled_from((None, 1.0, 2.0, 5.0, 9.0)), "rows": tables, "estimates": mostly, "bids": mostly,
    "delay": st.sampled_from((0.1, 0.1, 0.1, 0.1, 4.9, 5.0, 10.0, 12.0)),
    "jobs": st.sampled_from(((), JOBS[:1], JOBS)), "again": st.one_of(st.none(), tables),
})  # fmt: skip
steps = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), agents),
        st.tuples(st.just("change"), st.integers(0, 5), agents),
        st.tuples(st.just("leave"), st.integers(0, 5)),
        st.tuples(st.just("node"), st.integers(0, 1)),
        st.tuples(st.just("run"), st.integers(0, 5), st.integers(0, 4)),
        st.tuples(st.just("wait"), st.sampled_from((0.3, 1.0, 3.0, 11.0))),
        st.tuples(st.just("wait"), st.sampled_from((30.0, 65.0))),
        st.tuples(st.just("restart")),
        st.tuples(st.just("kill")),
        st.tuples(st.just("solver"), st.booleans()),
    ),
    min_size=6,
    max_size=25,
)


@pytest.fixture(autouse=True, scope="module")
def _both_ways():
    """Every decision is made with what earlier steps have derived, and without: it is the same."""
    step = journaling.step

    def step_twice(state, seq, at, event, cache):
        alone = step(state, seq, at, event, StepCache(cache.registry))
        kept = step(state, seq, at, event, cache)
        assert kept == alone
        return kept

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journaling, "step", step_twice)
        yield


class History:
    """Plays steps."""

    def __init__(self, **settings):
        self.world = World.of(*NODES, **{"lease_s": 60.0, "f": 0.5, "place_within_s": 20.0, **settings})
        self.lost = set()
        for rho in (8.0, 4.0, 2.0):
            self.arrive({"rho": rho, "rows": (row(1.0, 1), row(0.7, 2), row(0.5, 2, 2)), "jobs": JOBS})

    def play(self, played):
        for name, *values in played:
            getattr(self, name)(*values)
            check_state(self.world.stage.state(), self.lost)

    def arrive(self, agent):
        self.world.arrive(f"app {len(self.world.agents)}", **agent)

    def app(self, number):
        here = [app for app in self.world.agents if app in self.world.stage.intake.state.registered]
        return here[number % len(here)] if here else None

    def change(self, number, agent):
        app = self.app(number)
        for name, value in agent.items() if app else ():
            setattr(self.world.agents[app], name, value)

    def leave(self, number):
        if app := self.app(number):
            self.world.stage.take(Deregistered(app), 0.01)

    def node(self, number):
        name = NODES[number].id
        if name in self.lost:
            self.lost.discard(name)
            self.world.stage.take(NodesChanged((NODES[number],), ()), 0.01)
        else:
            self.lost.add(name)
            broken = (NODES[number],) if number else ()
            self.world.stage.take(NodesChanged((), (name,), broken), 0.01)

    def run(self, number, gpus):
        if app := self.app(number):
            self.world.run(app, n1=(1,) * (gpus // 2), n2=(1,) * gpus)

    def wait(self, seconds):
        self.world.wait(seconds)

    def restart(self):
        self.world.stage.take(Configured(self.world.stage.intake.state.pools), 0.01)

    def solver(self, is_lost):
        """The worker's process is lost with a problem, or it solves again."""
        self.world.stage.solves = not is_lost
        while self.world.stage.problems:
            self.world.stage.solve("lost" if is_lost else "done")

    def kill(self):
        """Another process goes on from the journal."""
        before = self.world.stage
        stage = Simulated(journal=before.journal)
        assert stage.intake.state == before.intake.state
        stage.clock, stage.solves, stage.decided = before.clock, True, before.decided
        stage.intake._clock = before.clock
        self.world.stage = stage
        self.restart()


def check_state(state, lost):
    started, waiting = [], []
    for held in state.leases.values():
        (waiting if held.started_at is None else started).extend(held.gpus)
        assert set(held.leaving) <= set(held.gpus)
        assert bool(held.leaving) == (held.by is not None) == (held.revoke is not None)
        assert held.revoke is None or held.revoke in state.open
        assert held.lease.app in state.members
    assert len(started) == len(set(started)), "a GPU is in two leases that have begun"
    assert len(waiting) == len(set(waiting)), "a GPU is promised twice"
    usable = {gpu for gpu in GPUS if f"{gpu.split('/')[0]}:8041" not in lost}
    assert {*started, *waiting} <= usable


def check_decisions(decided):
    """No GPU is granted twice; every round has a cause; leases end or are renewed."""
    holder, until, gpus_of = {}, {}, {}
    for one in decided:
        for message in sent([one]):
            match message:
                case Grant(_, _, leases):
                    for lease in leases:
                        assert lease.id not in until
                        until[lease.id], gpus_of[lease.id] = lease.until, {holding.cell for holding in lease.holdings}
                        assert gpus_of[lease.id] <= GPUS
                        for gpu in gpus_of[lease.id]:
                            assert gpu not in holder, f"{gpu} is granted twice"
                            holder[gpu] = lease.id
                case Renew(_, _, lease, later):
                    assert later > until[lease]
                    until[lease] = later
                case LeaseEnded(_, _, lease, cells):
                    ended = set(cells) or set(gpus_of[lease])
                    assert ended <= gpus_of[lease]
                    for gpu in ended:
                        assert holder.pop(gpu) == lease
                    gpus_of[lease] -= ended
                    if not gpus_of[lease]:
                        del until[lease], gpus_of[lease]
        for command in one.commands:
            if isinstance(command, RecordRound):
                assert command.cause.opened_by
                parts = [*command.cause.won, *command.cause.leftover, *command.cause.idle]
                # GPUs without room are not offered.
                total = sum(n for what, n in parts if what != NO_ROOM)
                assert command.cause.error or total <= command.cause.gpus
    return until


@pytest.mark.matrix
@settings(max_examples=20)
@given(steps, st.sampled_from(("themis", "themis", "themis", *LEASE_POLICIES)))
def test_whatever_happens_no_gpu_is_leased_twice_and_every_lease_ends_or_is_renewed(played, policy):
    history = History(policy=policy)
    history.play(played)
    world = history.world
    world.stage.solves = True
    world.stage.problems.clear()
    history.restart()
    world.wait(400.0)
    check_state(world.stage.state(), history.lost)
    until = check_decisions(world.stage.decided)
    revoked = {lease for lease, held in world.stage.state().leases.items() if held.leaving}
    assert set(until) == {lease for lease, held in world.stage.state().leases.items() if held.started_at is not None}
    # A round takes at most 2 + 5 + 10 + 0.5 s; a revoked lease waits for its containers.
    assert all(time > world.stage.clock.time - 30.0 for lease, time in until.items() if lease not in revoked)
    assert rerun_records(list(world.stage.journal.read()), TOYS).first_difference() is None
