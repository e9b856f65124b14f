"""A session that runs already joins: on this machine with a profile, on the cluster with an arbiter."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

import qoop
from qoop.engine.executors import DECOMMISSION_CONF
from qoop.replan.events import ShareChanged
from tests.integration.query_process import access, executors
from tests.integration.sleepers import eventually
from tests.integration.spark_sessions import local_session, small_data

pytestmark = pytest.mark.integration

TEXT = "SELECT count(*) FROM store_sales JOIN item ON ss_item_sk = i_item_sk JOIN store ON ss_store_sk = s_store_sk"


def shares_of_a_query(spark):
    told = []
    answer = qoop.collect(spark, TEXT, qoop.Options(watch=told.append, guard=None))
    assert answer.rows[0][0] > 0
    return [one.slots for one in told if isinstance(one, ShareChanged)]


def test_queries_of_a_session_that_has_joined_follow_its_share(tmp_path):
    (tmp_path / "profile").write_text("0,1\n3600,2\n")
    lines = []
    with local_session(tmp_path, small_data()) as spark:
        with qoop.join(spark, profile=tmp_path / "profile", tell=lines.append) as joined:
            assert shares_of_a_query(spark) == [1.0]
            assert joined.share == "share: 1 slot; the first share is 1 slot"
            assert lines[-1] == joined.share
        assert shares_of_a_query(spark) == [2.0]


PROGRAM = """
import sys
import qoop
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
joined = qoop.join(spark, sys.argv[1], token_file=sys.argv[2], tell=lambda line: print(line, flush=True))
print("joined", joined.app, joined.application, flush=True)
for line in sys.stdin:
    print("rows", qoop.collect(spark, line).rows, flush=True)
"""


@contextmanager
def notebook(cluster, arbiter, folder):
    """A program whose session joins, and its output so far; it runs each line that it is sent."""
    environment, (_, url, _, token) = access(cluster, arbiter, folder)
    settings = {
        "spark.master": "yarn",
        "spark.yarn.queue": "root.sql.notebook",
        "spark.executor.memory": "3g",
        "spark.executor.cores": "2",
        "spark.executor.memoryOverhead": "512m",
        "spark.executor.instances": "3",
        "spark.yarn.am.memory": "256m",
        "spark.yarn.am.memoryOverhead": "128m",
        "spark.log.level": "ERROR",
        **DECOMMISSION_CONF,
    }
    words = [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
    environment = {**os.environ, **environment, "PYSPARK_SUBMIT_ARGS": " ".join([*words, "pyspark-shell"])}
    printed = folder / "printed"
    with printed.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, url, str(token)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
            text=True,
        )
    try:
        yield process, printed.read_text
    finally:
        process.kill()
        process.wait()


@pytest.mark.matrix
def test_a_session_on_the_cluster_joins_shrinks_and_grows(cluster, arbiter, tmp_path):
    with notebook(cluster, arbiter, tmp_path) as (process, printed):

        def app_id():
            assert process.poll() is None, printed()
            return next((line.split()[2] for line in printed().splitlines() if line.startswith("joined ")), None)

        def ask(rows):
            process.stdin.write("SELECT count(*) AS n FROM range(0, 100000, 1, 20)\n")
            process.stdin.flush()
            eventually(lambda: printed().count("rows [Row(n=100000)]") == rows, "it answers", 120)

        app = eventually(app_id, "it joins", 180)
        eventually(lambda: len(executors(app)) == 3, "it has the executors that it asked for", 90)
        ask(1)
        other = arbiter.register("other")
        eventually(lambda: len(executors(app)) < 3, "it shrinks within its grace period", 50)
        assert "2 applications" in printed(), "it is told why"
        ask(2)
        arbiter.admin().deregister(other.app)
        eventually(lambda: len(executors(app)) == 3, "it grows", 60)
        ask(3)
        assert [one.yarn_app for one in arbiter.admin().list_apps()] == [app]
