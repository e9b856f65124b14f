"""The embedded cluster: start one, find it again, stop it.

    cluster = up(ClusterSpec(Path("/somewhere/empty"), nodes=4))
    cluster.rm_url, cluster.conf_dir
    cluster.down()

The daemons outlive the process that started them; `load` finds them.
"""

import getpass
import shutil
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from yarn_plugin.embedded import cgroups, configuration, daemons, java, partition, ports, processes, readiness
from yarn_plugin.embedded.directory import ClusterRecord, Layout, read_record
from yarn_plugin.embedded.errors import ClusterError, ClusterInUseError, NoClusterError
from yarn_plugin.embedded.spec import ClusterSpec, Node
from yarn_plugin.errors import BadInputError, os_reason
from yarn_plugin.quantities import count
from yarn_plugin.validation import one_of

__all__ = ["Cluster", "ClusterSpec", "Node", "down", "load", "up"]

_STOP_TIMEOUT_S = 2.0
"""Seconds before daemons are killed; a NodeManager would wait for its containers, which are stopped as well."""

Progress = Callable[[str], None]
"""Receives a line before each slow step, and for each requested feature that is unavailable."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that was started; its daemons may have stopped since."""

    record: ClusterRecord

    @property
    def spec(self) -> ClusterSpec:
        """The requested size and shape."""
        return self.record.spec

    @property
    def rm_url(self) -> str:
        """The ResourceManager's web address, without a trailing slash."""
        return readiness.rm_url(self.record)

    @property
    def conf_dir(self) -> Path:
        """The `HADOOP_CONF_DIR` for clients of this cluster."""
        return Layout(self.spec.dir).client_conf

    @property
    def spark_conf_dir(self) -> Path:
        """The `SPARK_CONF_DIR` for the Spark of this Python environment."""
        return Layout(self.spec.dir).spark_conf

    @property
    def logs(self) -> Path:
        """The directory of the daemons' logs; those of containers are in `containers`."""
        return Layout(self.spec.dir).logs

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The NodeManagers of the cluster, running or not."""
        return self.spec.topology

    @property
    def daemons(self) -> dict[str, int]:
        """Process id of each running daemon: `rm`, `nm-127.0.1.1`, ..., `nn`, `dn`."""
        running = processes.daemons(self.record.id)
        return {name: running[name].pid for name in self.spec.daemon_names if name in running}

    @property
    def members(self) -> frozenset[int]:
        """Ids of all running processes of the cluster: daemons, containers and their children."""
        return frozenset(process.pid for process in _members(self.record))

    def start(self, daemon: str, progress: Progress = lambda line: None) -> int:
        """Start a stopped daemon and wait until it is ready. Returns its process id.

        Raises `BadInputError` for an unknown name, `ClusterInUseError` if the daemon is running, `DaemonError` if it
        does not start.
        """
        if daemon not in self.spec.daemon_names:
            raise BadInputError("DAEMON", daemon, one_of(self.spec.daemon_names, daemon))
        with _locked(self.spec.dir):
            if not Layout(self.spec.dir).work.exists():
                command = f"yarn-plugin cluster up --dir {self.spec.dir}"
                raise ClusterError(f"the cluster in {self.spec.dir} is down; start it with `{command}`")
            if daemon in self.daemons:
                raise ClusterInUseError(f"{daemon} is already running (process {self.daemons[daemon]})")
            return _start(self.record, [daemon], progress)[daemon]

    def wait(self) -> None:
        """Wait until all daemons are ready and every node has registered.

        Raises `DaemonError` if one is not running, or does not become ready.
        """
        readiness.wait(self.record, self.spec.daemon_names)

    def down(self) -> None:
        """Stop every process of the cluster and remove YARN's state; logs and HDFS data remain."""
        down(self.spec.dir)


def up(spec: ClusterSpec, progress: Progress = lambda line: None) -> Cluster:
    """Start a cluster. Returns when every node has registered.

    The directory must be empty, or contain a cluster that is down: its logs and YARN's state are removed, HDFS data
    remains. Raises a `ClusterError` (directory in use, ports taken, Java, jars, a daemon that does not start), and then
    leaves no process running.
    """
    try:
        spec.dir.mkdir(parents=True, exist_ok=True)
    except OSError as refused:
        raise BadInputError("--dir", str(spec.dir), f"cannot be created ({os_reason(refused)})") from refused
    with _locked(spec.dir):
        _clear(spec.dir)
        ports.require_free(spec.port_base, spec.hosts, spec.hdfs)
        runtime = java.find_java()
        class_path = java.class_path(runtime, spec.ivy_settings, progress)
        record = _prepare(spec, runtime, class_path, progress)
        try:
            _bring_up(record, progress)
        except BaseException:  # Interrupted or failed: stop whatever was started.
            _stop(record)
            raise
    return Cluster(record)


def load(directory: Path) -> Cluster:
    """The cluster of a directory, running or not. Raises `NoClusterError`."""
    return Cluster(read_record(directory.resolve()))


def down(directory: Path) -> int:
    """Stop the cluster of a directory, if it is running. Returns the number of processes stopped.

    Raises `NoClusterError` if none was ever started there.
    """
    record = read_record(directory.resolve())
    with _locked(directory):
        running = len(_members(record))
        _stop(record)
    return running


def _clear(directory: Path) -> None:
    """Prepare the directory for a new cluster. Raises `ClusterInUseError` if one is running there."""
    layout = Layout(directory)
    try:
        earlier = read_record(directory)
    except NoClusterError:
        others = [entry.name for entry in directory.iterdir() if entry != layout.lock]
        if others:
            raise ClusterError(
                f"--dir {str(directory)!r}: contains other files ({others[0]}); choose an empty directory"
            ) from None
        return
    running = Cluster(earlier).daemons
    if running:
        raise ClusterInUseError(
            f"--dir {str(directory)!r}: a cluster is running here ({', '.join(running)}); stop it with "
            f"`yarn-plugin cluster down --dir {directory}`, or choose another --dir"
        )
    _stop(earlier)
    shutil.rmtree(layout.logs, ignore_errors=True)
    shutil.rmtree(layout.client_conf.parent, ignore_errors=True)


def _prepare(spec: ClusterSpec, runtime: java.Java, class_path: tuple[Path, ...], progress: Progress) -> ClusterRecord:
    """Write the record and the configuration before anything is started."""
    cluster_id = uuid.uuid4().hex
    record = ClusterRecord(
        id=cluster_id, spec=spec, java=runtime.home, jars=class_path, cgroups=_groups(spec, cluster_id, progress)
    )
    record.save()
    configuration.write(spec, cluster_id, getpass.getuser())
    layout = Layout(spec.dir)
    for directory in (layout.logs, layout.temporary, layout.rm_state, layout.rm_queues, layout.rm_labels):
        directory.mkdir(parents=True, exist_ok=True)
    return record


def _groups(spec: ClusterSpec, cluster_id: str, progress: Progress) -> dict[str, Path]:
    if spec.cpu_per_node is None:
        return {}
    parent = cgroups.find_parent()
    if parent is None:
        progress("warning: --cpu-per-node is ignored; it needs root, or a cgroup delegated to this user")
        return {}
    limited = [node.host for node in spec.topology if node not in spec.gpu_nodes]
    return {host: parent / f"yarn-plugin-{cluster_id[:12]}-{host}" for host in limited}


def _bring_up(record: ClusterRecord, progress: Progress) -> None:
    if record.spec.hdfs:
        progress("formatting HDFS")
        daemons.format_hdfs(record)
    progress(f"starting {count(len(record.spec.daemon_names), 'daemon')}")
    _start(record, record.spec.daemon_names, progress)
    if record.spec.gpu_partition:
        partition.create(record)


def _start(record: ClusterRecord, names: Collection[str], progress: Progress) -> dict[str, int]:
    groups = [group for host, group in record.cgroups.items() if f"nm-{host}" in names]
    _create_groups(groups, progress)
    since_ms = time.time_ns() // 1_000_000
    started = {name: daemons.start(record, name) for name in names}
    readiness.wait(record, names, since_ms)
    _set_quotas(groups, record.spec.cpu_per_node, progress)
    return started


def _create_groups(groups: Iterable[Path], progress: Progress) -> None:
    try:
        for group in groups:
            cgroups.create(group)
    except OSError as refused:
        progress(f"warning: --cpu-per-node is ignored; cannot create a cgroup ({refused})")


def _set_quotas(groups: Iterable[Path], cores: float | None, progress: Progress) -> None:
    """Set each node's quota after it has registered, so that starting its JVM is not throttled."""
    try:
        for group in groups:
            if cores is not None and group.exists():
                cgroups.set_quota(group, cores)
    except OSError as refused:
        progress(f"warning: --cpu-per-node is ignored; cannot set {cores} cores per node ({refused})")


def _members(record: ClusterRecord) -> list[psutil.Process]:
    return processes.members(record.id, record.cgroups.values())


def _stop(record: ClusterRecord) -> None:
    processes.stop(lambda: _members(record), _STOP_TIMEOUT_S, f"cluster in {record.spec.dir}")
    cgroups.remove(record.cgroups.values())
    shutil.rmtree(Layout(record.spec.dir).work, ignore_errors=True)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Lock the directory against other commands. Raises `ClusterInUseError` if another one has locked it."""
    lock = FileLock(Layout(directory).lock)
    try:
        lock.acquire(timeout=0)
    except Timeout as busy:
        raise ClusterInUseError(
            f"--dir {str(directory)!r}: another `yarn-plugin cluster` command is running here; wait for it, or stop it"
        ) from busy
    except OSError as refused:
        raise BadInputError("--dir", str(directory), f"cannot be used ({os_reason(refused)})") from refused
    try:
        yield
    finally:
        lock.release()
