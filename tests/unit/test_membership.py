"""Which pool an application belongs to."""

from dataclasses import replace

import pytest

from yarn_plugin.decide.membership import home_of, snapshot
from yarn_plugin.decide.state import State
from yarn_plugin.model.cluster import ClusterView, YarnApp
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Pool, Registration

SQL = Pool("sql", "root.sql", ("vcores",))
NIGHTLY = Pool("nightly", "root.sql.nightly", ("vcores",))


def registered(app, pool, queue):
    return Registration(app, app, "ann", pool, queue, 1.0, None, 10.0, app, 0.0)


def running(app, queue):
    return YarnApp(app, app, "ann", queue, False, 0.0, Resources(), Resources(), 1)


def state(*known, pools=(SQL, NIGHTLY), **yarn_apps):
    return State(
        pools=pools,
        cluster=ClusterView(apps={one.id: one for one in known if isinstance(one, YarnApp)}),
        registered={one.id: one for one in known if isinstance(one, Registration)},
        yarn_apps=yarn_apps,
    )


@pytest.mark.parametrize("pools", [(SQL, NIGHTLY), (NIGHTLY, SQL)])
@pytest.mark.parametrize(
    ("queue", "home"),
    [("root.sql", SQL), ("root.sql.x", SQL), ("root.sql.nightly.x", NIGHTLY), ("root.sql.nightlyx", SQL)],
)
def test_an_unregistered_application_belongs_to_the_deepest_pool_around_its_queue(pools, queue, home):
    assert home_of(state(running("application_1", queue), pools=pools), "application_1") == home


@pytest.mark.parametrize("queue", ["root.default", "root", "root.sqlx"])
def test_a_queue_outside_every_pool_has_no_pool(queue):
    assert home_of(state(running("application_1", queue)), "application_1") is None


def test_a_registered_application_belongs_where_it_registered_wherever_it_runs():
    asked = registered("app_1", "sql", "root.sql.x")
    assert home_of(state(asked), "app_1") == SQL
    assert home_of(state(asked, running("application_1", "root.sql.nightly.x"), app_1="application_1"), "app_1") == SQL


def test_an_ended_application_belongs_to_no_pool():
    assert home_of(state(), "app_1") is None
    assert home_of(state(), "application_1") is None
    assert home_of(state(registered("app_1", "sql", "root.sql.x"), pools=(NIGHTLY,)), "app_1") is None


def test_a_user_has_one_share_under_its_names():
    """A registered application is its token's user's; an unregistered one that user's too, if its YARN user is."""
    asked = replace(registered("app_1", "sql", "root.sql.x"), user="alice", yarn_users=("alice", "etl"))
    known = state(asked, *(replace(running(name, "root.sql.y"), user=name, waiting=True) for name in ("etl", "bob")))
    assert {claim.app: claim.tenant for claim in snapshot(known, SQL, 0.0).claims} == {
        "app_1": "alice",
        "etl": "alice",
        "bob": "bob",
    }
