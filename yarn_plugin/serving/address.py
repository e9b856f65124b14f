"""Where a service listens: an address, and a certificate for TLS beyond loopback."""

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path

from yarn_plugin.errors import BadInputError


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a service, and its certificate with its key."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def is_unspecified(self) -> bool:
        """Whether it stands for all addresses of this machine."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False

    @property
    def url(self) -> str:
        """The address for clients of a service over HTTP."""
        host = socket.getfqdn() if self.is_unspecified else self._host
        return f"{'https' if self.certificate else 'http'}://{host}:{self.port}"

    @property
    def _host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    def __str__(self) -> str:
        """As it is given on the command line."""
        return f"{self._host}:{self.port}"


def parse_listen(text: str, certificate: Path | None, key: Path | None, example: int, secret: str) -> Address:
    """Read `--listen HOST:PORT`, `--tls-cert` and `--tls-key`.

    Args:
        example: a port for the message that it is malformed.
        secret: what clients send that must not cross a network unencrypted, such as tokens.

    Raises:
        BadInputError: it is malformed; or it is not on loopback and there is no certificate.
    """
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 <= int(port) < 65536:
        raise BadInputError("--listen", text, f"must be HOST:PORT, such as 127.0.0.1:{example}")
    if (certificate is None) != (key is None):
        given, missing = ("--tls-key", "--tls-cert") if certificate is None else ("--tls-cert", "--tls-key")
        raise BadInputError(given, str(certificate or key), f"requires {missing}, too")
    for name, file in (("--tls-cert", certificate), ("--tls-key", key)):
        if file is not None and not file.is_file():
            raise BadInputError(name, str(file), "no such file")
    address = Address(host.strip("[]"), int(port), certificate, key)
    if not address.is_loopback and certificate is None:
        raise BadInputError(
            "--listen", text, f"requires --tls-cert and --tls-key, or {secret} would cross the network unencrypted"
        )
    return address
