"""Queries of stages that are analysed before they start."""

import threading

import pytest

from qoop.engine import prepared as prepared_module
from qoop.engine.prepared import PreparedQueries, StageViews
from qoop.engine.table_versions import TableVersions


class Frame:
    """A frame."""


class Session:
    """Analyses queries, or fails to."""

    def __init__(self):
        self.analysed, self.problem, self.arrived = [], None, threading.Event()

    def sql(self, query):
        self.analysed.append((query, threading.current_thread().name))
        self.arrived.set()
        if self.problem is not None:
            raise self.problem
        return Frame()


@pytest.fixture
def session():
    return Session()


@pytest.fixture
def views(monkeypatch):
    monkeypatch.setattr(prepared_module, "define_view", lambda view, frame: None)
    return StageViews()


@pytest.fixture
def queries(session, views, monkeypatch):
    monkeypatch.setattr(prepared_module, "has_exact_values", lambda frame: True)
    made = PreparedQueries("q", session, views, TableVersions())
    yield made
    made.close()


def test_a_query_is_analysed_once_when_its_views_are_defined(session, views, queries):
    queries.prepare("SELECT 1 FROM v", {"v"})
    queries.prepare("SELECT 1 FROM v", {"v"})
    assert not session.arrived.wait(0.05)
    views.define("v", Frame())
    assert session.arrived.wait(20)
    assert queries.take("SELECT 1 FROM v", {"v"}).reads == {"v": 1}
    assert [thread.startswith("q-prepare") for _, thread in session.analysed] == [True]


def test_a_query_is_analysed_anew_after_one_of_its_views_was_defined_again(session, views, queries):
    views.define("v", Frame())
    queries.prepare("SELECT 1 FROM v", {"v"})
    assert session.arrived.wait(20)
    views.define("v", Frame())
    assert queries.take("SELECT 1 FROM v", {"v"}).reads == {"v": 2}
    assert len(session.analysed) == 2


def test_a_prepared_query_is_computed_once(session, views, queries):
    """A second attempt may have to read other parts of an output, which a frame does not notice."""
    queries.prepare("SELECT 1", ())
    assert session.arrived.wait(20)
    assert queries.take("SELECT 1", ()) is not queries.take("SELECT 1", ())
    assert len(session.analysed) == 2


def test_a_stage_does_not_wait_for_queries_that_others_may_run(session, views, queries):
    queries.prepare("SELECT 1 FROM v", {"v"})
    queries.prepare("SELECT 2", ())
    queries.take("SELECT 2", ())
    assert [(query, "prepare" in thread) for query, thread in session.analysed] == [("SELECT 2", False)]


def test_what_fails_while_it_is_prepared_fails_when_it_runs(session, views, queries):
    session.problem = ValueError("no such column")
    queries.prepare("SELECT x", ())
    assert session.arrived.wait(20)
    with pytest.raises(ValueError, match="no such column"):
        queries.take("SELECT x", ())
    session.problem = None
    assert queries.take("SELECT x", ()).exact


def test_nothing_is_prepared_after_the_end_of_the_query(session, views, queries):
    queries.prepare("SELECT 1 FROM v", {"v"})
    queries.close()
    views.define("v", Frame())
    queries.prepare("SELECT 2", ())
    assert not session.arrived.wait(0.2) or [query for query, _ in session.analysed] == ["SELECT 1 FROM v"]
