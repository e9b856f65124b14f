"""A cluster's directory: where each file lies, and the record that one command leaves for the next."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from yarn_plugin import files
from yarn_plugin.embedded.errors import ClusterError, NoClusterError
from yarn_plugin.embedded.spec import ClusterSpec


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


class ClusterRecord(BaseModel):
    """Written before the first daemon starts, so that whatever is started can be found and ended.

    Every process of the cluster carries `id` in its environment, every daemon also in its command line: no process
    number is ever recorded, so none can be stale. `cgroups` are the control groups the cluster may have made.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    id: str
    spec: ClusterSpec
    java: Path
    jars: tuple[Path, ...]
    cgroups: dict[str, Path] = {}
    """By node address."""

    def save(self) -> None:
        """Write the record, whole or not at all."""
        files.write(Layout(self.spec.dir).record, self.model_dump_json(indent=2) + "\n")


def read_record(directory: Path) -> ClusterRecord:
    """The record of the cluster in a directory. Raises `NoClusterError` where there is none."""
    path = Layout(directory).record
    try:
        return ClusterRecord.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as missing:
        raise NoClusterError(
            f"no cluster in {directory}: bring one up with `yarn-plugin cluster up --dir {directory}`"
        ) from missing
    except OSError as refused:
        raise ClusterError(f"{path} cannot be read: {refused.strerror}") from refused
    except ValidationError as wrong:
        first = wrong.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ClusterError(
            f"{path}: {where}: {first['msg']}: not a record of this version; remove {directory}"
        ) from wrong
