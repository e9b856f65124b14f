"""Where the server listens."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from yarn_plugin.errors import BadInputError


@dataclass(frozen=True, slots=True)
class Address:
    """An address, and the certificate for TLS with its key."""

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

    def __str__(self) -> str:
        """As it is given on the command line."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, certificate: Path | None, key: Path | None) -> Address:
    """Read `--listen HOST:PORT`, `--tls-cert` and `--tls-key`.

    Raises:
        BadInputError: it is malformed, or is not on loopback and has no certificate.
    """
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 <= int(port) < 65536:
        raise BadInputError("--listen", text, "must be HOST:PORT, such as 127.0.0.1:10000")
    if (certificate is None) != (key is None):
        given, missing = ("--tls-key", "--tls-cert") if certificate is None else ("--tls-cert", "--tls-key")
        raise BadInputError(given, str(certificate or key), f"requires {missing}, too")
    for name, file in (("--tls-cert", certificate), ("--tls-key", key)):
        if file is not None and not file.is_file():
            raise BadInputError(name, str(file), "no such file")
    address = Address(host.strip("[]"), int(port), certificate, key)
    if not address.is_loopback and certificate is None:
        raise BadInputError(
            "--listen", text, "requires --tls-cert and --tls-key, or passwords would cross the network unencrypted"
        )
    return address
