"""An exclusive partition of GPU nodes: only what leases them runs there."""

import dataclasses
import json

import pytest

from tests.eventually import eventually
from tests.integration.arbiter_process import run
from tests.leased.lab import Lab
from yarn_plugin.embedded import cluster as embedded
from yarn_plugin.embedded.cluster import ClusterSpec
from yarn_plugin.embedded.ports import free_base

pytestmark = [pytest.mark.integration, pytest.mark.matrix]


@pytest.fixture
def cluster(tmp_path):
    """A node for masters and queries, and a node with GPUs."""
    spec = ClusterSpec(tmp_path / "cluster", nodes=2, gpu_partition=1)
    made = embedded.up(dataclasses.replace(spec, port_base=free_base(spec.hosts)))
    yield made
    made.down()


@pytest.fixture
def lab(cluster, tmp_path):
    made = Lab(cluster, tmp_path, lease_s=30)
    yield made
    made.close()


def test_gpus_of_an_exclusive_partition_are_leased_and_nothing_else_runs_there(cluster, lab, tmp_path):
    (gpu_node,) = cluster.spec.gpu_nodes
    results = tmp_path / "results.json"
    config = ("--config", lab.arbiter.folder / "arbiter.toml", "--json", results)
    assert run("doctor", "--rm", cluster.rm_url, *config).returncode == 0
    findings = {one["found"]: one["verdict"] for one in json.loads(results.read_text())["findings"]}
    assert findings["partition gpu up to 100%"] == "good"

    (pool,) = [pool for pool in lab.arbiter.admin().get_cluster().pools if pool.name == "sql"]
    assert pool.capacity["memory-mb"] <= cluster.spec.memory_mb, "a part of the node without GPUs"
    queries = [lab.sleepers.submit(f"root.sql.{name}", 3000) for name in "ab"]
    eventually(lambda: any(map(lab.sleepers.runs, queries)), "one of them runs, the other one waits for memory")
    lab.submit("ann", gpus=2, work_s=5)
    eventually(lambda: len(lab.gpus_of("ann")) == 2, "ann's containers run", 120)
    assert {cell.partition("/")[0] for cell in lab.gpus_of("ann")} == {gpu_node.host}
    lab.until_ended(lab.apps["ann"])

    def containers(node):
        found = lab.sleepers.get("/nodes")["nodes"]["node"]
        return next(one["numContainers"] for one in found if one["nodeHostName"] == node.host)

    eventually(lambda: containers(gpu_node) == 0, "nothing runs there any more")
    assert sum(map(lab.sleepers.runs, queries)) == 1
