"""The ports of an embedded cluster."""

import socket

import pytest

from yarn_plugin.embedded.errors import PortTakenError
from yarn_plugin.embedded.ports import LIMIT, WIDTH, Ports, free_base, require_free

HOSTS = ("127.0.1.1", "127.0.1.2")


@pytest.fixture
def base():
    return free_base(HOSTS, hdfs=True, start=29000)


def test_no_two_daemons_share_a_port():
    addresses = list(Ports(20000).addresses(HOSTS, hdfs=True))
    assert len(addresses) == len(set(addresses))
    assert all(20000 <= port < 20000 + WIDTH for _, port in addresses)


def test_only_loopback_is_listened_on():
    assert all(host.startswith("127.") for host, _ in Ports(20000).addresses(HOSTS, hdfs=True))


def test_a_taken_port_is_named_with_a_base_that_is_free(base):
    with socket.socket() as other:
        other.bind(("127.0.1.2", Ports(base).nm_web))
        other.listen()
        with pytest.raises(PortTakenError, match=rf"port {base + 7} on 127\.0\.1\.2 .*--port-base (\d+)") as refused:
            require_free(base, HOSTS, hdfs=False)
        proposed = int(str(refused.value).rsplit(" ", 1)[1])
        require_free(proposed, HOSTS, hdfs=False)


def test_ports_of_hdfs_count_only_with_hdfs(base):
    with socket.socket() as other:
        other.bind(("127.0.0.1", Ports(base).name_node))
        other.listen()
        require_free(base, HOSTS, hdfs=False)
        with pytest.raises(PortTakenError):
            require_free(base, HOSTS, hdfs=True)


def test_ports_stay_below_those_the_kernel_hands_out():
    with pytest.raises(PortTakenError):
        free_base(HOSTS, start=LIMIT - WIDTH)
