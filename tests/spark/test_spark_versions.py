"""Other versions of Spark: those from 4.0 on plan and switch with Spark's own answers; older ones are refused.

QOOP_PYSPARKS: a folder with a directory for each version, filled by `pip install --no-deps --target`.
"""

import json

import pytest

from qoop.engine import versions
from tests.spark.other_sparks import SPARKS, run_with
from tests.spark.spark_sessions import small_data

FOUND = sorted(path.name for path in SPARKS.glob("*") if (path / "pyspark").is_dir())

pytestmark = [
    pytest.mark.integration,
    pytest.mark.matrix,
    pytest.mark.skipif(not FOUND, reason="needs other versions of pyspark, in QOOP_PYSPARKS"),
]

NUMBERS = (3, 7, 19, 42, 55, 72)
"""Queries of TPC-DS."""

PROGRAM = """
import json, sys
import pyspark, qoop
from pathlib import Path
from pyspark.sql import SparkSession
from qoop.plans.candidates import CutPolicy
from qoop.replan.decision import Rules
from tpcds.queries import spark_text

folder, *numbers = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.shuffle.partitions", "4").config("spark.log.level", "OFF")
spark = builder.config("spark.driver.host", "127.0.0.1").config("spark.scheduler.mode", "FAIR").getOrCreate()
qoop.collect(spark, "SELECT 1")  # Refuses a Spark that is too old, with which the driver cannot be imported.
from qoop.submit.driver import show_all_tables
show_all_tables(spark, Path(folder), lambda line: None)
told = {"version": spark.version, "answers": {}}
for number in numbers:
    text = spark_text(int(number))
    options = qoop.Options(rules=Rules(force=True), cut_policy=CutPolicy(everywhere=True), guard=None)
    answer = qoop.collect(spark, text, options)
    same = sorted(map(str, answer.rows)) == sorted(map(str, spark.sql(text).collect()))
    counts = answer.outcome.counts
    told["answers"][number] = [same, counts.stages, counts.switches, answer.outcome.one_stage_reason]
print("TOLD " + json.dumps(told), flush=True)
"""


@pytest.mark.parametrize("version", FOUND)
def test_a_version_plans_with_sparks_answers_or_is_refused(version):
    told, printed = run_with(SPARKS / version, PROGRAM, str(small_data().path), *map(str, NUMBERS), timeout_s=500)
    if versions.numbers(version) < versions.OLDEST:
        assert told is None
        assert f"QoopError: spark: is Spark {version}; qoop needs Spark 4.0 or later" in printed
        return
    assert told is not None, printed[-3000:]
    print(f"pyspark {version}: {json.dumps(told['answers'])}")
    assert told["version"] == version
    assert all(same for same, *_ in told["answers"].values()), told
    assert [reason for *_, reason in told["answers"].values()] == [None] * len(NUMBERS)
    assert sum(switches for _, _, switches, _ in told["answers"].values()) > 0
