"""The allocator of rounds of jobs, through the arbiter's own step: applications answer what their jobs are."""

import pytest

from tests.lease_world import node
from tests.ledger_world import LedgerWorld
from yarn_plugin.decide.allocators.job_rounds import JobRoundsSettings
from yarn_plugin.decide.policies.lease import LEASE_POLICIES
from yarn_plugin.decide.pools.commands import Ask, Grant, Renew, Revoke
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.causes import LeaseLost
from yarn_plugin.model.resources import GPU


def world(policy="tiresias", **parameters):
    settings = JobRoundsSettings(policy, lease_s=100.0)
    return LedgerWorld.of("job_rounds", node("n1", 2), node("n2", 2), settings=settings, overtime_s=20.0, **parameters)


@pytest.mark.parametrize("policy", sorted(LEASE_POLICIES))
def test_every_policy_gives_gpus_to_jobs(policy):
    pool = world(policy)
    a, b = pool.arrive("a", {GPU: 2}), pool.arrive("b", {GPU: 2})
    pool.wait(10.0)
    assert {app: len(cells) for app, cells in pool.leases().items()} == {a: 2, b: 2}
    leases = [lease for grant in pool.sent(Grant) for lease in grant.leases]
    assert {(lease.app, lease.job, lease.until is not None) for lease in leases} == {(a, "j", True), (b, "j", True)}


def test_leases_are_renewed_where_nobody_else_wins_them():
    pool = world()
    a = pool.arrive("a", {GPU: 2})
    pool.wait(150.0)
    assert [one.app for one in pool.sent(Renew)] == [a]
    assert not pool.sent(Revoke)


def test_who_has_had_least_wins_at_the_end_of_a_lease_and_waits_for_its_holder():
    pool = world()
    a, b = pool.arrive("a", {GPU: 4}), pool.arrive("b", {GPU: 4})
    pool.wait(50.0)
    (first,) = pool.leases()
    pool.wait(400.0)
    assert pool.failure is None
    lost = [one for one in pool.sent(Revoke) if isinstance(one.cause, LeaseLost)]
    assert lost or len(pool.sent(Renew)) >= 3
    assert {first} <= {a, b}


def test_what_happens_during_a_round_opens_the_next_one():
    pool = world()
    pool.arrive("a", {GPU: 1})
    pool.wait(1.0)
    b = pool.arrive("b", {GPU: 1})
    pool.wait(20.0)
    assert len(pool.leases()[b]) == 1
    asked = len(pool.sent(Ask))
    pool.wait(40.0)
    assert len(pool.sent(Ask)) == asked, "nothing happened, so no round opened"


def test_settings_that_are_wrong_are_refused():
    with pytest.raises(BadInputError, match="policy 'lottery': choose one of drf"):
        JobRoundsSettings("lottery")
    with pytest.raises(BadInputError, match=r"lease_s 0.0: must be"):
        JobRoundsSettings(lease_s=0.0)
