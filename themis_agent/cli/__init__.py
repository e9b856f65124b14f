"""The command `themis-agent`: a file for each group of its commands."""

import sys

import click

from themis_agent.cli import communication, doctor, interference, searching, watching, yarn
from yarn_plugin import console


@click.group(context_settings=console.CONTEXT)
@console.version_option
def cli() -> None:
    """Search the hyperparameters of a training command.

    \b
    Check a search:       themis-agent validate app.toml
    On this machine:      themis-agent run --local app.toml
    On YARN:              themis-agent submit app.toml --rm http://rm:8088 --arbiter http://arbiter:8780
    While it runs:        themis-agent status DIR

    docs/training.md describes the file.
    """


for _command in (
    searching.validate,
    searching.run,
    yarn.submit,
    searching.resume,
    yarn.list_searches,
    yarn.stop,
    watching.status,
    watching.why,
    watching.report,
    watching.best,
    watching.logs,
    communication.communication,
    interference.interference,
    doctor.doctor,
):
    cli.add_command(_command)


def main() -> None:
    """Run the command line `themis-agent`."""
    sys.exit(console.run(cli, "themis-agent"))
