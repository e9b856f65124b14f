"""Every setting of Spark SQL that is true or false, turned round: queries give Spark's rows, or run as written.

For each setting, the queries whose meaning it changes by Spark's analysis are run; the others have the plans that the
tests of rewriting have compared already.
"""

from contextlib import suppress

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import qoop
from qoop.engine.verification import Verification
from qoop.equivalence.spark_tree import UnverifiableError
from qoop.plans.candidates import CutPolicy
from tests.integration.test_qoop_equivalence import NOT_OF_SPARK
from tests.unit.test_qoop_rewriting import CASES

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

TABLES = {
    "a": (
        "id int, x int, y string, d date",
        "(1, 1, 'p', date'2000-01-01'), (2, 2, 'q', date'2000-01-05'), (3, NULL, 'r', NULL),"
        " (4, 1, NULL, date'2000-02-01'), (1, 2, 'p', date'2000-03-01'), (NULL, 5, 'p', date'2000-01-01')",
    ),
    "b": (
        "id int, x int, z string, amt decimal(7, 2)",
        "(1, 1, 'p', 1.5), (1, 2, 'q', 2.5), (2, NULL, 'r', NULL), (NULL, 1, 's', 4.5), (3, 3, 'p', 5.5),"
        " (4, 1, NULL, 3)",
    ),
    "c": ("id int, y string, w double", "(1, 'p', 1.0), (2, 'q', 2.0), (2, 'q', 2.0), (NULL, 'r', 4.0), (4, 'p', 9.0)"),
    "t": ("x int", "(1), (2), (3), (NULL)"),
    "e": ("id int, x int", "(NULL, NULL)"),
    "underscored": ("x int, g__id int", "(1, 7), (7, 1)"),
}

JOINED = "FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id"

MORE = [
    f'SELECT a.id, "y" AS q, b.x {JOINED}',
    rf"SELECT a.id {JOINED} WHERE a.y RLIKE '\\w' AND b.z LIKE '\\p'",
    f"SELECT a.id, a.x / b.x AS r, a.id || a.y AS s {JOINED} WHERE b.x > 0",
    f"SELECT a.id, to_json(struct(a.X AS Big, b.z)) AS j {JOINED}",
    f"SELECT a.id, CAST(a.d AS timestamp) AS t, date_trunc('month', a.d) AS m {JOINED}",
    f"SELECT count(*) AS n, sum(b.amt) AS s, avg(b.amt) AS m {JOINED} GROUP BY 1 = 1",
    f"SELECT a.y, count(*) AS n {JOINED} GROUP BY 1 ORDER BY 2 DESC, 1",
    f"SELECT a.id, size(NULL) AS n, array(1, 2)[5] AS e {JOINED} WHERE a.id = 99",
]

OPTIONS = qoop.Options(cut_policy=CutPolicy(everywhere=True))


@pytest.fixture(scope="module")
def spark():
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    for name, (columns, rows) in TABLES.items():
        names = ", ".join(column.split()[0] for column in columns.split(", ") if " " in column)
        casts = ", ".join(
            f"CAST({column.split()[0]} AS {column.partition(' ')[2]}) AS {column.split()[0]}"
            for column in columns.replace("(7, 2)", "(7;2)").split(", ")
        ).replace("(7;2)", "(7, 2)")
        session.sql(f"SELECT {casts} FROM VALUES {rows} AS v({names})").createOrReplaceTempView(name)
    yield session
    session.stop()


def meanings(spark, texts):
    """The normal forms of these texts under the session's settings; without those that Spark rejects."""
    found = {}
    for text in texts:
        with suppress(PySparkException, UnverifiableError):
            found[text] = Verification(spark.sql(text), spark).expected()
    return found


def outcome_of(run):
    """The rows, in any order, or the kind of error."""
    try:
        return sorted(map(repr, run()))
    except Exception as problem:  # noqa: BLE001 - whatever Spark raises
        return type(problem).__name__


def flags(spark):
    """The settings that are true or false and may be set in a session, with their values."""
    listed = {row.key: row.value for row in spark.sql("SET -v").collect()}
    prefixes = tuple(
        f"spark.sql.{name}" for name in ("ansi", "legacy", "parser", "caseSensitive", "optimizer", "variable")
    )
    return {
        name: value
        for name, value in sorted(listed.items())
        if value in ("true", "false") and name.startswith(prefixes) and spark.conf.isModifiable(name)
    }


def test_settings_turned_round(spark):
    texts = [case.text for case in CASES if not any(part in case.text for part in NOT_OF_SPARK)] + MORE
    usual = meanings(spark, texts)
    assert len(usual) > 150
    others = {
        "spark.sql.session.timeZone": "America/Los_Angeles",
        **{name: "false" if value == "true" else "true" for name, value in flags(spark).items()},
    }
    wrong, compared, planned = [], 0, 0
    for name, value in others.items():
        before = spark.conf.get(name)
        spark.conf.set(name, value)
        try:
            for text, meaning in meanings(spark, usual).items():
                if meaning == usual[text]:
                    continue
                expected = outcome_of(spark.sql(text).collect)
                answers = []

                def run(text=text, answers=answers):
                    answers.append(qoop.collect(spark, text, OPTIONS))
                    return answers[-1].rows

                found = outcome_of(run)
                compared += 1
                planned += bool(answers and answers[-1].outcome.counts.stages > 1)
                if found != expected and not (isinstance(found, str) and isinstance(expected, str)):
                    wrong.append((name, value, text, expected, found))
        finally:
            spark.conf.set(name, before)
    print(f"{len(others)} settings, {len(usual)} queries, {compared} compared, {planned} in several stages")
    assert wrong == []
    assert compared > 20
