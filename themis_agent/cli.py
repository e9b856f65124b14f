"""The command `themis-agent`."""

import contextlib
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from yarn_plugin import console
from yarn_plugin.errors import BadInputError
from yarn_plugin.quantities import count, number

if TYPE_CHECKING:
    from themis_agent.local.driver import Result


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


_GPUS = click.option(
    "--gpus",
    type=click.IntRange(1, 4096),
    metavar="N",
    help="GPUs of this machine; trials share them, and see them as CUDA_VISIBLE_DEVICES.  [default: the NVIDIA GPUs "
    "found, or else as many as there are cores]",
)
_JSON = click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write the result to FILE as JSON.",
)
_DIRECTORY = click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
_FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="APP.toml")


@cli.command(context_settings=console.CONTEXT)
@_FILE
@click.option(
    "--gpus",
    type=click.IntRange(1, 4096),
    metavar="N",
    help="Also check that a trial fits on one machine with N GPUs.",
)
@_JSON
def validate(file: Path, gpus: int | None, json_file: Path | None) -> None:
    """Check the file of a search; print its brackets, trials and GPU hours. Nothing is started."""
    from themis_agent.app_file import load
    from themis_agent.local.driver import check_fits
    from themis_agent.validation import gpu_hours, gpu_time, plan

    app = load(file)
    if gpus is not None:
        check_fits(app, gpus)
    rungs, hours = plan(app), gpu_hours(app)
    rows = [(one.bracket, one.rung, one.trials, f"{one.until:g}", number(one.steps)) for one in rungs]
    console.out.print(console.table(None, ("#bracket", "#rung", "#trials", "#until step", "#steps of all"), rows))
    steps = number(sum(one.steps for one in rungs))
    needed = gpu_time(hours) if hours is not None else "GPU hours unknown without step_s"
    console.out.print(f"{app.name}: {count(app.trial_count, 'trial')}, at most {steps} steps, {needed}")
    if json_file is not None:
        written = {"trials": app.trial_count, "gpu_hours": hours, "rungs": [asdict(one) for one in rungs]}
        console.write_json(json_file, written)


@cli.command(context_settings=console.CONTEXT)
@_FILE
@click.option("--local", is_flag=True, help="Run the trials as processes of this machine. Required for now.")
@_GPUS
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory of the journal, checkpoints and logs.  [default: NAME.themis]",
)
@_JSON
def run(file: Path, local: bool, gpus: int | None, state: Path | None, json_file: Path | None) -> int:
    """Run a search and print its best trial.

    Ctrl-C has trials save checkpoints and end. The same command again goes on from there, also after a crash.

    Exit code: 0; 1 if no trial succeeded or too many failed; 2 for a wrong file; 130 if stopped by Ctrl-C or SIGTERM.
    """
    from themis_agent.app_file import load

    app = load(file)
    if not local:
        raise BadInputError("--local", False, "required: searches run on this machine only, so far")
    root = state or Path(f"{app.name}.themis")
    return _run(root, gpus, json_file, file)


@cli.command(context_settings=console.CONTEXT)
@_DIRECTORY
@_JSON
def resume(directory: Path, json_file: Path | None) -> int:
    """Go on with a local search on the GPUs that it began with; print its best trial. DIR is its --state directory."""
    from themis_agent.local.folder import Folder

    gpus = None
    with contextlib.suppress(BadInputError):  # A search that has not begun takes what is there.
        gpus = len(Folder(directory.resolve()).state().gpus)
    return _run(directory, gpus, json_file, None)


@cli.command(context_settings=console.CONTEXT)
@_DIRECTORY
@_JSON
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


@cli.command(context_settings=console.CONTEXT)
@_DIRECTORY
@click.option(
    "--export", type=click.Path(file_okay=False, path_type=Path), metavar="TO", help="Copy its newest checkpoint to TO."
)
@_JSON
def best(directory: Path, export: Path | None, json_file: Path | None) -> int:
    """Print the best trial of a local search so far. Exit code: 1 if no trial has reported."""
    from themis_agent.local.driver import result
    from themis_agent.local.folder import Folder

    folder = Folder(directory.resolve())
    app, _ = folder.load()
    state = folder.state()
    found, trial = result(state), state.best
    _print(app.metric, found)
    if export is not None and trial is not None:
        console.out.print(f"checkpoint of step {folder.export(app, trial, export)} copied to {export}")
    if json_file is not None:
        console.write_json(json_file, asdict(found))
    return 0 if trial is not None else 1


@cli.command(context_settings=console.CONTEXT)
@_DIRECTORY
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


def _run(root: Path, gpus: int | None, json_file: Path | None, file: Path | None) -> int:
    from themis_agent.app_file import load
    from themis_agent.local import driver
    from themis_agent.local.folder import Folder

    folder = Folder(root.resolve())
    app, directory = folder.load() if file is None else (load(file), file.resolve().parent)
    result = driver.run(app, directory, folder, gpus or driver.local_gpus())
    if result is None:
        console.err.print(f"suspended; go on with: themis-agent resume {root}")
        return 130
    if json_file is not None:
        console.write_json(json_file, asdict(result))
    _print(app.metric, result)
    return 0 if result.succeeded else 1


def _print(metric: str, result: "Result") -> None:
    console.out.print(result.reason)
    if result.failed:
        console.out.print(f"{count(result.failed, 'trial')} failed")
    if result.best is None or result.metric is None:
        return
    console.out.print(f"best: {result.best}, {metric} {result.metric:.6g} at step {result.step:g}")
    for name, value in result.parameters.items():
        console.out.print(f"    {name} = {value}")


def main() -> None:
    """Run the command line `themis-agent`."""
    sys.exit(console.run(cli, "themis-agent"))
