"""Where an embedded cluster keeps its files."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Layout:
    """The files and directories below a cluster's directory."""

    root: Path

    @property
    def record(self) -> Path:
        """What is known of the cluster between two commands."""
        return self.root / "cluster.json"

    @property
    def lock(self) -> Path:
        """Held by the one command that changes the cluster."""
        return self.root / "cluster.lock"

    @property
    def client_conf(self) -> Path:
        """The `HADOOP_CONF_DIR` for users' clients."""
        return self.root / "conf" / "client"

    @property
    def spark_conf(self) -> Path:
        """The `SPARK_CONF_DIR` for a Spark of this Python environment."""
        return self.root / "conf" / "spark"

    @property
    def staging(self) -> Path:
        """Where Spark puts an application's files."""
        return self.root / "staging"

    def daemon_conf(self, daemon: str) -> Path:
        """The configuration directory of one daemon, the first entry of its class path."""
        return self.root / "conf" / daemon

    @property
    def racks(self) -> Path:
        """The table from address to rack."""
        return self.root / "conf" / "racks.table"

    @property
    def hosts(self) -> Path:
        """The daemons' whole name service, in the form of /etc/hosts."""
        return self.root / "conf" / "hosts"

    @property
    def logs(self) -> Path:
        """The daemons' logs; kept after the cluster has ended."""
        return self.root / "logs"

    def log(self, daemon: str) -> Path:
        """What a daemon logs."""
        return self.logs / f"{daemon}.log"

    def output(self, daemon: str) -> Path:
        """What a daemon, or its Java, prints."""
        return self.logs / f"{daemon}.out"

    def container_logs(self, host: str) -> Path:
        """The logs of a node's containers."""
        return self.logs / "containers" / host

    @property
    def work(self) -> Path:
        """What YARN keeps while it runs; removed when the cluster ends."""
        return self.root / "work"

    @property
    def rm_state(self) -> Path:
        """The ResourceManager's recovery store."""
        return self.work / "rm" / "state"

    @property
    def rm_queues(self) -> Path:
        """The store of queue configuration that `PUT /scheduler-conf` writes to."""
        return self.work / "rm" / "queues"

    @property
    def rm_attributes(self) -> Path:
        """The ResourceManager's store of node attributes."""
        return self.work / "rm" / "attributes"

    def node_local(self, host: str) -> Path:
        """The working directories of a node's containers."""
        return self.work / "nodes" / host

    @property
    def temporary(self) -> Path:
        """`hadoop.tmp.dir`."""
        return self.work / "tmp"

    @property
    def hdfs_names(self) -> Path:
        """The NameNode's directory; kept, like the blocks, until the user removes it."""
        return self.root / "hdfs" / "name"

    @property
    def hdfs_blocks(self) -> Path:
        """The DataNode's directory."""
        return self.root / "hdfs" / "data"
