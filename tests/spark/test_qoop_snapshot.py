"""Tables that change while a query runs are read in one version, or the query runs as written."""

import gc
import itertools
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import qoop
from qoop.engine import snapshot
from qoop.engine.prepared import PreparedQueries
from qoop.engine.scala import leaves
from qoop.engine.session import QueryAsWritten, query_session
from qoop.engine.snapshot import files_read, pin_tables
from qoop.engine.verification import Verification
from qoop.errors import QoopError, QueryFailedError
from qoop.plans.candidates import CutPolicy
from qoop.replan.commands import StartStage
from qoop.replan.decision import Rules
from tests.sampled import one_in
from tests.spark.spark_sessions import changed

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spark")
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").enableHiveSupport()
    builder = builder.config("spark.sql.warehouse.dir", (folder / "warehouse").as_uri())
    database = f"jdbc:derby:memory:{folder.name};create=true"
    builder = builder.config("spark.hadoop.javax.jdo.option.ConnectionURL", database)
    builder = builder.config("spark.hadoop.hive.exec.dynamic.partition.mode", "nonstrict")
    # Spark would keep listings of partitions for a while by itself.
    builder = builder.config("spark.sql.hive.filesourcePartitionFileCacheSize", "0")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.sql("SELECT id AS k, id % 3 AS g FROM range(5)").createOrReplaceTempView("kinds")
    session.sql("SELECT id AS g, id + 7 AS w FROM range(3)").createOrReplaceTempView("groups")
    yield session
    session.stop()


ROWS = "SELECT id, id % 5 AS k, id % 2 AS p FROM range(100)"

COUNTS = """
WITH early AS (SELECT k, count(*) AS n FROM {facts} GROUP BY k),
  late AS (SELECT k, count(id) AS n FROM {facts} WHERE id >= 0 GROUP BY k)
SELECT early.k, early.n AS early, late.n AS late, groups.w
FROM early JOIN kinds ON kinds.k = early.k JOIN groups ON groups.g = kinds.g JOIN late ON late.k = early.k
"""


APART = """
SELECT x.k, x.n AS early, count(late.id) AS late
FROM (SELECT early.k, count(*) AS n FROM {facts} AS early JOIN kinds ON kinds.k = early.k GROUP BY early.k) AS x
  JOIN {facts} AS late ON late.k = x.k JOIN groups ON groups.g = late.k % 3
GROUP BY x.k, x.n
"""


class Kinds:
    """Ways to name a table; each returns its name in a query, and its folder."""

    @staticmethod
    def plain(spark, folder):
        spark.sql(f"CREATE TABLE facts USING parquet AS {ROWS}")
        return "facts", Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")) / "facts"

    @staticmethod
    def qualified(spark, folder):
        return "default.facts", Kinds.plain(spark, folder)[1]

    @staticmethod
    def partitioned(spark, folder):
        spark.sql(f"CREATE TABLE facts USING parquet PARTITIONED BY (p) AS {ROWS}")
        return "facts", Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")) / "facts"

    @staticmethod
    def hive(spark, folder):
        spark.sql("CREATE TABLE facts (id BIGINT, k BIGINT, p BIGINT) STORED AS PARQUET")
        return Kinds._filled(spark)

    @staticmethod
    def hive_partitioned(spark, folder):
        spark.sql("CREATE TABLE facts (id BIGINT, k BIGINT) PARTITIONED BY (p BIGINT) STORED AS PARQUET")
        return Kinds._filled(spark)

    @staticmethod
    def _filled(spark):
        spark.sql(f"INSERT INTO facts {ROWS}")
        return "facts", Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")) / "facts"

    @staticmethod
    def external(spark, folder):
        spark.sql(ROWS).write.parquet(folder.as_uri())
        spark.sql(f"CREATE TABLE facts USING parquet LOCATION '{folder.as_uri()}'")
        return "facts", folder

    @staticmethod
    def temporary_view(spark, folder):
        spark.sql(ROWS).write.parquet(folder.as_uri())
        spark.read.parquet(folder.as_uri()).createOrReplaceTempView("facts")
        return "facts", folder

    @staticmethod
    def view_of_partitions(spark, folder):
        _, path = Kinds.partitioned(spark, folder)
        spark.table("facts").where("id >= 0").createOrReplaceTempView("part")
        return "part", path

    @staticmethod
    def view(spark, folder):
        _, path = Kinds.partitioned(spark, folder)
        spark.sql("CREATE VIEW seen AS SELECT * FROM facts")
        return "seen", path

    @staticmethod
    def path(spark, folder):
        spark.sql(ROWS).write.parquet(folder.as_uri())
        return f"parquet.`{folder.as_uri()}`", folder

    @staticmethod
    def view_of_path(spark, folder):
        spark.sql(ROWS).write.parquet(folder.as_uri())
        spark.sql(f"CREATE TEMPORARY VIEW facts AS SELECT * FROM parquet.`{folder.as_uri()}`")
        return "facts", folder


PINNED = [
    "plain", "qualified", "partitioned", "hive", "hive_partitioned", "external", "temporary_view", "view_of_partitions",
    "view",
]  # fmt: skip


@pytest.fixture
def made(spark, tmp_path):
    yield lambda kind: getattr(Kinds, kind)(spark, tmp_path / "facts")
    spark.catalog.dropTempView("facts")
    spark.catalog.dropTempView("part")
    spark.sql("DROP VIEW IF EXISTS seen")
    spark.sql("DROP TABLE IF EXISTS facts")


def changing(change, starts=2, checkpoint=None):
    """Options under which something changes just before a stage is started."""
    seen = []

    def watch(command):
        if isinstance(command, StartStage):
            seen.append(command.stage)
            if len(seen) == starts:
                change()

    warned = []
    everywhere = CutPolicy(everywhere=True)
    options = qoop.Options(cut_policy=everywhere, watch=watch, warn=warned.append, checkpoint=checkpoint)
    return seen, warned, options


@one_in(2, ("option", "value"), [("nullValue", "7"), ("header", "true")])
def test_options_of_a_table_that_change_meanwhile_are_not_mixed(spark, monkeypatch, option, value):
    # As if the first stage took longer than queries are prepared for.
    monkeypatch.setattr("qoop.engine.prepared.PreparedQueries.prepare", lambda *_: None)
    spark.sql("CREATE TABLE facts (id BIGINT, k BIGINT, p BIGINT) USING csv")
    try:
        spark.sql(f"INSERT INTO facts {ROWS}")
        text = APART.format(facts="facts").replace("count(*)", "count(early.id)")
        expected = counts(spark.sql(text).collect())

        def change():
            time.sleep(1)
            spark.newSession().sql(f"ALTER TABLE facts SET SERDEPROPERTIES ('{option}'='{value}')")

        seen, _, options = changing(change)
        assert counts(qoop.collect(spark, text, options).rows) == expected
        assert len(seen) > 1
        changed_rows = counts(spark.sql(text).collect())
        assert changed_rows != expected and counts(qoop.collect(spark, text, changing(print)[2]).rows) == changed_rows
    finally:
        spark.sql("DROP TABLE facts")


def test_an_insert_into_a_table_of_another_database_fails_if_that_is_redefined(spark, made):
    url, driver = "jdbc:derby:memory:targets;create=true", "org.apache.derby.iapi.jdbc.AutoloadedDriver"
    access = f"USING jdbc OPTIONS (url '{url}', driver '{driver}', dbtable"
    empty = spark.sql("SELECT 1L AS k, 1L AS early, 1L AS late LIMIT 0")
    for table in ("target_a", "target_b"):
        empty.write.jdbc(url, table, properties={"driver": driver})

    def define(table):
        spark.sql("DROP TABLE IF EXISTS target")
        spark.sql(f"CREATE TABLE target {access} '{table}')")

    define("target_a")
    try:
        name, _ = made("plain")
        _, _, options = changing(lambda: define("target_b"))
        with pytest.raises(QoopError, match=r"the table: was .*; nothing was stored"):
            qoop.execute(spark, f"INSERT INTO target {APART.format(facts=name)}", options)
        assert spark.table("target").count() == 0
        qoop.execute(spark, f"INSERT INTO target {APART.format(facts=name)}", changing(print)[2])
        assert spark.table("target").count() == 5
    finally:
        spark.sql("DROP TABLE IF EXISTS target")


def counts(rows):
    return {(row.early, row.late) for row in rows}


def add_files(folder):
    """Add the rows once more, as another application does, of which this one's caches know nothing."""
    parts = sorted(folder.glob("p=*"))
    for part in parts or [folder]:
        p = int(part.name.partition("=")[2]) if parts else None
        ids = [id for id in range(100) if p is None or id % 2 == p]
        columns = {"id": ids, "k": [id % 5 for id in ids]} | ({} if parts else {"p": [id % 2 for id in ids]})
        pq.write_table(pa.table(columns), part / "added.parquet")


@one_in(5, "kind", PINNED)
def test_files_added_while_a_query_runs_are_not_read(spark, made, kind):
    name, folder = made(kind)
    seen, warned, options = changing(lambda: add_files(folder), 3)
    answer = qoop.collect(spark, COUNTS.format(facts=name), options)
    assert len(seen) == 3 and warned == []
    assert counts(answer.rows) == {(20, 20)}
    spark.sql(f"REFRESH TABLE {name}")
    assert counts(qoop.collect(spark, COUNTS.format(facts=name), changing(lambda: None)[2]).rows) == {(40, 40)}


def test_without_pinning_files_added_while_a_query_runs_are_mixed(spark, made, monkeypatch):
    """What the other tests would miss if Spark kept its listings by itself."""
    monkeypatch.setattr("qoop.session_query.pin_tables", lambda *_: [])
    # A stage that is analysed early lists its files early.
    monkeypatch.setattr("qoop.engine.prepared.PreparedQueries.prepare", lambda *_: None)
    name, folder = made("path")
    found = set()
    for starts in (1, 2, 3):
        shutil.rmtree(folder)
        spark.sql(ROWS).write.parquet(folder.as_uri())
        options = changing(lambda: add_files(folder), starts)[2]
        found |= counts(qoop.collect(spark, APART.format(facts=name), options).rows)
    assert (20, 40) in found or (40, 20) in found


@one_in(
    7,
    ("kind", "own_session"),
    itertools.product(
        ["plain", "partitioned", "hive", "hive_partitioned", "temporary_view", "view_of_partitions"], [True, False]
    ),
)
def test_a_table_that_the_same_application_changes_is_read_in_one_version(spark, made, kind, own_session, tmp_path):
    """Spark lists it anew, also for plans that were analysed before, and computes again what it has cached."""
    (name, _), files = made(kind), tmp_path / "outputs"

    def add():
        writer = spark if own_session else query_session(spark)
        writer.sql(f"INSERT INTO facts {ROWS}")

    for text, starts, checkpoint in (
        (APART, 2, None),
        (COUNTS, 2, None),
        (COUNTS, 3, None),
        (APART, 2, files.as_uri()),
    ):
        before = spark.table(name).count() // 5
        seen, warned, options = changing(add, starts, checkpoint)
        answer = qoop.collect(spark, text.format(facts=name), options)
        assert len(seen) >= starts and warned == []
        assert counts(answer.rows) == {(before, before)}
        spark.sql(f"REFRESH TABLE {name}")


def test_a_table_of_hives_that_each_stage_would_list_is_read_as_written(spark, made, monkeypatch):
    """What is kept of it must look to Spark as if it had listed it itself, which it may not for other reasons too."""
    monkeypatch.setattr(snapshot, "rooted", lambda partitions, paths: partitions)
    name, _ = made("hive_partitioned")
    answer = qoop.collect(spark, APART.format(facts=name), changing(lambda: None)[2])
    assert "a table of Hive's, would be listed by each stage" in answer.outcome.one_stage_reason
    assert counts(answer.rows) == {(20, 20)}


def test_a_table_of_hives_that_gets_other_files_is_read_in_one_version(spark, made, monkeypatch, tmp_path):
    """Spark then discards what is kept of it, and lists it anew."""
    monkeypatch.setattr(PreparedQueries, "prepare", lambda *_: None)
    name, folder = made("hive")
    spark.sql("SELECT id, id % 5 AS k, id % 2 AS p FROM range(200)").write.parquet((tmp_path / "other").as_uri())
    move = f"ALTER TABLE facts SET LOCATION '{(tmp_path / 'other').as_uri()}'"
    seen, warned, options = changing(lambda: spark.newSession().sql(move), 2)
    answer = qoop.collect(spark, APART.format(facts=name), options)
    # That of a dropped table is where it is now.
    shutil.rmtree(folder)
    assert len(seen) >= 2 and "could not be shown to be equivalent" in " ".join(warned)
    assert counts(answer.rows) <= {(20, 20), (40, 40)}


def test_a_view_of_all_sessions_is_read_in_one_version_or_as_written(spark, made):
    name, _ = made("partitioned")
    spark.table(name).createOrReplaceGlobalTempView("everywhere")
    try:
        answer = qoop.collect(spark, COUNTS.format(facts="global_temp.everywhere"), changing(lambda: None)[2])
    finally:
        spark.catalog.dropGlobalTempView("everywhere")
    assert counts(answer.rows) == {(20, 20)}
    assert "view of all sessions" in answer.outcome.one_stage_reason


def test_tables_in_sparks_cache_are_read_as_written_but_rows_of_an_answer_are_not(spark, made):
    name, _ = made("plain")
    spark.table(name).cache()
    try:
        answer = qoop.collect(spark, COUNTS.format(facts=name), changing(lambda: None)[2])
    finally:
        spark.catalog.uncacheTable(name)
    assert counts(answer.rows) == {(20, 20)}
    assert "in Spark's cache" in answer.outcome.one_stage_reason
    earlier = qoop.sql(spark, COUNTS.format(facts=name), changing(lambda: None)[2])
    earlier.createOrReplaceTempView("part")
    text = f"SELECT part.early, late.id FROM part JOIN kinds ON kinds.k = part.k JOIN {name} AS late ON late.k = part.k"
    _, warned, options = changing(lambda: None)
    assert QueryAsWritten(spark, text).reads_stored_rows
    assert qoop.collect(spark, text, options).outcome.counts.stages > 1 and warned == []


def test_a_table_that_is_cached_while_a_query_runs_is_read_in_one_version(spark, made):
    name, _ = made("plain")

    def cache():
        query_session(spark).sql(f"INSERT INTO facts {ROWS}")
        spark.table(name).cache()

    try:
        answer = qoop.collect(spark, APART.format(facts=name), changing(cache)[2])
    finally:
        spark.catalog.uncacheTable(name)
    assert len(counts(answer.rows)) == 1 and all(early == late for early, late in counts(answer.rows))


def test_a_table_that_is_read_by_two_lists_of_its_files_is_read_as_written(spark, made):
    name, _ = made("plain")
    spark.table(name).createOrReplaceTempView("part")
    spark.sql(f"REFRESH TABLE {name}")
    spark.sql(f"INSERT INTO {name} {ROWS}")
    text = COUNTS.format(facts=name).replace(f"FROM {name} WHERE", "FROM part WHERE")
    answer = qoop.collect(spark, text, changing(lambda: None)[2])
    assert counts(answer.rows) == counts(spark.sql(text).collect()) == {(40, 20)}
    assert "two lists" in answer.outcome.one_stage_reason


def test_a_folder_that_two_views_list_is_read_as_written(spark, tmp_path):
    """Spark takes both for the same, and so their groupings, where it sees both."""
    folder = tmp_path / "listed"
    spark.sql(ROWS).coalesce(1).write.parquet(folder.as_uri())
    options = changing(lambda: None)[2]
    text = COUNTS.format(facts="old").replace("count(id) AS n FROM old WHERE id >= 0", "count(*) AS n FROM new")
    try:
        for name, reason in (("old", None), ("new", None), ("new", "two lists of them")):
            spark.read.parquet(folder.as_uri()).createOrReplaceTempView(name)
            if name == "new":
                answer = qoop.collect(spark, text, options)
                assert (reason or "") in (answer.outcome.one_stage_reason or "")
                assert counts(answer.rows) == counts(spark.sql(text).collect())
                assert (answer.outcome.counts.stages > 1) == (reason is None)
                add_files(folder)
    finally:
        spark.catalog.dropTempView("old")
        spark.catalog.dropTempView("new")


@one_in(2, "prefix", ["session", "SYSTEM.session"])
def test_a_temporary_view_that_is_named_by_its_session_is_read_as_written(spark, made, prefix):
    _, folder = made("view_of_partitions")
    _, _, options = changing(lambda: add_files(folder))
    answer = qoop.collect(spark, COUNTS.format(facts=f"{prefix}.part"), options)
    assert f"without {prefix}" in answer.outcome.one_stage_reason
    assert counts(answer.rows) == {(20, 20)}


def test_tables_on_the_path_before_the_outputs_of_stages_are_not_read_for_them(spark, made):
    name, _ = made("plain")
    spark.sql("CREATE TABLE qoop_early USING parquet AS SELECT id AS k, 999L AS n FROM range(5)")
    try:
        with changed(spark, "spark.sql.functionResolution.sessionOrder", "last"):
            answer = qoop.collect(spark, COUNTS.format(facts=name), changing(lambda: None)[2])
            assert "tables come before system.session" in answer.outcome.one_stage_reason
        assert counts(answer.rows) == {(20, 20)}
        with changed(spark, "spark.sql.functionResolution.sessionOrder", "first"):
            assert qoop.collect(spark, COUNTS.format(facts=name), changing(lambda: None)[2]).outcome.counts.stages > 1
    finally:
        spark.sql("DROP TABLE qoop_early")


def test_a_view_with_files_in_a_subquery_runs_as_written(spark, made):
    name, _ = made("plain")
    spark.sql(f"SELECT * FROM kinds WHERE k IN (SELECT k FROM {name})").createOrReplaceTempView("part")
    text = COUNTS.format(facts=name).replace("JOIN kinds", "JOIN part AS kinds")
    answer = qoop.collect(spark, text, changing(lambda: None)[2])
    assert counts(answer.rows) == {(20, 20)}
    assert "in a subquery" in answer.outcome.one_stage_reason


@one_in(2, "kind", ["plain", "partitioned", "temporary_view"])
def test_files_replaced_while_a_query_runs(spark, made, kind):
    """Spark's error about the missing files, or the answer of one version, never a mixture."""
    name, folder = made(kind)

    def replace():
        shutil.rmtree(folder)
        writer = spark.newSession().sql(f"{ROWS} UNION ALL {ROWS}").write
        (writer.partitionBy("p") if kind == "partitioned" else writer).parquet(folder.as_uri())

    seen, _, options = changing(replace, 3)
    try:
        answer = qoop.collect(spark, COUNTS.format(facts=name), options)
    except QueryFailedError as problem:
        assert "FILE_NOT_EXIST" in str(problem) or "does not exist" in str(problem)
        return
    assert len(seen) >= 3
    assert counts(answer.rows) in ({(20, 20)}, {(40, 40)})


@one_in(2, "kind", ["path", "view_of_path"])
def test_files_that_each_stage_would_list_are_read_as_written(spark, made, kind):
    name, _ = made(kind)
    answer = qoop.collect(spark, COUNTS.format(facts=name), changing(lambda: None)[2])
    assert counts(answer.rows) == {(20, 20)}
    assert answer.outcome.counts.stages == 1
    reason = answer.outcome.one_stage_reason
    assert "each time" in reason or kind == "path"


def test_a_source_without_files_is_read_as_written(spark, made, monkeypatch):
    """As tables of databases are, of which no driver is at hand."""
    monkeypatch.setattr("qoop.engine.snapshot.file_index", lambda leaf: None)
    name, _ = made("plain")
    answer = qoop.collect(spark, COUNTS.format(facts=name), changing(lambda: None)[2])
    assert counts(answer.rows) == {(20, 20)}
    assert answer.outcome.counts.stages == 1
    assert "not read by a list of files" in answer.outcome.one_stage_reason


@pytest.fixture
def padded(spark, tmp_path):
    """A table with a CHAR column whose files have shorter values, as other programs write them."""
    spark.sql("SELECT 1 AS k, 'a' AS h UNION ALL SELECT 2, 'bb'").write.parquet(f"{tmp_path}/padded")
    spark.sql(f"CREATE TABLE padded (k INT, h CHAR(4)) USING parquet LOCATION '{tmp_path}/padded'")
    yield "padded"
    spark.sql("DROP TABLE padded")


def test_stages_pad_chars_as_the_query_as_written_does(spark, padded):
    text = (
        f"SELECT concat(h, '|') AS h, late.k FROM {padded} JOIN kinds ON kinds.k = {padded}.k "
        "JOIN groups ON groups.g = kinds.g JOIN kinds AS late ON late.g = groups.w - 7"
    )
    answer = qoop.collect(spark, text, qoop.Options(rules=Rules(force=True), cut_policy=CutPolicy(everywhere=True)))
    assert answer.outcome.counts.stages > 1 and not answer.outcome.as_written
    assert {row.h for row in answer.rows} == {row.h for row in spark.sql(text).collect()} == {"a   |", "bb  |"}


def test_plans_are_compared_as_reading_the_files_that_stages_read(spark, padded):
    written, stages = spark.sql(f"SELECT h FROM {padded}"), query_session(spark)
    pairs = pin_tables(files_read(written), stages, {})
    compared = Verification(written, stages, same=pairs)._session.table(padded)
    (leaf,) = leaves(compared._jdf.queryExecution().analyzed())
    (pinned,) = (pinned for _, pinned in pairs)
    same = spark._jvm.java.lang.System.identityHashCode
    assert same(leaf.relation().location()) == same(pinned.relation().location())


LATE = """
WITH s AS (SELECT f.k, count(*) AS n FROM {seen} f JOIN kinds ON kinds.k = f.k GROUP BY f.k)
SELECT s1.k, s1.n AS early, count(late.id) AS late
FROM s AS s1 JOIN s AS s2 ON s1.k = s2.k JOIN groups ON groups.g = s1.k % 3 LEFT JOIN {seen} AS late ON late.k = s1.k
GROUP BY s1.k, s1.n, s2.n
"""


@one_in(
    2,
    ("name", "kind", "printed"),
    [
        ("default.seen", "VIEW default.seen", "1g"),
        ("default.seen", "VIEW default.seen", "0"),
        ("global_temp.seen", "GLOBAL TEMPORARY VIEW seen", "1g"),
    ],
)
def test_a_view_defined_anew_while_a_query_runs_is_not_mixed(spark, made, name, kind, printed):
    def define(*ids):
        values = ", ".join(f"({id})" for id in ids)
        spark.sql(f"CREATE OR REPLACE {kind} AS SELECT id, id % 5 AS k FROM VALUES {values} AS v(id)")

    try:
        define(1, 2)
        seen, _, options = changing(lambda: define(1, 2, 6, 7))
        with changed(spark, "spark.sql.maxPlanStringLength", printed):
            answer = qoop.collect(spark, LATE.format(seen=name), options)
    finally:
        spark.sql("DROP VIEW IF EXISTS " + name)
    assert len(seen) > 1
    assert counts(answer.rows) in ({(1, 1)}, {(2, 2)})


def test_tables_that_spark_lists_anew_after_a_while_are_not_read_by_stages(spark, made, monkeypatch):
    name, _ = made("plain")
    monkeypatch.setattr("qoop.engine.snapshot.EXPIRY", "spark.sql.custom.seconds")
    with changed(spark, "spark.sql.custom.seconds", "5"):
        outcome = qoop.collect(spark, COUNTS.format(facts=name), changing(lambda: None)[2]).outcome
    assert (
        outcome.one_stage_reason == "spark.sql.custom.seconds: is 5; after these seconds stages would list other files"
    )


def test_a_frame_does_not_read_what_is_cached_after_it_was_made(spark, made):
    name, _ = made("plain")
    seen, warned, options = changing(lambda: None)
    frame = qoop.sql(spark, APART.format(facts=name), options)
    assert len(seen) > 1 and warned == []
    spark.table(name).cache()
    try:
        spark.sql(f"INSERT INTO {name} SELECT id, k, p FROM {name}")
        assert counts(frame.collect()) == counts(frame.where("k >= 0").collect()) == {(20, 20)}
    finally:
        spark.catalog.uncacheTable(name)


@one_in(3, "kind", ["plain", "partitioned", "external", "temporary_view", "view_of_partitions"])
def test_a_frame_in_sparks_cache_does_not_mix_versions(spark, made, kind):
    """When an application writes to a table, Spark lists its files anew for what it has cached of it."""
    name, folder = made(kind)
    seen, warned, options = changing(lambda: None)
    frame = qoop.sql(spark, APART.format(facts=name), options)
    assert len(seen) > 1 and warned == []
    frame.cache()
    try:
        assert counts(frame.collect()) == {(20, 20)}
        if kind in ("external", "temporary_view"):
            spark.sql(ROWS).write.mode("append").parquet(folder.as_uri())
        else:
            spark.sql(f"INSERT INTO facts {ROWS}")
        assert counts(frame.select("*").collect()) == {(20, 20)}
        assert counts(qoop.collect(spark, APART.format(facts=name), options).rows) == {(40, 40)}
    finally:
        frame.unpersist()


def test_a_view_of_a_frame_cannot_be_refreshed_in_part(spark, made):
    name, _ = made("plain")
    _, _, options = changing(lambda: None)
    qoop.sql(spark, APART.format(facts=name), options).createOrReplaceTempView("part")
    spark.sql(f"INSERT INTO facts {ROWS}")
    with pytest.raises(Py4JJavaError, match="as-listed-by-qoop"):
        spark.catalog.refreshTable("part")
    assert counts(spark.table("part").collect()) == {(20, 20)}


def test_a_frame_reads_only_the_files_that_spark_would(spark, made):
    """Spark lists folders within a table without partitions too, but reads only its own files."""
    name, folder = made("external")
    (folder / "within").mkdir()
    pq.write_table(pa.table({"id": [1], "k": [1], "p": [1]}), folder / "within" / "file.parquet")
    spark.sql(f"REFRESH TABLE {name}")
    seen, warned, options = changing(lambda: None)
    frame = qoop.sql(spark, APART.format(facts=name), options)
    assert len(seen) > 1 and warned == []
    assert counts(frame.collect()) == counts(spark.sql(APART.format(facts=name)).collect()) == {(20, 20)}


MALFORMED = {
    "dropped": ("csv", "mode 'DROPMALFORMED'", ""),
    "dropped by JSON": ("json", "mode 'dropMalformed'", ""),
    "noted": ("csv", "sep ','", ", _corrupt_record STRING"),
    "noted elsewhere": ("json", "columnNameOfCorruptRecord 'Wrong'", ", wrong STRING"),
    "looked back for": ("csv", "unescapedQuoteHandling 'BACK_TO_DELIMITER'", ""),
}


@one_in(2, "kind", MALFORMED)
def test_rows_are_malformed_by_the_columns_that_the_query_reads(spark, tmp_path, kind):
    """A stage stores a column that no later one reads."""
    source, options, column = MALFORMED[kind]
    line = "{}" if source == "csv" else '{{"id": {}, "k": {}, "n": {}}}'
    rows = [(id, id % 5, '"bad"' if id % 10 == 3 else id % 7) for id in range(100)]
    lines = [",".join(map(str, row)) if source == "csv" else line.format(*row) for row in rows]
    (tmp_path / "file").write_text("\n".join(lines))
    spark.sql(
        f"CREATE TABLE facts (id INT, k INT, n INT{column}) USING {source} "
        f"OPTIONS ({options}) LOCATION '{tmp_path.as_uri()}'"
    )
    text = """
        SELECT x.k, x.rows, groups.w FROM (
          SELECT facts.k, count(*) AS rows, sum(facts.n) AS n
          FROM facts JOIN kinds ON kinds.k = facts.k GROUP BY facts.k
        ) AS x JOIN groups ON groups.g = x.k
    """
    try:
        answer = qoop.collect(spark, text, changing(lambda: None)[2])
        assert "are malformed depends on the columns" in str(answer.outcome.one_stage_reason)
        assert sorted(answer.rows) == sorted(spark.sql(text).collect())
        assert {row.rows for row in answer.rows} == {20}
    finally:
        spark.sql("DROP TABLE facts")


def test_what_is_read_of_a_malformed_line_of_json_depends_on_columns_and_filters(spark, tmp_path):
    (tmp_path / "file").write_text('{"k":1,"v":10,"b":{"x":1}}\n{"k":2,"v":20,"b":{"x":01}}')
    spark.read.schema("k BIGINT, v INT, b STRUCT<x: INT>").json(str(tmp_path)).createOrReplaceTempView("facts")
    joined = "WITH p AS (SELECT j.k, j.v, j.b.x AS x FROM facts j JOIN kinds i ON j.k = i.k)"
    filtered = "WITH p AS (SELECT DISTINCT j.v AS v, i.k FROM facts j LEFT JOIN kinds i ON j.k = i.k)"
    try:
        for text in (
            f"{joined} SELECT 1 AS part, v AS r FROM p UNION ALL SELECT 2, x FROM p",
            f"{filtered} SELECT 1 AS part, count(*) AS n FROM p WHERE v IS NULL UNION ALL SELECT 2, count(*) FROM p",
        ):
            answer = qoop.collect(spark, text, changing(lambda: None)[2])
            assert sorted(answer.rows, key=repr) == sorted(spark.sql(text).collect(), key=repr)
            assert "are malformed depends on the columns" in str(answer.outcome.one_stage_reason)
    finally:
        spark.catalog.dropTempView("facts")


def test_how_files_are_divided_depends_on_the_plan(spark, made):
    made("plain")
    path = spark.sql("DESCRIBE EXTENDED facts").where("col_name = 'Location'").first()[1]
    spark.read.parquet(path).selectExpr("k", "_metadata.file_block_length AS len").createOrReplaceTempView("part")
    text = (
        "SELECT DISTINCT part.len, groups.w FROM part JOIN kinds ON part.k = kinds.k JOIN groups ON groups.g = kinds.g"
    )
    answer = qoop.collect(spark, text, changing(lambda: None)[2])
    assert sorted(answer.rows) == sorted(spark.sql(text).collect())
    assert "file_block" in answer.outcome.one_stage_reason


def test_structs_that_are_null_by_the_fields_that_are_read(spark, tmp_path):
    for part, struct in ((1, "named_struct('a', 1, 'b', 1)"), (2, "named_struct('b', 2)")):
        spark.sql(f"SELECT {part}L AS k, {struct} AS st").write.parquet(f"{tmp_path}/f={part}")
    read = spark.read.schema("k BIGINT, st STRUCT<a: INT, b: INT>").parquet(f"{tmp_path}/f=1", f"{tmp_path}/f=2")
    read.createOrReplaceTempView("facts")
    text = """SELECT f.k, f.st.a AS a, w FROM facts f JOIN kinds ON f.k = kinds.k JOIN groups ON groups.g = kinds.g
        WHERE f.st IS NOT NULL"""
    try:
        with changed(spark, "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing", "true"):
            answer = qoop.collect(spark, text, changing(lambda: None)[2])
            assert sorted(answer.rows) == sorted(spark.sql(text).collect())
        assert len(qoop.collect(spark, text, changing(lambda: None)[2]).rows) == 2
    finally:
        spark.catalog.dropTempView("facts")


@one_in(2, "setting", ["ignoreCorruptFiles", "ignoreMissingFiles"])
def test_files_that_may_be_skipped_are_read_as_written(spark, made, setting):
    name, _ = made("plain")
    with changed(spark, f"spark.sql.files.{setting}", "true"):
        answer = qoop.collect(spark, APART.format(facts=name), changing(lambda: None)[2])
    assert answer.outcome.one_stage_reason.startswith(f"{setting} is on")
    assert counts(answer.rows) == {(20, 20)}


def test_another_catalog_is_not_that_of_stages(spark, made):
    name, _ = made("plain")
    text = APART.format(facts=f"spark_catalog.default.{name}").replace("GROUP BY x.k", "WHERE {} GROUP BY x.k")
    spark.conf.set("spark.sql.catalog.other", "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog")
    spark.conf.set("spark.sql.catalog.other.url", "jdbc:derby:memory:other;create=true")
    spark.conf.set("spark.sql.catalog.other.driver", "org.apache.derby.iapi.jdbc.AutoloadedDriver")
    try:
        spark.sql("USE other")
        answer = qoop.collect(spark, text.format("current_database() = 'default'"), changing(lambda: None)[2])
        assert answer.outcome.one_stage_reason.startswith("the session's current catalog is other")
        assert answer.rows == []
    finally:
        spark.sql("USE spark_catalog")


CHANGED = {
    "the current database: was 'default'": lambda spark: spark.sql("USE elsewhere"),
    "partitionOverwriteMode: was": lambda spark: spark.conf.set("spark.sql.sources.partitionOverwriteMode", "DYNAMIC"),
    "session.timeZone: was": lambda spark: spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo"),
    "the table: was 'file:.*/target with .* and is 'file:.*/elsewhere.db/target with": lambda spark: spark.table(
        "elsewhere.target"
    ).createOrReplaceTempView("target"),
    "the table: was .* and is .*CURRENT_DEFAULT": lambda spark: spark.sql(
        "ALTER TABLE target ALTER COLUMN late SET DEFAULT 5"
    ),
}


@one_in(3, "wanted", CHANGED)
def test_a_statement_that_would_now_store_its_rows_elsewhere_fails(spark, made, wanted):
    name, _ = made("plain")
    spark.sql("CREATE DATABASE IF NOT EXISTS elsewhere")
    for database in ("default", "elsewhere"):
        spark.sql("CREATE OR REPLACE TEMPORARY VIEW nothing AS SELECT 1 AS k, 1L AS early, 1L AS late LIMIT 0")
        spark.sql(f"CREATE TABLE {database}.target USING parquet AS SELECT * FROM nothing")

    _, _, options = changing(lambda: CHANGED[wanted](spark))
    try:
        with pytest.raises(QoopError, match=wanted):
            qoop.execute(spark, f"INSERT INTO target {APART.format(facts=f'default.{name}')}", options)
        assert spark.table("default.target").count() == spark.table("elsewhere.target").count() == 0
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
        spark.conf.unset("spark.sql.session.timeZone")
        spark.catalog.dropTempView("target")
        spark.sql("USE default")
        spark.sql("DROP DATABASE elsewhere CASCADE")
        spark.sql("DROP TABLE target")
        spark.catalog.dropTempView("nothing")


def test_a_statement_goes_on_when_what_its_query_read_is_gone(spark, made):
    name, _ = made("plain")
    spark.sql("CREATE TABLE target (k BIGINT, early BIGINT, late BIGINT) USING parquet")
    spark.table("kinds").createOrReplaceTempView("part")
    text = f"INSERT INTO target {APART.format(facts=name).replace('kinds ON', 'part AS kinds ON')}"
    seen, _, options = changing(lambda: spark.catalog.dropTempView("part"))
    try:
        qoop.execute(spark, text, options)
        assert len(seen) > 1 and counts(spark.table("target").collect()) == {(20, 20)}
    finally:
        spark.sql("DROP TABLE target")


def test_a_table_of_very_many_partitions_is_read_as_written(spark, made, monkeypatch):
    monkeypatch.setattr(snapshot, "MAX_PARTITIONS", 1)
    name, _ = made("partitioned")
    outcome = qoop.collect(spark, COUNTS.format(facts=name), changing(lambda: None)[2]).outcome
    assert "has 2 partitions, which would all be listed" in outcome.one_stage_reason


def test_what_cannot_be_pinned_is_not_sampled(spark, made, monkeypatch):
    monkeypatch.setattr("qoop.engine.catalogue._first_rows", lambda frame: pytest.fail("it was sampled"))
    spark.sql("CREATE TABLE facts (id BIGINT, k BIGINT, p BIGINT) STORED AS TEXTFILE")
    outcome = qoop.collect(spark, COUNTS.format(facts="facts"), changing(lambda: None)[2]).outcome
    assert "is not read by a list of files" in outcome.one_stage_reason


def test_a_table_is_created_of_the_kind_that_was_set_when_the_statement_began(spark, made):
    name, _ = made("plain")
    _, _, options = changing(lambda: spark.conf.set("spark.sql.sources.default", "orc"))
    try:
        with pytest.raises(QoopError, match=r"sources\.default: was 'parquet' when the statement began, and is 'orc'"):
            qoop.execute(spark, f"CREATE TABLE target AS {APART.format(facts=name)}", options)
        assert not spark.catalog.tableExists("target")
    finally:
        spark.conf.unset("spark.sql.sources.default")


def test_a_view_of_a_result_with_sums_outlives_the_frame(spark, made):
    name, _ = made("plain")
    text = f"""
        WITH early AS (SELECT k, sum(CAST(id AS double) / 3) AS s FROM {name} GROUP BY k),
          late AS (SELECT f.k, sum(f.id * early.s) AS s FROM {name} f JOIN early ON early.k = f.k GROUP BY f.k)
        SELECT a.k, a.s, b.s AS t FROM late a JOIN late b ON a.k = b.k JOIN kinds ON kinds.k = a.k
    """
    options = qoop.Options(cut_policy=CutPolicy(everywhere=True))
    qoop.sql(spark, text, options).createOrReplaceTempView("part")
    gc.collect()
    time.sleep(1.5)
    assert spark.table("part").count() == spark.sql(text).count() == 5


def test_the_order_of_a_frame_does_not_depend_on_rules_of_the_optimizer(spark, made):
    name, _ = made("plain")
    text = f"SELECT a.id FROM {name} a JOIN kinds ON kinds.k = a.k JOIN groups ON groups.g = kinds.g ORDER BY a.id DESC"
    excluded = ("PushDownLeftSemiAntiJoin", "PropagateEmptyRelation", "ReplaceNullWithFalseInPredicate")
    rules = ",".join(f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in excluded)
    with changed(spark, "spark.sql.optimizer.excludedRules", rules):
        seen, _, options = changing(lambda: None)
        rows = qoop.sql(spark, text, options).collect()
    assert len(seen) > 1
    assert [row.id for row in rows] == list(range(99, -1, -1))


def test_the_first_rows_of_an_ordered_frame(spark, made):
    """Spark pushes limits down: past the joins that show what was read, they must not go."""
    name, _ = made("plain")
    for table in ("kinds", "groups"):
        spark.table(table).write.saveAsTable(f"stored_{table}")
    text = f"""
        SELECT a.id, b.g FROM {name} a JOIN stored_kinds b ON b.k = a.k JOIN stored_groups c ON c.g = b.g
        ORDER BY a.id DESC
    """
    try:
        seen, _, options = changing(lambda: None)
        frame, expected = qoop.sql(spark, text, options), spark.sql(text)
        assert len(seen) > 1
        assert [row.id for row in frame.take(3)] == [99, 98, 97]
        assert frame.first() == expected.first()
        assert frame.limit(7).collect() == expected.limit(7).collect()
        assert frame.limit(7).agg({"id": "sum"}).collect() == expected.limit(7).agg({"id": "sum"}).collect()
        frame.createOrReplaceTempView("ordered")
        assert spark.sql("SELECT * FROM ordered LIMIT 4 OFFSET 2").collect() == expected.offset(2).limit(4).collect()
        with pytest.raises(AnalysisException, match="UNSUPPORTED_OVERWRITE"):
            frame.write.mode("overwrite").saveAsTable("stored_groups")
    finally:
        spark.catalog.dropTempView("ordered")
        for table in ("kinds", "groups"):
            spark.sql(f"DROP TABLE stored_{table}")
