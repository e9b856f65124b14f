"""`yarn-plugin arbiter`."""

import logging
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import click
import platformdirs

from yarn_plugin import console
from yarn_plugin.drive import config as configuration
from yarn_plugin.drive.registry import installed
from yarn_plugin.drive.serve import parse_listen, serve
from yarn_plugin.errors import BadInputError
from yarn_plugin.observe.resource_manager import addresses


@click.command(context_settings=console.CONTEXT)
@click.option("--rm", required=True, metavar="URL[,URL]", help="The ResourceManager's web address; both of an HA pair.")
@click.option("--config", type=click.Path(path_type=Path), help="Pools (TOML). Left out: one pool, root.sql.")
@click.option(
    "--state", type=click.Path(path_type=Path), help="Journal, tokens.  [default: per RM, in the user's state]"
)
@click.option("--listen", default="127.0.0.1:8780", show_default=True, metavar="HOST:PORT", help="Port 0: a free one.")
@click.option("--tls-cert", type=click.Path(path_type=Path), help="Certificate (PEM), to listen beyond loopback.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="The certificate's key (PEM).")
@console.ca_option
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Go on without the part of the journal that follows damage; ids of applications start a new series.",
)
@click.option("--quiet", is_flag=True, help="Log warnings only.")
def arbiter(
    rm: str,
    config: Path | None,
    state: Path | None,
    listen: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    verify: str | bool,
    accept_loss: bool,
    quiet: bool,
) -> None:
    """Tell every application its share of the cluster, and make the shares hold.

    Works with any stock ResourceManager (CapacityScheduler). Where its configuration cannot be written, applications
    are told and nothing is enforced; `yarn-plugin doctor` says which. Runs until it is ended (Ctrl-C, SIGTERM);
    started again with the same --state it goes on where it was, however it ended.

    Simple authentication only: Kerberos (SPNEGO) ResourceManagers are refused with a message.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.WARNING if quiet else logging.INFO, handlers=[handler])
    urls = addresses(rm)
    registry = installed()
    loaded = configuration.load(config, registry)
    where = parse_listen(listen, tls_cert, tls_key)
    folder = state or default_state(urls, Path(platformdirs.user_state_dir("yarn-plugin")) / "arbiter")
    serve(urls, loaded, where, folder, _say_ready, verify=verify, accept_loss=accept_loss, registry=registry)


class _OneLine(logging.Formatter):
    """Keeps a message to its line: names that others choose are in it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name that logging looks for
        """The line, with whatever could end it or steer a terminal as an escape."""
        return console.printable(super().formatMessage(record))


def default_state(urls: Sequence[str], parent: Path) -> Path:
    """The state folder of a ResourceManager, or of an HA pair in whichever order its addresses are given.

    Raises:
        BadInputError: both addresses have one.
    """
    folders = [parent / _folder_name(url) for url in sorted(urls)]
    found = [folder for folder in dict.fromkeys(folders) if folder.is_dir()]
    if len(found) > 1:
        shown = " and ".join(map(str, found))
        raise BadInputError("--rm", ",".join(urls), f"there is state in {shown}; say which is meant with --state")
    return found[0] if found else folders[0]


def _folder_name(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}-{parts.port or 80}"


def _say_ready(url: str, admin_token: Path) -> None:
    console.out.print(f"arbiter      {url}", soft_wrap=True)
    console.out.print(f"admin token  {admin_token}", soft_wrap=True)
