"""Why queries run as written: the closed list of causes, their words, the page that lists them, and the decision."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest
from pydantic import TypeAdapter

from qoop.as_written import causes
from qoop.as_written.causes import (
    AsWrittenCause,
    CannotPin,
    Construct,
    Excess,
    NothingLarge,
    NothingToReorder,
    NotPinned,
    NotRepeatable,
    TooMuch,
    Unreadable,
    Unrepeatable,
    Unsupported,
)
from qoop.as_written.decide import Ask, AsWritten, Facts, Names, Planned, Reading, facts_with, how_to_run
from qoop.as_written.wording import remedy, text, with_remedy
from qoop.errors import CannotSplitError
from qoop.estimate.cost import CostModel
from qoop.estimate.gate import Gate, Inputs
from qoop.estimate.statistics import UNKNOWN
from qoop.parsing.moment import Moment
from qoop.parsing.statement import ParsedText
from qoop.planner import plan
from qoop.plans.candidates import CutPolicy

PAGE = Path(__file__).parents[2] / "docs" / "planned.md"
ADAPTER = TypeAdapter(AsWrittenCause)

ABOUT = {
    Construct.CORRELATED_CTE: "best",
    Construct.VARIABLE: "f",
    Construct.TABLE_FUNCTION: "RANGE(10)",
    Construct.LATERAL: "LATERAL (SELECT ...)",
    Construct.CLAUSE: "pivots",
    Construct.JOIN_TYPE: "FULL",
    Construct.SET_OPERATION: "UNION",
    Construct.SAME_ALIAS: "'a'",
    Construct.SAME_NAME: "a.b and a__b",
    Construct.SAME_COLUMN: "'a__id'",
    Construct.RESERVED_NAME: "table qoop_x",
    Construct.WHOLE_ROW: "STRUCT(*)",
    Construct.NOT_REPRODUCED: "PERCENTILE_CONT exactly",
    Construct.NAMES: "Unknown column: x",
}
PINNED = {
    NotPinned.MANY_PARTITIONS: ("sales", "30000"),
    NotPinned.SMALL_CACHE: ("spark.sql.filesourceTableRelationCacheSize", "3"),
    NotPinned.CACHE_EXPIRES: ("spark.sql.metadataCacheTTLSeconds", "60"),
    NotPinned.FILES_SKIPPED: ("ignoreCorruptFiles", ""),
    NotPinned.NULL_STRUCTS: ("spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing", ""),
    NotPinned.SESSION_VIEW: ("session.v", "session"),
    NotPinned.LISTED_ANEW: ("file:/sales", ""),
    NotPinned.LISTED_EACH_TIME: ("file:/sales", ""),
    NotPinned.TWO_LISTS: ("file:/sales", ""),
}

EXAMPLES = (
    causes.Off(),
    causes.TooSmall(0.4, 0.6),
    causes.StopsEarly(),
    causes.SlowerBefore((12.1, 11.8), 9.0, 18),
    causes.WrittenBefore(19),
    causes.Measured((12.1, 11.8)),
    causes.Measured((12.1, 11.8), 9.0, "long-ago"),
    causes.NotFaster(),
    causes.NotOptimised(),
    Unreadable("query, line 1, position 15: expected table name near 'FROM JOIN'"),
    *(Unsupported(one, ABOUT.get(one, "")) for one in Construct),
    NothingToReorder((Unsupported(Construct.FEW_TABLES), Unsupported(Construct.NO_FROM))),
    NothingLarge(),
    *(TooMuch(one, {Excess.TEXT: 20_000, Excess.CTES: 10_000}.get(one)) for one in Excess),
    *(NotRepeatable(one, "RAND()" if one == Unrepeatable.NAMED_EXPRESSION else "") for one in Unrepeatable),
    *(CannotPin(one, *PINNED.get(one, ("sales", ""))) for one in NotPinned),
    causes.OtherCatalog("lake"),
    causes.OtherPath("system.builtin", has_session=False),
    causes.OtherPath("spark_catalog.default,system.session", has_session=True),
    causes.Different(),
    causes.Different("a LIMIT or OFFSET inside the query may choose other rows each time"),
    causes.OtherNullability(),
    causes.TooMuchStored(6e9, 5e9),
    causes.NotUnderstood("column 'x' not found"),
    causes.PlanningFailed("ZeroDivisionError: division by zero"),
    causes.UntypedCause("what an early journal says"),
)


def test_each_cause_has_an_example():
    assert {type(one) for one in EXAMPLES} == set(get_args(AsWrittenCause))


@pytest.mark.parametrize("cause", EXAMPLES, ids=repr)
def test_a_cause_has_words_and_comes_back_from_a_journal(cause):
    assert text(cause) and "{" not in with_remedy(cause)
    assert (remedy(cause) is None) == isinstance(cause, causes.UntypedCause)
    back = ADAPTER.validate_json(ADAPTER.dump_json(cause))
    assert (type(back), back) == (type(cause), cause)


def test_the_page_lists_all_causes(request):
    rows = [f"| `{_name(one)}` | {text(one)} | {remedy(one)} |" for one in EXAMPLES if remedy(one) is not None]
    head, _, _ = PAGE.read_text().partition("|---|---|---|\n")
    wanted = head + "|---|---|---|\n" + "\n".join(rows) + "\n"
    if request.config.getoption("--rewrite-golden"):
        PAGE.write_text(wanted)
    assert PAGE.read_text() == wanted


def _name(cause):
    detail = next((getattr(cause, one) for one in ("construct", "excess", "what", "why") if hasattr(cause, one)), "")
    return f"{cause.kind}: {detail}" if detail else cause.kind


# What the planner makes of texts.

TABLES = {
    "a": {"id": "int", "x": "int", "s": "string", "tags": "array<string>"},
    "b": {"id": "int", "y": "int"},
    "c": {"id": "int", "z": "int"},
    "db.t": {"id": "int"},
    "db__t": {"id": "int"},
    "g": {"id": "int", "h__id": "int"},
    "g__h": {"id": "int"},
}
ABC = "FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id"
FEW, SET = Construct.FEW_TABLES, Construct.SET_OPERATION

TEXTS = [
    (f"SELECT a.id {ABC}", None),
    ("SELECT a.id FROM a LEFT JOIN b ON a.id = b.id LEFT JOIN c ON c.id = a.id", None),
    (f"SELECT a.id, t {ABC} LATERAL VIEW explode(a.tags) v AS t", None),
    (f"WITH k AS (SELECT a.id {ABC}) INSERT INTO b SELECT id, 1 FROM k", None),
    (f"INSERT OVERWRITE DIRECTORY '/out' USING parquet SELECT a.id {ABC}", None),
    (f"INSERT OVERWRITE LOCAL DIRECTORY '/out' STORED AS ORC WITH k AS (SELECT a.id {ABC}) SELECT * FROM k", None),
    (f"CREATE TABLE d AS SELECT a.id {ABC}", None),
    (f"FROM (SELECT a.id {ABC}) k INSERT INTO b SELECT id, 1 INSERT INTO c SELECT id, 2", None),
    ("SELECT a.id FROM a, b, c WHERE a.id = b.id AND b.id = c.id", None),
    (f"SELECT count(*) {ABC} WHERE EXISTS (SELECT 1 FROM b AS e WHERE e.id = a.id)", None),
    ("SHOW TABLES", Unsupported(Construct.COMMAND)),
    ("DELETE FROM a WHERE x = 1", Unsupported(Construct.NO_QUERY)),
    ("CREATE VIEW v AS SELECT 1 AS x", Unsupported(Construct.NO_QUERY)),
    ("INSERT INTO b VALUES (1, 2)", Unsupported(Construct.NO_QUERY)),
    ("SELECT id FROM a JOIN JOIN b", Unreadable),
    ("SELECT 1; SELECT 2", Unreadable),
    ("SELECT 'open", Unreadable),
    ("SELECT id FROM a", Unsupported(FEW)),
    ("SELECT 1 AS x", Unsupported(Construct.NO_FROM)),
    ("SELECT id FROM a UNION SELECT id FROM b", NothingToReorder((Unsupported(SET, "UNION"),)).blocks[0]),
    ("SELECT id FROM a EXCEPT SELECT id FROM b", Unsupported(SET, "EXCEPT")),
    ("WITH k AS (SELECT 1 AS x) SELECT k.x FROM k", NothingToReorder),
    ("SELECT a.id FROM a FULL JOIN b ON a.id = b.id", Unsupported(Construct.JOIN_TYPE, "FULL")),
    ("SELECT a.id FROM a RIGHT JOIN b ON a.id = b.id", Unsupported(Construct.JOIN_TYPE, "RIGHT")),
    ("SELECT a.id FROM a LEFT SEMI JOIN b ON a.id = b.id", Unsupported(FEW)),
    ("SELECT a.id FROM a LEFT JOIN b ON a.id = b.id WHERE b.y IS NULL", Unsupported(FEW)),
    ("SELECT a.id FROM a LEFT JOIN b ON a.id > b.id", Unsupported(FEW)),
    (f"SELECT a.id {ABC} AND 1 = 0 WHERE NULL", Unsupported(Construct.ALWAYS_FALSE)),
    (f"SELECT /*+ BROADCAST(b) */ a.id {ABC}", Unsupported(Construct.HINT)),
    ("SELECT r.id FROM range(10) AS r JOIN a ON a.id = r.id", Unsupported(Construct.TABLE_FUNCTION, "RANGE(10)")),
    ("SELECT a.id FROM a AS a JOIN b AS a ON 1 = 1", Unsupported(Construct.SAME_ALIAS, "'a'")),
    ("SELECT q.id FROM qoop_q AS q JOIN a ON a.id = q.id", Unsupported(Construct.RESERVED_NAME, "table qoop_q")),
    ("SELECT t.id FROM db.t JOIN db__t AS u ON t.id = u.id", Unsupported(Construct.SAME_NAME, "db.t and db__t")),
    ("SELECT g.h__id, g__h.id FROM g JOIN g__h ON g.id = g__h.id", Unsupported(Construct.SAME_COLUMN, "'g__h__id'")),
    (f"SELECT struct(*) {ABC}", Unsupported(Construct.WHOLE_ROW, "STRUCT(*)")),
    (f"SELECT to_json(struct(a.*)) AS j {ABC}", Unsupported(Construct.WHOLE_ROW, "the query")),
    (f"SELECT X'41' AS h {ABC}", Unsupported(Construct.BINARY_LITERAL)),
    (f"SELECT to_json(a.tags, map('x', 'y')) AS j {ABC}", Unsupported(Construct.JSON_OPTIONS)),
    (f"SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a.x) AS p {ABC}", Construct.NOT_REPRODUCED),
    (f"SELECT levenshtein(a.s, 'x', 2) AS l {ABC}", Construct.NOT_REPRODUCED),
    (
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r",
        Unsupported(Construct.RECURSIVE_CTE),
    ),
    ("SELECT * FROM (SELECT a.x, a.id FROM a) PIVOT (sum(x) FOR id IN (1, 2))", Construct),
    ("SELECT a.id FROM a TABLESAMPLE (10 PERCENT) JOIN b ON a.id = b.id", NotRepeatable),
    ("SELECT a.id FROM a JOIN LATERAL (SELECT b.y FROM b WHERE b.id = a.id) AS l ON 1 = 1", Unsupported),
    (f"SELECT rand() AS r {ABC}", NotRepeatable(Unrepeatable.NAMED_EXPRESSION, "RAND()")),
    (f"SELECT uuid() AS r {ABC}", NotRepeatable),
    (f"SELECT monotonically_increasing_id() AS r {ABC}", NotRepeatable),
    (f"SELECT input_file_name() AS r {ABC}", NotRepeatable),
    (f"SELECT a.id {ABC} WHERE DATE 'today' > DATE '2020-01-01'", NotRepeatable(Unrepeatable.MOMENT_IN_TEXT)),
    (f"SELECT CAST('now' AS TIMESTAMP) AS t {ABC}", NotRepeatable(Unrepeatable.MOMENT_IN_TEXT)),
    (f"SELECT a.id {ABC} WHERE a.x IN ({', '.join(map(str, range(21_000)))})", TooMuch(Excess.TEXT, 20_000)),
    (f"SELECT {'(' * 1500}a.x{')' * 1500} AS x {ABC}", TooMuch(Excess.NESTING)),
]


class Catalogue:
    def columns(self, table):
        return TABLES.get(table, {"id": "int"} if table.startswith("qoop_") else None)


NOW = Moment(datetime(2026, 3, 4, 5), datetime(2026, 3, 4, 5, tzinfo=UTC))


def verdict(written):
    """Why the planner has no plans of a text; None if it has."""
    parsed = ParsedText(written)
    if parsed.statement is None:
        return parsed.cause
    sources = parsed.statement.source_queries() if parsed.stores_rows else (parsed.statement,)
    try:
        for source in sources:
            plan(source, Catalogue(), lambda table: UNKNOWN, CutPolicy(everywhere=True), CostModel(), lambda: NOW)
    except CannotSplitError as problem:
        return problem.cause
    return None


@pytest.mark.parametrize(("written", "cause"), TEXTS, ids=[f"{place} {one[0][:50]}" for place, one in enumerate(TEXTS)])
def test_the_cause_of_a_text(written, cause):
    found = verdict(written)
    match cause:
        case type() if cause is Construct:
            assert isinstance(found, Unsupported)
        case type():
            assert isinstance(found, cause)
        case Construct():
            assert isinstance(found, Unsupported) and found.construct == cause
        case _:
            assert found == cause


BEST = "(WITH best AS (SELECT max(e.y) AS y FROM b AS e WHERE e.id = a.id) SELECT y FROM best)"

CHANGED = [
    ("SELECT a.id FROM a JOIN JOIN b JOIN c ON c.id = b.id", f"SELECT a.id {ABC}"),
    (f"SELECT a.id {ABC}; SELECT 2", f"SELECT a.id {ABC}"),
    (f"WITH RECURSIVE k AS (SELECT a.id {ABC}) SELECT k.id FROM k", f"WITH k AS (SELECT a.id {ABC}) SELECT id FROM k"),
    (
        f"SELECT a.id {ABC} WHERE a.x > {BEST}",
        f"SELECT a.id {ABC} WHERE a.x > (SELECT max(e.y) FROM b AS e WHERE e.id = a.id)",
    ),
    (f"SELECT /*+ BROADCAST(b) */ a.id {ABC}", f"SELECT a.id {ABC}"),
    ("SELECT r.id FROM range(9) AS r JOIN a ON a.id = r.id JOIN b ON b.id = a.id", f"SELECT a.id {ABC}"),
    (
        f"SELECT a.id, e.tag {ABC} JOIN LATERAL explode(a.tags) AS e(tag) ON true",
        f"SELECT a.id, e.tag {ABC} JOIN (SELECT id, tag FROM a LATERAL VIEW explode(tags) v AS tag) e ON e.id = a.id",
    ),
    (
        "SELECT a.id FROM a RIGHT JOIN b ON a.id = b.id RIGHT JOIN c ON c.id = b.id",
        "SELECT a.id FROM c LEFT JOIN b ON c.id = b.id LEFT JOIN a ON a.id = b.id",
    ),
    (
        "SELECT a.id FROM a JOIN b ON a.id = b.id FULL JOIN c ON c.id = b.id",
        f"SELECT k.id FROM (SELECT a.id, b.id AS bid {ABC}) AS k FULL JOIN c ON c.id = k.bid",
    ),
    (
        "SELECT a.id FROM a JOIN b ON a.id = b.id, (VALUES (1)) AS v(id)",
        "SELECT a.id FROM a JOIN b ON a.id = b.id CROSS JOIN (SELECT * FROM VALUES (1) AS v(id)) AS v",
    ),
    (
        "SELECT p.id FROM a AS p JOIN b AS p ON 1 = 1 JOIN c ON c.id = 1",
        "SELECT p.id FROM a AS p JOIN b AS q ON p.id = q.id JOIN c ON c.id = q.id",
    ),
    (
        "SELECT t.id FROM db.t JOIN db__t AS u ON t.id = u.id JOIN a ON a.id = t.id",
        "SELECT t.id FROM db.t JOIN c AS u ON t.id = u.id JOIN a ON a.id = t.id",
    ),
    (
        "SELECT g.h__id, g__h.id FROM g JOIN g__h ON g.id = g__h.id JOIN a ON a.id = g.id",
        "SELECT g.id, g__h.id FROM g JOIN g__h ON g.id = g__h.id JOIN a ON a.id = g.id",
    ),
    (
        "SELECT q.id FROM qoop_q AS q JOIN a ON a.id = q.id JOIN b ON b.id = a.id",
        "SELECT q.id FROM c AS q JOIN a ON a.id = q.id JOIN b ON b.id = a.id",
    ),
    (f"SELECT struct(a.*) AS s {ABC}", f"SELECT struct(a.id, a.x) AS s {ABC}"),
    (f"SELECT a.id {ABC} WHERE a.s = X'41'", f"SELECT a.id {ABC} WHERE a.s = unhex('41')"),
    (f"SELECT to_json(a.tags, map('x', 'y')) AS j {ABC}", f"SELECT to_json(a.tags) AS j {ABC}"),
    (f"SELECT levenshtein(a.s, 'x', 2) AS l {ABC}", f"SELECT least(levenshtein(a.s, 'x'), 2) AS l {ABC}"),
    (f"SELECT a.id {ABC} WHERE a.x IN ({', '.join(map(str, range(21_000)))})", f"SELECT a.id {ABC} JOIN g ON x = g.id"),
    (f"SELECT {'(' * 1500}a.x{')' * 1500} AS x {ABC}", f"WITH k AS (SELECT a.x {ABC}) SELECT k.x FROM k"),
    (f"SELECT a.id, rand() AS r {ABC}", f"SELECT a.id, g.id AS r {ABC} JOIN g ON g.id = a.id"),
    (f"SELECT a.id {ABC} WHERE a.s > DATE 'today'", f"SELECT a.id {ABC} WHERE a.s > current_date()"),
]
"""Queries that run as written, and how what would change that does."""


@pytest.mark.parametrize(("written", "changed"), CHANGED, ids=[one[0][:50] for one in CHANGED])
def test_what_would_change_a_cause_does(written, changed):
    found = verdict(written)
    assert found is not None and not str(remedy(found)).startswith("nothing")
    assert verdict(changed) is None


def test_each_cause_that_a_text_has_is_changed_if_it_can_be():
    found = [verdict(text) for text, _ in TEXTS]
    told = {_name(one) for one in found if one and not str(remedy(one)).startswith(("nothing", "only queries"))}
    assert told <= {_name(verdict(text)) for text, _ in CHANGED}


# The decision.

KNOWN = {
    "is_optimised": True,
    "reading": Reading(None, Gate(), 2.0),
    "text": None,
    "earlier": None,
    "is_deterministic": True,
    "names": Names(),
    "files": None,
    "plans": None,
    "pinned": None,
}


def asked(facts, known):
    """The facts that are asked for in turn, and the decision."""
    order = []
    while isinstance(how := how_to_run(facts), Ask):
        order.append(how.fact)
        facts = facts_with(facts, how.fact, known[how.fact])
    return order, how


def test_facts_are_asked_for_in_order_and_only_those_that_matter():
    assert asked(Facts("auto"), KNOWN) == ([*KNOWN], Planned())
    assert asked(Facts("always"), KNOWN) == ([one for one in KNOWN if one not in ("reading", "earlier")], Planned())
    assert asked(Facts("never"), KNOWN) == ([], AsWritten(causes.Off()))
    assert asked(Facts("auto", is_command=True), KNOWN) == ([], AsWritten(Unsupported(Construct.NOT_SELECT)))


SMALL = Reading(Inputs((5e6, 1e6)), Gate(), 2.0)
CAUSE = causes.Different("any")


@pytest.mark.parametrize(
    ("fact", "known", "cause"),
    [
        ("is_optimised", False, causes.NotOptimised()),
        ("reading", SMALL, SMALL.gate.cause(SMALL.inputs, 2.0)),
        ("reading", replace(SMALL, inputs=replace(SMALL.inputs, stops_early=True)), causes.StopsEarly()),
        ("text", CAUSE, CAUSE),
        ("earlier", CAUSE, CAUSE),
        ("is_deterministic", False, NotRepeatable(Unrepeatable.EXPRESSION)),
        ("is_deterministic", CAUSE, CAUSE),
        ("names", Names("lake"), causes.OtherCatalog("lake")),
        ("names", Names(path="system.builtin,system.session"), None),
        ("names", Names(path="system.builtin"), causes.OtherPath("system.builtin", has_session=False)),
        ("names", Names(path="d,system.session"), causes.OtherPath("d,system.session", has_session=True)),
        ("files", CAUSE, CAUSE),
        ("plans", CAUSE, CAUSE),
        ("pinned", CAUSE, CAUSE),
    ],
)
def test_one_fact_may_decide(fact, known, cause):
    order, how = asked(Facts("auto"), {**KNOWN, fact: known})
    assert how == (Planned() if cause is None else AsWritten(cause))
    assert cause is None or order[-1] == fact, "nothing is asked for after it"


def test_a_larger_share_may_make_a_query_too_small():
    reading = Reading(Inputs((200e6, 1e6)), Gate(), 2.0)
    assert asked(Facts("auto"), {**KNOWN, "reading": reading})[1] == Planned()
    how = asked(Facts("auto"), {**KNOWN, "reading": replace(reading, slots=20.0)})[1]
    assert isinstance(how, AsWritten) and isinstance(how.cause, causes.TooSmall)
