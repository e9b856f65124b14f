"""Scripts print what `spark-sql` prints and end as it does; Hive's dialect has Hive's answers.

tests/data/scripts has the scripts, and in `expected` what spark-sql of Spark 4.3 has printed and returned for each.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import qoop
from qoop.plans.candidates import CutPolicy
from qoop.scripts.command import ScriptSettings
from qoop.scripts.runner import Manner, ScriptFailedError, ScriptRunner
from qoop.submit import kept_catalogue as kept
from tests.unit.test_hive_dialect import REFUSED

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

SCRIPTS = Path(__file__).parents[1] / "data" / "scripts"
EXPECTED = SCRIPTS / "expected"
CODES = json.loads((EXPECTED / "codes.json").read_text())
NAMES = sorted(name for name in CODES if name != "setup")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A copy of the scripts, which is the working directory: Spark's JVM keeps that in which it is started."""
    here = Path.cwd()
    os.chdir(shutil.copytree(SCRIPTS, tmp_path_factory.mktemp("run") / "scripts"))
    yield Path.cwd()
    os.chdir(here)


@pytest.fixture(scope="module")
def spark(folder):
    """A session as `qoop run` starts it on this machine."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.scheduler.mode": "FAIR",
    }
    environment = {kept.VARIABLE: str(folder / "catalogue")}
    with kept.kept_catalogue(kept.SparkFlags(["--master", "local"]), environment, pytest.fail) as properties:
        builder = SparkSession.builder.master("local[1]")
        for name, value in (settings | properties).items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        yield session
        session.stop()


def runner_of(spark, told, manner):
    options = qoop.Options(plan="always", cut_policy=CutPolicy(everywhere=True), guard=None)
    return ScriptRunner(spark, lambda: options, told.append, told.append, manner)


@pytest.fixture(scope="module")
def outcomes(spark):
    """Of each script: its exit code, what it has printed on stdout, and how its statements were run."""
    before = spark.conf.getAll
    runner_of(spark, [], Manner()).run_file("setup.sql")
    found = {}
    for name in NAMES:
        found[name] = _run(spark, name)
        _reset(spark, before)
    return found


def _run(spark, name):
    options = re.match(r"-- options: (.*)", Path(f"{name}.sql").read_text())
    words = shlex.split(options[1]) if options else []
    settings = dict(pair.split("=", 1) for pair in words[1::2])
    for setting, value in settings.items():
        spark.conf.set(setting, value)
    runner, printed = runner_of(spark, [], ScriptSettings(name, settings).manner), Path(f"{name}.printed")
    with _stdout_to(printed):
        try:
            runner.run_file(f"{name}.sql")
            code = int(runner.has_failed)
        except ScriptFailedError:
            code = 1
    return code, printed.read_text(), runner.outcomes


@contextlib.contextmanager
def _stdout_to(path):
    """Within this context all that is written to stdout, by other programs too, goes to a file."""
    with path.open("w") as file:
        saved, stdout = os.dup(1), sys.stdout
        os.dup2(file.fileno(), 1)
        sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8")
        try:
            yield
        finally:
            sys.stdout.close()
            sys.stdout = stdout
            os.dup2(saved, 1)
            os.close(saved)


def _reset(spark, before):
    for name in spark.conf.getAll:
        if name not in before:
            spark.conf.unset(name)
    for name, value in before.items():
        if spark.conf.isModifiable(name):
            spark.conf.set(name, value)


@pytest.mark.parametrize("name", NAMES)
def test_a_script_prints_and_returns_what_it_does_with_spark_sql(outcomes, name):
    code, printed, _ = outcomes[name]
    assert printed == (EXPECTED / f"{name}.txt").read_text()
    assert code == CODES[name]


def test_most_scripts_have_queries_that_are_planned(outcomes):
    causes = {name: [one.one_stage_reason for one in outcomes[name][2]] for name in NAMES}
    assert sum(None in reasons for reasons in causes.values()) >= 15, causes


SEMANTICS = {
    "CAST('abc' AS INT)": "NULL",
    "CAST('12.7' AS INT)": "12",
    "CAST('' AS DOUBLE)": "NULL",
    "CAST(300 AS TINYINT)": "44",
    "CAST(2147483648 AS INT)": "-2147483648",
    "CAST('2020-02-30' AS DATE)": "NULL",
    "CAST('2020-01-02 03:04:05' AS DATE)": "2020-01-02",
    "1 / 0": "NULL",
    "5 % 0": "NULL",
    "7 / 2": "3.5",
    "7 DIV 2": "3",
    "2147483647 + 1": "-2147483648",
    "'1' + 1": "2.0",
    "'10' > 9": "true",
    "NULL = NULL": "NULL",
    "NULL <=> NULL": "true",
    "concat('a', NULL)": "NULL",
    "concat_ws('-', 'a', NULL, 'b')": "a-b",
    "array(1, 2)[5]": "NULL",
    "map('a', 1)['b']": "NULL",
    "substr('hello', 0, 2)": "he",
    "substr('hello', -3)": "llo",
    "instr('hello', 'z')": "0",
    "size(CAST(NULL AS ARRAY<INT>))": "-1",
    "round(2.5)": "3",
    "pmod(-7, 3)": "2",
    "date_add('2020-02-28', 2)": "2020-03-01",
    "datediff('2020-03-01', '2020-02-28')": "2",
    "nvl(NULL, 'x')": "x",
    "'a' RLIKE '^[a-c]$'": "true",
}
"""Expressions with the answers of Hive's language manual."""


@pytest.fixture
def hive(spark, capsys):
    """Runs statements in Hive's dialect: returns what they print and what is told."""
    before = spark.conf.getAll
    told = []
    runner = runner_of(spark, told, Manner(is_hive=True))

    def run(text):
        told.clear()
        capsys.readouterr()
        runner.run(text, "script")
        return capsys.readouterr().out.splitlines(), list(told)

    yield run
    _reset(spark, before)


def test_the_hive_dialect_has_hives_answers(hive):
    text = ";\n".join(f"SELECT {expression}" for expression in SEMANTICS)
    assert dict(zip(SEMANTICS, hive(text)[0], strict=True)) == SEMANTICS


def test_the_hive_dialect_stores_what_does_not_fit_as_hive_does(hive):
    text = "CREATE TABLE h (a TINYINT) USING parquet; INSERT INTO h SELECT 'x'; INSERT INTO h SELECT 300"
    rows, _ = hive(f"{text}; SELECT a FROM h")
    assert sorted(rows) == ["44", "NULL"]
    hive("DROP TABLE h")


def test_what_the_hive_dialect_rewrites_is_named(hive):
    rows, told = hive("SELECT id FROM range(9) ORDER BY id LIMIT 2, 3")
    assert rows == ["2", "3", "4"]
    assert told[0] == "script, line 1: runs LIMIT 2, 3 as LIMIT 3 OFFSET 2"


def test_spark_refuses_what_is_said_to_be_hives_alone(hive):
    for name, text in REFUSED.items():
        with pytest.raises(ScriptFailedError, match=rf"script, line 1: {re.escape(name)} is Hive's alone; "):
            hive(text)


def test_a_copy_of_the_catalogue_leaves_the_files_of_its_tables(spark, tmp_path):
    """While this session has it, as another process would."""
    spark.sql("CREATE TABLE IF NOT EXISTS kept_one AS SELECT 1 AS a")
    (location,) = spark.sql("DESCRIBE EXTENDED kept_one").where("col_name = 'Location'").collect()
    url = spark.conf.get("spark.hadoop.javax.jdo.option.ConnectionURL")
    metastore = Path(re.search(r"databaseName=([^;]*)", url)[1])
    assert kept._copy(metastore, tmp_path / "metastore", tmp_path / "warehouse")
    types = "SELECT TBL_NAME, TBL_TYPE FROM TBLS WHERE TBL_NAME = 'kept_one' AND TBL_TYPE <> 'EXTERNAL_TABLE'"
    assert kept._run_in_derby(tmp_path / "metastore", [types])
    assert Path(location[1].removeprefix("file:")).is_dir()
    spark.sql("DROP TABLE kept_one")
