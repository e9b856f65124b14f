"""The command `themis-agent`: a file for each group of its commands."""

import sys

from yarn_plugin import console
from yarn_plugin.lazy_group import LazyGroup

HELP = """Search the hyperparameters of a training command.

\b
Check a search:       themis-agent validate app.toml
On this machine:      themis-agent run --local app.toml
On YARN:              themis-agent submit app.toml --rm http://rm:8088 --arbiter http://arbiter:8780
While it runs:        themis-agent status DIR

docs/training.md describes the file.
"""

cli = console.version_option(
    LazyGroup(
        name="themis-agent",
        help=HELP,
        context_settings=console.CONTEXT,
        commands_at={
            "validate": ("themis_agent.cli.searching:validate", "Check the file of a search; print its brackets."),
            "run": ("themis_agent.cli.searching:run", "Run a search and print its best trial."),
            "submit": ("themis_agent.cli.yarn:submit", "Run a search on a YARN cluster with leased GPUs."),
            "resume": ("themis_agent.cli.searching:resume", "Continue a search that was suspended or has failed."),
            "list": ("themis_agent.cli.yarn:list_searches", "List the searches of a cluster, the latest first."),
            "stop": ("themis_agent.cli.yarn:stop", "Stop a search: its trials save checkpoints and end."),
            "status": ("themis_agent.cli.watching:status", "Show the trials of a search, running or not."),
            "why": ("themis_agent.cli.watching:why", "Say what happened to a trial and why."),
            "report": ("themis_agent.cli.watching:report", "Write the page of a search into one HTML file."),
            "best": ("themis_agent.cli.watching:best", "Print the best trial of a search so far."),
            "logs": ("themis_agent.cli.watching:logs", "Print the log of a trial, from all its starts."),
            "communication": (
                "themis_agent.cli.communication:communication",
                "Plan the communication of a training job.",
            ),
            "interference": (
                "themis_agent.cli.interference:interference",
                "Find out how much kinds of training slow each other down.",
            ),
            "doctor": ("themis_agent.cli.doctor:doctor", "Check what this machine lacks for trials on its GPUs."),
        },
    )
)


def main() -> None:
    """Run the command line `themis-agent`."""
    sys.exit(console.run(cli, "themis-agent"))
