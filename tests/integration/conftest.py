"""One real cluster for all integration tests of a run."""

import dataclasses
from collections.abc import Iterator

import pytest

from yarn_plugin.embedded import cluster as embedded
from yarn_plugin.embedded.cluster import Cluster, ClusterSpec
from yarn_plugin.embedded.ports import free_base


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Four nodes in two racks, brought up by the first test that asks, ended with the last."""
    spec = ClusterSpec(tmp_path_factory.mktemp("cluster"), memory_mb=4096, vcores=8, node_expiry_ms=6000)
    spec = dataclasses.replace(spec, port_base=free_base(spec.hosts))
    made = embedded.up(spec)
    try:
        yield made
    finally:
        made.down()
        assert not made.members, "processes of the test cluster are left"


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Cluster:
    """The shared cluster with all its daemons running: a test that kills one need not start it again."""
    for name in shared_cluster.spec.daemon_names:
        if name not in shared_cluster.daemons:
            shared_cluster.start(name)
    shared_cluster.wait()
    return shared_cluster
