"""`themis-agent submit`, `list` and `stop`: searches on YARN."""

import contextlib
from dataclasses import asdict
from pathlib import Path

import click

from themis_agent.cli import options
from themis_agent.cli.results import print_problems, print_result, print_submitted
from yarn_plugin import console
from yarn_plugin.api.environment import DEFAULT_URL
from yarn_plugin.errors import BadInputError, ReportedError
from yarn_plugin.quantities import NOTHING, count


@click.command(context_settings=console.CONTEXT)
@options.FILE
@options.rm(required=True)
@options.arbiter(default=DEFAULT_URL)
@options.TOKEN_FILE
@console.ca_option
@options.QUEUE
@options.MASTER_MEMORY
@options.CLASS_PATH
@options.REPLACE
@click.option("--wait", is_flag=True, help="Wait until it has ended; print its best trial, and exit as `run` does.")
@options.JSON
def submit(
    file: Path,
    rm: str,
    arbiter: str,
    token_file: Path | None,
    verify: str | bool,
    queue: str | None,
    master_memory_mb: int,
    class_path: str | None,
    replace: bool,
    wait: bool,
    json_file: Path | None,
) -> int:
    """Run a search on a YARN cluster with leased GPUs; print its application id and folder.

    Everything is checked before anything is made, and nothing is installed on nodes. `checkpoint` in the file is a
    folder on a file system that all nodes share, or in HDFS: the search lives there, below its name.
    """
    from themis_agent.app_file import load
    from themis_agent.submitting import client
    from themis_agent.submitting.request import SubmissionError

    app = load(file)
    access = client.Access(rm, arbiter, token_file, verify, queue, class_path, master_memory_mb)
    try:
        search = client.submit(app, file.resolve().parent, access, console.err.print, replace)
    except SubmissionError as refused:
        return print_problems(refused.problems)
    if not wait:
        print_submitted(search, json_file)
        return 0
    console.out.print(f"{search.application}, in {search.place}")
    result = search.wait()
    print_result(app.metric, result)
    if json_file is not None:
        written = {"application": search.application, "folder": search.place, **asdict(result)}
        console.write_json(json_file, written)
    return 0 if result.succeeded else 1


@click.command("list", context_settings=console.CONTEXT)
@options.rm(required=True)
@console.ca_option
@click.option("--all", "ended", is_flag=True, help="Also those that have ended, as far as YARN remembers them.")
@options.JSON
def list_searches(rm: str, verify: str | bool, ended: bool, json_file: Path | None) -> None:
    """List the searches of a cluster, the latest first. Only those submitted from this machine show their trials."""
    from themis_agent.local.folder import Folder
    from themis_agent.submitting import applications, client, recent
    from themis_agent.submitting.search import state_of, trials_of

    rows, written, hidden = [], [], 0
    for search in applications.searches(client.manager(rm, verify)):
        if search.has_ended and not ended:
            hidden += 1
            continue
        folder, trials = None, {}
        # One that cannot be read hides no other.
        with contextlib.suppress(ReportedError, OSError):
            folder = recent.folder_of(search.id)
            trials = trials_of(state_of(folder)) if folder is not None else {}
        shown = ", ".join(f"{many} {name}" for name, many in trials.items()) or NOTHING
        state = search.final if search.has_ended else search.state
        rows.append((search.id, search.name, state, search.user, shown, search.gpus, search.tracking_url or NOTHING))
        written.append(
            {**asdict(search), "folder": str(Folder(folder)) if folder is not None else None, "trials": trials}
        )
    console.out.print(console.table(None, ("id", "name", "state", "user", "trials", "#GPUs", "tracking URL"), rows))
    if hidden:
        have, them = ("has", "it") if hidden == 1 else ("have", "them")
        console.err.print(f"{count(hidden, 'search', 'searches')} {have} ended: --all lists {them} too")
    if json_file is not None:
        console.write_json(json_file, written)


@click.command(context_settings=console.CONTEXT)
@click.argument("search", metavar="SEARCH")
@click.option("--for-good", is_flag=True, help="End the search: it cannot be resumed.")
@click.option("--kill", is_flag=True, help="Have YARN end the application at once; it can be resumed.")
@options.rm(required=False, more="  [default: as it was submitted]")
@console.ca_option
def stop(search: str, for_good: bool, kill: bool, rm: str | None, verify: str | bool) -> None:
    """Stop a search: its trials save checkpoints and end. `themis-agent resume DIR` continues it, and `themis-agent
    best DIR` prints the best one so far.

    SEARCH: its folder, or the id of its application if you submitted it from this machine. With --kill and --rm, the id
    of any application.
    """
    from themis_agent.local import stored_folder
    from themis_agent.local.folder import Folder, folder_at
    from themis_agent.submitting import client, recent, stopping
    from themis_agent.yarn import submission

    if for_good and kill:
        raise BadInputError("--for-good", True, "not with --kill, after which a search can be resumed")
    is_folder = stored_folder.is_url(search) or Path(search).is_dir()
    folder = folder_at(search).root if is_folder else recent.folder_of(search)
    submitted = client.submission_in(folder) if folder is not None and (kill or submission.is_in(folder)) else None
    rm = rm or (submitted.resource_manager if submitted is not None else None)
    manager = client.manager(rm, verify) if rm is not None else None
    app = submitted.yarn_app if submitted is not None else None
    if kill:
        if manager is None:
            raise BadInputError("--rm", rm, "required with --kill")
        app = app or search
        console.out.print(f"YARN is killing {app}" if stopping.kill(manager, app) else f"{app} had ended before")
        return
    if folder is None:
        raise BadInputError("SEARCH", search, "was not submitted from here; give its folder, or --kill and --rm URL")
    stopping.stop(folder, app, manager, for_good)
    if for_good:
        console.out.print(f"{search} is stopping for good: its trials save checkpoints")
    else:
        advice = f"resume it with: themis-agent resume {Folder(folder)}"
        console.out.print(f"{search} is being suspended: its trials save checkpoints; {advice}")
