"""The configuration files of an embedded cluster."""

from xml.etree import ElementTree

import pytest

from yarn_plugin.embedded import configuration
from yarn_plugin.embedded.configuration import write_properties
from yarn_plugin.embedded.directory import Layout
from yarn_plugin.embedded.spec import ClusterSpec


def read(path):
    return {entry.findtext("name"): entry.findtext("value") for entry in ElementTree.parse(path).getroot()}


@pytest.fixture
def spec(tmp_path):
    return ClusterSpec(tmp_path, nodes=3, racks=2, gpus_per_node=2, memory_mb=2048, vcores=3, port_base=20000)


@pytest.fixture
def layout(spec):
    configuration.write(spec, "some-id", "ada")
    return Layout(spec.dir)


def test_values_are_written_as_hadoop_reads_them(tmp_path):
    write_properties(tmp_path / "x.xml", {"a": True, "b": 3, "c": "<&>", "d": tmp_path})
    assert read(tmp_path / "x.xml") == {"a": "true", "b": "3", "c": "<&>", "d": str(tmp_path)}


def test_each_node_has_its_own_address_offer_and_directories(layout):
    first, third = (read(layout.daemon_conf(f"nm-{host}") / "yarn-site.xml") for host in ("127.0.1.1", "127.0.2.1"))
    assert first["yarn.nodemanager.address"] == "127.0.1.1:20005"
    assert third["yarn.nodemanager.address"] == "127.0.2.1:20005"
    assert first["yarn.nodemanager.resource-type.yarn.io/gpu"] == "2"
    assert first["yarn.nodemanager.local-dirs"] != third["yarn.nodemanager.local-dirs"]
    assert first["yarn.nodemanager.log-dirs"] != third["yarn.nodemanager.log-dirs"]


def test_containers_carry_the_clusters_id(layout):
    node = read(layout.daemon_conf("nm-127.0.1.1") / "yarn-site.xml")
    assert "YARN_PLUGIN_CLUSTER=some-id" in node["yarn.nodemanager.admin-env"].split(",")


def test_clients_know_addresses_racks_and_gpus_but_no_secrets_of_the_daemons(layout):
    yarn, core = (read(layout.client_conf / name) for name in ("yarn-site.xml", "core-site.xml"))
    assert yarn["yarn.resourcemanager.address"] == "127.0.0.1:20001"
    assert yarn["yarn.resource-types"] == "yarn.io/gpu"
    assert core["net.topology.table.file.name"] == str(layout.racks)
    assert core["fs.defaultFS"] == "file:///"
    assert not any(name.startswith("yarn.nodemanager") for name in yarn)
    assert sorted(entry.name for entry in layout.client_conf.iterdir()) == ["core-site.xml", "yarn-site.xml"]


def test_racks_are_a_table_by_address(layout):
    assert layout.racks.read_text().splitlines() == ["127.0.1.1 /rack1", "127.0.1.2 /rack1", "127.0.2.1 /rack2"]


def test_daemons_know_no_name_for_a_nodes_address(layout):
    assert [line.split()[0] for line in layout.hosts.read_text().splitlines()] == ["127.0.0.1"]


def test_the_resource_manager_can_be_written_to_recovers_and_preempts(layout, spec):
    site = read(layout.daemon_conf("rm") / "yarn-site.xml")
    assert site["yarn.scheduler.configuration.store.class"] == "fs"
    assert site["yarn.resourcemanager.recovery.enabled"] == "true"
    assert site["yarn.resourcemanager.scheduler.monitor.enable"] == "true"
    assert site["yarn.nm.liveness-monitor.expiry-interval-ms"] == str(spec.node_expiry_ms)
    assert site["yarn.admin.acl"] == "ada"


def test_new_leaf_queues_weigh_next_to_nothing(layout):
    queues = read(layout.daemon_conf("rm") / "capacity-scheduler.xml")
    template = "yarn.scheduler.capacity.root.sql.auto-queue-creation-v2.leaf-template"
    assert queues["yarn.scheduler.capacity.root.queues"] == "default,sql"
    assert queues[f"{template}.capacity"] == "1w"
    assert queues["yarn.scheduler.capacity.resource-calculator"].endswith("DominantResourceCalculator")


def test_with_hdfs_everyone_has_its_address(tmp_path):
    spec = ClusterSpec(tmp_path, nodes=1, racks=1, hdfs=True, port_base=20000)
    configuration.write(spec, "some-id", "ada")
    layout = Layout(tmp_path)
    for daemon in ("client", "rm", "nm-127.0.1.1", "nn", "dn"):
        assert read(layout.daemon_conf(daemon) / "core-site.xml")["fs.defaultFS"] == "hdfs://127.0.0.1:20009"
        assert (layout.daemon_conf(daemon) / "hdfs-site.xml").exists()


def test_each_daemon_logs_to_a_file_of_its_own(layout):
    for daemon in ("rm", "nm-127.0.1.2"):
        settings = (layout.daemon_conf(daemon) / "log4j2.properties").read_text()
        assert f"appender.file.fileName = {layout.log(daemon)}\n" in settings


def test_with_a_partition_only_its_nodes_have_gpus(tmp_path):
    spec = ClusterSpec(tmp_path, nodes=3, gpus_per_node=2, gpu_partition=1)
    configuration.write(spec, "some-id", "ada")
    sites = [read(Layout(tmp_path).daemon_conf(name) / "yarn-site.xml") for name in spec.daemon_names]
    assert [one.get("yarn.nodemanager.resource-type.yarn.io/gpu") for one in sites] == [None, "0", "0", "2"]
    assert sites[0]["yarn.node-labels.enabled"] == "true"
    assert [node.host for node in spec.gpu_nodes] == ["127.0.2.1"]
