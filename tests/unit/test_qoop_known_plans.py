"""Plans are made once for the same text over the same tables, and again when anything that they depend on changes."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from qoop import known_plans
from qoop.errors import CannotSplitError
from qoop.estimate.cost import CostModel
from qoop.known_plans import KnownPlans
from qoop.parsing.moment import Moment
from qoop.parsing.spark_sql import Syntax
from qoop.parsing.statement import parse_statement
from qoop.planner import NOTHING_FOUND, Findings
from qoop.plans.candidates import CutPolicy
from qoop.plans.plan import StageName
from tests.property.query_world import Known

TEXT = "SELECT a.x FROM a, b, c WHERE a.k = b.k AND b.m = c.m"
NOW = Moment(datetime(2026, 1, 2), datetime(2026, 1, 2, tzinfo=UTC))


@pytest.fixture
def made(monkeypatch):
    """How often plans were made."""
    calls, plan = [], known_plans.plan
    monkeypatch.setattr(known_plans, "plan", lambda *args: calls.append(args) or plan(*args))
    return calls


def planned(plans, known, text=TEXT, policy=None, model=None, fewer=False, syntax=None, findings=NOTHING_FOUND):
    statement, policy, model = parse_statement(text, syntax or Syntax()), policy or CutPolicy(), model or CostModel()
    return plans.plan(statement, known, known.statistics, policy, model, lambda: NOW, fewer, findings)


def test_the_same_query_over_the_same_tables_is_planned_once(made):
    plans, known = KnownPlans(), Known([1_000_000] * 6)
    assert planned(plans, known) is planned(plans, Known([1_000_000] * 6))
    assert len(made) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"text": f"{TEXT} AND c.x > 1"},
        {"policy": CutPolicy(everywhere=True)},
        {"model": CostModel(stage_seconds=1.0)},
        {"fewer": True},
        {"syntax": Syntax(raw_strings=True)},
        {"findings": Findings(counted={StageName("qoop_result", ("a", "b")): 7.0})},
        {"findings": Findings(given_up=frozenset({"a signature"}))},
    ],
    ids=["text", "cuts", "costs", "fewer stages", "syntax", "rows of earlier runs", "plans that were given up"],
)
def test_another_query_is_planned(made, changed):
    plans, known = KnownPlans(), Known([1_000_000] * 6)
    planned(plans, known)
    planned(plans, known, **changed)
    assert len(made) == 2


class Changed(Known):
    """Tables of which one has other columns or statistics."""

    def __init__(self, columns=lambda found: found, statistics=lambda found: found):
        super().__init__([1_000_000] * 6)
        self._changed_columns, self._changed_statistics = columns, statistics

    def columns(self, table):
        found = super().columns(table)
        return self._changed_columns(found) if table == "b" else found

    def statistics(self, table):
        found = super().statistics(table)
        return self._changed_statistics(found) if table == "b" else found


@pytest.mark.parametrize(
    "known",
    [
        Changed(columns=lambda found: {**found, "k": "string"}),
        Changed(columns=lambda found: dict(reversed(found.items()))),
        Changed(columns=lambda found: {**found, "new": "int"}),
        Changed(statistics=lambda found: replace(found, rows=found.rows * 2)),
    ],
    ids=["a type", "the order of columns", "a column", "rows"],
)
def test_a_query_is_planned_again_when_a_table_has_changed(made, known):
    plans = KnownPlans()
    planned(plans, Known([1_000_000] * 6))
    fresh = planned(plans, known)
    assert len(made) == 2
    assert planned(plans, known) is fresh
    assert len(made) == 2


def test_a_query_that_reads_the_current_time_is_planned_each_time(made):
    plans, known = KnownPlans(), Known([1_000_000] * 6)
    for _ in range(2):
        assert planned(plans, known, f"{TEXT} AND current_date() > '2020-01-01'").moment == NOW
    assert len(made) == 2


def test_a_query_that_cannot_be_planned_says_so_each_time(made):
    plans, known = KnownPlans(), Known([1_000_000] * 6)
    for _ in range(2):
        with pytest.raises(CannotSplitError):
            planned(plans, known, "SELECT x FROM a")
    assert len(made) == 1


def test_queries_that_ran_longest_ago_are_forgotten(made, monkeypatch):
    monkeypatch.setattr(known_plans, "MAX_PLANNED", 2)
    plans, known = KnownPlans(), Known([1_000_000] * 6)
    for value in (1, 2, 1, 3, 1, 2):
        planned(plans, known, f"{TEXT} AND c.x > {value}")
    assert len(made) == 4
