"""A session that runs on the cluster joins its arbiter: executors come and go with its share."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from qoop.engine.executors import DECOMMISSION_CONF
from tests.eventually import eventually
from tests.integration.query_process import access, executors

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

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
        process.communicate()


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
