"""From declared jobs to claims, and from these to what an application claims as a whole."""

from dataclasses import replace

import pytest

from tests.unit.test_membership import SQL, registered, running, state
from yarn_plugin.decide.events import AppsChanged, Deregistered, JobsDeclared, Revised
from yarn_plugin.decide.jobs import by_application, claims_of
from yarn_plugin.decide.membership import snapshot, view_of
from yarn_plugin.decide.observations import learn
from yarn_plugin.decide.pools.lease.members import demand_of
from yarn_plugin.model.causes import Causes
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Claim, Demand, Gang, GpuPart, Job, Pods

ONE_GPU, EIGHT_CORES = Resources.of({GPU: 1}), Resources.of({"vcores": 8})
TRAIN = Job(
    "train",
    "vision",
    virtual_cluster="vision/nightly",
    demand=Demand((Resources.of({GPU: 6}),)),
    priority=7,
    gang=Gang((Pods(2, 2), Pods(1, 2))),
    leaf_type="V100",
    pinned="n1/gpu-0",
    suggested=("n1", "n2"),
    ignore_suggested=False,
    lazy_preemption=True,
    sharing=GpuPart(0.5, 0.25, 0.5, 0.1),
)
EVALUATE = Job("evaluate", "vision", demand=Demand((EIGHT_CORES, ONE_GPU)), speeds=(1.0, 4.5), priority=-1)
REVISED = Revised("app_1", 1.0, Demand((Resources.of({"vcores": 3}),)))


def claims(known):
    return view_of(known, SQL, 5.0, 1, Causes(())).claims


def declared(*jobs):
    """An application that runs and declares these jobs, 4 s after its registration."""
    known = state(
        registered("app_1", "sql", "root.sql.x"), running("application_1", "root.sql.x"), app_1="application_1"
    )
    return learn(known, 2, 4.0, JobsDeclared("app_1", jobs))[0]


def test_each_job_is_a_claim_with_all_that_it_declared():
    train, evaluate = claims(declared(TRAIN, EVALUATE))
    assert (train.app, train.job, train.yarn_app, train.arrived_at) == ("app_1", "train", "application_1", 0.0)
    assert claims_of(Claim("app_1", 1.0, None, Resources()), [TRAIN]).__next__() == replace(
        Claim("app_1", 1.0, TRAIN.demand, Resources()),
        job="train",
        tenant="vision",
        virtual_cluster="vision/nightly",
        priority=7,
        gang=TRAIN.gang,
        leaf_type="V100",
        pinned="n1/gpu-0",
        suggested=("n1", "n2"),
        ignore_suggested=False,
        lazy_preemption=True,
        sharing=TRAIN.sharing,
        declared_at=0.0,
    )
    assert (evaluate.demand.alternatives, evaluate.speeds) == ((EIGHT_CORES, ONE_GPU), (1.0, 4.5))
    assert TRAIN.gang.cells == 6


def test_a_job_keeps_the_time_of_its_declaration_until_it_is_left_out():
    known = learn(declared(TRAIN), 3, 9.0, JobsDeclared("app_1", (EVALUATE, TRAIN)))[0]
    assert [(claim.job, claim.declared_at) for claim in claims(known)] == [("evaluate", 9.0), ("train", 4.0)]
    without = learn(known, 4, 11.0, JobsDeclared("app_1", (EVALUATE,)))[0]
    again = learn(without, 5, 13.0, JobsDeclared("app_1", (EVALUATE, TRAIN)))[0]
    assert [(claim.job, claim.declared_at) for claim in claims(again)] == [("evaluate", 9.0), ("train", 13.0)]


def test_an_application_without_jobs_claims_as_before():
    known = declared(TRAIN)
    before = declared()
    assert claims(learn(known, 3, 9.0, JobsDeclared("app_1", ()))[0]) == claims(before)
    (whole,) = claims(before)
    assert (whole.job, whole.tenant, whole.declared_at) == ("", "ann", None)


def test_an_unknown_application_declares_nothing():
    known = state()
    assert learn(known, 2, 4.0, JobsDeclared("app_9", (TRAIN,))) == (known, [])


def test_controllers_of_whole_applications_see_the_demands_of_its_jobs_together():
    two = replace(EVALUATE, name="two", demand=Demand((Resources.of({"vcores": 4, "memory-mb": 512}),)))
    known = declared(EVALUATE, two)
    seen = claims(known)
    (whole,) = by_application(seen, SQL.resources)
    assert whole.demand == Demand((Resources.of({"vcores": 12, "memory-mb": 512}),))
    expected = replace(claims(declared())[0], tenant="vision", demand=whole.demand)
    assert whole == expected
    assert snapshot(known, SQL, 5.0).claims == (whole,)


def test_of_each_job_the_best_alternative_counts_that_the_pool_can_give():
    (whole,) = by_application(claims(declared(TRAIN, EVALUATE)), (GPU,))
    assert demand_of(whole) == 7


def test_one_job_without_a_limit_makes_the_application_unlimited():
    (whole,) = by_application(claims(declared(TRAIN, replace(EVALUATE, demand=None))), (GPU,))
    assert whole.demand is None


def test_a_job_without_a_demand_can_use_what_its_application_registered():
    known = learn(declared(EVALUATE, replace(EVALUATE, name="any", demand=None)), 3, 5.0, REVISED)[0]
    assert [claim.demand for claim in claims(known)] == [EVALUATE.demand, REVISED.demand]
    (whole,) = by_application(claims(known), SQL.resources)
    assert whole.demand == Demand((Resources.of({"vcores": 11}),))


def test_without_jobs_the_claims_stay_the_same_value():
    seen = claims(declared())
    assert by_application(seen, SQL.resources) is seen


def test_jobs_claim_once_yarn_knows_their_application():
    """Before, its applications of one tenant count as one; their jobs are part of what that one can use."""
    waiting = state(registered("app_1", "sql", "root.sql.x"), replace(registered("app_2", "sql", "root.sql.y")))
    waiting = learn(waiting, 2, 4.0, JobsDeclared("app_1", (replace(EVALUATE, tenant="ann"),)))[0]
    waiting = learn(waiting, 3, 4.0, replace(REVISED, app="app_2"))[0]
    (one,) = claims(waiting)
    assert (one.app, one.job, one.demand) == ("app_1", "", Demand((EIGHT_CORES,)))
    assert [app for app, _ in one.together] == ["app_1", "app_2"]


@pytest.mark.parametrize("fewer", [1, 2])
def test_all_alternatives_of_expected_applications_are_carried(fewer):
    first, second = (Resources.of({"vcores": cores}) for cores in (2, 16))
    waiting = state(registered("app_1", "sql", "root.sql.x"), registered("app_2", "sql", "root.sql.y"))
    waiting = learn(waiting, 2, 4.0, Revised("app_1", 1.0, Demand((EIGHT_CORES, ONE_GPU))))[0]
    waiting = learn(waiting, 3, 4.0, Revised("app_2", 1.0, Demand((first, second)[:fewer])))[0]
    (one,) = claims(waiting)
    last = (first, second)[fewer - 1]
    assert one.demand == Demand((EIGHT_CORES, Resources.of({GPU: 1}) + last))


def test_expected_applications_of_two_tenants_count_apart():
    waiting = state(registered("app_1", "sql", "root.sql.x"), registered("app_2", "sql", "root.sql.y"))
    waiting = learn(waiting, 2, 4.0, JobsDeclared("app_2", (TRAIN,)))[0]
    assert [(claim.app, claim.tenant) for claim in claims(waiting)] == [("app_1", "ann"), ("app_2", "vision")]


def test_jobs_end_with_their_application_and_return_with_it():
    known = declared(TRAIN)
    assert learn(known, 3, 5.0, Deregistered("app_1"))[0].jobs == {}
    gone = learn(known, 3, 5.0, AppsChanged((), ("application_1",)))[0]
    assert (gone.jobs, gone.registered) == ({}, {})
    back = learn(gone, 4, 6.0, AppsChanged((running("application_1", "root.sql.x"),), ()))[0]
    assert (back.jobs, back.registered) == (known.jobs, known.registered)
