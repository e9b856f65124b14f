"""The command `yarn-plugin`."""

import sys

from yarn_plugin import console
from yarn_plugin.cli.lazy import LazyGroup

cli = LazyGroup(
    name="yarn-plugin",
    help="Applications that know their share of a stock YARN cluster and act on it.",
    context_settings=console.CONTEXT,
    commands_at={
        "cluster": ("yarn_plugin.cli.cluster:cluster", "A real Hadoop cluster on this machine."),
    },
)


def main() -> None:
    """The entry point."""
    sys.exit(console.run(cli, "yarn-plugin"))
