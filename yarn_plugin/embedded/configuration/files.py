"""Writing every configuration file of a cluster."""

import socket

from yarn_plugin.embedded.configuration.core import core_site, hdfs_site
from yarn_plugin.embedded.configuration.logging import write_log4j
from yarn_plugin.embedded.configuration.queues import capacity_scheduler
from yarn_plugin.embedded.configuration.spark import write_spark_defaults
from yarn_plugin.embedded.configuration.xml import Properties, write_properties
from yarn_plugin.embedded.configuration.yarn import client_site, nm_site, rm_site
from yarn_plugin.embedded.layout import Layout
from yarn_plugin.embedded.spec import ClusterSpec


def write(spec: ClusterSpec, cluster_id: str, user: str) -> None:
    """Write the configuration of every daemon, of Hadoop's and Spark's clients, the racks and the daemons' names."""
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
    """The daemons' whole name service.

    Many systems give 127.0.1.1 the machine's name. A NodeManager there would register under that name instead of its
    address, and no request for the node or its rack would match. So the daemons know no name for the nodes' addresses.
    """
    return f"127.0.0.1 localhost {socket.gethostname()}\n"
