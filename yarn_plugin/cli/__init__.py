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
        "doctor": ("yarn_plugin.cli.doctor:doctor", "What a ResourceManager allows, and what follows."),
        "queues": ("yarn_plugin.cli.queues:queues", "YARN's queues as a file: plan, apply, show."),
        "arbiter": ("yarn_plugin.cli.arbiter:arbiter", "The daemon that tells every application its share."),
        "apps": ("yarn_plugin.cli.apps:apps", "The applications and their shares."),
        "why": ("yarn_plugin.cli.apps:why", "Why an application has what it has."),
        "replay": ("yarn_plugin.cli.replay:replay", "What an arbiter decided, from its journal alone."),
        "simulate": ("yarn_plugin.cli.simulate:simulate", "What an arbiter would do with a workload, in virtual time."),
        "token": ("yarn_plugin.cli.apps:token", "A token for a user (administrators)."),
    },
)


def main() -> None:
    """The entry point."""
    sys.exit(console.run(cli, "yarn-plugin"))
