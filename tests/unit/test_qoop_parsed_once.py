"""The user's text is parsed once on its way to an answer, whichever way it comes."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from sqlglot.dialects.dialect import Dialect

from qoop import api, explain, session_query
from qoop.as_written.causes import Excess, TooMuch
from qoop.as_written.decide import Names
from qoop.engine.table_versions import TableVersions
from qoop.estimate.gate import Inputs
from qoop.latest import Latest
from qoop.parsing import statement
from qoop.parsing.spark_sql import USUAL, Syntax
from qoop.parsing.statement import ParsedText
from qoop.replan.events import StageFinished
from qoop.run.runs_here import RunsHere
from qoop.submit import driver
from qoop.submit.job import Job, Output
from tests.property.query_world import Known

QUERY = "SELECT a.x FROM a, b, c WHERE a.k = b.k AND b.m = c.m"
UNPARSED = "SELECT FROM WHERE"


@pytest.fixture
def parsed(monkeypatch):
    """The texts with a SELECT that sqlglot parses, generated ones too."""
    texts, tokenize = [], Dialect.tokenize

    def counted(self, sql):
        if "SELECT" in sql:
            texts.append(sql)
        return tokenize(self, sql)

    monkeypatch.setattr(Dialect, "tokenize", counted)
    monkeypatch.setattr(statement, "_parsed_before", Latest(100))
    return texts


class Frame:
    """A result of one row."""

    schema = SimpleNamespace(fields=[])
    sparkSession = None  # noqa: N815 - as Spark names it

    def collect(self):
        return [("a row",)]

    def limit(self, rows):
        return self

    def count(self):
        return 1

    def select(self):
        return self

    def createOrReplaceTempView(self, name):  # noqa: N802 - as Spark names it
        pass


class Engine:
    """Finishes every stage at once."""

    result_is_as_written = False

    def __init__(self, session, name, written, checkpoints, goal, tell, warn, verification, once=None, **more):
        self._goal, self._tell = goal, tell

    def check_plan(self, text):
        pass

    def prepare(self, query):
        pass

    def start(self, stage, query, view):
        rows, self.result = self._goal(Frame()) if view is None else (1000, None)
        self._tell(StageFinished(stage, float(rows), 8.0 * rows, 0.1, 0.1))

    def cancel(self, stages):
        raise AssertionError("nothing is to be cancelled")

    def set_executors(self, target, by):
        pass

    def close(self):
        pass


@pytest.fixture
def spark(monkeypatch):
    """A session in which everything around the planner succeeds."""
    written = SimpleNamespace(
        is_command=False, columns=[("x", "int")], analysed=None, is_deterministic=True, filtered=0
    )
    nothing = SimpleNamespace(release=lambda: None, release_with=lambda owner: None)
    written_statement = SimpleNamespace(query=object(), check=lambda: None, execute=lambda rows: None, is_atomic=True)
    monkeypatch.setattr(session_query, "QueryAsWritten", lambda spark, text, query: written)
    monkeypatch.setattr(api, "plain_sql", lambda spark, text: spark.sql(text))
    monkeypatch.setattr(api, "statements_as_written", lambda spark, text: [written_statement])
    monkeypatch.setattr(session_query, "query_session", lambda spark: spark)
    monkeypatch.setattr(session_query, "latest_versions", lambda written, text: TableVersions())
    for module in (api, session_query):
        monkeypatch.setattr(module, "in_session_of", lambda spark, frame: frame)
    monkeypatch.setattr(session_query, "showing_sources", lambda frame, written: frame)
    monkeypatch.setattr(session_query, "names_of", lambda spark: Names())
    monkeypatch.setattr(session_query, "variables_read", lambda written: {})
    kept = {"partitions": lambda: None, "remove": lambda: None}
    monkeypatch.setattr(api, "PersistedRows", lambda frame, name: SimpleNamespace(frame=frame, **kept))
    monkeypatch.setattr(session_query, "ExecutorCheckpoints", lambda session, warn, in_plan: nothing)
    monkeypatch.setattr(session_query, "reads_partitions", lambda written: False)
    monkeypatch.setattr(session_query, "session_tag", lambda spark: None)
    monkeypatch.setattr(session_query, "slots_within", lambda context, told: told or float(context.defaultParallelism))
    monkeypatch.setattr(session_query, "broadcast_bytes", lambda spark: 10 * 1024 * 1024)
    monkeypatch.setattr(session_query, "SparkCatalogue", lambda spark: Known([1_000_000] * 6))
    monkeypatch.setattr(Known, "frames", lambda known: {}, raising=False)
    monkeypatch.setattr(session_query, "files_read", lambda written: [])
    monkeypatch.setattr(session_query, "pin_tables", lambda *_: [])
    monkeypatch.setattr(session_query, "SparkEngine", Engine)
    monkeypatch.setattr(session_query, "_runs_here", RunsHere())
    files = SimpleNamespace(store=lambda frame: "rows", publish=lambda name: None)
    monkeypatch.setattr(api, "counting", lambda frame: (frame, lambda: 1.0))
    monkeypatch.setattr(driver, "OutputFiles", lambda spark, path, form: nullcontext(files))

    def setting(name, default="false"):
        return "always" if name == session_query.PLAN_SETTING else default

    return SimpleNamespace(
        sparkContext=SimpleNamespace(defaultParallelism=4, applicationId="app"),
        conf=SimpleNamespace(get=setting),
        catalog=SimpleNamespace(tableExists=lambda name: False, dropTempView=lambda name: None),
        range=lambda rows: Frame(),
        sql=lambda text: Frame(),
    )


@pytest.mark.parametrize("text", [QUERY, f"INSERT INTO t {QUERY}", f"CREATE TABLE t AS {QUERY}", UNPARSED])
@pytest.mark.parametrize("run", [api.sql, api.collect, api.execute], ids=["sql", "collect", "execute"])
def test_a_call_of_the_library(spark, parsed, run, text):
    run(spark, text)
    assert parsed == [text]


def test_a_query_that_is_planned(spark, parsed):
    assert api.collect(spark, QUERY).outcome.join_trees > 1
    assert parsed == [QUERY]


@pytest.mark.parametrize("text", [QUERY, UNPARSED])
def test_a_text_that_was_parsed_before(spark, parsed, text):
    answers = [api.collect(spark, text).outcome for _ in range(3)]
    assert parsed == [text]
    assert len({(one.join_trees, one.one_stage_reason) for one in answers}) == 1


def test_a_text_is_parsed_again_where_a_session_reads_it_otherwise(parsed):
    texts = [ParsedText('SELECT "x"', lambda syntax=syntax: syntax) for syntax in (USUAL, Syntax(quoted_names=True))]
    literal, name = (text.statement.query.selects[0] for text in texts)
    assert literal.is_string and not name.is_string


@pytest.mark.parametrize("text", [QUERY, f" with c as (SELECT 1 AS x)\n{QUERY}", UNPARSED])
def test_a_query_that_the_gate_stops_is_not_parsed(spark, parsed, monkeypatch, text):
    monkeypatch.setattr(session_query, "PLAN_SETTING", "another")
    monkeypatch.setattr(session_query, "tables_named", lambda frame: 1)
    monkeypatch.setattr(session_query, "read_inputs", lambda frame, enough, named: Inputs((1.0,)))
    answer = api.collect(spark, text, api.Options(plan="auto"))
    assert "planning pays off above" in answer.outcome.one_stage_reason
    assert parsed == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"INSERT INTO t {QUERY}", True),
        (f"-- SELECT\nINSERT INTO t {QUERY}", True),
        (f"CREATE TABLE t AS {QUERY}", True),
        (f"WITH c AS (SELECT 1 AS x) INSERT INTO t {QUERY}", True),
        ("SELECT 'insert'", False),
        ("SELECT insert_time FROM t", False),
        ("(SELECT 1)", False),
    ],
)
def test_a_text_stores_rows(text, expected):
    assert ParsedText(text).stores_rows is expected


@pytest.mark.parametrize(
    ("text", "output"),
    [
        (QUERY, None),
        (QUERY, Output(path="/rows", format="parquet")),
        (f"INSERT INTO t {QUERY}", None),
        (UNPARSED, None),
    ],
)
def test_a_submitted_query(spark, parsed, monkeypatch, capsys, text, output):
    monkeypatch.setattr(driver, "FolderCatalogue", lambda folder: SimpleNamespace(tables={}))
    driver.run(spark, Job(name="q", text=text, slots=4.0, tables="/tables", output=output))
    assert parsed == [text]


def test_an_explained_query(parsed, monkeypatch, capsys):
    known = Known([1_000_000] * 6)
    monkeypatch.setattr(explain, "FolderCatalogue", lambda folder: known)
    explain.explain(QUERY, "/tables", [2.0], 1, None)
    assert parsed == [QUERY]


def test_a_text_that_would_take_minutes_to_parse_is_left_to_spark():
    parsed = ParsedText("SELECT " + "+".join(["1"] * 1_000_000))
    assert (parsed.statement, parsed.cause) == (None, TooMuch(Excess.TEXT, 20_000))
    values = ParsedText("INSERT INTO t VALUES " + ",".join(["(1)"] * 100_000))
    assert values.returns_no_rows
