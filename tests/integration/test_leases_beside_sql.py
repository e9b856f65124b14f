"""Leased GPUs on nodes that SQL uses too: offered only where their tasks have memory."""

import pytest

from tests.eventually import eventually
from tests.leased.lab import Lab

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

SQL_MB = 3000
"""Of the 4096 MiB of a node: one fits, and then no task of 2048 MiB."""


@pytest.fixture
def lab(cluster, tmp_path):
    made = Lab(cluster, tmp_path, lease_s=30)
    yield made
    made.close()


def test_no_gpu_is_offered_on_a_node_whose_memory_sql_has_filled(cluster, lab):
    apps = [lab.sleepers.submit(f"root.sql.{node.host.replace('.', '-')}", SQL_MB) for node in cluster.nodes]
    eventually(lambda: all(map(lab.sleepers.runs, apps)), "one runs on each node")
    lab.submit("ann", gpus=2, work_s=5)
    admin = lab.arbiter.admin()

    def reasons():
        return [one.reason for one in admin.list_decisions(500) if "no memory or vcores free 8" in one.reason]

    eventually(reasons, "the arbiter says why ann gets none")
    assert not lab.gpus_of("ann")
    lab.sleepers.kill(apps[0])
    eventually(lambda: len(lab.gpus_of("ann")) == 2, "ann's containers run where there is room")
    assert len({cell.partition("/")[0] for cell in lab.gpus_of("ann")}) == 1
    lab.until_ended(lab.apps["ann"])
