"""A query in virtual time: stages, shares, and the value of feedback."""

import pytest

from qoop.simulation.query import KIND
from yarn_plugin.errors import BadInputError
from yarn_plugin.simulation.application import (
    Container,
    ContainersChanged,
    Finished,
    SetContainers,
    ShareUpdated,
    Started,
    Vacated,
    WakeUpAt,
    WokenUp,
)

TEXT = """
    WITH v AS (SELECT a.k, sum(b.x) AS s FROM a, b, c WHERE a.k = b.k AND b.m = c.m GROUP BY a.k)
    SELECT v.k, w.s FROM v, v w, d, e WHERE v.k = w.k AND v.k = d.k AND d.m = e.m
"""
TABLES = {
    "a": {"rows": 1_000_000_000, "k": 1_000_000_000},
    "b": {"rows": 3_000_000, "k": 3_000_000, "m": 750_000, "x": 100_000},
    "c": {"rows": 100_000, "m": 25_000},
    "d": {"rows": 1_000_000_000, "k": 1_000_000_000, "m": 250_000_000},
    "e": {"rows": 1_000_000_000, "m": 250_000_000},
}
FALLS = ((0, 2048), (1, 16))


def query(seed="0", **parameters):
    given = KIND.parameters.model_validate({"query": TEXT, "tables": TABLES, **parameters})
    return KIND.application(given, Container(4096, 2), seed)


def live(app, *told, until=10_000.0):
    """Tell an application these things at their times, wake it as it asks, and give what it wants at once.

    Returns all that it asked for, with the time."""
    asked, events, wake = [], list(told), None
    while events or wake is not None:
        if events and (wake is None or events[0][0] <= wake):
            at, event = events.pop(0)
        else:
            at, event, wake = wake, WokenUp(), None
        assert at < until, "it does not end"
        for request in app.handle(at, event):
            asked.append((at, request))
            match request:
                case WakeUpAt(due):
                    wake = due
                case SetContainers(count):
                    events.insert(0, (at, ContainersChanged(count)))
                case Finished():
                    return asked
    return asked


def end(asked):
    (found,) = [(at, one.figures) for at, one in asked if isinstance(one, Finished)]
    return found


def test_a_query_on_a_profile_ends_and_holds_no_containers():
    app = query(profile=((0, 64),), row_error=0)
    at, figures = end(live(app, (5.0, Started())))
    assert app.max_containers == 0
    assert at - 5.0 == pytest.approx(app.isolated_runtime(0), rel=0.02)
    assert figures["stages"] >= 2


def test_the_same_seed_gives_the_same_run():
    profile = {"volatility": {"levels": (16, 64, 256), "mean_s": 3}}
    lives = [live(query(seed, **profile), (0.0, Started())) for seed in ("1", "1", "2")]
    assert lives[0] == lives[1]
    assert lives[0] != lives[2]


def test_true_row_counts_differ_from_the_estimates_by_the_error():
    surely, doubtfully = (end(live(query(profile=FALLS, row_error=error), (0.0, Started()))) for error in (0, 1.5))
    assert surely[0] != doubtfully[0]


def test_feedback_pays_off_if_the_share_falls_early():
    ways = ({}, {"feedback": False}, {"feedback": False, "replanning": False})
    told, deaf, once = (
        [end(live(query(seed, profile=FALLS, row_error=0.3, **way), (0.0, Started()))) for seed in "01234567"]
        for way in ways
    )
    assert sum(figures["switches"] for _, figures in told) > 0
    assert sum(figures["switches"] for _, figures in once) == 0
    times = [sum(at for at, _ in lives) for lives in (told, deaf, once)]
    assert times[0] < times[1] <= times[2]
    assert times[0] < 0.7 * times[2]


def test_without_a_profile_it_holds_its_entitlement_and_confirms_releases():
    shares = [(0.0, ShareUpdated(1, 20, 40, 0.0)), (0.0, Started()), (2.0, ShareUpdated(2, 10, 10, 12.0, True))]
    asked = live(query(), *shares)
    assert [one.containers for _, one in asked if isinstance(one, SetContainers)] == [40, 10]
    assert (2.0, Vacated(2)) in asked
    assert end(asked)[0] > 2.0


def test_without_feedback_containers_are_released_too():
    shares = [(0.0, ShareUpdated(1, 20, 40, 0.0)), (0.0, Started()), (2.0, ShareUpdated(2, 10, 10, 12.0, True))]
    asked = live(query(feedback=False), *shares)
    assert (2.0, SetContainers(10)) in asked
    assert (2.0, Vacated(2)) in asked


@pytest.mark.parametrize("text", ["SELECT", "SELECT * FROM nowhere, a WHERE a.k = nowhere.k", "SELECT 1"])
def test_a_query_that_cannot_be_planned_is_refused(text):
    with pytest.raises(BadInputError, match="query"):
        query(query=text)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"profile": ((1, 4),)}, "ascending from 0"),
        ({"profile": ((0, 4), (0, 5))}, "ascending from 0"),
        ({"profile": ((0, 0),)}, "above 0"),
        ({"profile": ((0, 4),), "volatility": {"levels": (1, 2), "mean_s": 1}}, "give only one"),
        ({"tables": {"a": {"k": 4}}}, "tables.a.rows: must be a number"),
    ],
)
def test_wrong_parameters_are_refused(parameters, said):
    with pytest.raises(ValueError, match=said):
        query(**parameters)
