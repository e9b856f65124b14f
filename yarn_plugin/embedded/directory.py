"""A cluster's directory: the paths of its files, and the record that commands share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from yarn_plugin import files
from yarn_plugin.embedded.errors import ClusterError, NoClusterError
from yarn_plugin.embedded.spec import ClusterSpec
from yarn_plugin.errors import os_reason
from yarn_plugin.validation import expectation


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths in a cluster's directory."""

    root: Path

    @property
    def record(self) -> Path:
        """The record of the cluster; see `ClusterRecord`."""
        return self.root / "cluster.json"

    @property
    def lock(self) -> Path:
        """The lock of the command that is changing the cluster."""
        return self.root / "cluster.lock"

    @property
    def client_conf(self) -> Path:
        """The `HADOOP_CONF_DIR` for users' clients."""
        return self.root / "conf" / "client"

    @property
    def spark_conf(self) -> Path:
        """The `SPARK_CONF_DIR` for the Spark of this Python environment."""
        return self.root / "conf" / "spark"

    @property
    def staging(self) -> Path:
        """Spark's staging directory."""
        return self.root / "staging"

    def daemon_conf(self, daemon: str) -> Path:
        """The configuration directory of a daemon, first in its class path."""
        return self.root / "conf" / daemon

    @property
    def racks(self) -> Path:
        """The table that maps addresses to racks."""
        return self.root / "conf" / "racks.table"

    @property
    def hosts(self) -> Path:
        """The hosts file that replaces name resolution in daemons."""
        return self.root / "conf" / "hosts"

    @property
    def logs(self) -> Path:
        """The daemons' logs; retained when the cluster is stopped."""
        return self.root / "logs"

    def log(self, daemon: str) -> Path:
        """A daemon's log file."""
        return self.logs / f"{daemon}.log"

    def output(self, daemon: str) -> Path:
        """Standard output and error of a daemon."""
        return self.logs / f"{daemon}.out"

    def container_logs(self, host: str) -> Path:
        """The logs of a node's containers."""
        return self.logs / "containers" / host

    @property
    def work(self) -> Path:
        """YARN's state while it runs; removed when the cluster is stopped."""
        return self.root / "work"

    @property
    def rm_state(self) -> Path:
        """The ResourceManager's recovery store."""
        return self.work / "rm" / "state"

    @property
    def rm_queues(self) -> Path:
        """The queue configuration store, to which `PUT /scheduler-conf` writes."""
        return self.work / "rm" / "queues"

    @property
    def rm_attributes(self) -> Path:
        """The ResourceManager's store of node attributes."""
        return self.work / "rm" / "attributes"

    @property
    def rm_labels(self) -> Path:
        """The ResourceManager's store of node labels."""
        return self.work / "rm" / "labels"

    def node_local(self, host: str) -> Path:
        """The working directories of a node's containers."""
        return self.work / "nodes" / host

    @property
    def temporary(self) -> Path:
        """`hadoop.tmp.dir`."""
        return self.work / "tmp"

    @property
    def hdfs_names(self) -> Path:
        """The NameNode's directory; like the blocks, retained until the user removes it."""
        return self.root / "hdfs" / "name"

    @property
    def hdfs_blocks(self) -> Path:
        """The DataNode's directory."""
        return self.root / "hdfs" / "data"


class ClusterRecord(BaseModel):
    """The record of a cluster, written before the first daemon starts, so that the cluster can always be stopped.

    Every process of the cluster has `id` in its environment, every daemon also in its command line. No process ids are
    recorded, as they could become stale. `cgroups`: control groups that the cluster may have created.
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
        """Write the record atomically."""
        files.write(Layout(self.spec.dir).record, self.model_dump_json(indent=2) + "\n")


def read_record(directory: Path) -> ClusterRecord:
    """The record of the cluster in a directory. Raises `NoClusterError` if there is none."""
    path = Layout(directory).record
    try:
        return ClusterRecord.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as missing:
        raise NoClusterError(
            f"no cluster in {directory}; start one with `yarn-plugin cluster up --dir {directory}`"
        ) from missing
    except OSError as refused:
        raise ClusterError(f"{path}: cannot be read ({os_reason(refused)})") from refused
    except ValidationError as wrong:
        first = wrong.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ClusterError(
            f"{path}: {where}: {expectation(dict(first))}; another version wrote it. Stop the cluster's daemons with "
            f"that version, then remove {directory}, including any HDFS data in it"
        ) from wrong
