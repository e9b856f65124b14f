"""`yarn-plugin arbiter`."""

import logging
from pathlib import Path
from urllib.parse import urlsplit

import click
import platformdirs

from yarn_plugin import console
from yarn_plugin.drive import config as configuration
from yarn_plugin.drive.serve import parse_listen, serve
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
@click.option("--quiet", is_flag=True, help="Log warnings only.")
def arbiter(
    rm: str,
    config: Path | None,
    state: Path | None,
    listen: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    quiet: bool,
) -> None:
    """Tell every application its share of the cluster, and make the shares hold.

    Works with any stock ResourceManager (CapacityScheduler). Where its configuration cannot be written, applications
    are told and nothing is enforced; `yarn-plugin doctor` says which. Runs until it is ended (Ctrl-C, SIGTERM);
    started again with the same --state it goes on where it was, however it ended.

    Simple authentication only: Kerberos (SPNEGO) ResourceManagers are refused with a message.
    """
    logging.basicConfig(
        level=logging.WARNING if quiet else logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    urls = addresses(rm)
    loaded = configuration.load(config)
    where = parse_listen(listen, tls_cert, tls_key)
    folder = state or _default_state(urls[0])
    serve(urls, loaded, where, folder, _say_ready)


def _default_state(url: str) -> Path:
    parts = urlsplit(url)
    return Path(platformdirs.user_state_dir("yarn-plugin")) / "arbiter" / f"{parts.hostname}-{parts.port or 80}"


def _say_ready(url: str, admin_token: Path) -> None:
    console.out.print(f"arbiter      {url}", soft_wrap=True)
    console.out.print(f"admin token  {admin_token}", soft_wrap=True)
