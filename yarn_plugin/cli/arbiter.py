"""`yarn-plugin arbiter`."""

import logging
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import click
import platformdirs

from yarn_plugin import console
from yarn_plugin.cli.options import rm_option
from yarn_plugin.drive import config as configuration
from yarn_plugin.drive.registry import installed
from yarn_plugin.drive.serve import serve
from yarn_plugin.errors import BadInputError
from yarn_plugin.observe.resource_manager import addresses
from yarn_plugin.serving.address import parse_listen


@click.command(context_settings=console.CONTEXT)
@rm_option
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Configuration (TOML), see above and docs/operations.md.  [default: one pool, root.sql]",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory of the journal and the tokens.  "
    "[default: one per ResourceManager, in ~/.local/state/yarn-plugin/arbiter]",
)
@click.option(
    "--listen",
    default="127.0.0.1:8780",
    show_default=True,
    metavar="HOST:PORT",
    help="Address of the HTTP service; port 0 selects a free one.",
)
@click.option(
    "--tls-cert",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Certificate (PEM) of the service; required to listen beyond loopback.",
)
@click.option(
    "--tls-key", type=click.Path(path_type=Path), metavar="FILE", help="Private key (PEM) of the certificate."
)
@console.ca_option
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Use once, after restoring a backup or when the journal is damaged: new application ids form a new series "
    "(app_e1_17), so that earlier tokens match none of them. Records after the damage are saved as "
    "journal.dropped-TIME; their applications must register again.",
)
@click.option("--quiet", is_flag=True, help="Log warnings and errors only.")
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
    """Run the arbiter: divide a YARN cluster, notify applications of their share, enforce the shares.

    A pool is a queue. A shared pool is a parent queue whose children are the applications' own leaf queues; the arbiter
    divides its capacity among them. When a share shrinks, the application is notified and its grace period starts. When
    that ends, the arbiter writes queue weights, and YARN preempts. The arbiter kills containers of an application that
    has been over its share for preempt_after_s while another application of the pool waits. A pool can also lease GPUs
    by auctions (controller = "lease", docs/leases.md), or cells to jobs (controller = "ledger"): virtual clusters
    (docs/cells.md), or jobs on GPUs or cores (docs/allox.md).

    \b
    Example of --config FILE:
      [[pools]]
      name = "sql"
      queue = "root.sql"          # create it with `yarn-plugin queues apply`
      policy = "max_min_users"    # equal between users; max_min: by weight between applications
      grace_s = 10                # seconds from notification to enforcement
      preempt_after_s = 15        # over the share for so long while others wait: killed

    Needs a ResourceManager with the CapacityScheduler and simple authentication (no Kerberos), a queue for each pool
    (`yarn-plugin queues apply`), and to run as a user who administers these queues (acl_administer_queue). If the
    scheduler's configuration is read-only, shares are not enforced; `yarn-plugin doctor` shows whether it is.

    Prints its address and the file with the administrator's token, logs to stderr, and runs until SIGTERM or Ctrl-C.
    After a restart with the same --state, it recovers from its journal. That records every event: anything the arbiter
    reacts to, such as an API call, a poll of the ResourceManager, or a timer.

    \b
    Example:
      yarn-plugin arbiter --rm http://rm1:8088,http://rm2:8088 --listen arbiter.example.com:8780 \\
          --tls-cert cert.pem --tls-key key.pem
    """
    handler = logging.StreamHandler()
    handler.setFormatter(console.OneLineFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.WARNING if quiet else logging.INFO, handlers=[handler])
    urls = addresses(rm)
    registry = installed()
    loaded = configuration.load(config, registry)
    where = parse_listen(listen, tls_cert, tls_key, 8780, "tokens")
    folder = state or default_state(urls, Path(platformdirs.user_state_dir("yarn-plugin")) / "arbiter")
    serve(
        urls,
        loaded,
        where,
        folder,
        _print_ready,
        verify=verify,
        accept_loss=accept_loss,
        registry=registry,
        cells_files=configuration.cells_files(config),
    )


def default_state(urls: Sequence[str], parent: Path) -> Path:
    """The default state directory of a ResourceManager, or of an HA pair in either order.

    Raises:
        BadInputError: both addresses of a pair have one.
    """
    folders = [parent / _folder_name(url) for url in sorted(urls)]
    found = [folder for folder in dict.fromkeys(folders) if folder.is_dir()]
    if len(found) > 1:
        shown = " and ".join(map(str, found))
        raise BadInputError(
            "--rm",
            ",".join(urls),
            f"both {shown} hold an arbiter's state for this HA pair; choose the one to continue with: --state DIR",
        )
    return found[0] if found else folders[0]


def _folder_name(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}-{parts.port or 80}"


def _print_ready(url: str, admin_token: Path) -> None:
    console.out.print(f"arbiter      {url}", soft_wrap=True)
    console.out.print(f"admin token  {admin_token}", soft_wrap=True)
