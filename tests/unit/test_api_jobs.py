"""Jobs over HTTP: what is declared reaches the claims, and what is wrong is refused by field, value and remedy."""

import pytest

from tests.http_service import Arbiter, problems, running
from yarn_plugin.api import job_translation
from yarn_plugin.api.jobs import DeclaredJobs
from yarn_plugin.decide import events
from yarn_plugin.decide.allocators.allox.settings import AlloxSettings
from yarn_plugin.decide.allocators.shared_gpus import SharedGpusSettings
from yarn_plugin.decide.leases.settings import LedgerSettings
from yarn_plugin.decide.mechanisms.interference import Interference, Pair, Profile
from yarn_plugin.decide.membership import view_of
from yarn_plugin.model.causes import Causes
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Demand, Gang, GpuPart, Pods, Pool

PART = {"computing": 0.5, "memory": 0.25, "peak_memory": 0.5, "peak_probability": 0.1, "kind": "resnet"}
WHOLE = {
    "name": "train",
    "tenant": "vision",
    "virtual_cluster": "vision/nightly",
    "priority": 7,
    "alternatives": [{"resources": {GPU: 3}, "speed": 4.5}, {"resources": {"vcores": 24}, "speed": 1.0}],
    "gang": [{"pods": 2, "cells_each": 1}, {"pods": 1, "cells_each": 1}],
    "leaf_type": "V100",
    "pinned_cell": "n1/gpu-0",
    "suggested_nodes": ["n1", "n2"],
    "ignore_suggested_nodes": False,
    "lazy_preemption": True,
    "sharing": PART,
    "work": 600.0,
}


@pytest.fixture
def service(make):
    return make(tenants={"vision": ["ann", "bob"], "speech": ["bob"]})


def declare(service, made, *jobs, token=None):
    return service.ask(token or made.token, "PUT", f"/v1/apps/{made.app}/jobs", {"jobs": list(jobs)})


def start(service, made, number=1):
    """Have YARN run a registered application."""
    app = running(f"application_1_000{number}", made.queue)
    service.arbiter.take(events.AppsChanged((app,), ()))


def claims(service):
    state = service.arbiter.state
    return view_of(state, state.pools[0], 0.0, 1, Causes(())).claims


def test_every_field_reaches_the_claim(service):
    made = service.register()
    start(service, made)
    assert declare(service, made, WHOLE).status_code == 200
    (claim,) = claims(service)
    assert (claim.app, claim.job, claim.tenant, claim.virtual_cluster) == (
        made.app,
        "train",
        "vision",
        "vision/nightly",
    )
    assert claim.demand == Demand((Resources.of({GPU: 3}), Resources.of({"vcores": 24})))
    assert (claim.speeds, claim.priority, claim.leaf_type) == ((4.5, 1.0), 7, "V100")
    assert (claim.gang, claim.gang.cells) == (Gang((Pods(2, 1), Pods(1, 1))), 3)
    assert (claim.pinned, claim.suggested, claim.ignore_suggested) == ("n1/gpu-0", ("n1", "n2"), False)
    assert (claim.work, claim.lazy_preemption, claim.sharing) == (600.0, True, GpuPart(0.5, 0.25, 0.5, 0.1, "resnet"))
    assert claim.declared_at == service.arbiter.clock.now()


def test_a_job_needs_no_more_than_a_name(service):
    made = service.register()
    start(service, made)
    answer = declare(service, made, {"name": "a"}, {"name": "b", "gang": [{"pods": 2, "cells_each": 4}]})
    first, second = claims(service)
    assert (first.tenant, first.virtual_cluster, first.demand, first.priority, first.sharing) == (
        *("ann", "", None),
        *(0, None),
    )
    assert second.demand == Demand((Resources.of({GPU: 8}),))
    shown = DeclaredJobs.model_validate(answer.json()).jobs
    assert [(job.name, job.tenant, job.virtual_cluster) for job in shown] == [("a", "ann", "ann"), ("b", "ann", "ann")]


def test_what_is_shown_can_be_declared_again_and_changes_nothing(service):
    made = service.register()
    shown = declare(service, made, WHOLE, {"name": "b", "tenant": "vision"}).json()
    before = service.arbiter.state
    assert service.ask(made.token, "GET", f"/v1/apps/{made.app}/jobs").json() == shown
    jobs = [{name: value for name, value in job.items() if name != "declared_at"} for job in shown["jobs"]]
    assert declare(service, made, WHOLE, {"name": "b", "tenant": "vision"}).json() == shown
    assert service.arbiter.state is before, "nothing was decided on, so nothing was journaled"
    assert declare(service, made, *jobs).json() == shown
    assert service.arbiter.state is before


def test_jobs_that_are_left_out_end(service):
    made = service.register()
    start(service, made)
    declare(service, made, {"name": "a"}, {"name": "b"})
    declare(service, made, {"name": "b"}, {"name": "c"})
    assert [claim.job for claim in claims(service)] == ["b", "c"]
    declare(service, made)
    assert [claim.job for claim in claims(service)] == [""]


def test_an_application_s_share_follows_its_jobs_together(service):
    made = service.register()
    start(service, made)
    declare(service, made, *({"name": n, "alternatives": [{"resources": {"vcores": 3}}]} for n in "ab"))
    told = service.ask(made.token, "GET", f"/v1/apps/{made.app}").json()["share"]
    assert told["entitlement"]["resources"] == {"vcores": 6}
    assert told["reason"].startswith(f"{made.app} changed its jobs; the pool now has 1 application")
    (pool,) = service.as_admin("GET", "/v1/cluster").json()["pools"]
    assert pool["apps"] == 1


def test_another_s_jobs_are_neither_seen_nor_changed(service):
    mine, hers = service.register("mine", "ann"), service.register("hers", "eve")
    for stranger in (service.user("eve"), hers.token):
        assert service.ask(stranger, "GET", f"/v1/apps/{mine.app}/jobs").status_code == 403
        assert declare(service, mine, {"name": "a"}, token=stranger).status_code == 403
    assert service.arbiter.state.jobs == {}


def test_only_a_registered_application_declares_jobs(service):
    service.arbiter.take(events.AppsChanged((running("application_1_0001", "root.sql.etl"),), ()))
    answer = service.as_admin("PUT", "/v1/apps/application_1_0001/jobs", {"jobs": []})
    assert (answer.status_code, problems(answer)[0][0]) == (404, "app")


@pytest.mark.parametrize(
    ("change", "field", "value", "right"),
    [
        ({"name": "a b"}, "name", "a b", "must match [A-Za-z0-9._-]{1,100}"),
        ({"name": None}, "name", None, "must be a string"),
        ({"tenant": "a/b"}, "tenant", "a/b", "must match [A-Za-z0-9._@-]{1,100}"),
        ({"virtual_cluster": "vision//x"}, "virtual_cluster", "vision//x", "must match"),
        ({"virtual_cluster": "speech/x"}, "virtual_cluster", "speech/x", "must be vision or begin with vision/"),
        ({"priority": -2}, "priority", -2, "must be at least -1"),
        ({"priority": 1001}, "priority", 1001, "must be at most 1000"),
        ({"priority": 1.5}, "priority", 1.5, "must be an integer"),
        ({"alternatives": []}, "alternatives", "[]", "must have at least 1 item"),
        ({"alternatives": [{"resources": {GPU: 0}}]}, "alternatives.0.resources", "{'yarn.io/gpu': 0}", "above 0"),
        ({"alternatives": [{"resources": {GPU: -1}}]}, f"alternatives.0.resources.{GPU}", -1, "must be at least 0"),
        ({"alternatives": [{"speed": 1}]}, "alternatives.0.resources", "{'speed': 1}", "required"),
        ({"alternatives": [{"resources": {GPU: 3}, "speed": 0}]}, "alternatives.0.speed", 0, "must be above 0"),
        ({"gang": []}, "gang", "[]", "must have at least 1 item"),
        ({"gang": [{"pods": 0, "cells_each": 1}]}, "gang.0.pods", 0, "must be at least 1"),
        ({"gang": [{"pods": 1, "cells_each": 0}]}, "gang.0.cells_each", 0, "must be at least 1"),
        ({"gang": [{"pods": 4, "cells_each": 1}]}, "gang", "[{'pods': 4, 'cells_each': 1}]", "GPUs, 3, not 4"),
        ({"gang": [{"pods": 100_000, "cells_each": 1000}]}, "gang", None, "must have at most 1000000 cells together"),
        ({"leaf_type": ""}, "leaf_type", "", "must have at least 1 character"),
        ({"pinned_cell": "n1\n"}, "pinned_cell", "n1\n", "must have no control characters"),
        ({"priority": -1}, "pinned_cell", "n1/gpu-0", "must be left out with priority -1"),
        ({"suggested_nodes": "n1"}, "suggested_nodes", "n1", "must be a list"),
        ({"suggested_nodes": [""]}, "suggested_nodes.0", "", "must have at least 1 character"),
        ({"ignore_suggested_nodes": "perhaps"}, "ignore_suggested_nodes", "perhaps", "must be true or false"),
        ({"lazy_preemption": 2}, "lazy_preemption", 2, "must be true or false"),
        ({"sharing": {"memory": 0.5}}, "sharing.computing", "{'memory': 0.5}", "required"),
        ({"sharing": {**PART, "computing": 1.2}}, "sharing.computing", 1.2, "must be at most 1"),
        ({"sharing": {**PART, "memory": 0}}, "sharing.memory", 0, "must be above 0"),
        ({"sharing": {**PART, "peak_memory": 0.1}}, "sharing.peak_memory", 0.1, "must be at least memory, 0.25"),
        ({"sharing": {**PART, "peak_probability": 2}}, "sharing.peak_probability", 2, "must be at most 1"),
        ({"gang": [{"pods": 1, "cells_each": 3}]}, "sharing", None, "must be left out where a pod of the gang has"),
        ({"gang": None}, "sharing", None, "must be left out where an alternative has several GPUs"),
        ({"work": 0}, "work", 0, "must be above 0"),
        ({"weight": 2}, "weight", 2, "unknown key"),
        ({f"key-{n}": n for n in range(40)}, "", None, "must have at most 32 keys, not 53"),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else "",
)
def test_a_refusal_names_the_field_the_value_and_what_would_be_right(service, change, field, value, right):
    made = service.register()
    answer = declare(service, made, {**WHOLE, **change})
    ((refused, given, expected),) = problems(answer)
    assert (answer.status_code, refused) == (422, f"jobs.0.{field}".rstrip("."))
    assert value is None or given == value
    assert right in expected
    assert "\n" not in expected
    assert service.arbiter.state.jobs == {}


@pytest.mark.parametrize(
    ("jobs", "field", "value", "right"),
    [
        ([{"name": "a"}, {"name": "a"}], "jobs.1.name", "a", "another job has this name"),
        ([{"name": "a"}, {"name": "b", "tenant": "vision"}], "jobs.1.tenant", "vision", "must be of ann"),
        ([{"name": "a", "tenant": "vision"}, {"name": "b"}], "jobs.1.tenant", None, "must be of vision"),
        (
            [{"name": "a"}, {"name": "b", "virtual_cluster": "vision/x"}],
            *("jobs.1.virtual_cluster", "vision/x", "must be of ann"),
        ),
        (
            [{"name": str(n)} for n in range(201)],
            *("jobs", None, "must have at most 200 items"),
        ),
        (None, "jobs", None, "must be a list"),
    ],
)
def test_jobs_that_do_not_fit_together_are_refused(service, jobs, field, value, right):
    made = service.register()
    answer = service.ask(made.token, "PUT", f"/v1/apps/{made.app}/jobs", {"jobs": jobs})
    ((refused, given, expected),) = problems(answer)
    assert (answer.status_code, refused) == (422, field)
    assert value is None or given == value
    assert right in expected
    assert service.arbiter.state.jobs == {}


@pytest.mark.parametrize(
    ("user", "job", "status"),
    [
        ("ann", {"tenant": "vision"}, 200),
        ("ann", {"tenant": "ann"}, 200),
        ("ann", {"virtual_cluster": "vision/x"}, 200),
        ("ann", {"virtual_cluster": "ann/x"}, 200),
        ("ann", {"tenant": "speech"}, 403),
        ("ann", {"virtual_cluster": "speech/x"}, 403),
        ("ann", {"tenant": "bob"}, 403),
        ("eve", {"tenant": "vision"}, 403),
    ],
)
def test_a_user_names_their_own_tenants_only(service, user, job, status):
    made = service.register(user=user)
    for token in (made.token, service.user(user)):
        answer = declare(service, made, {"name": "a", **job}, token=token)
        assert answer.status_code == status
        if status == 403:
            ((field, value, expected),) = problems(answer)
            assert (field, value) == next((f"jobs.0.{name}", value) for name, value in job.items())
            assert f"{user} may not name tenant" in expected
            assert user in expected.split(";")[1]
    assert bool(service.arbiter.state.jobs) == (status == 200)


def test_the_administrator_may_name_every_tenant(service):
    made = service.register()
    answer = service.as_admin("PUT", f"/v1/apps/{made.app}/jobs", {"jobs": [{"name": "a", "tenant": "speech"}]})
    assert answer.status_code == 200


def test_of_very_many_wrong_values_few_are_reported(service):
    """To find all of them would take the arbiter's time from others."""
    made = service.register()
    wrong = {"name": "a", "suggested_nodes": [1] * 1000}
    answer = declare(service, made, *[wrong] * 30)
    assert [field for field, _, _ in problems(answer)] == ["jobs.0.suggested_nodes.0"]


def test_the_largest_list_of_jobs_is_accepted(service):
    made = service.register()
    jobs = [{**WHOLE, "name": f"job-{number}"} for number in range(200)]
    assert declare(service, made, *jobs).status_code == 200
    assert len(service.arbiter.state.jobs[made.app]) == 200


def test_declared_jobs_survive_a_kill_before_the_decision_and_after(make, tmp_path):
    """What the journal has was acknowledged, or may have been: after kill -9 it is decided on, if it was not before."""
    service = make()
    made = service.register(demand=[{"vcores": 1}])
    shown = declare(service, made, {**WHOLE, "tenant": "ann", "virtual_cluster": None}).json()
    state = service.arbiter.state
    service.arbiter.close()
    journal = next(tmp_path.glob("*/journal"))
    whole = journal.read_bytes()
    *before, _ = whole.splitlines(keepends=True)
    for cut in (b"".join(before), whole, whole[:-5]):
        journal.write_bytes(cut)
        again = Arbiter(journal)
        assert again.state.jobs == state.jobs
        assert again.state.pool_states == state.pool_states
        assert job_translation.declared_jobs(again.state, made.app, 0.0).model_dump(mode="json") == shown
        again.close()


def test_a_kind_of_training_that_a_sharing_pool_does_not_know_is_refused_in_one_line(make):
    known = Interference({"lstm": Profile(), "vgg": Profile()}, (Pair("lstm", "vgg", 0.1),))
    parameters = LedgerSettings("shared_gpus", SharedGpusSettings(known), gpu_memory_mb=16_000)
    service = make(Pool("gpu", "root.gpu", (GPU,), controller="ledger", parameters=parameters))
    made = service.register(pool="gpu")
    answer = declare(service, made, {"name": "a", "sharing": {**PART, "kind": "resnet"}})
    assert (answer.status_code, problems(answer)) == (
        *(422,),
        [("jobs.0.sharing.kind", "resnet", "choose one of lstm, vgg")],
    )
    assert service.arbiter.state.jobs == {}
    assert declare(service, made, {"name": "a", "sharing": {**PART, "kind": "vgg"}}).status_code == 200
    assert declare(service, made, {"name": "a", "sharing": {**PART, "kind": None}}).status_code == 200


def mixed(*resources, cpu_slot=True):
    """A pool of GPUs and slots of cores."""
    slot = {"vcores": 4, "memory-mb": 4096} if cpu_slot else {}
    settings = LedgerSettings("allox", AlloxSettings(cpu_slot=slot))
    return Pool("mixed", "root.mixed", resources, controller="ledger", parameters=settings)


@pytest.mark.parametrize(
    ("pool", "job", "problem"),
    [
        (mixed("vcores", GPU), [{GPU: 2}, {"vcores": 2}], (f"0.resources.{GPU}", 2, "must be 1: a job has one GPU")),
        (mixed("vcores", GPU), [{GPU: 1}, {"vcores": 5}], ("1.resources.vcores", 5, "must be at most 4: a slot has")),
        (mixed("vcores", GPU), [{"memory-mb": 4097}], ("0.resources.memory-mb", 4097, "must be at most 4096")),
        (mixed("vcores", GPU), [{GPU: 2}, {"vcores": 64}], (f"0.resources.{GPU}", 2, "must be 1")),
        (mixed("vcores"), [{GPU: 1}, {"vcores": 4}], (f"0.resources.{GPU}", 1, "must be left out: pool mixed has no")),
        (mixed("vcores", GPU, cpu_slot=False), [{"vcores": 4}], ("0.resources", "{'vcores': 4}", f"must have {GPU}")),
    ],
)
def test_a_job_that_fits_no_machine_of_its_pool_is_refused_in_one_line(make, pool, job, problem):
    service = make(pool)
    made = service.register(pool="mixed")
    answer = declare(service, made, {"name": "train", "alternatives": [{"resources": amounts} for amounts in job]})
    assert answer.status_code == 422
    ((field, value, expected),) = problems(answer)
    assert (field, value) == (f"jobs.0.alternatives.{problem[0]}", problem[1])
    assert expected.startswith(problem[2])
    assert "\n" not in expected
    assert service.arbiter.state.jobs == {}


@pytest.mark.parametrize("speed", [0, -1, 1e13, "fast"])
def test_a_speed_that_is_none_is_refused(service, speed):
    made = service.register()
    answer = declare(service, made, {"name": "train", "alternatives": [{"resources": {GPU: 1}, "speed": speed}]})
    assert answer.status_code == 422
    assert problems(answer)[0][:2] == ("jobs.0.alternatives.0.speed", speed)
