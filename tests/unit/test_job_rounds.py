"""The allocator of rounds of jobs, through the arbiter's own step: applications answer what their jobs are."""

from dataclasses import replace

import pytest

from tests.lease_world import node
from tests.ledger_world import LedgerWorld
from yarn_plugin.decide.allocators.job_rounds import JobRoundsSettings
from yarn_plugin.decide.leases.settings import LedgerSettings
from yarn_plugin.decide.policies.lease import LEASE_POLICIES
from yarn_plugin.decide.pools.commands import Ask, Grant, Renew, Revoke
from yarn_plugin.drive.figure_runs import training_run
from yarn_plugin.drive.lease_simulator import LeaseSimulation
from yarn_plugin.drive.registry import installed
from yarn_plugin.drive.training_runs import arrivals, pool_of
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.causes import LeaseLost
from yarn_plugin.model.resources import GPU
from yarn_plugin.model.share import Pool
from yarn_plugin.simulation.leasing.application import installed_kind
from yarn_plugin.simulation.leasing.layout import Layout
from yarn_plugin.simulation.paper_figures.training_case import TrainingCase, TrainingSize


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


def test_applications_are_served_as_by_the_lease_controller():
    """Jobs of a search end one by one; under Tiresias, what they had still counts for their application."""
    case = TrainingCase(0, TrainingSize(cluster="8 GPUs", apps=6, jobs=4, scale=0.1, load=2.0), scenario="1")
    leased = []
    for policy in ("tiresias", "gandiva", "drf"):
        run = replace(training_run(replace(case, policy=policy)), keeps_holdings=True)
        settings = LedgerSettings(
            "job_rounds",
            JobRoundsSettings(policy, run.lease_s, grid_s=run.lease_s / 10, round_window_s=0.0),
            seed=run.seed,
            grace_s=0.0,
            overtime_s=1.0,
            place_within_s=0.0,
        )
        ledger = Pool("gpu", "root.gpu", (GPU,), controller="ledger", parameters=settings)
        outcomes = [
            LeaseSimulation(
                pool, installed(), Layout(run.cluster.machines), arrivals(run, installed_kind()), keeps_holdings=True
            ).run()
            for pool in (pool_of(run), ledger)
        ]
        first, second = ([(one.gpu, one.app, one.start, one.end) for one in outcome.holdings] for outcome in outcomes)
        assert sorted(first) == sorted(second), policy
        assert [one.number for one in outcomes[0].rounds] == [one.number for one in outcomes[1].rounds]
        leased.append(first)
    assert leased[0] != leased[1]
