"""Where applications stand: share, guarantee and finish-time fairness of shared and of leased pools in one view."""

import pytest

from tests.http_service import Service, problems
from tests.lease_world import World, node, row
from tests.small_cells import in_prod
from yarn_plugin.api import translate, wire
from yarn_plugin.cli.apps import _pool, _row
from yarn_plugin.decide.events import AppsChanged
from yarn_plugin.decide.pools.commands import Hold
from yarn_plugin.model.cluster import YarnApp
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import CompletionEstimate, Pool

SQL = Pool("sql", "root.sql", ("memory-mb", "vcores"))


@pytest.fixture
def service(tmp_path):
    made = Service(tmp_path, SQL)
    yield made
    made.arbiter.close()


def says(service, app, **fields):
    body = {"type": "share.estimate", "elapsed_s": 10.0, "remaining_s": 20.0, "guaranteed_s": 20.0, **fields}
    return service.ask(app.token, "POST", f"/v1/apps/{app.app}/messages", body)


def standing(service, app):
    return service.ask(app.token, "GET", f"/v1/apps/{app.app}").json()["standing"]


def test_a_query_says_when_it_expects_to_finish(service):
    app = service.register()
    assert standing(service, app) == {"guarantee": 1.0, "entitlement": 1.0, "used": 0.0, "rho": None}
    assert says(service, app).status_code == 204
    assert standing(service, app)["rho"] == pytest.approx(1.5)
    service.arbiter.clock.time += 15.0
    assert standing(service, app)["rho"] == pytest.approx(1.5), "as it expected"
    service.arbiter.clock.time += 25.0
    assert standing(service, app)["rho"] == pytest.approx(2.5), "it is late, and has said nothing since"
    # A share that changes leaves the estimate; the next estimate replaces it.
    service.register("other", user="bob")
    assert standing(service, app) == {"guarantee": 0.5, "entitlement": 0.5, "used": 0.0, "rho": pytest.approx(2.5)}
    assert says(service, app, elapsed_s=50.0, remaining_s=10.0).status_code == 204
    assert standing(service, app)["rho"] == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("elapsed_s", -1.0, "at least 0"),
        ("remaining_s", -0.5, "at least 0"),
        ("remaining_s", "soon", "must be a number"),
        ("guaranteed_s", 0, "above 0"),
        ("guaranteed_s", None, "must be a number"),
        ("rows", 3, "unknown key"),
    ],
)
def test_an_invalid_estimate_is_refused_with_its_field(service, field, value, expected):
    app = service.register()
    answer = says(service, app, **{field: value})
    assert answer.status_code == 422
    ((named, _, problem),) = problems(answer)
    assert (named, expected in problem) == (field, True), problem
    assert standing(service, app)["rho"] is None


def shown(world, app):
    state = world.stage.intake.state
    known = translate.find_known(state, app)
    return translate.app(state, known, world.stage.clock.time)


@pytest.mark.parametrize("is_ledger", [False, True])
def test_leased_gpus(is_ledger):
    """Of 4 GPUs ann leases all and uses 3; bob's rho is unbounded; cy waits."""
    world = World.of(node("n1"), max_apps=2, place_within_s=0.0, is_ledger=is_ledger)
    a = world.arrive("ann", rho=3.0, rows=(row(1.0, 4),))
    assert shown(world, a).standing == wire.Standing(guarantee=1.0, entitlement=0.0, used=0.0, rho=None)
    world.wait(20.0)
    world.run(a, n1=[3])
    b = world.arrive("bob", rho=None)
    c = world.arrive("cy", rho=1.0)
    assert [one.app for one in world.sent(Hold)] == [c]
    world.wait(20.0)
    assert shown(world, a).standing == wire.Standing(guarantee=0.5, entitlement=1.0, used=0.75, rho=3.0)
    assert shown(world, b).standing.rho is None, "there was no round since it arrived"
    assert shown(world, c).standing == wire.Standing(guarantee=0.0, entitlement=0.0, used=0.0, rho=None)
    assert shown(world, a).share is None
    world.wait(600.0)
    assert shown(world, b).standing.rho == "unbounded"


def test_an_estimate_from_before_the_first_lease_says_nothing_of_an_application_that_holds_gpus():
    world = World.of(node("n1"), place_within_s=0.0)
    app = world.arrive("ann", rho=None, rows=(row(1.0, 4),))
    world.wait(20.0)
    there = shown(world, app).standing
    assert (there.entitlement, there.rho) == (1.0, None)


def test_leased_gpus_of_an_auction_in_a_virtual_cluster():
    """The cluster has 8 of the pool's 16 GPUs; ann has won some of them."""
    world = in_prod()
    ann, bob = world.arrive("ann", {GPU: 4}), world.arrive("bob", {GPU: 4})
    world.wait(30.0)
    gpus = len(world.leases()[ann])
    assert shown(world, ann).standing.entitlement == gpus / 16
    assert [shown(world, app).standing.guarantee for app in (ann, bob)] == [0.25, 0.25]


@pytest.mark.parametrize("is_ledger", [False, True])
def test_where_nobody_asks_for_finish_time_fairness_it_is_not_known(is_ledger):
    world = World.of(node("n1"), policy="tiresias", is_ledger=is_ledger)
    app = world.arrive("ann", rho=None)
    world.wait(20.0)
    assert world.rounds_state().members[app].estimated_in is not None
    assert shown(world, app).standing.rho is None


def test_a_pool_says_what_it_divides_and_who_outside_uses_how_much(service):
    def app(number, queue, vcores):
        used = Resources.of({"memory-mb": 1024 * vcores, "vcores": vcores})
        return YarnApp(f"application_1_{number}", "x", "eve", queue, False, 900.0, used, Resources(), 2)

    before = service.as_admin("GET", "/v1/cluster").json()
    (pool,) = before["pools"]
    assert (pool["capacity"], pool["outside"]) == (before["capacity"], [])
    apps = (app(1, "root.etl", 4), app(2, "root.etl", 4), app(3, "root.adhoc", 2), app(4, "root.sql.x", 2))
    service.arbiter.take(AppsChanged(apps, ()))
    after = service.as_admin("GET", "/v1/cluster").json()
    (pool,) = after["pools"]
    assert pool["outside"] == [
        {"queue": "root.etl", "apps": 2, "used": {"memory-mb": 8192, "vcores": 8}},
        {"queue": "root.adhoc", "apps": 1, "used": {"memory-mb": 2048, "vcores": 2}},
    ]
    assert pool["capacity"]["vcores"] == before["capacity"]["vcores"] - 10
    line = _pool(wire.Pool.model_validate(pool), wire.Cluster.model_validate(after))
    whole, left = before["capacity"], pool["capacity"]
    assert line == (
        f"pool sql divides {left['memory-mb']} memory-mb, {left['vcores']} vcores of {whole['memory-mb']} memory-mb, "
        f"{whole['vcores']} vcores; outside it: root.etl 8192 memory-mb, 8 vcores (2 applications), "
        "root.adhoc 2048 memory-mb, 2 vcores (1 application)"
    )


def test_a_pool_of_leased_gpus_says_how_many_it_has():
    world = World.of(node("n1"), node("n2", gpus=2))
    world.arrive("ann", rho=1.0)
    world.wait(20.0)
    pools = translate.cluster(world.stage.intake.state, world.stage.clock.time).pools
    (pool,) = (one for one in pools if one.name == "gpu")
    assert pool.capacity == {"yarn.io/gpu": 6}


def test_both_kinds_in_one_table():
    app = wire.App(
        app="app_1", yarn_app=None, name="q", user="ann", pool="sql", queue="root.sql.q", registered=True, weight=1.0,
        state="running", used={}, pending={}, containers=1, share=None,
    )  # fmt: skip
    place = wire.Standing(guarantee=0.5, entitlement=0.75, used=0.25, rho=1.234)
    assert _row(app)[6:10] == ("", "", "", "-")
    assert _row(app.model_copy(update={"standing": place}))[6:10] == ("50.0%", "75.0%", "25.0%", "1.23")
    starved = place.model_copy(update={"rho": "unbounded"})
    assert _row(app.model_copy(update={"standing": starved}))[9] == "unbounded"


def test_finish_time_fairness_grows_once_the_expected_end_has_passed():
    estimate = CompletionEstimate(elapsed_s=30.0, remaining_s=30.0, guaranteed_s=40.0)
    assert [estimate.rho(since) for since in (0.0, 30.0, 50.0)] == [1.5, 1.5, 2.0]
