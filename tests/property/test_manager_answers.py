"""Recorded answers of a real ResourceManager with one random mutation: nothing breaks, nothing is lost."""

import copy
import json
import logging
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from yarn_plugin.act.ownership import owner_of
from yarn_plugin.act.weights import leaves_in
from yarn_plugin.decide.arbiter import step
from yarn_plugin.decide.events import Looked, ManagerReached
from yarn_plugin.decide.state import State
from yarn_plugin.observe import scheduler_configuration, translate
from yarn_plugin.observe.nodes import parse_nodes
from yarn_plugin.observe.poller import Poller, PollIntervals
from yarn_plugin.observe.queue_tree import queue_tree
from yarn_plugin.observe.resource_manager import ManagerError

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "manager_answers.json").read_text())
WATCHED = ("/metrics", "/info", "/nodes", "/apps", "/scheduler", "/scheduler-conf")

numbers = st.one_of(
    st.integers(), st.sampled_from([0, -1, -2, 10**15, 10**16, 10**400, -(10**400)]), st.floats(allow_nan=True)
)
words = st.one_of(
    st.text(max_size=20), st.sampled_from(["", "RUNNING", "FINISHED", "LOST", "\ud800", "a\nb", "x" * 2000])
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, words),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)


def places(value, path=()):
    """The path to everything in a value of JSON, itself included."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*path, key))


def put(value, path, something):
    """The value with something else at a place."""
    if not path:
        return something
    changed = copy.copy(value)
    changed[path[0]] = put(value[path[0]], path[1:], something)
    return changed


@st.composite
def disturbed(draw, answers):
    """A question, and its answer with something else at one to three places; the places."""
    asked = draw(st.sampled_from(answers))
    answer, where = RECORDED[asked], []
    for _ in range(draw(st.sampled_from([1, 1, 2, 3]))):
        where.append(draw(st.sampled_from(list(places(answer)))))
        answer = put(answer, where[-1], draw(values))
    return asked, answer, where


class Manager:
    """Gives recorded answers, one of them disturbed."""

    url, clock, is_pair = "http://rm:8088", 1795298038.0, False

    def __init__(self):
        self.instead = {}

    def get(self, path, **params):
        answer = self.instead.get(path, RECORDED[path])
        if not isinstance(answer, dict):
            raise ManagerError("what the client says of anything but an object")
        return copy.deepcopy(answer)

    def configuration(self):
        return {}


class EventSink:
    """Decides on each event and records it."""

    def __init__(self):
        self.state, self.events = State(), []

    def known(self):
        return self.state.cluster

    def take(self, event):
        self.events.append(event)
        self.state, _ = step(self.state, len(self.events), float(len(self.events)), event)


def polling():
    manager, sink = Manager(), EventSink()
    poller = Poller(manager, sink, {"root.sql"}, PollIntervals(0.0, 0.0, 0.0, 0.0, 0.0, confirm_delay=1000.0))
    poller._poll_safely()
    assert isinstance(sink.events[-1], Looked)
    assert (len(sink.known().apps), len(sink.known().nodes), len(sink.known().queues)) == (2, 2, 1)
    return manager, sink, poller


def touched(asked, where):
    """The items of a list that something was put into, or over."""
    listed = {"/apps": ("apps", "app"), "/nodes": ("nodes", "node")}[asked]
    items = RECORDED[asked][listed[0]][listed[1]]
    return {
        item["id"] for index, item in enumerate(items) for path in where if path[2:3] == (index,) and path[:2] == listed
    }


@pytest.fixture(autouse=True)
def quiet():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@given(disturbed(WATCHED))
def test_a_disturbed_answer_breaks_nothing_and_loses_nothing_else(one):
    asked, answer, where = one
    manager, sink, poller = polling()
    before = sink.known()
    manager.instead = {asked: answer}
    poller._poll_safely()
    poller._poll_safely()
    known = sink.known()
    own = touched(asked, where) if asked in ("/apps", "/nodes") else set()
    assert set(before.apps) - own <= set(known.apps)
    assert set(before.nodes) - own <= set(known.nodes)
    for kind in ("apps", "nodes"):
        for name in set(getattr(before, kind)) - own:
            assert getattr(known, kind)[name] == getattr(before, kind)[name]
    json.dumps([str(event) for event in sink.events]).encode()
    manager.instead = {}
    poller._poll_safely()
    assert sink.known().apps.keys() >= before.apps.keys()
    assert all(sink.known().nodes[name] == node for name, node in before.nodes.items())
    assert sink.state.manager_error is None
    assert poller.counters["observations_refused"] == 0


@given(disturbed(WATCHED))
def test_an_arbiter_started_on_a_disturbed_answer_reports_it_or_continues(one):
    asked, answer, _ = one
    manager, sink = Manager(), EventSink()
    manager.instead = {asked: answer}
    poller = Poller(manager, sink, {"root.sql"}, PollIntervals(0.0, 0.0, 0.0, 0.0, 0.0))
    poller._poll_safely()
    assert sink.state.manager_error is not None or any(isinstance(event, ManagerReached) for event in sink.events)


@given(
    disturbed(
        ("/scheduler-conf", "/appattempts", "/containers", "/scheduler", "/apps of all states", "/info", "/metrics")
    )
)
def test_every_reader_takes_what_it_can_and_refuses_the_rest_with_a_line(one):
    _, answer, _ = one
    assume(isinstance(answer, dict))
    for read in (
        lambda: leaves_in(scheduler_configuration.parse(answer), ["root.sql"]),
        lambda: owner_of(scheduler_configuration.parse(answer), "root.sql"),
        lambda: translate.attempts(answer),
        lambda: translate.containers(answer, "container_1"),
        lambda: translate.apps(answer),
        lambda: parse_nodes(answer),
        lambda: translate.queues(answer),
        lambda: translate.info(answer),
        lambda: translate.metrics(answer),
        lambda: translate.why_waiting(answer),
        lambda: translate.diagnostics(answer),
        lambda: queue_tree(answer),
    ):
        try:
            read()
        except ManagerError as problem:
            assert "\n" not in str(problem)


activities = st.recursive(
    st.one_of(st.none(), numbers, words),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["children", "diagnostic", "nodeId", "nodeIds", "diagnostics"]), inner, max_size=4
        ),
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["appActivities", "allocations", "app", "diagnostics"]), activities))
def test_reasons_of_any_form_are_lines(answer):
    for line in (*translate.why_waiting(answer), *translate.diagnostics(answer)):
        line.encode()


def test_of_recorded_applications_in_all_states_the_unfinished_are_found():
    found = translate.apps(RECORDED["/apps of all states"])
    assert set(found) == {app["id"] for app in RECORDED["/apps"]["apps"]["app"]}
    assert (found.unreadable, found.without_id) == ({}, [])


def test_every_recorded_answer_is_read_completely():
    nodes, queues = parse_nodes(RECORDED["/nodes"]), translate.queues(RECORDED["/scheduler"])
    assert {node.capacity["yarn.io/gpu"] for node in nodes.values()} == {4}
    assert {"root", "root.default", "root.sql", "root.sql.one_1", "root.sql.two_2"} == set(queues)
    assert leaves_in(scheduler_configuration.parse(RECORDED["/scheduler-conf"]), ["root.sql"]).weights == (
        ("root.sql.one_1", 60.0),
        ("root.sql.two_2", 40.0),
    )
    ((attempt, master),) = translate.attempts(RECORDED["/appattempts"])
    (container,) = translate.containers(RECORDED["/containers"], master)
    assert (attempt.startswith("appattempt_"), container.master, container.resources["memory-mb"]) == (True, True, 128)
