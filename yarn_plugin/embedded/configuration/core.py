"""core-site.xml and hdfs-site.xml: file system, racks, users."""

from yarn_plugin.embedded.configuration.xml import Properties
from yarn_plugin.embedded.layout import Layout
from yarn_plugin.embedded.ports import RM_HOST
from yarn_plugin.embedded.spec import ClusterSpec


def core_site(spec: ClusterSpec, user: str) -> Properties:
    """What daemons and clients alike know: the file system, the racks, and whom a web request acts for."""
    layout = Layout(spec.dir)
    return {
        "fs.defaultFS": f"hdfs://{RM_HOST}:{spec.ports.name_node}" if spec.hdfs else "file:///",
        "hadoop.tmp.dir": layout.temporary,
        # Clients ask for nodes and racks by these names too, so they need the same table.
        "net.topology.node.switch.mapping.impl": "org.apache.hadoop.net.TableMapping",
        "net.topology.table.file.name": layout.racks,
        "hadoop.security.authentication": "simple",
        "hadoop.http.staticuser.user": user,
        # A daemon that is being restarted is missed for seconds, not for minutes.
        "ipc.client.connect.max.retries": 3,
        "ipc.client.connect.retry.interval": 500,
    }


def hdfs_site(spec: ClusterSpec) -> Properties:
    """One NameNode and one DataNode, one copy of each block."""
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
        # The disk is the user's own: leave a little of it, not a reserve for other services.
        "dfs.datanode.du.reserved": 0,
    }
