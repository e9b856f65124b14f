"""`themis-agent status`, `why`, `report`, `best` and `logs`."""

import codecs
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from themis_agent.cli import options
from themis_agent.cli.results import print_result
from yarn_plugin import console
from yarn_plugin.errors import BadInputError

if TYPE_CHECKING:
    from themis_agent.agent.state import State, TrialState
    from themis_agent.local.folder import Folder
    from themis_agent.view.changes import Change
    from themis_agent.view.journal_reader import JournalReader
    from themis_agent.view.snapshot import Snapshot

WATCH_S = 1.0
"""How often `status --watch` and `logs -f` look."""

QUIET_S = 10.0
"""After so long without news they look whether an agent still runs."""

_ENDED = ("complete", "pruned", "failed", "stopped")


@click.command(context_settings=console.CONTEXT)
@options.DIRECTORY
@click.option("--watch", is_flag=True, help="Show it until the search has ended; without a terminal, print each event.")
@console.ca_option
@options.JSON
def status(directory: Path | str, watch: bool, verify: str | bool, json_file: Path | None) -> int:
    """Show the trials of a search, running or not, and the address of its page. DIR is its directory, or its webhdfs://
    URL.

    Exit code with --watch: 1 if no agent runs the search any more, and it has not ended.
    """
    from themis_agent.local.progress import as_json, progress, reading
    from themis_agent.view.explanation import standing
    from themis_agent.view.liveness import page_address

    folder, reader = _opened(directory)
    if reader.state is None and not _begins(folder, reader, watch, verify):
        if json_file is not None:
            console.write_json(json_file, {"finished": False, "outcome": None, "trials": []})
        return 0
    has_ended = True
    if watch:
        has_ended = _watch(folder, reader, verify)
    else:
        address = page_address(folder)
        shown = _shown(folder, reader, address is not None)
        console.out.print(progress(shown.app, shown.state, len(shown.state.trials)))
        console.out.print(standing(shown, address is not None))
        if read := reading(shown.state):
            console.out.print(read)
        if address is not None:
            console.out.print(f"page: {address}")
    if json_file is not None:
        console.write_json(json_file, as_json(_state(folder, reader)))
    return 0 if has_ended else 1


def _begins(folder: "Folder", reader: "JournalReader", watch: bool, verify: str | bool) -> bool:
    """Say what a search waits for that has not begun; with `watch`, until it begins."""
    from themis_agent.submitting.waiting import waiting

    told = ""
    while reader.state is None:
        said = waiting(folder.root, verify)
        if said != told:
            console.out.print(f"waiting: {said}")
            told = said
        if not watch:
            return False
        time.sleep(WATCH_S)
        reader.advance()
    return True


class _Followed:
    """A search whose journal is followed."""

    def __init__(self, folder: "Folder", reader: "JournalReader", verify: str | bool) -> None:
        self._folder, self._reader, self._verify = folder, reader, verify
        self._quiet_since = time.monotonic()

    def advance(self) -> None:
        """Read what is new."""
        if self._reader.advance():
            self._quiet_since = time.monotonic()

    def is_abandoned(self) -> bool:
        """Whether nobody continues it; says so then."""
        from themis_agent.submitting.waiting import is_abandoned
        from themis_agent.view.explanation import standing

        if time.monotonic() < self._quiet_since + QUIET_S:
            return False
        self._quiet_since = time.monotonic()
        if not is_abandoned(self._folder.root, self._verify):
            return False
        if self._reader.advance():
            # Its last words: they are shown first.
            return False
        console.err.print(standing(_shown(self._folder, self._reader, is_running=False), is_running=False))
        return True


def _watch(folder: "Folder", reader: "JournalReader", verify: str | bool) -> bool:
    """Show a search until it has ended; False: nobody continues it."""
    from rich.live import Live

    from themis_agent.local.progress import progress

    app, _ = folder.load()
    followed = _Followed(folder, reader, verify)
    if not sys.stdout.isatty():
        told = 0
        while True:
            state = _state(folder, reader)
            found = reader.history.changes
            for change in found[told:]:
                console.out.print(_line(change, change.trial or app.name))
            told = len(found)
            if state.finished or followed.is_abandoned():
                return state.finished
            time.sleep(WATCH_S)
            followed.advance()
    with Live(console=console.out, auto_refresh=False) as live:
        while True:
            state = _state(folder, reader)
            live.update(progress(app, state, max(console.out.height - 4, 5)), refresh=True)
            if state.finished or followed.is_abandoned():
                return state.finished
            time.sleep(WATCH_S)
            followed.advance()


@click.command(context_settings=console.CONTEXT)
@options.DIRECTORY
@click.argument("trial", required=False)
def why(directory: Path | str, trial: str | None) -> None:
    """Say what happened to a trial and why: why it waits, or was pruned, moved, lost or failed.

    TRIAL: its name or number; without it, what happened to the search itself.
    """
    from themis_agent.view.explanation import now, standing
    from themis_agent.view.liveness import page_address

    folder, reader = _opened(directory)
    is_running = page_address(folder) is not None
    shown = _shown(folder, reader, is_running)
    chosen = None if trial is None else _trial(shown.state, trial, directory)
    subject = shown.app.name if chosen is None else chosen.id
    if not reader.history.complete:
        console.out.print("The journal was compacted: what happened before that is not shown.")
    for change in reader.history.of(chosen.id if chosen is not None else ""):
        console.out.print(_line(change, subject))
        for line in change.last_lines:
            console.out.print(f"    {line}")
    for text in now(shown, chosen):
        console.out.print(f"now      {subject} {text}")
    if chosen is None or not is_running:
        console.out.print(standing(shown, is_running))


@click.command(context_settings=console.CONTEXT)
@options.DIRECTORY
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), required=True, metavar="FILE", help="The page to write."
)
@click.option("--compare", "other", metavar="DIR", help="Also compare with the search in DIR, or at a webhdfs:// URL.")
def report(directory: Path | str, out: Path, other: str | None) -> None:
    """Write the page of a search into one HTML file, which needs no network."""
    from themis_agent.view.explanation import standing
    from themis_agent.view.liveness import page_address
    from themis_agent.view.page import page
    from themis_agent.view.snapshot import clock
    from yarn_plugin.report import write

    folder, reader = _opened(directory)
    is_running = page_address(folder) is not None
    shown = _shown(folder, reader, is_running)
    compared = None
    if other is not None:
        compared = (Path(other).name, _shown(*_opened(other), is_running=False))
    write(page(shown, standing(shown, is_running), f"As of {clock(shown.wall, 0.0)}.", other=compared), out)
    console.out.print(f"written to {out}")


@click.command(context_settings=console.CONTEXT)
@options.DIRECTORY
@click.option(
    "--export", type=click.Path(file_okay=False, path_type=Path), metavar="TO", help="Copy its newest checkpoint to TO."
)
@options.JSON
def best(directory: Path | str, export: Path | None, json_file: Path | None) -> int:
    """Print the best trial of a search so far. Exit code: 1 if no trial has reported."""
    from themis_agent.local.driver import result
    from themis_agent.local.folder import folder_at

    folder = folder_at(directory)
    app, _ = folder.load()
    state = folder.state()
    found, trial = result(state), state.best
    print_result(app.metric, found)
    if trial is None:
        console.err.print("no trial has reported yet" if state.outcome is None else "no trial has reported")
    if export is not None and trial is not None:
        console.out.print(f"checkpoint of step {folder.export(app, trial, export)} copied to {export}")
    if json_file is not None:
        console.write_json(json_file, asdict(found))
    return 0 if trial is not None else 1


@click.command(context_settings=console.CONTEXT)
@options.DIRECTORY
@click.argument("trial")
@click.option("--rank", type=click.IntRange(0), default=0, show_default=True, help="The process whose log to print.")
@click.option("-f", "--follow", is_flag=True, help="Follow the trial, also when it moves, until it has ended for good.")
@console.ca_option
def logs(directory: Path | str, trial: str, rank: int, follow: bool, verify: str | bool) -> None:
    """Print the log of a trial, from all its starts, oldest first. TRIAL: its name or number."""
    from themis_agent.view.trial_logs import TrialLog

    folder, reader = _opened(directory)
    followed = _Followed(folder, reader, verify)
    name = _trial(_state(folder, reader), trial, directory).id
    log, start = TrialLog(folder.logs / name, rank), 0
    text = codecs.getincrementaldecoder("utf-8")(errors="replace")
    while True:
        # Before the log is read: what was written until then is in it.
        followed.advance()
        state = _state(folder, reader)
        folder.refresh_log(name, rank)
        for number, data in log.new():
            if number != start:
                console.out.print(f"== start {number}")
                start = number
            console.out.print(text.decode(data), end="")
        one = state.trials[name]
        if not follow or state.finished or (one.fate in _ENDED and one.attempt is None) or followed.is_abandoned():
            break
        time.sleep(WATCH_S / 4)
    log.close()
    if not start:
        raise BadInputError(
            "TRIAL", trial, f"has no log of rank {rank}; `themis-agent status {directory}` lists trials"
        )


def _opened(directory: Path | str) -> tuple["Folder", "JournalReader"]:
    from themis_agent.local.folder import folder_at
    from themis_agent.view.journal_reader import JournalReader

    folder = folder_at(directory)
    app, _ = folder.load()
    reader = JournalReader(folder.journal, app.metric, folder.refresh)
    reader.advance()
    return folder, reader


def _state(folder: "Folder", reader: "JournalReader") -> "State":
    if reader.state is None:
        raise BadInputError(
            "DIR",
            str(folder),
            "its search has not begun; of a submitted one, `themis-agent list --rm URL --all` shows YARN's state",
        )
    return reader.state


def _shown(folder: "Folder", reader: "JournalReader", is_running: bool) -> "Snapshot":
    from themis_agent.view.snapshot import Snapshot

    state = _state(folder, reader)
    passed = max(time.time() - reader.wall, 0.0) if is_running and not state.finished else 0.0
    return Snapshot(folder.load()[0], state, reader.history, reader.at + passed, reader.wall + passed)


def _trial(state: "State", given: str, directory: Path | str) -> "TrialState":
    """A trial by its name or its number."""
    from themis_agent.agent.searching import trial_id

    name = trial_id(int(given)) if given.isdecimal() else given
    if name not in state.trials:
        raise BadInputError("TRIAL", given, f"not in this search; `themis-agent status {directory}` lists trials")
    return state.trials[name]


def _line(change: "Change", subject: str) -> str:
    from themis_agent.view.snapshot import clock

    return f"{clock(change.wall)} {subject} {change.text}"
