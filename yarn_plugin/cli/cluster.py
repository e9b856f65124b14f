"""`yarn-plugin cluster`: a real Hadoop cluster on this machine."""

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeVar

import click
from platformdirs import user_state_path

from yarn_plugin import console
from yarn_plugin.embedded import cluster as embedded
from yarn_plugin.embedded.errors import ClusterError, NoClusterError
from yarn_plugin.embedded.ports import free_base
from yarn_plugin.embedded.spec import DEFAULT_PORT_BASE

_Command = TypeVar("_Command", bound=Callable[..., Any])


@click.group(context_settings=console.CONTEXT)
def cluster() -> None:
    """A real Hadoop cluster on this machine: a ResourceManager, NodeManagers and, if wanted, HDFS.

    All daemons are processes of their own, listen on the loopback interface only, and go on until `down`. Anyone who
    may log in to this machine can submit work that runs as you: meant for your own machine.
    """


def _directory(command: _Command) -> _Command:
    return click.option(
        "--dir",
        "directory",
        type=click.Path(file_okay=False, path_type=Path),
        default=lambda: user_state_path("yarn-plugin") / "cluster",
        help="The cluster's files; one cluster in each directory.  [default: in the user's state directory]",
    )(command)


@cluster.command(short_help="Bring up a cluster.")
@_directory
@click.option("--nodes", type=int, default=4, show_default=True, help="NodeManagers.")
@click.option("--gpus-per-node", type=int, default=4, show_default=True, help="GPUs a node offers; none is needed.")
@click.option("--racks", type=int, help="Racks the nodes are spread over.  [default: 2, or 1 for one node]")
@click.option("--memory", type=int, default=4096, show_default=True, metavar="MB", help="Memory a node offers.")
@click.option("--vcores", type=int, default=4, show_default=True, help="Virtual cores a node offers.")
@click.option("--cpu-per-node", type=float, metavar="CORES", help="Hold a node and its containers to so much CPU.")
@click.option("--hdfs", is_flag=True, help="A NameNode and a DataNode too.")
@click.option("--port-base", type=int, default=DEFAULT_PORT_BASE, show_default=True, help="First of 20 ports; 0: any.")
@click.option("--node-expiry-ms", type=int, default=10_000, show_default=True, help="Silence that makes a node lost.")
@click.option(
    "--ivy-settings",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="An Ivy settings file naming your own mirror, for the first start.",
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the addresses here.")
def up(directory: Path, racks: int | None, memory: int, json_file: Path | None, port_base: int, **sizes: Any) -> None:
    """Bring up a cluster and wait until every node has registered."""
    spec = embedded.ClusterSpec(
        dir=directory.resolve(), racks=min(2, sizes["nodes"]) if racks is None else racks, memory_mb=memory, **sizes
    )
    spec = replace(spec, port_base=port_base or free_base(spec.hosts, spec.hdfs))
    signal.signal(signal.SIGTERM, _interrupt)
    made = embedded.up(spec, _tell)
    _print_addresses(made)
    if json_file is not None:
        console.write_json(json_file, _addresses(made))


def _tell(line: str) -> None:
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
    """Treat being asked to end like Ctrl-C: end what was started first."""
    raise KeyboardInterrupt


@cluster.command()
@_directory
def down(directory: Path) -> None:
    """End every process of a cluster; logs and HDFS data stay."""
    try:
        ended = embedded.down(directory.resolve())
    except NoClusterError:
        ended = 0
    click.echo(f"{ended} processes ended" if ended else f"no process of a cluster in {directory} was running")


@cluster.command(short_help="Start one daemon that is not running.")
@click.argument("daemon")
@_directory
def start(daemon: str, directory: Path) -> None:
    """Start one DAEMON that is not running: rm, nm-127.0.1.1, ..., nn or dn."""
    number = embedded.load(directory.resolve()).start(daemon, _tell)
    click.echo(f"{daemon} is running (process {number})")


@cluster.command()
@_directory
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures here too."
)
def status(directory: Path, json_file: Path | None) -> None:
    """Show daemons, nodes and applications; fails if a daemon is missing."""
    from rich.console import Console

    from yarn_plugin.embedded import status as figures

    seen = figures.look(embedded.load(directory.resolve()))
    _print_addresses(seen.cluster)
    # Into a file or a pipe each row goes whole, however narrow a terminal would be.
    out = console.out if console.out.is_terminal else Console(width=250)
    for shown in figures.tables(seen):
        out.print()
        out.print(shown)
    if json_file is not None:
        console.write_json(json_file, figures.as_json(seen))
    if seen.problem:
        raise ClusterError(seen.problem)
