"""The configuration files of an embedded cluster, for its daemons and for clients."""

import socket
from pathlib import Path
from xml.etree import ElementTree

from yarn_plugin.embedded.directory import Layout
from yarn_plugin.embedded.ports import RM_HOST
from yarn_plugin.embedded.spec import ClusterSpec
from yarn_plugin.embedded.yarn_configuration import Properties, capacity_scheduler, client_site, nm_site, rm_site

AM_MEMORY_MB, AM_OVERHEAD_MB = 256, 128

_LOG4J = """\
status = error
name = daemon

appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %-5p %c{{1}}: %m%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 20MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2

rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""


def write(spec: ClusterSpec, cluster_id: str, user: str) -> None:
    """Write the configuration of all daemons, of Hadoop and Spark clients, the rack table and the hosts file."""
    layout = Layout(spec.dir)
    core = core_site(spec, user)
    sites: dict[str, dict[str, Properties]] = {
        "client": {"yarn-site.xml": client_site(spec)},
        "rm": {"yarn-site.xml": rm_site(spec, user), "capacity-scheduler.xml": capacity_scheduler()},
        **{node.daemon: {"yarn-site.xml": nm_site(spec, node, cluster_id)} for node in spec.topology},
    }
    if spec.hdfs:
        sites |= {"nn": {}, "dn": {}}
    for daemon, files in sites.items():
        directory = layout.daemon_conf(daemon)
        hdfs: dict[str, Properties] = {"hdfs-site.xml": hdfs_site(spec)} if spec.hdfs else {}
        for name, properties in {"core-site.xml": core, **hdfs, **files}.items():
            write_properties(directory / name, properties)
        if daemon != "client":
            write_log4j(directory / "log4j2.properties", layout.log(daemon))
    write_spark_defaults(layout)
    layout.racks.write_text("".join(f"{node.host} {node.rack}\n" for node in spec.topology))
    layout.hosts.write_text(hosts_table(spec))


def hosts_table(spec: ClusterSpec) -> str:
    """The hosts file that replaces name resolution in daemons.

    Many systems map 127.0.1.1 to the machine's name. A NodeManager there would register under that name instead of its
    address, and no request for the node or its rack would match. So the nodes' addresses have no names here.
    """
    return f"127.0.0.1 localhost {socket.gethostname()}\n"


def write_properties(path: Path, properties: Properties) -> None:
    """Write properties as a Hadoop `*-site.xml`."""
    root = ElementTree.Element("configuration")
    for name, value in properties.items():
        entry = ElementTree.SubElement(root, "property")
        ElementTree.SubElement(entry, "name").text = name
        ElementTree.SubElement(entry, "value").text = _text(value)
    ElementTree.indent(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n")


def _text(value: str | int | float | bool | Path) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def core_site(spec: ClusterSpec, user: str) -> Properties:
    """core-site.xml, for daemons and clients: the file system, the racks, and the user of web requests."""
    layout = Layout(spec.dir)
    return {
        "fs.defaultFS": f"hdfs://{RM_HOST}:{spec.ports.name_node}" if spec.hdfs else "file:///",
        "hadoop.tmp.dir": layout.temporary,
        # Clients request nodes and racks by these names too, so they need the same table.
        "net.topology.node.switch.mapping.impl": "org.apache.hadoop.net.TableMapping",
        "net.topology.table.file.name": layout.racks,
        "hadoop.security.authentication": "simple",
        "hadoop.http.staticuser.user": user,
        # While a daemon restarts, calls fail within seconds instead of minutes.
        "ipc.client.connect.max.retries": 3,
        "ipc.client.connect.retry.interval": 500,
    }


def hdfs_site(spec: ClusterSpec) -> Properties:
    """hdfs-site.xml: one NameNode and one DataNode, one replica of each block."""
    layout, ports = Layout(spec.dir), spec.ports
    return {
        "dfs.replication": 1,
        "dfs.namenode.name.dir": layout.hdfs_names.as_uri(),
        "dfs.datanode.data.dir": layout.hdfs_blocks.as_uri(),
        "dfs.namenode.rpc-address": f"{RM_HOST}:{ports.name_node}",
        "dfs.namenode.http-address": f"{RM_HOST}:{ports.name_node_web}",
        "dfs.datanode.address": f"{RM_HOST}:{ports.data_node}",
        "dfs.datanode.http.address": f"{RM_HOST}:{ports.data_node_web}",
        "dfs.datanode.ipc.address": f"{RM_HOST}:{ports.data_node_ipc}",
        "dfs.datanode.hostname": RM_HOST,
        "dfs.namenode.datanode.registration.ip-hostname-check": False,
        "dfs.namenode.safemode.extension": 0,
        # A file is closed when the NameNode knows of its last block, mostly a moment later: Hadoop's 400 ms until it is
        # asked again would be most of the time of each small file.
        "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": 10,
        # The disk is the user's own: no reserve for other services.
        "dfs.datanode.du.reserved": 0,
    }


def write_log4j(path: Path, log: Path) -> None:
    """Write a log4j2.properties that logs to `log`: at most three rolling files of 20 MB."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_LOG4J.format(log=log))


def spark_defaults(layout: Layout) -> dict[str, str]:
    """spark-defaults.conf. Jars are read in place instead of being copied for each application; masters are small.

    Spark's UI is off: on YARN, Spark 4.3 modifies its handlers while starting them, and fails occasionally.
    """
    import pyspark

    return {
        "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent / 'jars'}/*",
        "spark.yarn.stagingDir": layout.staging.as_uri(),
        "spark.yarn.am.memory": f"{AM_MEMORY_MB}m",
        "spark.yarn.am.memoryOverhead": str(AM_OVERHEAD_MB),
        # A master does little: with the fast compiler tier alone it starts in half the CPU time.
        "spark.yarn.am.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # A driver in the cluster would otherwise advertise its host's address, which is not loopback.
        "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
        "spark.ui.enabled": "false",
    }


def write_spark_defaults(layout: Layout) -> None:
    """Write spark-defaults.conf into the `SPARK_CONF_DIR`."""
    layout.spark_conf.mkdir(parents=True, exist_ok=True)
    lines = [f"{name} {value}\n" for name, value in spark_defaults(layout).items()]
    (layout.spark_conf / "spark-defaults.conf").write_text("".join(lines))
