"""What a user may ask of an embedded cluster."""

from pathlib import Path

import pytest

from yarn_plugin.embedded.spec import ClusterSpec, Node
from yarn_plugin.errors import BadInputError

HERE = Path("/somewhere/cluster")


def test_racks_are_filled_one_after_the_other():
    assert ClusterSpec(HERE).topology == (
        Node("127.0.1.1", "/rack1"),
        Node("127.0.1.2", "/rack1"),
        Node("127.0.2.1", "/rack2"),
        Node("127.0.2.2", "/rack2"),
    )


def test_racks_are_as_even_as_the_numbers_allow():
    racks = [node.rack for node in ClusterSpec(HERE, nodes=7, racks=3).topology]
    assert sorted(racks.count(rack) for rack in set(racks)) == [2, 2, 3]


@pytest.mark.parametrize("nodes", [1, 2, 5, 250])
def test_every_node_has_an_address_of_its_own(nodes):
    hosts = ClusterSpec(HERE, nodes=nodes, racks=1).hosts
    assert len(set(hosts)) == nodes
    assert all(int(host.rsplit(".", 1)[1]) <= 254 for host in hosts)


def test_daemons_are_named_after_their_nodes():
    spec = ClusterSpec(HERE, nodes=2, racks=1, hdfs=True)
    assert spec.daemon_names == ("nn", "dn", "rm", "nm-127.0.1.1", "nm-127.0.1.2")


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("nodes", {"nodes": 0}),
        ("racks", {"racks": 5}),
        ("racks", {"racks": 0}),
        ("gpus-per-node", {"gpus_per_node": -1}),
        ("gpus-per-node", {"gpus_per_node": 0, "gpu_partition": 1}),
        ("gpu-partition", {"gpu_partition": 4}),
        ("gpu-partition", {"gpu_partition": -1}),
        ("memory", {"memory_mb": 64}),
        ("vcores", {"vcores": 0}),
        ("cpu-per-node", {"cpu_per_node": 0.0}),
        ("port-base", {"port_base": 80}),
        ("port-base", {"port_base": 32760}),
        ("node-expiry-ms", {"node_expiry_ms": 10}),
        ("dir", {"dir": Path("relative")}),
        ("dir", {"dir": Path("/with space")}),
        ("dir", {"dir": Path("/with,comma")}),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(field, wrong):
    with pytest.raises(BadInputError) as refused:
        ClusterSpec(**{"dir": HERE, **wrong})
    assert refused.value.field == f"--{field}"
