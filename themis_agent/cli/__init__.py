"""The command `themis-agent`: a file for each group of its commands."""

import sys

import click

from themis_agent.cli import searching, watching
from yarn_plugin import console


@click.group(context_settings=console.CONTEXT)
@console.version_option
def cli() -> None:
    """Search the hyperparameters of a training command.

    \b
    Check a search:       themis-agent validate app.toml
    On this machine:      themis-agent run --local app.toml
    While it runs:        themis-agent status NAME.themis

    docs/training.md describes the file.
    """


for _command in (
    searching.validate,
    searching.run,
    searching.resume,
    watching.status,
    watching.why,
    watching.report,
    watching.best,
    watching.logs,
):
    cli.add_command(_command)


def main() -> None:
    """Run the command line `themis-agent`."""
    sys.exit(console.run(cli, "themis-agent"))
