"""Queries that were once not planned for how they are written: planned now, with the answer of Spark as written."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import qoop
from qoop.as_written.causes import (
    Construct,
    NotOptimised,
    NotPinned,
    NotRepeatable,
    Off,
    StopsEarly,
    TooSmall,
    Unsupported,
)
from qoop.as_written.decide import Planned
from qoop.plans.candidates import CutPolicy
from qoop.replan.events import ShareChanged, StageFinished
from tests.sampled import one_in
from tests.spark.spark_sessions import changed, local_session, small_data

pytestmark = pytest.mark.integration

STAGED = qoop.Options(cut_policy=CutPolicy(everywhere=True))

JOINED = "FROM t AS a JOIN u AS b ON a.id = b.id JOIN w AS c ON c.id = b.id"


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    with local_session(tmp_path_factory.mktemp("spark"), small_data()) as session:
        for name, columns, rows in (
            ("t", "id, s, v", "(1, 'a1', 10), (2, 'd', 20), (3, 'x', 30), (4, 'y', NULL), (NULL, 'z', 5)"),
            ("u", "id, w", "(1, 5), (2, 6), (3, 7), (3, 8), (9, 1)"),
            ("w", "id, name", "(1, 'p'), (2, 'q'), (3, 'r'), (NULL, 'n')"),
            ("d", "v, colour", "(10, 'red'), (10, 'pink'), (20, NULL), (99, 'grey')"),
            ("e", "colour, tone", "('red', 1), ('red', 2), ('grey', 3)"),
            ("items", "id, tags", "(1, array('m', 'n')), (2, array()), (3, NULL), (3, array('o'))"),
        ):
            session.sql(f"CREATE TABLE {name} USING parquet AS SELECT * FROM VALUES {rows} AS v({columns})")
        yield session


def rows_of(frame):
    return sorted(map(repr, frame.collect()))


def planned(spark, text):
    """The outcome of a query that is planned in several stages; it has the rows and columns that Spark gives."""
    expected = spark.sql(text)
    warned = []
    answer = qoop.collect(spark, text, qoop.Options(cut_policy=CutPolicy(everywhere=True), warn=warned.append))
    assert answer.columns == [(field.name, field.dataType.simpleString()) for field in expected.schema.fields]
    assert sorted(map(repr, answer.rows)) == rows_of(expected)
    assert answer.rows, "a query without rows shows nothing"
    assert answer.outcome.counts.stages > 1, (answer.outcome.one_stage_reason, warned)
    return answer.outcome


LEFT_JOINS = {
    "a chain of dimensions": """
        SELECT a.id, a.v, c.name, d.colour FROM t AS a LEFT JOIN w AS c ON a.id = c.id LEFT JOIN d ON a.v = d.v
    """,
    "a chain along keys": """
        SELECT a.id, d.colour, e.tone FROM t AS a LEFT JOIN d ON a.v = d.v LEFT JOIN e ON d.colour = e.colour
    """,
    "with inner joins": """
        SELECT a.id, b.w, d.colour FROM t AS a LEFT JOIN d ON a.v = d.v JOIN u AS b ON a.id = b.id
          LEFT JOIN w AS c ON b.id = c.id AND c.name <> 'q' WHERE a.id < 4
    """,
    "a condition on the joined table": """
        SELECT a.id, d.colour, c.name FROM t AS a LEFT JOIN d ON a.v = d.v AND d.colour = 'pink'
          LEFT JOIN w AS c ON a.id = c.id
    """,
    "a condition on both": """
        SELECT a.id, d.colour FROM t AS a LEFT JOIN d ON a.v = d.v AND length(d.colour) > a.id
          LEFT JOIN w ON a.id = w.id
    """,
    "a derived table": """
        SELECT a.id, k.n, c.name FROM t AS a LEFT JOIN (SELECT id, count(*) AS n FROM u GROUP BY id) AS k ON a.id = k.id
          LEFT JOIN w AS c ON c.id = a.id
    """,
    "grouped": """
        SELECT c.name, count(*) AS n, count(d.colour) AS coloured, sum(a.v) AS v
        FROM t AS a LEFT JOIN w AS c ON a.id = c.id LEFT JOIN d ON a.v = d.v GROUP BY c.name
    """,
    "what no row matches": """
        SELECT a.id, x.name FROM t AS a LEFT JOIN d ON a.v = d.v LEFT JOIN w AS x ON a.id = x.id
          LEFT JOIN u AS c ON a.id = c.id WHERE c.id IS NULL
    """,
    "a semi join between": """
        SELECT a.id, d.colour, c.name FROM t AS a LEFT JOIN d ON a.v = d.v LEFT SEMI JOIN u ON a.id = u.id
          LEFT JOIN w AS c ON a.id = c.id
    """,
}


@one_in(3, "text", LEFT_JOINS.values(), ids=LEFT_JOINS.keys())
def test_left_joins(spark, text):
    planned(spark, text)


LATERAL_VIEWS = {
    "explode": f"SELECT a.id, b.w, tag {JOINED} JOIN items AS i ON i.id = a.id LATERAL VIEW explode(i.tags) x AS tag",
    "outer": f"SELECT a.id, x.tag {JOINED} JOIN items AS i ON i.id = a.id LATERAL VIEW OUTER explode(i.tags) x AS tag",
    "a filter of it": f"""
        SELECT a.id, x.tag {JOINED} JOIN items AS i ON i.id = a.id LATERAL VIEW explode(i.tags) x AS tag
        WHERE x.tag > 'm' AND a.v > 5
    """,
    "two": f"""
        SELECT a.id, p, q {JOINED} LATERAL VIEW posexplode(array(a.v, b.w)) x AS p, q
          LATERAL VIEW explode(array(q, 1)) y AS r WHERE r > 1
    """,
    "grouped": f"""
        SELECT tag, count(*) AS n {JOINED} JOIN items AS i ON i.id = a.id
          LATERAL VIEW explode(i.tags) x AS tag GROUP BY tag
    """,
    "in a CTE": f"""
        WITH tagged AS (SELECT id, tag FROM items LATERAL VIEW explode(tags) x AS tag)
        SELECT a.id, b.w, tag {JOINED} JOIN tagged ON tagged.id = a.id
    """,
}


@one_in(2, "text", LATERAL_VIEWS.values(), ids=LATERAL_VIEWS.keys())
def test_lateral_views(spark, text):
    planned(spark, text)


def test_session_variables(spark):
    for declared in (
        "n INT DEFAULT 1",
        "s STRING DEFAULT 'it''s \\\\'",
        "day DATE DEFAULT DATE'2024-02-29'",
        "f FLOAT",
    ):
        spark.sql(f"DECLARE OR REPLACE VARIABLE {declared}")
    text = f"SELECT a.id, n, s AS said, day AS day, session.n + b.w AS more {JOINED} WHERE a.id > n"
    planned(spark, text)
    spark.sql("SET VARIABLE n = 2")
    planned(spark, text)
    # A column of that name comes first.
    planned(spark, f"SELECT a.id, a.s AS said {JOINED} WHERE b.w > n")
    outcome = qoop.collect(spark, f"SELECT a.id, f AS half {JOINED}", STAGED).outcome
    assert outcome.cause == Unsupported(Construct.VARIABLE, "f")


def test_the_text_after_substitution(spark):
    with changed(spark, "tbl", "t AS a"), changed(spark, "low", "2"):
        text = f"SELECT a.id, b.w {JOINED} WHERE a.id >= ${{hiveconf:low}}".replace("t AS a", "${tbl}")
        assert "low" not in str(planned(spark, text).cause)
        with (
            changed(spark, "spark.sql.variable.substitute", "false"),
            pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"),
        ):
            qoop.collect(spark, text, STAGED)


def stored(spark, *tables):
    return [rows_of(spark.table(table)) for table in tables]


STORING = {
    "WITH .. INSERT": f"WITH k AS (SELECT a.id, b.w {JOINED}) INSERT INTO out1 SELECT id, w FROM k WHERE id > 1",
    "WITH .. INSERT WITH": f"""
        WITH k AS (SELECT a.id, b.w {JOINED}) INSERT OVERWRITE out1 WITH l AS (SELECT * FROM k) SELECT id, w FROM l
    """,
    "WITH .. INSERT .. PARTITION": f"""
        WITH k AS (SELECT a.id, b.w, c.name {JOINED})
        INSERT OVERWRITE TABLE out3 PARTITION (name) SELECT id, w, name FROM k
    """,
    "multi-insert": """
        FROM (SELECT a.id, b.w, c.name FROM t AS a JOIN u AS b ON a.id = b.id JOIN w AS c ON c.id = b.id) AS k
        INSERT INTO out1 SELECT id, w WHERE w > 5
        INSERT OVERWRITE TABLE out2 SELECT id, count(*) GROUP BY id
        INSERT INTO out3 PARTITION (name = 'p') SELECT id, w
    """,
    "multi-insert with WITH": f"""
        WITH k AS (SELECT a.id, b.w {JOINED}) FROM k INSERT INTO out1 SELECT id, w INSERT INTO out2 SELECT id, id
    """,
    "multi-insert into one table": f"""
        FROM (SELECT a.id, b.w {JOINED}) AS k INSERT INTO out1 SELECT id, w INSERT INTO out1 SELECT id, id
    """,
    "multi-insert that reads what it stores": """
        FROM (SELECT a.id, b.w FROM out1 AS a JOIN u AS b ON a.id = b.id JOIN w AS c ON c.id = b.id) AS k
        INSERT INTO out1 SELECT id, w INSERT INTO out2 SELECT id, w
    """,
}


@pytest.fixture
def targets(spark):
    def make():
        for name, tail in (("out1", "(id INT, w INT)"), ("out2", "(id INT, n BIGINT)")):
            spark.sql(f"DROP TABLE IF EXISTS {name}")
            spark.sql(f"CREATE TABLE {name} {tail} USING parquet")
        spark.sql("DROP TABLE IF EXISTS out3")
        spark.sql("CREATE TABLE out3 (id INT, w INT, name STRING) USING parquet PARTITIONED BY (name)")
        spark.sql("INSERT INTO out1 VALUES (1, 100), (3, 300)")

    yield make
    for name in ("out1", "out2", "out3"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")


@one_in(3, "text", STORING.values(), ids=STORING.keys())
def test_statements_that_store_rows(spark, targets, text, request):
    targets()
    spark.sql(text)
    expected = stored(spark, "out1", "out2", "out3")
    targets()
    outcome = qoop.execute(spark, text, STAGED)
    assert stored(spark, "out1", "out2", "out3") == expected
    if "reads what it stores" in request.node.name:
        assert outcome.cause == Unsupported(Construct.READS_TARGET)
    else:
        assert outcome.counts.stages >= 2 * text.count("SELECT id"), outcome.one_stage_reason


def test_a_failure_in_the_second_insert_leaves_the_first_one_as_in_spark(spark, targets):
    text = f"FROM (SELECT a.id, b.w {JOINED}) AS k INSERT INTO out1 SELECT id, w "
    text += "INSERT INTO out2 SELECT id, raise_error('no')"
    targets()
    with pytest.raises(Exception, match="USER_RAISED_EXCEPTION"):
        spark.sql(text)
    expected = stored(spark, "out1", "out2")
    targets()
    with pytest.raises(Exception, match="USER_RAISED_EXCEPTION"):
        qoop.execute(spark, text, STAGED)
    assert stored(spark, "out1", "out2") == expected


@pytest.mark.parametrize("local", ["", "LOCAL "])
def test_insert_overwrite_directory(spark, tmp_path, local):
    for name, run in (("spark", spark.sql), ("qoop", lambda text: qoop.execute(spark, text, STAGED))):
        text = f"INSERT OVERWRITE {local}DIRECTORY '{tmp_path / name}' USING parquet SELECT a.id, b.w {JOINED}"
        outcome = run(text)
    assert rows_of(spark.read.parquet(str(tmp_path / "qoop"))) == rows_of(spark.read.parquet(str(tmp_path / "spark")))
    assert outcome.counts.stages > 1, outcome.one_stage_reason
    assert Path(tmp_path / "qoop" / "_SUCCESS").exists()


def test_a_watcher_is_told_events_and_commands(spark):
    watched = []
    qoop.collect(
        spark, f"SELECT a.id, b.w {JOINED}", qoop.Options(cut_policy=CutPolicy(everywhere=True), watch=watched.append)
    )
    finished = [one for one in watched if isinstance(one, StageFinished)]
    assert len(finished) > 1 and finished[-1].rows == 4
    assert [one.reason for one in watched if isinstance(one, ShareChanged)]


# A session whose own `spark.sql` replans.


@pytest.fixture
def installed(spark):
    watched = []
    qoop.install(spark, qoop.Options(cut_policy=CutPolicy(everywhere=True), watch=watched.append))
    yield watched
    qoop.uninstall(spark)


def jobs(spark):
    """The number of Spark's next job."""
    return int(spark._jsc.sc().dagScheduler().nextJobId())


def stages_of(watched):
    """The stages that have finished since the last call."""
    finished = [one for one in watched if isinstance(one, StageFinished)]
    watched.clear()
    return len(finished)


TEXT = f"SELECT a.id, b.w, c.name {JOINED} ORDER BY w"


def test_frames_of_an_installed_session_are_lazy_and_their_actions_are_replanned(spark, installed, tmp_path):
    before = jobs(spark)
    frame = spark.sql(TEXT)
    assert isinstance(frame, DataFrame) and frame.columns == ["id", "w", "name"] and frame.sparkSession is spark
    frame.explain()
    assert jobs(spark) == before and not installed, "nothing runs before an action"
    rows = SparkSession.sql(spark, TEXT).collect()
    for act, expected in (
        (frame.collect, rows),
        (frame.count, 4),
        (lambda: frame.take(2), rows[:2]),
        (frame.first, rows[0]),
        (frame.isEmpty, False),
        (lambda: [*frame.toLocalIterator()], rows),
    ):
        assert act() == expected
        assert stages_of(installed) > 1
    frame.write.mode("overwrite").option("compression", "none").parquet(str(tmp_path / "written"))
    assert stages_of(installed) > 1
    assert rows_of(spark.read.parquet(str(tmp_path / "written"))) == sorted(map(repr, rows))
    with pytest.raises(AttributeError, match="'DataFrameWriter' object has no attribute 'parket'"):
        frame.write.parket("x")


def test_frames_made_from_them_run_as_spark_runs_them(spark, installed):
    frame = spark.sql(TEXT)
    assert frame.filter("w > 6").count() == 2
    frame.createOrReplaceTempView("made")
    assert spark.range(1).join(frame).count() == 4
    assert spark.sql("SELECT count(*) AS n FROM {frame}", frame=frame).collect()[0].n == 4
    assert stages_of(installed) == 0
    spark.catalog.dropTempView("made")


def test_arguments_are_literals(spark, installed):
    text = f"SELECT a.id, b.w, :said AS said {JOINED} WHERE b.w > :low AND c.name <> :said"
    args = {"low": 5, "said": "it's"}
    assert sorted(spark.sql(text, args).collect()) == sorted(SparkSession.sql(spark, text, args).collect())
    assert stages_of(installed) > 1
    text = f"SELECT a.id, ? AS x {JOINED} WHERE b.w > ?"
    assert sorted(spark.sql(text, [1.5, 5]).collect()) == sorted(SparkSession.sql(spark, text, [1.5, 5]).collect())
    assert stages_of(installed) > 1


def test_statements_and_commands_run_at_once_as_in_spark(spark, installed, targets):
    targets()
    stages_of(installed)
    assert spark.sql(f"INSERT INTO out1 SELECT a.id, b.w {JOINED}").collect() == []
    assert stages_of(installed) > 1
    assert spark.table("out1").count() == 6
    assert spark.sql("SHOW TABLES LIKE 'out1'").collect()[0].tableName == "out1"
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("SELECT * FROM missing")


def test_it_can_be_switched_off_and_uninstalled(spark, installed):
    frame = spark.sql(TEXT)
    plan = spark.conf.get("spark.qoop.plan")
    spark.sql("SET spark.qoop.plan=never")
    assert frame.count() == 4 and stages_of(installed) == 1
    spark.sql(f"SET spark.qoop.plan={plan}")
    qoop.install(spark)
    qoop.uninstall(spark)
    assert "sql" not in vars(spark) and spark.sql.__func__ is SparkSession.sql
    assert type(spark.sql(TEXT)) is type(spark.range(1))
    assert frame.count() == 4 and stages_of(installed) == 0
    qoop.uninstall(spark)


# Causes that Spark alone can tell, and what would change each.

AUTO = {"spark.qoop.plan": "auto"}
TOTALS = f"SELECT c.name, count(*) AS n {JOINED} GROUP BY c.name"
OF = TOTALS.replace("FROM t", "FROM {}")
CROSSED = "SELECT a.id, c.name FROM t AS a JOIN u AS b JOIN w AS c ON c.id = b.id"

CAUSES = [
    (TOTALS, AUTO, TooSmall, (TOTALS, {})),
    (f"SELECT a.id {JOINED} LIMIT 2", AUTO, StopsEarly, (f"SELECT a.id {JOINED} LIMIT 2", {})),
    (TOTALS, {"spark.qoop.plan": "never"}, Off(), (TOTALS, {})),
    ("SHOW TABLES", {}, Unsupported(Construct.COMMAND), None),
    ("SET x = 1", {}, Unsupported(Construct.NO_QUERY), None),
    ("INSERT INTO t VALUES (1, 'b', 2)", {}, Unsupported(Construct.NO_QUERY), None),
    (TOTALS, {"spark.sql.files.ignoreCorruptFiles": "true"}, NotPinned.FILES_SKIPPED, (TOTALS, {})),
    (TOTALS, {"spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing": "true"}, NotPinned.NULL_STRUCTS, None),
    (OF.format("json"), {}, NotPinned.MALFORMED_ROWS, (TOTALS, {})),
    (OF.format("global_temp.g"), {}, NotPinned.GLOBAL_VIEW, (TOTALS, {})),
    (OF.format("session.local"), {}, NotPinned.SESSION_VIEW, (OF.format("local"), {})),
    (OF.format("parquet.`folder`"), {}, NotPinned.LISTED_EACH_TIME, (OF.format("local"), {})),
    (f"SELECT shuffle(array(a.id, 1)) AS x {JOINED}", {}, NotRepeatable, (TOTALS, {})),
    (f"SELECT a.id, a._metadata.file_block_start AS x {JOINED}", {}, NotPinned.FILE_BLOCKS, (TOTALS, {})),
    (CROSSED, {"spark.sql.crossJoin.enabled": "false"}, NotOptimised(), (CROSSED, {})),
]  # fmt: skip


@one_in(3, ("text", "settings", "cause", "changed_to"), CAUSES, ids=lambda value: str(value)[:60])
def test_causes_that_spark_tells(spark, text, settings, cause, changed_to):
    spark.read.parquet(spark.table("t").inputFiles()[0].rpartition("/")[0]).createOrReplaceTempView("local")
    spark.table("t").createOrReplaceGlobalTempView("g")
    spark.sql("CREATE TABLE IF NOT EXISTS json USING json AS SELECT * FROM t")
    text = text.replace("folder", spark.table("t").inputFiles()[0].rpartition("/")[0])
    with ExitStack() as stack:
        for name, value in settings.items():
            stack.enter_context(changed(spark, name, value))
        (how,) = qoop.how_to_run(spark, text)
    found = getattr(how, "cause", None)
    match cause:
        case NotPinned():
            assert found.why == cause
        case type():
            assert isinstance(found, cause)
        case _:
            assert found == cause
    if changed_to is not None:
        with ExitStack() as stack:
            for name, value in changed_to[1].items():
                stack.enter_context(changed(spark, name, value))
            assert qoop.how_to_run(spark, changed_to[0]) == [Planned()]
    assert spark.table("t").count() == 5, "nothing was run"
