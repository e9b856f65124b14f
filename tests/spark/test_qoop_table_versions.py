"""Delta Lake with Spark 4.2, Iceberg with Spark 4.1: planned, and all stages read one version of each table.

QOOP_PYSPARKS: a folder with a directory for each version of pyspark; QOOP_JARS: one with the jars of both.
"""

import json
import os
from pathlib import Path

import pytest

from tests.spark.other_sparks import SPARKS, run_with

JARS = Path(os.environ.get("QOOP_JARS") or "/nowhere")

KINDS = {
    "delta": (
        "4.2",
        "delta-*_4.2_2.13-*.jar",
        {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": "1",
        },
    ),
    "iceberg": (
        "4.1",
        "iceberg-spark-runtime-4.1_2.13-*.jar",
        {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
        },
    ),
}

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

PROGRAM = """
import json, sys
import qoop
from pyspark.sql import SparkSession
from qoop.plans.candidates import CutPolicy
from qoop.replan.events import StageFinished

kind, settings = sys.argv[1], json.loads(sys.argv[2])
builder = SparkSession.builder.master("local[2]").config(map=settings).config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.log.level", "OFF")
spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
place = "lake.db." if kind == "iceberg" else "default."
for name, columns, rows in (
    ("t", "id, v", "(1, 10), (2, 20), (3, 30)"),
    ("u", "id, w", "(1, 5), (2, 6), (3, 7)"),
    ("w", "id, name", "(1, 'p'), (2, 'q'), (3, 'r')"),
):
    spark.sql(f"CREATE TABLE {place}{name} USING {kind} AS SELECT * FROM VALUES {rows} AS v({columns})")
text = f"SELECT a.id, a.v, b.w, c.name FROM {place}t a JOIN {place}u b ON a.id = b.id JOIN {place}w c ON c.id = b.id"
expected = sorted(map(str, spark.sql(text).collect()))


def change(event):
    if isinstance(event, StageFinished) and not changed:
        changed.append(event.stage)
        for name, new in (("t", "(1, 99)"), ("u", "(2, 99)"), ("w", "(1, 'new')")):
            spark.sql(f"INSERT INTO {place}{name} VALUES {new}")
            spark.sql(f"DELETE FROM {place}{name} WHERE id = 3")


changed, warned = [], []
options = qoop.Options(plan="always", cut_policy=CutPolicy(everywhere=True), watch=change, warn=warned.append)
answer = qoop.collect(spark, text, options)
told = {"planned": [answer.outcome.counts.stages, answer.outcome.one_stage_reason]}
told["same rows"] = sorted(map(str, answer.rows)) == expected
told["changed"], told["rows now"] = changed, spark.sql(text).count()
frame = qoop.sql(spark, text, qoop.Options(plan="auto"))
rows = frame.count()
spark.sql(f"DELETE FROM {place}t WHERE id = 2")
told["as written"] = [rows, len(frame.collect())]
told["warned"] = warned
print("TOLD " + json.dumps(told), flush=True)
"""


def installed(version):
    return next((path for path in sorted(SPARKS.glob(f"{version}.*")) if (path / "pyspark").is_dir()), None)


@pytest.mark.parametrize("kind", KINDS)
def test_all_stages_read_one_version_of_each_table(kind, tmp_path):
    version, pattern, settings = KINDS[kind]
    spark, jars = (
        installed(version),
        [*JARS.glob(pattern), *(JARS.glob("delta-storage-*.jar") if kind == "delta" else ())],
    )
    if spark is None or not jars:
        pytest.skip(f"needs other versions of pyspark: {version} in QOOP_PYSPARKS, and {kind} in QOOP_JARS")
    given = {
        **settings,
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.warehouse.dir": (tmp_path / "warehouse").as_uri(),
        "spark.sql.catalog.lake.warehouse": (tmp_path / "lake").as_uri(),
    }
    told, printed = run_with(spark, PROGRAM, kind, json.dumps(given), timeout_s=300, cwd=tmp_path)
    assert told, printed[-5000:]
    print(f"{kind} with pyspark {spark.name}: {json.dumps(told)}")
    stages, reason = told["planned"]
    assert stages > 1 and reason is None and told["changed"], told
    assert told["same rows"] and told["rows now"] == 6, told
    assert told["as written"][0] == told["as written"][1], told
