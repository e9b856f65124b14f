"""Hive's dialect: what is rewritten, and what is refused with what to write instead."""

import pytest

from qoop.scripts.hive import HIVE_ONLY, hive_only, rewritten

REFUSED = {
    "MACRO": "CREATE TEMPORARY MACRO twice(x INT) x * 2",
    "TABLESAMPLE (BUCKET .. ON ..)": "SELECT * FROM t TABLESAMPLE (BUCKET 1 OUT OF 4 ON id) s",
    "INSERT .. PARTITION (..) IF NOT EXISTS": "INSERT INTO TABLE t PARTITION (d = '1') IF NOT EXISTS SELECT a FROM u",
    "SKEWED BY": "CREATE TABLE t (a INT) SKEWED BY (a) ON (1, 2)",
    "STORED BY": "CREATE TABLE t (a INT) STORED BY 'org.apache.hadoop.hive.hbase.HBaseStorageHandler'",
    "EXCHANGE PARTITION": "ALTER TABLE t EXCHANGE PARTITION (d = 1) WITH TABLE u",
    "CONCATENATE": "ALTER TABLE t CONCATENATE",
    "FOR COLUMNS of a partition": "ANALYZE TABLE t PARTITION (d = 1) COMPUTE STATISTICS FOR COLUMNS",
    "this kind of EXPLAIN": "EXPLAIN DEPENDENCY SELECT * FROM t",
    "INDEX": "CREATE INDEX i ON TABLE t (a) AS 'COMPACT' WITH DEFERRED REBUILD",
    "EXPORT TABLE": "EXPORT TABLE t TO '/tmp/t'",
    "IMPORT TABLE": "IMPORT TABLE t FROM '/tmp/t'",
    "LOCK": "LOCK TABLE t SHARED",
    "GRANT": "GRANT SELECT ON TABLE t TO USER ann",
    "MERGE .. INSERT VALUES without columns": "MERGE INTO t USING u ON t.a = u.a WHEN NOT MATCHED THEN INSERT VALUES"
    " (u.a, u.b)",
    "CHANGE COLUMN with another name and a type": "ALTER TABLE t CHANGE COLUMN a b BIGINT",
    "CREATE TEMPORARY TABLE": "CREATE TEMPORARY TABLE t AS SELECT 1 AS a",
    "ARCHIVE, TOUCH, COMPACT or protection of a table": "ALTER TABLE t ARCHIVE PARTITION (d = 1)",
    "transactions": "SHOW COMPACTIONS",
    "RELOAD FUNCTION": "RELOAD FUNCTIONS",
    "SCHEDULED QUERY": "CREATE SCHEDULED QUERY q CRON '0 0 * * *' AS INSERT INTO t SELECT 1",
    "MATERIALIZED VIEW": "CREATE MATERIALIZED VIEW v AS SELECT 1 AS a",
}


@pytest.mark.parametrize(
    ("text", "expected", "changes"),
    [
        ("SELECT a FROM t LIMIT 5, 10", "SELECT a FROM t LIMIT 10 OFFSET 5", ("LIMIT 5, 10 as LIMIT 10 OFFSET 5",)),
        ("SELECT a FROM t limit 5 ,10", "SELECT a FROM t LIMIT 10 OFFSET 5", ("limit 5 ,10 as LIMIT 10 OFFSET 5",)),
        ("SELECT 'LIMIT 5, 10' FROM t LIMIT 3", "SELECT 'LIMIT 5, 10' FROM t LIMIT 3", ()),
        ("SELECT a -- LIMIT 5, 10\nFROM t", "SELECT a -- LIMIT 5, 10\nFROM t", ()),
        (
            "SELECT * FROM (SELECT a FROM t ORDER BY a LIMIT 1, 2) ORDER BY a LIMIT 3, 4",
            "SELECT * FROM (SELECT a FROM t ORDER BY a LIMIT 2 OFFSET 1) ORDER BY a LIMIT 4 OFFSET 3",
            ("LIMIT 3, 4 as LIMIT 4 OFFSET 3", "LIMIT 1, 2 as LIMIT 2 OFFSET 1"),
        ),
        (
            "ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS",
            "ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS",
            ("FOR COLUMNS as FOR ALL COLUMNS",),
        ),
        (
            "ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS a, b",
            "ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS a, b",
            (),
        ),
    ],
)
def test_what_surely_means_the_same_is_rewritten_and_named(text, expected, changes):
    assert (rewritten(text).text, rewritten(text).changes) == (expected, changes)


@pytest.mark.parametrize("name", [one.name for one in HIVE_ONLY])
def test_what_spark_lacks_is_refused_with_what_to_write_instead(name):
    construct = hive_only(REFUSED[name])
    assert construct is not None and construct.name == name
    assert str(construct) == f"{name} is Hive's alone; {construct.instead}"


@pytest.mark.parametrize(
    "text",
    ["SELEC 1", "SELECT 'GRANT' FROM", "ALTER TABLE t CHANGE COLUMN a a BIGINT x", "SELECT lock FROM table t t t"],
)
def test_other_errors_are_left_to_spark(text):
    assert hive_only(text) is None
