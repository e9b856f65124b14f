"""Random histories of a pool that the ledger adopted: no lease of the lease controller is lost, no GPU leased twice."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.test_lease_histories import History, check_decisions, check_state, steps
from tests.toys.registry import TOYS
from yarn_plugin.decide.allocators.auction import on_ledger
from yarn_plugin.decide.events import Configured
from yarn_plugin.decide.leases.validity import validate
from yarn_plugin.decide.policies.lease import LEASE_POLICIES
from yarn_plugin.decide.pools.ledger import LedgerState, cells_of_pool
from yarn_plugin.drive.replay import rerun_records


class AdoptedHistory(History):
    """`adopt` has another process with the pool as a ledger go on."""

    def play(self, played):
        for name, *values in played:
            getattr(self, name)(*values)
            self.check()

    def check(self):
        state = self.world.stage.state()
        if isinstance(state, LedgerState):
            intake = self.world.stage.intake.state
            validate(state.ledger, cells_of_pool(intake.cells, intake.pools[-1].parameters))
        else:
            check_state(state, self.lost)

    def adopt(self):
        self.kill()
        before = self.world.stage.state()
        *others, pool = self.world.stage.intake.state.pools
        adopted = replace(pool, controller="ledger", parameters=on_ledger(pool.parameters))
        self.world.stage.take(Configured((*others, adopted)), 0.01)
        return before


@settings(max_examples=5)
@given(steps, steps, st.sampled_from(("themis", "themis", "themis", *LEASE_POLICIES)))
def test_whatever_happened_the_ledger_goes_on_with_the_leases(before, after, policy):
    history = AdoptedHistory(policy=policy)
    history.play(before)
    world = history.world
    known = history.adopt()
    history.check()
    entries = world.stage.state().ledger.leases.values()
    assert {one.id for one in entries if one.is_started} >= {
        id for id, held in known.leases.items() if held.started_at is not None and not held.leaving
    }
    history.play(after)
    world.stage.solves = True
    world.stage.problems.clear()
    history.restart()
    world.wait(400.0)
    history.check()
    until = check_decisions(world.stage.decided)
    assert set(until) == {one.id for one in world.stage.state().ledger.leases.values() if one.is_started}
    assert rerun_records(list(world.stage.journal.read()), TOYS).first_difference() is None
