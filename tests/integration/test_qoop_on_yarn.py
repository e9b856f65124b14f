"""`qoop submit` on the cluster: a driver on the cluster, and shares too small for an executor."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.eventually import eventually
from tests.integration.query_process import FLAGS, access
from tpcds import data

pytestmark = pytest.mark.integration

TEXT = (
    "SELECT count(*) AS n FROM store_sales, date_dim, item, store"
    " WHERE ss_sold_date_sk = d_date_sk AND ss_item_sk = i_item_sk AND ss_store_sk = s_store_sk AND d_year = 2001"
)


@pytest.fixture(scope="module")
def tables():
    return data.open_data(data.ensure(0.1))


@pytest.fixture
def submit(cluster, arbiter, tables, tmp_path):
    """Run `qoop submit` as a user of the cluster."""
    environment, arbitration = access(cluster, arbiter, tmp_path)

    def run(*more):
        words = (sys.executable, "-c", "from qoop.cli import main; main()", "submit", *FLAGS)
        return subprocess.run(
            list(map(str, (*words, *arbitration, "--tables", tables.path, *more))),
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    return run


def test_the_driver_runs_on_the_cluster_and_follows_its_share(arbiter, submit, tables, tmp_path):
    """The archive stands for a packed environment; on one machine, the nodes can use this Python."""
    with tarfile.open(tmp_path / "environment.tar.gz", "w:gz") as archive:
        archive.add(__file__, "packed")
    python_path = os.pathsep.join(filter(None, (str(Path.cwd()), os.environ.get("PYTHONPATH"))))
    done = submit(
        *("--deploy-mode", "cluster", "--archives", f"{tmp_path / 'environment.tar.gz'}#environment"),
        *("--driver-memory", "512m", "--conf", f"spark.yarn.appMasterEnv.PYSPARK_PYTHON={sys.executable}"),
        *("--conf", f"spark.yarn.appMasterEnv.PYTHONPATH={python_path}"),
        *("--checkpoint", (tmp_path / "checkpoints").as_uri()),
        *("--output", "parquet", (tmp_path / "rows").as_uri(), "-e", TEXT),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (row,) = pq.read_table(tmp_path / "rows").to_pylist()
    assert row["n"] > 0
    reasons = [decision.reason for decision in arbiter.admin().list_decisions(100)]
    assert any("arrived; the pool now has 1 application" in reason for reason in reasons)
    said = [record["event"].get("message", {}) for record in arbiter.journal() if record["kind"] == "input"]
    assert any(one["guaranteed_s"] > 0 for one in said if one.get("type") == "share.estimate"), "when it expects to end"
    eventually(lambda: not arbiter.admin().list_apps(), "it is deregistered")
    assert not list((tmp_path / "checkpoints").glob("qoop-*")), "outputs of stages are deleted"


def test_a_share_too_small_for_an_executor_fails_before_anything_starts(arbiter, submit, tmp_path):
    done = submit("--executor-memory", "40g", "--output", "parquet", tmp_path / "rows", "-e", TEXT)
    assert done.returncode != 0
    (line,) = done.stderr.strip().splitlines()
    assert "16384 MiB, 32 vcores" in line
    assert "--executor-memory" in line
    assert not (tmp_path / "rows").exists()
    assert not arbiter.admin().list_apps(), "no application remains registered"
