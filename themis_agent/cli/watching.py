"""`themis-agent status`, `best` and `logs`."""

from dataclasses import asdict
from pathlib import Path

import click

from themis_agent.cli import options
from themis_agent.cli.results import print_result
from yarn_plugin import console
from yarn_plugin.errors import BadInputError


@click.command(context_settings=console.CONTEXT)
@options.DIRECTORY
@options.JSON
def status(directory: Path, json_file: Path | None) -> None:
    """Show the trials of a local search, also while it runs: DIR is its --state directory."""
    from themis_agent.local.folder import Folder
    from themis_agent.local.progress import as_json, progress

    folder = Folder(directory.resolve())
    app, _ = folder.load()
    state = folder.state()
    console.out.print(progress(app, state, len(state.trials)))
    if json_file is not None:
        console.write_json(json_file, as_json(state))


@click.command(context_settings=console.CONTEXT)
@options.DIRECTORY
@click.option(
    "--export", type=click.Path(file_okay=False, path_type=Path), metavar="TO", help="Copy its newest checkpoint to TO."
)
@options.JSON
def best(directory: Path, export: Path | None, json_file: Path | None) -> int:
    """Print the best trial of a local search so far. Exit code: 1 if no trial has reported."""
    from themis_agent.local.driver import result
    from themis_agent.local.folder import Folder

    folder = Folder(directory.resolve())
    app, _ = folder.load()
    state = folder.state()
    found, trial = result(state), state.best
    print_result(app.metric, found)
    if export is not None and trial is not None:
        console.out.print(f"checkpoint of step {folder.export(app, trial, export)} copied to {export}")
    if json_file is not None:
        console.write_json(json_file, asdict(found))
    return 0 if trial is not None else 1


@click.command(context_settings=console.CONTEXT)
@options.DIRECTORY
@click.argument("trial")
@click.option("--rank", type=click.IntRange(0), default=0, show_default=True, help="The process whose log to print.")
def logs(directory: Path, trial: str, rank: int) -> None:
    """Print the log of a trial of a local search, from all its starts, oldest first."""
    from themis_agent.local.folder import Folder

    found = list(Folder(directory.resolve()).log(trial, rank))
    if not found:
        raise BadInputError(
            "TRIAL", trial, f"has no log of rank {rank}; `themis-agent status {directory}` lists trials"
        )
    for epoch, path in found:
        console.out.print(f"== start {epoch}: {path}")
        console.out.print(path.read_text(errors="replace"), end="")
