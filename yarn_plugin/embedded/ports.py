"""The ports of the daemons, and checks that they are free."""

import errno
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from yarn_plugin.embedded.errors import ClusterError, PortTakenError

WIDTH = 20
"""Number of ports reserved for a cluster, from its base on."""

LIMIT = 32768
"""From here on are ephemeral ports, which the kernel assigns to outgoing connections."""

RM_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of a cluster. NodeManagers use the same ports on different loopback addresses."""

    base: int

    @property
    def rm_web(self) -> int:
        """ResourceManager: web pages and REST."""
        return self.base

    @property
    def rm_client(self) -> int:
        """ResourceManager: clients."""
        return self.base + 1

    @property
    def rm_scheduler(self) -> int:
        """ResourceManager: application masters."""
        return self.base + 2

    @property
    def rm_tracker(self) -> int:
        """ResourceManager: NodeManagers."""
        return self.base + 3

    @property
    def rm_admin(self) -> int:
        """ResourceManager: administration."""
        return self.base + 4

    @property
    def nm_container(self) -> int:
        """NodeManager: starting containers."""
        return self.base + 5

    @property
    def nm_localizer(self) -> int:
        """NodeManager: fetching containers' files."""
        return self.base + 6

    @property
    def nm_web(self) -> int:
        """NodeManager: web pages and REST."""
        return self.base + 7

    @property
    def nm_collector(self) -> int:
        """NodeManager: timeline collectors."""
        return self.base + 8

    @property
    def name_node(self) -> int:
        """NameNode: clients (`fs.defaultFS`)."""
        return self.base + 9

    @property
    def name_node_web(self) -> int:
        """NameNode: web pages."""
        return self.base + 10

    @property
    def data_node(self) -> int:
        """DataNode: blocks."""
        return self.base + 11

    @property
    def data_node_web(self) -> int:
        """DataNode: web pages."""
        return self.base + 12

    @property
    def data_node_ipc(self) -> int:
        """DataNode: control."""
        return self.base + 13

    def addresses(self, hosts: Iterable[str], hdfs: bool) -> Iterator[tuple[str, int]]:
        """Every (address, port) that a cluster with NodeManagers on `hosts` listens on."""
        for port in (self.rm_web, self.rm_client, self.rm_scheduler, self.rm_tracker, self.rm_admin):
            yield RM_HOST, port
        for host in hosts:
            for port in (self.nm_container, self.nm_localizer, self.nm_web, self.nm_collector):
                yield host, port
        if hdfs:
            for port in range(self.name_node, self.data_node_ipc + 1):
                yield RM_HOST, port


def require_free(base: int, hosts: Iterable[str], hdfs: bool) -> None:
    """Raise `PortTakenError`, naming the port and a free base, if a port of the cluster is in use."""
    hosts = tuple(hosts)
    taken = _first_taken(base, hosts, hdfs)
    if taken is not None:
        host, port = taken
        raise PortTakenError(
            f"port {port} on {host} is in use; choose other ports, such as --port-base {free_base(hosts, hdfs)}"
        )


def free_base(hosts: Iterable[str], hdfs: bool = False, start: int = 18000) -> int:
    """The first base from `start` on whose ports are all free now."""
    hosts = tuple(hosts)
    for base in range(start, LIMIT - WIDTH, WIDTH):
        if _first_taken(base, hosts, hdfs) is None:
            return base
    raise PortTakenError(
        f"no {WIDTH} consecutive ports from {start} to {LIMIT} are free; choose a --port-base below {start}"
    )


def _first_taken(base: int, hosts: tuple[str, ...], hdfs: bool) -> tuple[str, int] | None:
    return next((address for address in Ports(base).addresses(hosts, hdfs) if not _is_free(*address)), None)


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        # As daemons do: a port with connections in TIME_WAIT may be bound again.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as refused:
            _reject_missing_address(host, refused)
            return False
    return True


def _reject_missing_address(host: str, refused: OSError) -> None:
    if refused.errno == errno.EADDRNOTAVAIL:
        raise ClusterError(
            f"this machine has no loopback address {host} (Linux has all of 127.0.0.0/8); run the cluster on Linux"
        ) from refused
