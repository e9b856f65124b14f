"""`themis-agent validate`, `run` and `resume`."""

import contextlib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from themis_agent.cli import options
from themis_agent.cli.results import print_problems, print_result, print_submitted
from yarn_plugin import console
from yarn_plugin.errors import BadInputError
from yarn_plugin.quantities import count, number
from yarn_plugin.toml_files import FileError

if TYPE_CHECKING:
    from themis_agent.app_file import AppFile
    from themis_agent.submitting.client import Access


@click.command(context_settings=console.CONTEXT)
@options.FILE
@click.option(
    "--gpus",
    type=click.IntRange(1, 4096),
    metavar="N",
    help="Also check that a trial fits on one machine with N GPUs.",
)
@options.rm(required=False, more=" Also check what `submit` would: GPUs, queue, files, store.")
@options.arbiter(more=" With --rm: also check its pool of leased GPUs.")
@options.TOKEN_FILE
@console.ca_option
@options.QUEUE
@options.JSON
def validate(
    file: Path,
    gpus: int | None,
    rm: str | None,
    arbiter: str | None,
    token_file: Path | None,
    verify: str | bool,
    queue: str | None,
    json_file: Path | None,
) -> int:
    """Check the file of a search; print its brackets, trials and GPU hours. Nothing is started."""
    from themis_agent.app_file import load
    from themis_agent.local.driver import check_fits
    from themis_agent.submitting import client
    from themis_agent.validation import gpu_hours, gpu_time, plan, retraining, warnings, without_checkpoints

    try:
        app = load(file)
    except FileError as refused:
        return print_problems([f"{refused.where}: {one}" for one in refused.invalid] or [str(refused)])
    for warning in warnings(app):
        console.err.print(f"warning: {warning}")
    if gpus is not None:
        check_fits(app, gpus)
    script = without_checkpoints(app, file.resolve().parent)
    if script is not None and (costs := retraining(app, script)):
        console.err.print(f"warning: {costs}")
    rungs = plan(app, retrains=script is not None)
    hours = gpu_hours(app, rungs)
    rows = [(one.bracket, one.rung, one.trials, f"{one.until:g}", number(one.steps)) for one in rungs]
    console.out.print(console.table(None, ("#bracket", "#rung", "#trials", "#until step", "#steps of all"), rows))
    steps = number(sum(one.steps for one in rungs))
    needed = gpu_time(hours) if hours is not None else "GPU hours unknown without step_s"
    console.out.print(f"{app.name}: {count(app.trial_count, 'trial')}, at most {steps} steps, {needed}")
    if json_file is not None:
        written = {"trials": app.trial_count, "gpu_hours": hours, "rungs": [asdict(one) for one in rungs]}
        console.write_json(json_file, written)
    if rm is None:
        return 0
    return _validate_on_yarn(app, file, client.Access(rm, arbiter, token_file, verify, queue))


@click.command(context_settings=console.CONTEXT)
@options.FILE
@click.option("--local", is_flag=True, help="Run the trials as processes of this machine. Required.")
@options.GPUS
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory of the journal, checkpoints and logs.  [default: NAME.themis]",
)
@options.REPLACE
@options.JSON
def run(file: Path, local: bool, gpus: int | None, state: Path | None, replace: bool, json_file: Path | None) -> int:
    """Run a search and print its best trial.

    Ctrl-C has trials save checkpoints and end. The same command again continues from there, also after a crash.

    Exit code: 0; 1 if no trial succeeded or too many failed; 2 for a wrong file; 130 if stopped by Ctrl-C or SIGTERM.
    """
    from themis_agent.app_file import load

    app = load(file)
    if not local:
        raise BadInputError("--local", False, "required; `themis-agent submit` runs a search on YARN")
    root = state or Path(f"{app.name}.themis")
    return _run(root, gpus, json_file, file, replace=replace)


def _validate_on_yarn(app: "AppFile", file: Path, access: "Access") -> int:
    from themis_agent.submitting import client
    from themis_agent.submitting.request import SubmissionError

    try:
        checked = client.checked(app, file.resolve().parent, access)
    except SubmissionError as refused:
        return print_problems(refused.problems)
    for line in checked.notes if checked is not None else ():
        console.out.print(line)
    where = f"queue {checked.queue}" if checked is not None else "without --arbiter, its pool was not checked"
    console.out.print(f"can be submitted to {access.rm}: {where}")
    return 0


@click.command(context_settings=console.CONTEXT)
@options.DIRECTORY
@options.rm(required=False, more=" Only for a submitted search.  [default: as it was submitted]")
@options.arbiter(more=" Only for a submitted search.  [default: as it was submitted]")
@options.TOKEN_FILE
@console.ca_option
@click.option("--retry-failed", is_flag=True, help="Also retry failed trials, from their newest checkpoints.")
@options.JSON
def resume(
    directory: Path | str,
    retry_failed: bool,
    rm: str | None,
    arbiter: str | None,
    token_file: Path | None,
    verify: str | bool,
    json_file: Path | None,
) -> int:
    """Continue a search that was suspended or has failed.

    DIR: the --state directory of a local search, the folder or webhdfs:// URL of a submitted one. A search that stopped
    because most of its first trials failed runs the trials that are left. A local search runs on the GPUs that it began
    with, and its best trial is printed. A submitted one is submitted again, as a new application.
    """
    from themis_agent.local.folder import folder_at
    from themis_agent.yarn import submission

    folder = folder_at(directory)
    if submission.is_in(folder.root) or folder.store is not None:
        return _resubmit(folder.root, rm, arbiter, token_file, verify, retry_failed, json_file)
    gpus = None
    with contextlib.suppress(BadInputError):  # A search that has not begun takes what is there.
        gpus = len(folder.state().gpus)
    return _run(Path(directory), gpus, json_file, None, retry_failed=retry_failed)


def _resubmit(
    folder: Path,
    rm: str | None,
    arbiter: str | None,
    token_file: Path | None,
    verify: str | bool,
    retry_failed: bool,
    json_file: Path | None,
) -> int:
    from themis_agent.submitting import client
    from themis_agent.submitting.request import SubmissionError

    earlier = client.submission_in(folder)
    access = client.Access(rm or earlier.resource_manager, arbiter or earlier.arbiter.url, token_file, verify)
    try:
        search = client.resume(folder, access, console.err.print, retry_failed)
    except SubmissionError as refused:
        return print_problems(refused.problems)
    print_submitted(search, json_file)
    return 0


def _run(
    root: Path,
    gpus: int | None,
    json_file: Path | None,
    file: Path | None,
    *,
    retry_failed: bool = False,
    replace: bool = False,
) -> int:
    from themis_agent.app_file import load
    from themis_agent.local import driver
    from themis_agent.local.folder import Folder

    folder = Folder(root.resolve())
    app, directory = folder.load() if file is None else (load(file), file.resolve().parent)
    result = driver.run(app, directory, folder, gpus or driver.local_gpus(), retry_failed=retry_failed, replace=replace)
    if result is None:
        console.err.print(f"suspended; resume it with: themis-agent resume {root}")
        return 130
    if json_file is not None:
        console.write_json(json_file, asdict(result))
    print_result(app.metric, result)
    return 0 if result.succeeded else 1
