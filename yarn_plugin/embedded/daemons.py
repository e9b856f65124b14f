"""The command lines of the daemons."""

import os
import subprocess
from collections.abc import Mapping

from yarn_plugin.embedded import cgroups, processes
from yarn_plugin.embedded.directory import ClusterRecord, Layout
from yarn_plugin.embedded.errors import DaemonError

_YARN = "org.apache.hadoop.yarn.server"
_HDFS = "org.apache.hadoop.hdfs.server"
_MAIN = {
    "rm": f"{_YARN}.resourcemanager.ResourceManager",
    "nm": f"{_YARN}.nodemanager.NodeManager",
    "nn": f"{_HDFS}.namenode.NameNode",
    "dn": f"{_HDFS}.datanode.DataNode",
}
_HEAP_MB = {"rm": 512, "nm": 256, "nn": 256, "dn": 256}

_OPENED_PACKAGES = ("lang", "io", "util", "util.concurrent", "net", "lang.reflect")
_FORMAT_TIMEOUT_S = 120


def start(record: ClusterRecord, daemon: str) -> int:
    """Start one daemon. Returns its process id; the daemon becomes ready only seconds later."""
    command = java_command(record, daemon)
    group = record.cgroups.get(daemon.removeprefix("nm-"))
    if group is not None and group.exists():
        command = cgroups.command_in_group(group, command)
    return processes.spawn(command, environment(record), Layout(record.spec.dir).output(daemon), record.id)


def java_command(record: ClusterRecord, daemon: str) -> list[str]:
    """The Java command line of a daemon."""
    kind = daemon.partition("-")[0]
    layout = Layout(record.spec.dir)
    jars = ":".join(str(jar) for jar in (layout.daemon_conf(daemon), *record.jars))
    return [
        str(record.java / "bin" / "java"),
        f"-Xmx{_HEAP_MB[kind]}m",
        # Many small daemons share few cores: single-threaded garbage collection disturbs the others least.
        "-XX:+UseSerialGC",
        # Daemons run for minutes: the fast compiler tier suffices and halves the CPU time of startup.
        "-XX:TieredStopAtLevel=1",
        *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
        "-Djava.net.preferIPv4Stack=true",
        f"-Djdk.net.hosts.file={layout.hosts}",
        f"-Djava.io.tmpdir={layout.temporary}",
        *processes.marker_options(record.id, daemon),
        "-cp",
        jars,
        _MAIN[kind],
    ]


def environment(record: ClusterRecord) -> Mapping[str, str]:
    """The environment of daemons: ours without Hadoop's variables, and those that nodes pass on to containers."""
    layout = Layout(record.spec.dir)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("HADOOP_", "YARN_", "SPARK_"))},
        "JAVA_HOME": str(record.java),
        "HADOOP_CONF_DIR": str(layout.client_conf),
    }


def format_hdfs(record: ClusterRecord) -> None:
    """Format HDFS unless it has been formatted before. Raises `DaemonError`."""
    layout = Layout(record.spec.dir)
    if (layout.hdfs_names / "current" / "VERSION").exists():
        return
    command = [*java_command(record, "nn"), "-format", "-nonInteractive"]
    answer = subprocess.run(
        command,
        env=environment(record),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_FORMAT_TIMEOUT_S,
        check=False,
    )
    if answer.returncode != 0:
        layout.output("nn").write_text(answer.stdout + answer.stderr)
        raise DaemonError(f"nn: cannot format HDFS; see {layout.output('nn')}")
