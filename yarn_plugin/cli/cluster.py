"""`yarn-plugin cluster`: a Hadoop cluster on this machine."""

import shlex
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeVar

import click
from platformdirs import user_state_path

from yarn_plugin import console
from yarn_plugin.cli.options import json_option
from yarn_plugin.embedded import cluster as embedded
from yarn_plugin.embedded.errors import ClusterError, NoClusterError
from yarn_plugin.embedded.ports import free_base
from yarn_plugin.embedded.spec import DEFAULT_PORT_BASE
from yarn_plugin.quantities import count

_Command = TypeVar("_Command", bound=Callable[..., Any])


@click.group(context_settings=console.CONTEXT)
def cluster() -> None:
    """Run a Hadoop cluster on this machine: a ResourceManager, NodeManagers and, optionally, HDFS.

    Needs Linux and Java 17 or newer; the first start downloads Hadoop (70 MB) to ~/.cache/yarn-plugin. All daemons are
    separate processes, listen on the loopback interface only, and run until `down`. Anyone who can log in to this
    machine can submit work that runs as you, so use it on a machine of your own.

    \b
    Example:
      yarn-plugin cluster up --nodes 4 --memory 8192
      yarn-plugin cluster status
      yarn-plugin cluster down
    """


def _directory(command: _Command) -> _Command:
    return click.option(
        "--dir",
        "directory",
        type=click.Path(file_okay=False, path_type=Path),
        default=lambda: user_state_path("yarn-plugin") / "cluster",
        metavar="DIR",
        help="Directory of the cluster's files, one per cluster.  [default: ~/.local/state/yarn-plugin/cluster]",
    )(command)


@cluster.command(short_help="Start a cluster.")
@_directory
@click.option("--nodes", type=int, default=4, show_default=True, help="Number of NodeManagers, 1 to 250.")
@click.option(
    "--gpus-per-node",
    type=int,
    default=4,
    show_default=True,
    help="GPUs that each node reports; no real GPU is needed.",
)
@click.option(
    "--gpu-partition",
    type=int,
    default=0,
    metavar="NODES",
    help="Make the last NODES nodes an exclusive partition (node label gpu) with queue root.gpu; only they have GPUs.",
)
@click.option("--racks", type=int, help="Number of racks.  [default: 2, or 1 for a single node]")
@click.option(
    "--memory",
    type=int,
    default=4096,
    show_default=True,
    metavar="MiB",
    help="Memory that each node reports to YARN; none is reserved on this machine.",
)
@click.option("--vcores", type=int, default=4, show_default=True, help="Virtual cores that each node reports to YARN.")
@click.option(
    "--cpu-per-node",
    type=console.Number(0.05),
    metavar="CORES",
    help="CPU quota of each node outside --gpu-partition; needs the right to write cgroups.  [default: none]",
)
@click.option("--hdfs", is_flag=True, help="Also start a NameNode and a DataNode.")
@click.option(
    "--port-base",
    type=int,
    default=DEFAULT_PORT_BASE,
    show_default=True,
    help="First of 20 consecutive ports; 0 selects free ones.",
)
@click.option(
    "--node-expiry-ms",
    type=int,
    default=10_000,
    show_default=True,
    help="Milliseconds without a heartbeat after which a node is lost.",
)
@click.option(
    "--ivy-settings",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Ivy settings file of a Maven mirror, for the download at the first start.",
)
@json_option
def up(directory: Path, racks: int | None, memory: int, json_file: Path | None, port_base: int, **sizes: Any) -> None:
    """Start a cluster, wait until every node has registered, and print its addresses."""
    spec = embedded.ClusterSpec(
        dir=directory.resolve(), racks=min(2, sizes["nodes"]) if racks is None else racks, memory_mb=memory, **sizes
    )
    spec = replace(spec, port_base=port_base or free_base(spec.hosts, spec.hdfs))
    signal.signal(signal.SIGTERM, _interrupt)
    made = embedded.up(spec, _print_progress)
    _print_addresses(made)
    if json_file is not None:
        console.write_json(json_file, _addresses(made))


def _print_progress(line: str) -> None:
    click.echo(line, err=True)


def _addresses(shown: embedded.Cluster) -> dict[str, str]:
    return {
        "ResourceManager": shown.rm_url,
        "HADOOP_CONF_DIR": str(shown.conf_dir),
        "SPARK_CONF_DIR": str(shown.spark_conf_dir),
    }


def _print_addresses(shown: embedded.Cluster) -> None:
    for name, address in _addresses(shown).items():
        click.echo(f"{name:<15}  {address}")


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """Treat SIGTERM like Ctrl-C: stop the daemons that were started."""
    raise KeyboardInterrupt


@cluster.command(short_help="Print the environment that clients need.")
@_directory
def env(directory: Path) -> None:
    """Print the shell commands that point Hadoop's and Spark's clients at the cluster.

    \b
    Use:  eval "$(yarn-plugin cluster env)"
    """
    shown = embedded.load(directory.resolve())
    for name, folder in (("HADOOP_CONF_DIR", shown.conf_dir), ("SPARK_CONF_DIR", shown.spark_conf_dir)):
        click.echo(f"export {name}={shlex.quote(str(folder))}")


@cluster.command()
@_directory
def down(directory: Path) -> None:
    """Stop all processes of a cluster; logs and HDFS data remain."""
    try:
        stopped = embedded.down(directory.resolve())
    except NoClusterError:
        stopped = 0
    if stopped:
        click.echo(f"stopped {count(stopped, 'process', 'processes')}")
    else:
        click.echo(f"no process of a cluster in {directory} was running")


@cluster.command(short_help="Start a daemon that is not running.")
@click.argument("daemon")
@_directory
def start(daemon: str, directory: Path) -> None:
    """Start a DAEMON that is not running, and wait until it is ready: rm, nm-127.0.1.1, ..., nn or dn.

    `status` lists the daemons and their process ids. To test a failure, kill one.
    """
    number = embedded.load(directory.resolve()).start(daemon, _print_progress)
    click.echo(f"{daemon} is running (process {number})")


@cluster.command()
@_directory
@json_option
def status(directory: Path, json_file: Path | None) -> None:
    """Show daemons, nodes and applications. Exits with 1 if a daemon is not running."""
    from rich.console import Console

    from yarn_plugin.embedded import status as figures

    seen = figures.read_status(embedded.load(directory.resolve()))
    _print_addresses(seen.cluster)
    # Do not wrap rows in a file or a pipe.
    out = console.out if console.out.is_terminal else Console(width=250)
    for shown in figures.tables(seen):
        out.print()
        out.print(shown)
    if json_file is not None:
        console.write_json(json_file, figures.as_json(seen))
    if seen.problem:
        raise ClusterError(seen.problem)
