"""Estimates and bids over HTTP: what is wrong with one is said to its sender, and the round goes on without it."""

from collections import deque

import pytest

from tests.http_service import Service, problems, running
from tests.lease_world import SETTINGS, node
from yarn_plugin.decide.events import AppsChanged, NodesChanged
from yarn_plugin.decide.pools.lease import LeaseSettings
from yarn_plugin.model.resources import GPU
from yarn_plugin.model.share import Pool


@pytest.fixture
def service(tmp_path):
    parameters = LeaseSettings(**SETTINGS)
    made = Service(tmp_path, Pool("gpu", "root.gpu", (GPU,), controller="lease", parameters=parameters))
    made.arbiter.take(NodesChanged((node("n1"),), ()))
    yield made
    made.arbiter.close()


@pytest.fixture
def app(service):
    """An application that was asked for its estimate in round 1."""
    app = service.register(pool="gpu")
    service.arbiter.take(AppsChanged((running("application_1_0001", app.queue),), ()))
    service.arbiter.clock.time += 3.0
    deque(service.arbiter._intake.fire_due(service.arbiter.clock.time), maxlen=0)
    assert round_of(service).phase == "estimating"
    return app


def round_of(service):
    return service.arbiter.state.pool_states["gpu"].state.round


def said(service, app, type, **fields):
    return service.ask(app.token, "POST", f"/v1/apps/{app.app}/messages", {"type": type, "round": 1, **fields})


def bid(service, app, *rows, **fields):
    rows = [{"pieces": [{"gpus": gpus, "within": within}], "rho": rho} for gpus, within, rho in rows]
    return said(service, app, "lease.bid", **{"rho": None, "rows": rows, **fields})


def test_a_good_bid_is_taken(service, app):
    assert said(service, app, "lease.estimate", rho=9.0).status_code == 204
    assert bid(service, app, (2, "", 1.0)).status_code == 204
    assert list(round_of(service).bids) == [app.app]


@pytest.mark.parametrize(
    ("rows", "field", "value", "expected"),
    [
        (((5, "", 1.0),), "rows.0.pieces.0.gpus", 5, "at most 4, the most that one machine offers"),
        (((2, "", 1.0), (1, "n9", 2.0)), "rows.1.pieces.0.within", "n9", "of the offer"),
        (((2, "", -1.0),), "rows.0.rho", -1.0, "must be a number from"),
        (((2, "", 1.0), (2, "", 2.0)), "rows.1.pieces", "2 in any machine", "must differ from those of rows.0"),
    ],
)
def test_what_is_wrong_with_a_bid_is_said_and_it_is_the_empty_bid(service, app, rows, field, value, expected):
    assert said(service, app, "lease.estimate", rho=9.0).status_code == 204
    answer = bid(service, app, *rows)
    assert answer.status_code == 422
    ((named, given, right),) = problems(answer)
    assert (named, given) == (field, value)
    assert expected in right
    # The round does not wait for another one.
    assert (round_of(service).phase, dict(round_of(service).bids)) == ("solving", {})


def test_a_bid_of_another_round_is_refused_and_the_offer_stays_open(service, app):
    assert said(service, app, "lease.estimate", rho=9.0).status_code == 204
    answer = bid(service, app, (2, "", 1.0), round=7)
    assert (answer.status_code, problems(answer)[0][:2]) == (422, ("round", 7))
    assert bid(service, app, (2, "", 1.0)).status_code == 204
    assert list(round_of(service).bids) == [app.app]


def test_a_late_bid_is_not_wrong(service, app):
    assert bid(service, app, (99, "", 1.0)).status_code == 204
    assert round_of(service).phase == "estimating"


def test_what_is_wrong_with_an_estimate_is_said(service, app):
    jobs = [{"id": "a", "iterations_left": 10.0, "iteration_s": -1.0}]
    answer = said(service, app, "lease.estimate", rho=9.0, jobs=jobs)
    assert (answer.status_code, problems(answer)[0][:2]) == (422, ("jobs.0.iteration_s", -1.0))
    assert round_of(service).phase == "estimating"
    assert said(service, app, "lease.estimate", rho=9.0).status_code == 204
