"""A ResourceManager that restarts, with NodeManagers that retry every 30 s (Hadoop's default)."""

import dataclasses
import os
import signal

import pytest

from tests.eventually import eventually
from tests.integration.arbiter_process import ArbiterProcess
from tests.integration.sleepers import Sleepers
from yarn_plugin.embedded import cluster as embedded
from yarn_plugin.embedded.cluster import ClusterSpec
from yarn_plugin.embedded.ports import free_base

pytestmark = [pytest.mark.integration, pytest.mark.matrix]


@pytest.fixture
def patient_cluster(tmp_path):
    spec = ClusterSpec(tmp_path / "cluster", nodes=2, racks=1, memory_mb=2048, reconnect_ms=30_000)
    made = embedded.up(dataclasses.replace(spec, port_base=free_base(spec.hosts)))
    try:
        yield made
    finally:
        made.down()


@pytest.fixture
def arbiter(patient_cluster, tmp_path):
    made = ArbiterProcess(patient_cluster.rm_url, tmp_path / "arbiter").start()
    yield made
    assert made.stop() == 0
    assert "Traceback" not in made.log()


def test_no_node_is_lost_while_nodes_reconnect_to_the_manager(patient_cluster, arbiter):
    sleepers = Sleepers(patient_cluster.rm_url)
    follower = arbiter.register("survivor")
    running = sleepers.submit(follower.queue)
    eventually(lambda: arbiter.admin().get_app(follower.app).yarn_app == running, "the arbiter knows that it runs")
    eventually(lambda: sleepers.has_started(running), "it runs")
    # Once while the arbiter runs, and once with an arbiter that starts while nodes have not yet registered again.
    for is_arbiter_killed in (False, True):
        os.kill(patient_cluster.daemons["rm"], signal.SIGKILL)
        eventually(lambda: arbiter.admin().get_cluster().manager_error, "the arbiter notices")
        if is_arbiter_killed:
            arbiter.kill()
        patient_cluster.start("rm")
        if is_arbiter_killed:
            arbiter.start()
        eventually(lambda: arbiter.admin().get_cluster().manager_error is None, "the arbiter reaches it again")

        def all_nodes_are_active():
            assert len(arbiter.admin().get_cluster().nodes) == 2
            return sleepers.get("/metrics")["clusterMetrics"]["activeNodes"] == 2

        eventually(all_nodes_are_active, "all nodes have registered again")
    reasons = [decision.reason for decision in arbiter.admin().list_decisions(1000)]
    assert not [reason for reason in reasons if "lost" in reason or "ended" in reason]
    assert {share.apps for share in follower.shares} == {1}
    follower.close()
