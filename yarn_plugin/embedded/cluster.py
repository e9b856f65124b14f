"""The embedded cluster as other rooms and tests use it.

    cluster = up(ClusterSpec(Path("/somewhere/empty"), nodes=4))
    cluster.rm_url, cluster.conf_dir
    cluster.down()

The daemons outlive the process that started them; `load` finds them again.
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

from yarn_plugin.embedded import cgroups, configuration, daemons, java, ports, processes, readiness
from yarn_plugin.embedded.directory import ClusterRecord, Layout, read_record
from yarn_plugin.embedded.errors import ClusterError, ClusterInUseError, NoClusterError
from yarn_plugin.embedded.spec import ClusterSpec, Node
from yarn_plugin.errors import BadInputError
from yarn_plugin.quantities import count

__all__ = ["Cluster", "ClusterSpec", "Node", "down", "load", "up"]

_PATIENCE_S = 2.0
"""How long daemons may take to end by themselves; a node waits for its containers in vain, as those end too."""

Progress = Callable[[str], None]
"""Told one line at each step that takes time, and where something the user asked for is not possible."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that was brought up, whether or not its daemons still run."""

    record: ClusterRecord

    @property
    def spec(self) -> ClusterSpec:
        """What was asked for."""
        return self.record.spec

    @property
    def rm_url(self) -> str:
        """The ResourceManager's web address, without a slash at the end."""
        return readiness.rm_url(self.record)

    @property
    def conf_dir(self) -> Path:
        """The HADOOP_CONF_DIR for any client of this cluster."""
        return Layout(self.spec.dir).client_conf

    @property
    def spark_conf_dir(self) -> Path:
        """The `SPARK_CONF_DIR` for a Spark of this Python environment."""
        return Layout(self.spec.dir).spark_conf

    @property
    def logs(self) -> Path:
        """The directory of the daemons' logs; the containers' are below `containers`."""
        return Layout(self.spec.dir).logs

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The NodeManagers that belong to the cluster, running or not."""
        return self.spec.topology

    @property
    def daemons(self) -> dict[str, int]:
        """Process number of each daemon that runs at this moment: `rm`, `nm-127.0.1.1`, ..., `nn`, `dn`."""
        running = processes.daemons(self.record.id)
        return {name: running[name].pid for name in self.spec.daemon_names if name in running}

    @property
    def members(self) -> frozenset[int]:
        """The numbers of all processes of the cluster at this moment: daemons, containers, what those started."""
        return frozenset(process.pid for process in _members(self.record))

    def start(self, daemon: str, progress: Progress = lambda line: None) -> int:
        """Start one daemon that is not running, and wait until it does its work; returns its process number.

        Raises `BadInputError` for a name the cluster does not have, `ClusterInUseError` if it is running,
        `DaemonError` if it does not come.
        """
        if daemon not in self.spec.daemon_names:
            raise BadInputError("daemon", daemon, f"one of {', '.join(self.spec.daemon_names)}")
        with _alone(self.spec.dir):
            if not Layout(self.spec.dir).work.exists():
                raise ClusterError(
                    f"the cluster in {self.spec.dir} has ended: `yarn-plugin cluster up --dir {self.spec.dir}`"
                )
            if daemon in self.daemons:
                raise ClusterInUseError(f"{daemon} is running already (process {self.daemons[daemon]})")
            return _start(self.record, [daemon], progress)[daemon]

    def wait(self) -> None:
        """Wait until all daemons do their work, and the ResourceManager has heard of every node.

        Raises `DaemonError` if one is not running, or does not come.
        """
        readiness.wait(self.record, self.spec.daemon_names)

    def down(self) -> None:
        """End every process of the cluster and remove what YARN kept; logs and HDFS data stay."""
        down(self.spec.dir)


def up(spec: ClusterSpec, progress: Progress = lambda line: None) -> Cluster:
    """Bring up a cluster; returns when every node has registered.

    The directory must be empty, or hold a cluster that has ended: its logs and YARN's state are removed, HDFS data
    stays. Raises a `ClusterError` (directory in use, ports taken, Java, jars, a daemon that does not come), and then
    leaves no process behind.
    """
    try:
        spec.dir.mkdir(parents=True, exist_ok=True)
    except OSError as refused:
        raise BadInputError("dir", str(spec.dir), f"cannot be made: {refused.strerror}") from refused
    with _alone(spec.dir):
        _clear(spec.dir)
        ports.require_free(spec.port_base, spec.hosts, spec.hdfs)
        runtime = java.find_java()
        class_path = java.class_path(runtime, spec.ivy_settings, progress)
        made = _prepare(spec, runtime, class_path, progress)
        try:
            _bring_up(made, progress)
        except BaseException:  # Interrupted or failed: what was started must not stay.
            _end(made)
            raise
    return Cluster(made)


def load(directory: Path) -> Cluster:
    """The cluster that was brought up in a directory. Raises `NoClusterError`."""
    return Cluster(read_record(directory.resolve()))


def down(directory: Path) -> int:
    """End the cluster of a directory, if it runs; returns how many processes there were.

    Raises `NoClusterError` if none was ever brought up there.
    """
    found = read_record(directory.resolve())
    with _alone(directory):
        running = len(_members(found))
        _end(found)
    return running


def _clear(directory: Path) -> None:
    """Make the directory ready for a new cluster. Raises `ClusterInUseError` if one runs there."""
    layout = Layout(directory)
    try:
        earlier = read_record(directory)
    except NoClusterError:
        others = [entry.name for entry in directory.iterdir() if entry != layout.lock]
        if others:
            raise ClusterError(f"{directory} holds other files ({others[0]}): choose an empty --dir") from None
        return
    running = Cluster(earlier).daemons
    if running:
        raise ClusterInUseError(
            f"{directory}: a cluster is running here ({', '.join(running)}): end it with "
            f"`yarn-plugin cluster down --dir {directory}`, or choose another --dir"
        )
    _end(earlier)
    shutil.rmtree(layout.logs, ignore_errors=True)
    shutil.rmtree(layout.client_conf.parent, ignore_errors=True)


def _prepare(spec: ClusterSpec, runtime: java.Java, class_path: tuple[Path, ...], progress: Progress) -> ClusterRecord:
    """Write down what is about to be started, before anything is."""
    cluster_id = uuid.uuid4().hex
    made = ClusterRecord(
        id=cluster_id, spec=spec, java=runtime.home, jars=class_path, cgroups=_groups(spec, cluster_id, progress)
    )
    made.save()
    configuration.write(spec, cluster_id, getpass.getuser())
    layout = Layout(spec.dir)
    for directory in (layout.logs, layout.temporary, layout.rm_state, layout.rm_queues):
        directory.mkdir(parents=True, exist_ok=True)
    return made


def _groups(spec: ClusterSpec, cluster_id: str, progress: Progress) -> dict[str, Path]:
    if spec.cpu_per_node is None:
        return {}
    parent = cgroups.find_parent()
    if parent is None:
        progress("CPU quotas: this user may not make control groups here; going on without --cpu-per-node")
        return {}
    return {host: parent / f"yarn-plugin-{cluster_id[:12]}-{host}" for host in spec.hosts}


def _bring_up(made: ClusterRecord, progress: Progress) -> None:
    if made.spec.hdfs:
        progress("formatting HDFS")
        daemons.format_hdfs(made)
    progress(f"starting {count(len(made.spec.daemon_names), 'daemon')}")
    _start(made, made.spec.daemon_names, progress)


def _start(made: ClusterRecord, names: Collection[str], progress: Progress) -> dict[str, int]:
    groups = [group for host, group in made.cgroups.items() if f"nm-{host}" in names]
    _make_groups(groups, progress)
    since_ms = time.time_ns() // 1_000_000
    started = {name: daemons.start(made, name) for name in names}
    readiness.wait(made, names, since_ms)
    _set_quotas(groups, made.spec.cpu_per_node, progress)
    return started


def _make_groups(groups: Iterable[Path], progress: Progress) -> None:
    try:
        for group in groups:
            cgroups.make(group)
    except OSError as refused:
        progress(f"CPU quotas: no control group can be made ({refused}); going on without --cpu-per-node")


def _set_quotas(groups: Iterable[Path], cores: float | None, progress: Progress) -> None:
    """Set each node's quota, once it has registered: the quota is about its work, not about starting a Java."""
    try:
        for group in groups:
            if cores is not None and group.exists():
                cgroups.set_quota(group, cores)
    except OSError as refused:
        progress(f"CPU quotas: {cores} cores a node are refused ({refused}); going on without --cpu-per-node")


def _members(of: ClusterRecord) -> list[psutil.Process]:
    return processes.members(of.id, of.cgroups.values())


def _end(ended: ClusterRecord) -> None:
    processes.end(lambda: _members(ended), _PATIENCE_S, f"cluster in {ended.spec.dir}")
    cgroups.remove(ended.cgroups.values())
    shutil.rmtree(Layout(ended.spec.dir).work, ignore_errors=True)


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Hold the directory against other commands. Raises `ClusterInUseError` if one is at work in it."""
    lock = FileLock(Layout(directory).lock)
    try:
        lock.acquire(timeout=0)
    except Timeout as busy:
        raise ClusterInUseError(
            f"{directory}: another `yarn-plugin cluster` command is at work here: wait for it, or end it"
        ) from busy
    except OSError as refused:
        raise BadInputError("dir", str(directory), f"cannot be used: {refused.strerror}") from refused
    try:
        yield
    finally:
        lock.release()
