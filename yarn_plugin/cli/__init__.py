"""The command `yarn-plugin`."""

import sys

from yarn_plugin import console
from yarn_plugin.lazy_group import LazyGroup

HELP = """Share a stock Hadoop YARN cluster between applications that adapt to their share.

The arbiter runs beside the ResourceManager. It divides the cluster between the running applications, notifies each of
its share before that changes, and enforces the shares through YARN's queue weights. An application takes part by
registering with the arbiter's HTTP API, as `qoop submit --arbiter` does.

\b
Try it on this machine (needs Linux and Java 17 or newer):
  yarn-plugin cluster up                                  # prints the ResourceManager's URL
  yarn-plugin doctor --rm http://127.0.0.1:18000          # what it supports
  yarn-plugin arbiter --rm http://127.0.0.1:18000 --state arbiter         # runs until Ctrl-C

\b
In another shell, in the same directory:
  eval "$(yarn-plugin cluster env)"
  yarn-plugin token "$(id -un)" --token-file arbiter/admin.token --out my.token
  qoop submit --master yarn --arbiter http://127.0.0.1:8780 --token-file my.token --tables DIR QUERY.sql
  yarn-plugin apps --token-file my.token                  # while the query runs

COMMAND -h describes each command.
"""

cli = console.version_option(
    LazyGroup(
        name="yarn-plugin",
        help=HELP,
        context_settings=console.CONTEXT,
        commands_at={
            "cluster": ("yarn_plugin.cli.cluster:cluster", "Run a Hadoop cluster on this machine."),
            "doctor": ("yarn_plugin.cli.doctor:doctor", "Check what a ResourceManager supports."),
            "queues": ("yarn_plugin.cli.queues:queues", "Compare, change and show YARN's queues."),
            "cells": ("yarn_plugin.cli.cells:cells", "Check and try virtual clusters as quotas of cells (HiveD)."),
            "arbiter": ("yarn_plugin.cli.arbiter:arbiter", "Run the arbiter: divide the cluster, notify, enforce."),
            "apps": ("yarn_plugin.cli.apps:apps", "List the applications and their shares."),
            "why": ("yarn_plugin.cli.apps:why", "Explain the share of an application."),
            "replay": ("yarn_plugin.cli.replay:replay", "Explain an arbiter's decisions from its journal."),
            "simulate": ("yarn_plugin.cli.simulate:simulate", "Simulate a workload on a cluster in virtual time."),
            "figures": ("yarn_plugin.cli.figures:figures", "Reproduce the figures of papers by simulation."),
            "token": ("yarn_plugin.cli.apps:token", "Issue a token to a user (administrators)."),
        },
    )
)


def main() -> None:
    """The entry point."""
    sys.exit(console.run(cli, "yarn-plugin"))
