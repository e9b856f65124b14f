"""One real cluster for all integration tests of a run."""

import dataclasses
import os
from collections.abc import Iterator

import pytest

from tests.integration.arbiter_process import ArbiterProcess
from tests.integration.sleepers import Sleepers
from tests.spark.spark_sessions import JAVA_OPTIONS
from yarn_plugin.embedded import cluster as embedded
from yarn_plugin.embedded.cluster import Cluster, ClusterSpec
from yarn_plugin.embedded.directory import Layout
from yarn_plugin.embedded.ports import free_base

os.environ["SPARK_SUBMIT_OPTS"] = JAVA_OPTIONS


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Four nodes in two racks, started by the first test that needs them and stopped after the last."""
    spec = ClusterSpec(tmp_path_factory.mktemp("cluster"), memory_mb=4096, vcores=8, node_expiry_ms=6000)
    spec = dataclasses.replace(spec, port_base=free_base(spec.hosts))
    made = embedded.up(spec)
    with (Layout(spec.dir).spark_conf / "spark-defaults.conf").open("a") as defaults:
        defaults.write(f"spark.executor.extraJavaOptions {JAVA_OPTIONS}\n")
    try:
        yield made
    finally:
        made.down()
        assert not made.members, "processes of the test cluster still run"


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Cluster:
    """The shared cluster with all daemons running; those that a test has killed are started again."""
    for name in shared_cluster.spec.daemon_names:
        if name not in shared_cluster.daemons:
            shared_cluster.start(name)
    shared_cluster.wait()
    return shared_cluster


@pytest.fixture
def arbiter(cluster, tmp_path):
    """An arbiter for one test, on the cluster without applications."""
    sleepers = Sleepers(cluster.rm_url)
    sleepers.kill_all()
    made = ArbiterProcess(cluster.rm_url, tmp_path / "arbiter").start()
    yield made
    assert made.stop() == 0
    assert "Traceback" not in made.log()
    sleepers.kill_all()
